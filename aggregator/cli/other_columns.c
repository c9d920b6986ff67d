#include "cli/other_columns.h"

#include <inttypes.h>
#include <string.h>

enum tern_result tern_other_columns_load(struct tern_db *db, struct tern_other_columns *columns)
{
    struct tern_db_client client;
    *columns = (struct tern_other_columns){.named = 0};
    TERN_TRY(tern_db_column_names(db, &columns->names));
    if (columns->names.others == 0) {
        return TERN_OK;
    }
    struct tern_db_rows *rows =
        tern_db_clients_of_other_columns(db, columns->names.usual, TERN_OTHER_COLUMNS_NAMED);
    while (tern_db_next(rows, &client) && columns->named < TERN_OTHER_COLUMNS_NAMED) {
        columns->clients[columns->named].id = client.id;
        memcpy(columns->clients[columns->named].name, client.name, sizeof client.name);
        columns->named++;
    }
    return tern_db_end(rows);
}

bool tern_other_columns_describe(const struct tern_other_columns *columns,
                                 char text[TERN_OTHER_COLUMNS_TEXT])
{
    char name[TERN_TEXT];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < columns->named; i++) {
        len +=
            (size_t)snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len, "%sclient %" PRIu64 " (%s)",
                             i == 0 ? "" : ", ", columns->clients[i].id,
                             tern_text_name(columns->clients[i].name, name));
    }
    if (columns->names.others > columns->named) {
        len += (size_t)snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len, " and %" PRIu64 " more",
                                columns->names.others - columns->named);
    }
    snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len,
             ": columns of other names, or in another order, than those of %" PRIu64
             " client%s; the model takes each by its place",
             columns->names.clients, columns->names.clients == 1 ? "" : "s");
    return columns->named > 0;
}

void tern_other_columns_json(cJSON *object, const struct tern_other_columns *columns)
{
    cJSON *list = cJSON_AddArrayToObject(object, "other_column_names");
    for (uint32_t i = 0; i < columns->named; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)columns->clients[i].id));
    }
}
