#include "codec/codec.h"
#include "error_feedback/error_buffer.h"
#include "float_file.h"
#include "measure.h"
#include "specs.h"
#include "tensor_set.h"
#include "util/bytes.h"
#include "verbs.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- The file of --error-buffer

// The values kept between calls: the error buffer, one value for each input value, then the
// velocity of codecs with momentum.
struct state {
    struct float_file file;
    struct tern_error_buffer buffer;
    float *velocity; // NULL: codec without momentum
};

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

// Checks whether the file has `count` finite values.
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

// Reads the state for `count` values; a file that does not exist yet is a state of zeros. The caller frees file.values.
static enum tern_result read_state(const struct tern_cli *cli, const struct tern_codec *codec,
                                   size_t count, struct state *state)
{
    bool momentum = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_MOMENTUM;
    TERN_TRY(read_file(cli, momentum ? 2 * count : count, &state->file));
    state->buffer = (struct tern_error_buffer){
        .storage = TERN_ERROR_FLOAT32, .bytes = state->file.values, .count = (uint32_t)count};
    state->velocity = momentum ? state->file.values + count : NULL;
    return TERN_OK;
}

// Reports which sum factor * old + value overflows; input and state are finite. `first`: index in
// the file of the first value of `old`.
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

// Adds the state to the input; the sum t is what the codec encodes.
static enum tern_result add_state(const struct tern_cli *cli, const struct tern_codec *codec,
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

// Stores the residual error, which the encoder left in the values, in the state.
static void store_residual(const struct tern_codec *codec, struct state *state,
                           const struct tensor_set *set)
{
    bool filtered = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_FILTERED;
    const struct tern_error_next next = {
        .work = set->values, .filter = filtered ? codec->filter : 1, .decay = 1};
    tern_error_buffer_store(&state->buffer, &next);
}

// --- Payloads

struct output {
    uint8_t *bytes;
    size_t size;
    size_t len;
};

static enum tern_result read_context(const struct tern_cli *cli,
                                     struct tern_encode_context *context)
{
    uint64_t round = 0;
    uint64_t client = 0;
    TERN_TRY(tern_cli_number(cli, "seed", 0, 0, UINT64_MAX, &context->seed));
    TERN_TRY(tern_cli_number(cli, "round", 1, 1, UINT32_MAX, &round));
    TERN_TRY(tern_cli_number(cli, "client", 0, 0, UINT32_MAX, &client));
    context->round = (uint32_t)round;
    context->client = (uint32_t)client;
    return TERN_OK;
}

// Appends the payload of one tensor to the output. In a container, the payload's length precedes
// it.
static enum tern_result encode_tensor(const struct tern_codec *codec,
                                      const struct tern_encode_context *context,
                                      const struct tensor *tensor, float *values, bool in_container,
                                      struct output *output)
{
    uint8_t *at = output->bytes + output->len;
    size_t room = in_container ? TERN_VARINT_MAX : 0;
    size_t written = 0;
    TERN_TRY(tern_codec_encode(codec, context, values, tensor->count, at + room,
                               output->size - output->len - room, &written));
    if (in_container) {
        uint8_t length[TERN_VARINT_MAX];
        size_t length_bytes = tern_put_varint(length, written);
        memcpy(at, length, length_bytes);
        memmove(at + length_bytes, at + room, written);
        written += length_bytes;
    }
    output->len += written;
    return TERN_OK;
}

static enum tern_result encode_all(const struct tern_codec *codec,
                                   const struct tern_encode_context *whole, struct tensor_set *set,
                                   bool in_container, struct output *output)
{
    for (size_t i = 0; i < set->tensor_count; i++) {
        const struct tensor *tensor = &set->tensors[i];
        struct tern_encode_context part = *whole;
        part.segment = (uint32_t)i;
        part.velocity = whole->velocity != NULL ? whole->velocity + tensor->offset : NULL;
        TERN_TRY(encode_tensor(codec, &part, tensor, set->values + tensor->offset, in_container,
                               output));
    }
    return TERN_OK;
}

static size_t output_bound(const struct tern_codec *codec, const struct tensor_set *set)
{
    size_t bound = 0;
    for (size_t i = 0; i < set->tensor_count; i++) {
        bound += TERN_VARINT_MAX + tern_codec_bound(codec, set->tensors[i].count);
    }
    return bound;
}

// --- The verb

// Writes the payload, then the state. If writing the state fails, removes the payload, because the
// old state still contains what the payload sends.
static enum tern_result write_both(const struct tern_cli *cli, const struct output *output,
                                   const struct state *state)
{
    const char *out = cli->arguments[2];
    const char *buffer = tern_cli_option(cli, "error-buffer", NULL);
    TERN_TRY(tern_output_write(cli, out, output->bytes, output->len));
    enum tern_result result = TERN_OK;
    if (buffer != NULL) {
        result = tern_float_file_write(cli, buffer, state->file.values, state->file.count);
    }
    if (result != TERN_OK) {
        tern_output_take_back(out);
    }
    return result;
}

// Encodes all tensors with the number of threads in --threads.
static enum tern_result run_encoder(const struct tern_cli *cli, const struct tern_codec *codec,
                                    const struct state *state, struct tensor_set *set,
                                    struct output *output)
{
    struct tern_encode_context context = {.velocity = state->velocity};
    struct threads threads;
    TERN_TRY(read_context(cli, &context));
    TERN_TRY(tern_threads_make(cli, &threads));
    context.parallel = threads.parallel;
    bool in_container = set->named && !tern_cli_flag(cli, "tensor");
    enum tern_result result = encode_all(codec, &context, set, in_container, output);
    tern_threads_free(&threads);
    return result;
}

static int encode_set(const struct tern_cli *cli, const struct tern_codec *codec,
                      struct state *state, struct tensor_set *set)
{
    struct output output = {.size = output_bound(codec, set)};
    output.bytes = malloc(output.size + 1);
    if (output.bytes == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", set->count);
    }
    enum tern_result result = run_encoder(cli, codec, state, set, &output);
    int code = (int)tern_cli_exit_code(result);
    if (result == TERN_ERR_NON_FINITE) {
        code = tern_tensor_set_fail(cli, set, cli->arguments[0]);
    } else if (result == TERN_OK) {
        store_residual(codec, state, set);
        code = (int)tern_cli_exit_code(write_both(cli, &output, state));
    }
    free(output.bytes);
    return code;
}

static enum tern_result check_files(const struct tern_cli *cli)
{
    const char *buffer = tern_cli_option(cli, "error-buffer", NULL);
    if (buffer != NULL && strcmp(buffer, "-") == 0) {
        return tern_cli_refuse(
            cli, TERN_ERR_CONFIG,
            "--error-buffer names a file that is read and replaced; it cannot be "
            "the standard input or output");
    }
    const struct role roles[] = {
        {.name = "IN", .path = cli->arguments[1]},
        {.name = "OUT", .path = cli->arguments[2], .written = true},
        {.name = "--error-buffer", .path = buffer, .written = true},
    };
    return tern_roles_check(cli, roles, sizeof roles / sizeof roles[0]);
}

// Adds the residual error of the last call to the values and encodes them.
static int encode_with_state(const struct tern_cli *cli, const struct tern_codec *codec,
                             struct tensor_set *set)
{
    struct state state;
    enum tern_result result = read_state(cli, codec, set->count, &state);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    result = add_state(cli, codec, &state, set);
    int code =
        result == TERN_OK ? encode_set(cli, codec, &state, set) : (int)tern_cli_exit_code(result);
    free(state.file.values);
    return code;
}

int tern_verb_encode(struct tern_cli *cli)
{
    struct tern_codec codec;
    struct tensor_set set;
    enum tern_result result = tern_spec_argument_parse(cli, cli->arguments[0], &codec);
    if (result == TERN_OK) {
        result = check_files(cli);
    }
    if (result == TERN_OK) {
        result = tern_tensor_set_read(cli, cli->arguments[1], tern_cli_option(cli, "tensor", NULL),
                                      &set);
    }
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    int code = encode_with_state(cli, &codec, &set);
    tern_tensor_set_free(&set);
    return code;
}
