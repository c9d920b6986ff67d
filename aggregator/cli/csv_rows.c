#include "cli/csv_rows.h"

#include <stdlib.h>
#include <string.h>

// An object whose keys are those of all rows, in the order in which they are met.
static cJSON *keys_of(const cJSON *rows)
{
    cJSON *keys = cJSON_CreateObject();
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *item;
        cJSON_ArrayForEach(item, row)
        {
            if (cJSON_GetObjectItemCaseSensitive(keys, item->string) == NULL) {
                cJSON_AddNullToObject(keys, item->string);
            }
        }
    }
    return keys;
}

static void print_field(const char *text)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            putchar('"');
        }
        putchar(*text);
    }
    putchar('"');
}

static bool print_item(const cJSON *item)
{
    if (item == NULL || cJSON_IsNull(item)) {
        return true;
    }
    if (cJSON_IsString(item)) {
        print_field(item->valuestring);
        return true;
    }
    char *text = cJSON_PrintUnformatted(item);
    if (text == NULL) {
        return false;
    }
    print_field(text);
    cJSON_free(text);
    return true;
}

static bool print_row(const cJSON *keys, const cJSON *row)
{
    bool printed = true;
    const cJSON *key;
    cJSON_ArrayForEach(key, keys)
    {
        if (key != keys->child) {
            putchar(',');
        }
        printed = print_item(cJSON_GetObjectItemCaseSensitive(row, key->string)) && printed;
    }
    putchar('\n');
    return printed;
}

static void print_header(const cJSON *keys)
{
    const cJSON *key;
    cJSON_ArrayForEach(key, keys)
    {
        if (key != keys->child) {
            putchar(',');
        }
        print_field(key->string);
    }
    putchar('\n');
}

static bool print_all(const cJSON *keys, const cJSON *rows)
{
    const cJSON *row;
    print_header(keys);
    cJSON_ArrayForEach(row, rows)
    {
        if (!print_row(keys, row)) {
            return false;
        }
    }
    return true;
}

int tern_csv_print(const struct tern_cli *cli, cJSON *value)
{
    cJSON *rows = value;
    if (!cJSON_IsArray(value)) {
        rows = cJSON_CreateArray();
        cJSON_AddItemToArray(rows, value);
    }
    cJSON *keys = keys_of(rows);
    const bool printed = keys != NULL && print_all(keys, rows);
    cJSON_Delete(keys);
    cJSON_Delete(rows);
    return printed ? TERN_EXIT_OK
                   : tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "memory could not be had");
}
