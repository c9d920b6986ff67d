#include "verbs.h"

#include "codec/codec.h"
#include "float_file.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum tern_result parse_spec(const struct tern_cli *cli, const char *spec,
                                   struct tern_codec *codec)
{
    struct tern_codec_refusal refusal;
    enum tern_result result = tern_codec_parse(spec, codec, &refusal);
    if (result != TERN_OK) {
        char sentence[TERN_CODEC_SENTENCE_MAX];
        tern_codec_explain(&refusal, sentence);
        (void)tern_cli_fail(cli, result, "%s", sentence);
    }
    return result == TERN_OK ? TERN_OK : TERN_ERR_CONFIG;
}

// Adds the error buffer's file to the values, if it is there.
static enum tern_result add_error_buffer(const struct tern_cli *cli, const char *path,
                                         struct float_file *input)
{
    struct float_file buffer;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return TERN_OK; // the first call makes it
    }
    TERN_TRY(float_file_read(cli, path, &buffer));
    enum tern_result result = TERN_OK;
    if (buffer.count == input->count) {
        for (size_t i = 0; i < input->count; i++) {
            input->values[i] = buffer.values[i] + input->values[i];
        }
    } else {
        result = TERN_ERR_ARGUMENT;
        (void)tern_cli_fail(cli, result, "%s has %zu values, but the input has %zu", path,
                            buffer.count, input->count);
    }
    free(buffer.values);
    return result;
}

static int encode_fail(const struct tern_cli *cli, enum tern_result result,
                       const struct float_file *input, const char *spec)
{
    for (size_t i = 0; i < input->count; i++) {
        if (!isfinite(input->values[i])) {
            return tern_cli_fail(cli, result, "value %zu is %g, which cannot be encoded", i,
                                 (double)input->values[i]);
        }
    }
    return tern_cli_fail(cli, result, "the values are too large for %s", spec);
}

// Writes the payload, then the error buffer. When the second fails the first is taken back, since
// the old buffer still holds what the payload carries.
static enum tern_result write_both(const struct tern_cli *cli, const char *out,
                                   const uint8_t *payload, size_t len,
                                   const struct float_file *rest)
{
    const char *buffer = tern_cli_option(cli, "error-buffer", NULL);
    TERN_TRY(output_write(cli, out, payload, len));
    enum tern_result result = TERN_OK;
    if (buffer != NULL) {
        result = float_file_write(cli, buffer, rest->values, rest->count);
    }
    if (result != TERN_OK && strcmp(out, "-") != 0) {
        (void)unlink(out);
    }
    return result;
}

static int encode_values(const struct tern_cli *cli, const struct tern_codec *codec,
                         struct float_file *input)
{
    size_t bound = tern_codec_bound(codec, input->count);
    uint8_t *payload = malloc(bound);
    if (payload == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %zu bytes", bound);
    }
    size_t written = 0;
    enum tern_result result =
        tern_codec_encode(codec, NULL, input->values, input->count, payload, bound, &written);
    int code = TERN_EXIT_OK;
    if (result != TERN_OK) {
        code = encode_fail(cli, result, input, cli->arguments[0]);
    } else {
        code = (int)tern_cli_exit_code(write_both(cli, cli->arguments[2], payload, written, input));
    }
    free(payload);
    return code;
}

int verb_encode(struct tern_cli *cli)
{
    const char *buffer = tern_cli_option(cli, "error-buffer", NULL);
    if (buffer != NULL && strcmp(buffer, "-") == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--error-buffer names a file that is read and replaced; it cannot be "
                             "the standard input or output");
    }
    struct tern_codec codec;
    struct float_file input;
    enum tern_result result = parse_spec(cli, cli->arguments[0], &codec);
    if (result == TERN_OK) {
        result = float_file_read(cli, cli->arguments[1], &input);
    }
    if (result != TERN_OK) {
        return (int)tern_cli_exit_code(result);
    }
    if (buffer != NULL) {
        result = add_error_buffer(cli, buffer, &input);
    }
    int code =
        result == TERN_OK ? encode_values(cli, &codec, &input) : (int)tern_cli_exit_code(result);
    free(input.values);
    return code;
}
