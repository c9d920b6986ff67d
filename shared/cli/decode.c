#include "verbs.h"

#include "codec/codec.h"
#include "float_file.h"
#include <stdlib.h>

int verb_decode(struct tern_cli *cli)
{
    uint8_t *payload = NULL;
    size_t len = 0;
    size_t count = 0;
    enum tern_result result = payload_read(cli, cli->arguments[0], &payload, &len, &count);
    if (result != TERN_OK) {
        return (int)tern_cli_exit_code(result);
    }
    int code = TERN_EXIT_OK;
    float *values = malloc(count * sizeof *values + 1);
    if (values == NULL) {
        code = tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", count);
    } else if ((result = tern_codec_decode(payload, len, values, count)) != TERN_OK) {
        code = payload_fail(cli, result, cli->arguments[0], count);
    } else {
        result = float_file_write(cli, cli->arguments[1], values, count);
        code = (int)tern_cli_exit_code(result);
    }
    free(values);
    free(payload);
    return code;
}
