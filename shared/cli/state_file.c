#include "state_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const char *state_path(const struct tern_cli *cli)
{
    return tern_cli_option(cli, "error-buffer", NULL);
}

static enum tern_result make_zeros(const struct tern_cli *cli, size_t count,
                                   struct float_file *file)
{
    *file = (struct float_file){.values = calloc(count + 1, sizeof(float)), .count = count};
    if (file->values != NULL) {
        return TERN_OK;
    }
    return tern_cli_refuse(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", count);
}

// Whether a file that was read can be the state of `count` values.
static enum tern_result check_file(const struct tern_cli *cli, const char *path, size_t count,
                                   const struct float_file *file)
{
    if (file->count != count) {
        return tern_cli_refuse(cli, TERN_ERR_ARGUMENT,
                               "%s has %zu values, but this input and codec need %zu", path,
                               file->count, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(file->values[i])) {
            return tern_cli_refuse(
                cli, TERN_ERR_NON_FINITE,
                "--error-buffer %s: value %zu is %g, which cannot be added to the "
                "input",
                path, i, (double)file->values[i]);
        }
    }
    return TERN_OK;
}

static enum tern_result read_file(const struct tern_cli *cli, size_t count, struct float_file *file)
{
    const char *path = state_path(cli);
    if (path == NULL || (access(path, F_OK) != 0 && errno == ENOENT)) {
        return make_zeros(cli, count, file);
    }
    TERN_TRY(tern_float_file_read(cli, path, file));
    enum tern_result result = check_file(cli, path, count, file);
    if (result != TERN_OK) {
        free(file->values);
    }
    return result;
}

enum tern_result tern_state_read(const struct tern_cli *cli, const struct tern_codec *codec,
                                 size_t count, struct state *state)
{
    bool momentum = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_MOMENTUM;
    TERN_TRY(read_file(cli, momentum ? 2 * count : count, &state->file));
    state->buffer = (struct tern_error_buffer){
        .storage = TERN_ERROR_FLOAT32, .bytes = state->file.values, .count = (uint32_t)count};
    state->velocity = momentum ? state->file.values + count : NULL;
    return TERN_OK;
}

// Says which sum factor * old + value overflows; input and state are finite by themselves. old
// begins `first` values into the file.
static void report_overflow(const struct tern_cli *cli, const struct tensor_set *set,
                            const float *old, size_t first, float factor)
{
    for (size_t i = 0; i < set->tensor_count; i++) {
        const struct tensor *tensor = &set->tensors[i];
        for (size_t k = 0; k < tensor->count; k++) {
            size_t at = tensor->offset + k;
            if (!isfinite(factor * old[at] + set->values[at])) {
                (void)tern_cli_fail(cli, TERN_ERR_NON_FINITE,
                                    "%s%svalue %zu of %s and value %zu of --error-buffer %s add up "
                                    "to more than float32 holds",
                                    tensor->name, set->named ? ": " : "", k, cli->arguments[1],
                                    first + at, state_path(cli));
                return;
            }
        }
    }
}

enum tern_result tern_state_add(const struct tern_cli *cli, const struct tern_codec *codec,
                                struct state *state, struct tensor_set *set)
{
    enum tern_result result = TERN_OK;
    if (!tern_tensor_set_is_finite(set)) {
        (void)tern_tensor_set_fail(cli, set, cli->arguments[0]);
        return TERN_ERR_NON_FINITE;
    }
    if (state->velocity != NULL) {
        result = tern_error_momentum(state->velocity, codec->momentum, set->values,
                                     (uint32_t)set->count);
    }
    if (result != TERN_OK) {
        report_overflow(cli, set, state->velocity, set->count, codec->momentum);
        return result;
    }
    result = tern_error_buffer_add_to(&state->buffer, 1, set->values);
    if (result != TERN_OK) {
        report_overflow(cli, set, state->file.values, 0, 1);
    }
    return result;
}

void tern_state_keep_rest(const struct tern_codec *codec, struct state *state,
                          const struct tensor_set *set)
{
    bool filtered = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_FILTERED;
    const struct tern_error_next next = {
        .work = set->values, .filter = filtered ? codec->filter : 1, .decay = 1};
    tern_error_buffer_store(&state->buffer, &next);
}
