// Every version of the kernels that this processor runs beside the portable one: the same payload,
// the same values fed back, decoded and added, the same answers about damaged payloads.
#include "codec/kernels/kernels.h"
#include "input.h"
#include "payload.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What comes of one input under one version.
struct outcome {
    enum tern_result encoded;
    enum tern_result decoded;
    size_t written;
    uint8_t *payload;
    float *fed_back;
    float *velocity;
    float *values;
    float *acc;
    struct tern_codec_info info;
};

struct work {
    struct tern_codec codec;
    const float *input;
    size_t count;
    size_t bound;
    size_t damaged_at; // which byte of the payload is changed before it is decoded, and how
    uint8_t damage;
};

static float *filled(size_t count)
{
    float *values = malloc(count * sizeof *values + 1);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)i - 7;
    }
    return values;
}

static struct outcome run(const struct work *work)
{
    struct outcome out = {.payload = calloc(work->bound, 1)};
    out.fed_back = malloc(work->count * sizeof(float) + 1);
    memcpy(out.fed_back, work->input, work->count * sizeof(float));
    out.velocity = filled(work->count);
    out.values = filled(work->count);
    out.acc = filled(work->count);
    struct tern_encode_context context = {.seed = 5, .velocity = out.velocity};
    out.encoded = tern_codec_encode(&work->codec, &context, out.fed_back, work->count, out.payload,
                                    work->bound, &out.written);
    if (out.encoded != TERN_OK) {
        return out;
    }
    uint8_t *damaged = malloc(out.written); // so that a read behind it is seen
    memcpy(damaged, out.payload, out.written);
    damaged[work->damaged_at % out.written] ^= work->damage;
    out.decoded = tern_codec_decode(damaged, out.written, out.values, work->count);
    REQUIRE(tern_codec_accumulate(damaged, out.written, 0.75f, out.acc, work->count) ==
            out.decoded);
    REQUIRE(tern_codec_inspect(damaged, out.written, work->count, &out.info) == out.decoded);
    free(damaged);
    return out;
}

static void release(struct outcome *out)
{
    free(out->payload);
    free(out->fed_back);
    free(out->velocity);
    free(out->values);
    free(out->acc);
}

static void compare(const struct outcome *a, const struct outcome *b, size_t count)
{
    size_t bytes = count * sizeof(float);
    REQUIRE(a->encoded == b->encoded && a->decoded == b->decoded && a->written == b->written);
    // A failed encoding leaves the payload undefined.
    REQUIRE(a->encoded != TERN_OK || memcmp(a->payload, b->payload, a->written) == 0);
    REQUIRE(memcmp(a->fed_back, b->fed_back, bytes) == 0);
    REQUIRE(memcmp(a->velocity, b->velocity, bytes) == 0);
    REQUIRE(memcmp(a->values, b->values, bytes) == 0);
    REQUIRE(memcmp(a->acc, b->acc, bytes) == 0);
    REQUIRE(a->info.nonzero == b->info.nonzero && a->info.runs == b->info.runs);
    REQUIRE(a->info.sum_square == b->info.sum_square && a->info.maximum == b->info.maximum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .end = data + size};
    struct work work = {.codec = read_codec(&input)};
    work.damaged_at = input_below(&input, 1u << 16);
    work.damage = (uint8_t)input_below(&input, 256);
    float *values = NULL;
    work.count = read_values(&input, &values);
    work.input = values;
    work.bound = tern_codec_bound(&work.codec, work.count);
    REQUIRE(tern_kernels_use("portable") == TERN_OK);
    struct outcome portable = run(&work);
    for (size_t i = 1; tern_kernels_at(i) != NULL; i++) {
        if (tern_kernels_use(tern_kernels_at(i)) == TERN_OK) {
            struct outcome other = run(&work);
            compare(&portable, &other, work.count);
            release(&other);
        }
    }
    release(&portable);
    free(values);
    return 0;
}
