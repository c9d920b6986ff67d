#include "fleet/data_names.h"
#include "util/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A table's names can be any bytes; JSON must be UTF-8.
static cJSON *name_of(const struct tern_name_set *names, uint32_t which)
{
    char number[16];
    snprintf(number, sizeof number, "%u", which);
    char *name = strdup(which < names->count ? names->names[which] : number);
    if (name == NULL) {
        return NULL;
    }
    tern_utf8_show(name, strlen(name));
    cJSON *item = cJSON_CreateString(name);
    free(name);
    return item;
}

cJSON *tern_class_names(const struct tern_data *data)
{
    cJSON *all = cJSON_CreateArray();
    for (uint32_t c = 0; c < data->classes.count; c++) {
        if (!cJSON_AddItemToArray(all, name_of(&data->classes, c))) {
            cJSON_Delete(all);
            return NULL;
        }
    }
    return all;
}

// lists: memory for one list per client; owners: for the client of each group.
static bool fill(const struct tern_shares *shares, cJSON *all, cJSON **lists, uint32_t *owners)
{
    for (uint32_t c = 0; c < shares->partition.client_count; c++) {
        lists[c] = cJSON_CreateArray();
        if (!cJSON_AddItemToArray(all, lists[c])) {
            return false;
        }
    }
    tern_shares_owners(shares, owners);
    for (uint32_t g = 0; g < shares->data.train.group_count; g++) {
        if (owners[g] != TERN_NO_CLIENT &&
            !cJSON_AddItemToArray(lists[owners[g]], name_of(&shares->data.groups, g))) {
            return false;
        }
    }
    return true;
}

cJSON *tern_client_groups(const struct tern_shares *shares)
{
    cJSON *all = cJSON_CreateArray();
    cJSON **lists = calloc(shares->partition.client_count, sizeof *lists);
    uint32_t *owners = calloc(shares->data.train.group_count, sizeof *owners);
    if (lists == NULL || owners == NULL || !fill(shares, all, lists, owners)) {
        cJSON_Delete(all);
        all = NULL;
    }
    free(lists);
    free(owners);
    return all;
}

void tern_client_groups_show(const cJSON *groups, uint32_t client,
                             char text[TERN_CLIENT_GROUPS_TEXT])
{
    const cJSON *own = cJSON_GetArrayItem(groups, (int)client);
    const char *first = cJSON_GetStringValue(cJSON_GetArrayItem(own, 0));
    const int more = cJSON_GetArraySize(own) - 1;
    const int used =
        snprintf(text, TERN_CLIENT_GROUPS_TEXT, "%.60s", first != NULL ? first : "no group");
    if (more > 0) {
        snprintf(text + used, (size_t)(TERN_CLIENT_GROUPS_TEXT - used), " and %d more", more);
    }
    tern_utf8_show(text, strlen(text)); // the cut may have split a character
}
