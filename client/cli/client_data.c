#include "cli/client_data.h"
#include "hosted/csv_profile.h"
#include "hosted/data_spec.h"
#include "hosted/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX (1ull << 32) // bytes of the largest table

static enum tern_result explain(char why[CLIENT_DATA_WHY_MAX], enum tern_result result,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum tern_result explain(char why[CLIENT_DATA_WHY_MAX], enum tern_result result,
                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, CLIENT_DATA_WHY_MAX, format, arguments);
    va_end(arguments);
    return result;
}

static enum tern_result parse_shard(const char *text, uint32_t *index, uint32_t *count, char *why)
{
    char *slash = NULL;
    char *end = NULL;
    unsigned long i = strtoul(text, &slash, 10);
    unsigned long n = *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    if (i >= 1 && i <= n && n <= UINT32_MAX && *end == '\0') {
        *index = (uint32_t)i;
        *count = (uint32_t)n;
        return TERN_OK;
    }
    return explain(why, TERN_ERR_CONFIG,
                   "data.shard is \"%s\"; it must be i/n with 1 <= i <= n, e.g. 3/10", text);
}

// Reads the settings of the partition, and the index of this client's shard in it.
static enum tern_result read_shard(const struct tern_client_settings *settings,
                                   struct tern_partition_config *partition, uint32_t *client,
                                   char *why)
{
    *partition = (struct tern_partition_config){
        .min_examples = 1, .alpha = (float)settings->data_alpha, .seed = settings->data_seed};
    uint32_t index = 0;
    TERN_TRY(parse_shard(settings->data_shard, &index, &partition->clients, why));
    *client = index - 1;
    if (tern_partition_kind_from_name(settings->data_partition, &partition->kind) != TERN_OK) {
        return explain(why, TERN_ERR_CONFIG,
                       "data.partition is \"%s\"; it must be " TERN_PARTITION_NAMES,
                       settings->data_partition);
    }
    return TERN_OK;
}

static enum tern_result explain_data(char *why, enum tern_result result, const char *problem)
{
    switch ((int)result) {
    case TERN_ERR_ARGUMENT:
        return explain(why, TERN_ERR_CONFIG, "data.shard: %s", problem);
    case TERN_ERR_NOT_FOUND:
        // A missing file is an error of the setting; a damaged one is an error of the file.
        return explain(why, TERN_ERR_CONFIG, "data.source: %s", problem);
    default:
        return explain(why, result, "data.source: %s", problem);
    }
}

enum tern_result tern_client_data_open(const struct tern_client_settings *settings, bool test,
                                       struct tern_data *data, char why[CLIENT_DATA_WHY_MAX])
{
    char spec[TERN_DATA_SPEC_MAX];
    char problem[TERN_DATA_WHY_MAX];
    struct tern_partition_config partition;
    struct tern_data_part part = {.test = test};
    if (settings->data_shard[0] != '\0') {
        TERN_TRY(read_shard(settings, &partition, &part.client, why));
        part.partition = &partition;
    }
    tern_data_spec_join(settings->data_source, settings->data_dir, spec);
    const enum tern_result result = tern_dataset_open_part(spec, NULL, &part, data, problem);
    return result == TERN_OK ? TERN_OK : explain_data(why, result, problem);
}

// Returns whether the text is a spec, i.e. begins with a kind of data such as "csv:". A file with such a name is written
// "./csv:...".
static bool is_spec(const char *place)
{
    const size_t kind = strspn(place, "abcdefghijklmnopqrstuvwxyz0123456789");
    return kind > 1 && place[kind] == ':';
}

void tern_client_data_spec(const struct tern_client_settings *settings, const char *place,
                           char spec[TERN_DATA_SPEC_MAX])
{
    char source[TERN_DATA_SPEC_MAX];
    tern_data_spec_join(settings->data_source, settings->data_dir, source);
    if (is_spec(place)) {
        snprintf(spec, TERN_DATA_SPEC_MAX, "%s", place);
    } else {
        tern_data_spec_move(source, place, spec);
    }
}

enum tern_result tern_client_data_names(const struct tern_client_settings *settings,
                                        struct tern_csv_names *names)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX];
    struct tern_data_spec spec;
    struct tern_csv_choice choice;
    struct tern_csv_profile profile;
    struct tern_input input;
    *names = (struct tern_csv_names){.label = NULL};
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (tern_data_spec_parse(&spec, text, why) != TERN_OK || strcmp(spec.kind, "csv") != 0 ||
        tern_csv_choose(&spec, &choice) != TERN_OK) {
        return TERN_OK;
    }
    if (tern_input_open(&input, spec.path, TABLE_MAX, why) != TERN_OK) {
        tern_log(
            TERN_LOG_WARN, "data", "note=%s why=%s",
            TERN_LOG_TEXT("the column names of data.source cannot be read: columns are taken by "
                          "position"),
            TERN_LOG_TEXT(why));
        return TERN_OK;
    }
    enum tern_result result = tern_csv_profile_read(&input, &choice, &profile);
    result = result == TERN_OK ? tern_csv_names_take(&profile, names) : TERN_OK;
    tern_csv_profile_free(&profile);
    tern_input_close(&input);
    return result;
}

void tern_client_data_notes(const struct tern_data *data)
{
    char note[TERN_DATA_WHY_MAX];
    const char *rest = data->notes;
    while (tern_data_next_note(&rest, note)) {
        tern_log(TERN_LOG_WARN, "data", "note=%s", TERN_LOG_TEXT(note));
    }
}
