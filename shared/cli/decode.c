#include "verbs.h"

#include "payload_file.h"

int verb_decode(struct tern_cli *cli)
{
    struct payload_file file;
    enum tern_result result = payload_file_read(cli, cli->arguments[0], &file);
    if (result == TERN_OK) {
        result = tensor_set_write(cli, cli->arguments[1], &file.set);
        payload_file_free(&file);
    }
    return (int)tern_cli_exit_code(result);
}
