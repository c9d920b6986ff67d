#include "data/readers.h"
#include <string.h>

// Appends text to spec; cuts it if it does not fit.
static void append(char spec[TERN_DATA_SPEC_MAX], const char *text, size_t len)
{
    const size_t used = strlen(spec);
    const size_t room = TERN_DATA_SPEC_MAX - 1 - used;
    const size_t part = len < room ? len : room;
    memcpy(spec + used, text, part);
    spec[used + part] = '\0';
}

static void append_quoted(char spec[TERN_DATA_SPEC_MAX], const char *text)
{
    append(spec, "\"", 1);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            append(spec, "\"", 1);
        }
        append(spec, text, 1);
    }
    append(spec, "\"", 1);
}

void tern_data_spec_join(const char *source, const char *directory, char spec[TERN_DATA_SPEC_MAX])
{
    const size_t kind = strcspn(source, ",:");
    spec[0] = '\0';
    append(spec, source, kind);
    if (directory[0] != '\0' && source[kind] != ':') {
        append(spec, ":", 1);
        if (strpbrk(directory, ",=\"") != NULL) {
            append_quoted(spec, directory);
        } else {
            append(spec, directory, strlen(directory));
        }
    }
    append(spec, source + kind, strlen(source + kind));
}

// Returns the length of the path that begins after a source's colon; 0: no path.
static size_t path_len(const char *text)
{
    size_t len = strcspn(text, ",=\"");
    if (text[0] == '"') {
        for (len = 1; text[len] != '\0' && (text[len] != '"' || text[len + 1] == '"');) {
            len += text[len] == '"' ? 2 : 1;
        }
        return len + (text[len] == '"');
    }
    return text[len] == '=' && !tern_spec_begins_with_place(text, len) ? 0 : strcspn(text, ",");
}

void tern_data_spec_move(const char *source, const char *place, char spec[TERN_DATA_SPEC_MAX])
{
    const size_t kind = strcspn(source, ",:");
    const char *options = source + kind;
    spec[0] = '\0';
    append(spec, source, kind);
    append(spec, ":", 1);
    append_quoted(spec, place);
    if (*options == ':') {
        options++;
        options += path_len(options);
        if (*options != '\0' && *options != ',') {
            append(spec, ",", 1);
        }
    }
    append(spec, options, strlen(options));
}

// Sets the scaling of bytes, which batches apply.
static void scale_bytes(const struct tern_scaling *scaling, struct tern_data *data)
{
    data->train.scale = 1.0f / 255.0f / scaling->deviation;
    data->train.offset = -scaling->mean / scaling->deviation;
    data->test.scale = data->train.scale;
    data->test.offset = data->train.offset;
}

enum tern_result tern_spec_scaling(struct tern_data_spec *spec, struct tern_data *data)
{
    struct tern_scaling scaling = {.deviation = 1.0f};
    TERN_TRY(tern_spec_fraction(spec, "mean", 0.0f, 1.0f, &scaling.mean));
    TERN_TRY(tern_spec_fraction(spec, "std", 0.001f, 1.0f, &scaling.deviation));
    scale_bytes(&scaling, data);
    return TERN_OK;
}

enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec, struct tern_data *data,
                                              struct tern_scaling *scaling)
{
    *scaling = (struct tern_scaling){.deviation = 1.0f};
    TERN_TRY(tern_spec_fraction(spec, "mean", -1e9f, 1e9f, &scaling->mean));
    TERN_TRY(tern_spec_fraction(spec, "std", 1e-6f, 1e9f, &scaling->deviation));
    scaling->given =
        tern_spec_option(spec, "mean") != NULL || tern_spec_option(spec, "std") != NULL;
    scale_bytes(scaling, data);
    return TERN_OK;
}

void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count)
{
    for (size_t i = 0; scaling->given && i < count; i++) {
        values[i] = (values[i] - scaling->mean) / scaling->deviation;
    }
}
