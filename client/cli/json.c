#include "cli/json.h"
#include "hosted/cli.h"

#include <stdio.h>

int tern_client_print_json(cJSON *root)
{
    char *text = cJSON_PrintUnformatted(root);
    if (text != NULL) {
        puts(text);
        cJSON_free(text);
    }
    cJSON_Delete(root);
    return text != NULL ? TERN_EXIT_OK : TERN_EXIT_FAILED;
}
