#include "verbs.h"

#include "codec/codec.h"
#include "float_file.h"
#include "roles.h"
#include "specs.h"
#include "state_file.h"
#include "threads.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

struct output {
    uint8_t *bytes;
    size_t size;
    size_t len;
};

// --- Payloads

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

// Encodes one tensor to the end of the output. In a container its length stands in front.
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

// Writes the payload, then the state. When the second fails the first is taken back, since the old
// state still holds what the payload carries.
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

// Encodes all tensors on as many threads as the command line wants.
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
        tern_state_keep_rest(codec, state, set);
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

// Adds what the last call left, and encodes.
static int encode_with_state(const struct tern_cli *cli, const struct tern_codec *codec,
                             struct tensor_set *set)
{
    struct state state;
    enum tern_result result = tern_state_read(cli, codec, set->count, &state);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    result = tern_state_add(cli, codec, &state, set);
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
