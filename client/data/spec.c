#include "data/readers.h"
#include <string.h>

// Appends text to spec, truncated to the space left.
static void append(char spec[TERN_DATA_SPEC_MAX], const char *text, size_t len)
{
    const size_t used = strlen(spec);
    const size_t room = TERN_DATA_SPEC_MAX - 1 - used;
    const size_t copied = len < room ? len : room;
    memcpy(spec + used, text, copied);
    spec[used + copied] = '\0';
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

// Returns the length of the path at `text`, the characters after a source's colon; 0: options follow the colon, no path.
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

// Reads mean, of at least `least`, and std, of at least `least_std`; both at most `most`.
static enum tern_result read_scaling(struct tern_data_spec *spec, float least, float least_std,
                                     float most, struct tern_data *data,
                                     struct tern_scaling *scaling)
{
    *scaling = (struct tern_scaling){.deviation = 1.0f};
    TERN_TRY(tern_spec_fraction(spec, "mean", least, most, &scaling->mean));
    TERN_TRY(tern_spec_fraction(spec, "std", least_std, most, &scaling->deviation));
    scaling->is_set =
        tern_spec_option(spec, "mean") != NULL || tern_spec_option(spec, "std") != NULL;
    data->train.scale = 1.0f / 255.0f / scaling->deviation;
    data->train.offset = -scaling->mean / scaling->deviation;
    data->test.scale = data->train.scale;
    data->test.offset = data->train.offset;
    return TERN_OK;
}

enum tern_result tern_spec_scaling(struct tern_data_spec *spec, struct tern_data *data)
{
    struct tern_scaling scaling;
    return read_scaling(spec, 0.0f, 0.001f, 1.0f, data, &scaling);
}

enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec, struct tern_data *data,
                                              struct tern_scaling *scaling)
{
    return read_scaling(spec, -1e9f, 1e-6f, 1e9f, data, scaling);
}

void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count)
{
    for (size_t i = 0; scaling->is_set && i < count; i++) {
        values[i] = (values[i] - scaling->mean) / scaling->deviation;
    }
}
