#include "hosted/json_print.h"

#include <stdio.h>

int tern_json_print(const struct tern_cli *cli, cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    cJSON_Delete(value);
    if (text == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "memory could not be had");
    }
    puts(text);
    cJSON_free(text);
    return TERN_EXIT_OK;
}
