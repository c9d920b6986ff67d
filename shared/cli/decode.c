#include "verbs.h"

#include "float_file.h"
#include "payload_file.h"

int tern_verb_decode(struct tern_cli *cli)
{
    struct payload_file file;
    const struct role roles[] = {
        {.name = "IN", .path = cli->arguments[0]},
        {.name = "--like", .path = tern_cli_option(cli, "like", NULL)},
        {.name = "OUT", .path = cli->arguments[1], .written = true},
    };
    enum tern_result result = tern_roles_check(cli, roles, sizeof roles / sizeof roles[0]);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    result = tern_payload_file_read(cli, cli->arguments[0], &file);
    if (result == TERN_OK) {
        result = tern_tensor_set_write(cli, cli->arguments[1], &file.set);
        tern_payload_file_free(&file);
    }
    return (int)tern_cli_exit_code(result);
}
