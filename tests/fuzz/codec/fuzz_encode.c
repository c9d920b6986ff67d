// Any float32 values: what encodes decodes again, 3lc as the book has it, and value = decoded +
// rest; what does not is left as it was.
#include "codec/codec.h"
#include "shared/slow_ternary.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

struct run {
    struct tern_codec codec;
    size_t count;
    const float *input;
    float *values;
    float *decoded;
    uint8_t *payload;
};

static void check_encoded(const struct run *run, size_t written)
{
    REQUIRE(tern_codec_decode(run->payload, written, run->decoded, run->count) == TERN_OK);
    for (size_t i = 0; i < run->count; i++) {
        REQUIRE(run->values[i] == run->input[i] - run->decoded[i]);
    }
    if (run->codec.id == TERN_CODEC_3LC) {
        uint8_t *book = malloc(tern_codec_bound(&run->codec, run->count));
        memcpy(run->decoded, run->input, run->count * sizeof(float));
        REQUIRE(slow_encode(run->decoded, run->count, run->codec.sparsity, book) == written);
        REQUIRE(memcmp(book, run->payload, written) == 0);
        REQUIRE(memcmp(run->decoded, run->values, run->count * sizeof(float)) == 0);
        free(book);
    }
}

// The first byte chooses the codec, the second its sparsity; the rest are the values.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct run run = {
        .codec = {.id = (enum tern_codec_id)(data[0] % 3), .sparsity = 1},
        .count = (size - 2) / sizeof(float),
    };
    if (run.codec.id == TERN_CODEC_3LC) {
        run.codec.sparsity = 1 + (float)data[1] / 257;
    }
    size_t bytes = run.count * sizeof(float);
    size_t bound = tern_codec_bound(&run.codec, run.count);
    float *input = malloc(bytes + 1);
    run.values = malloc(bytes + 1);
    run.decoded = malloc(bytes + 1);
    run.payload = malloc(bound);
    memcpy(input, data + 2, bytes);
    memcpy(run.values, data + 2, bytes);
    run.input = input;
    size_t written = 0;
    if (tern_codec_encode(&run.codec, NULL, run.values, run.count, run.payload, bound, &written) ==
        TERN_OK) {
        check_encoded(&run, written);
    } else {
        REQUIRE(memcmp(run.values, input, bytes) == 0);
    }
    free(run.payload);
    free(run.decoded);
    free(run.values);
    free(input);
    return 0;
}
