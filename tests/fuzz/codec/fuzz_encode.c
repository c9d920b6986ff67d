// Any float32 values under any codec with any parameters: what encodes decodes again, twice to the
// same bytes, also in parts; what is fed back is what the payload does not carry; 3lc is as the
// book has it. What does not encode is left as it was.
#include "input.h"
#include "payload.h"
#include "shared/slow_ternary.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// --- Encoding

// One encoding: what goes in and comes out.
struct run {
    struct tern_codec codec;
    struct tern_encode_context context;
    const float *input;
    const float *velocity; // before, or NULL
    size_t count;
    size_t bound;

    float *values;
    float *moved; // velocity after
    uint8_t *payload;
    size_t written;
};

static void *copy_of(const void *data, size_t len)
{
    void *copy = malloc(len + 1);
    memcpy(copy, data, len);
    return copy;
}

static enum tern_result encode(struct run *run, const struct tern_parallel *parallel)
{
    run->values = copy_of(run->input, run->count * sizeof(float));
    run->moved = copy_of(run->velocity, run->count * sizeof(float));
    run->payload = malloc(run->bound);
    run->context.velocity = run->moved;
    run->context.parallel = parallel;
    run->written = 0;
    return tern_codec_encode(&run->codec, &run->context, run->values, run->count, run->payload,
                             run->bound, &run->written);
}

static void release(struct run *run)
{
    free(run->payload);
    free(run->moved);
    free(run->values);
}

static void run_backwards(void *ctx, void (*job)(void *arg, unsigned index), void *arg,
                          unsigned jobs)
{
    (void)ctx;
    while (jobs-- > 0) {
        job(arg, jobs);
    }
}

// --- What must hold

// Another encoding of the same input, by other hands.
static void check_again(const struct run *run)
{
    static const struct tern_parallel backwards = {.workers = 3, .run = run_backwards};
    struct run again = *run;
    REQUIRE(encode(&again, &backwards) == TERN_OK && again.written == run->written);
    REQUIRE(memcmp(again.payload, run->payload, run->written) == 0);
    REQUIRE(memcmp(again.values, run->values, run->count * sizeof(float)) == 0);
    REQUIRE(memcmp(again.moved, run->moved, run->count * sizeof(float)) == 0);
    release(&again);
}

static void check_by_the_book(const struct run *run)
{
    uint8_t *book = malloc(run->bound);
    float *rest = copy_of(run->input, run->count * sizeof(float));
    REQUIRE(slow_encode(rest, run->count, &run->codec, book) == run->written);
    REQUIRE(memcmp(book, run->payload, run->written) == 0);
    REQUIRE(memcmp(rest, run->values, run->count * sizeof(float)) == 0);
    free(rest);
    free(book);
}

static void check_fed_back(const struct run *run, const float *decoded)
{
    enum tern_feedback feedback = tern_codec_entry(run->codec.id)->feedback;
    for (size_t i = 0; i < run->count; i++) {
        float rest = run->input[i] - decoded[i];
        REQUIRE(isfinite(run->values[i]) && isfinite(run->moved[i]));
        if (feedback == TERN_FEEDBACK_ERROR) {
            REQUIRE(memcmp(&rest, &run->values[i], sizeof rest) == 0);
        }
        if (feedback == TERN_FEEDBACK_NONE) {
            REQUIRE(run->values[i] == 0);
        }
    }
}

static void check_encoded(const struct run *run)
{
    REQUIRE(run->written >= 1 && run->written <= run->bound);
    float *decoded = malloc(run->count * sizeof *decoded + 1);
    REQUIRE(tern_codec_decode(run->payload, run->written, decoded, run->count) == TERN_OK);
    size_t nonzero = 0;
    for (size_t i = 0; i < run->count; i++) {
        nonzero += decoded[i] != 0;
    }
    REQUIRE((nonzero == 0) == (run->payload[0] == 0x00) || run->count == 0);
    check_fed_back(run, decoded);
    check_again(run);
    if (run->codec.id == TERN_CODEC_3LC && run->codec.coder == TERN_CODER_ZERO_RUN) {
        check_by_the_book(run);
    }
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .end = data + size};
    struct run run = {.codec = read_codec(&input)};
    run.context.seed = input_below(&input, 256);
    run.context.round = input_below(&input, 256);
    float *values = NULL;
    run.count = read_values(&input, &values);
    run.bound = tern_codec_bound(&run.codec, run.count);
    REQUIRE(run.bound <= tern_codec_bound_any(run.count));
    float *velocity = malloc(run.count * sizeof *velocity + 1);
    for (size_t i = 0; i < run.count; i++) {
        velocity[i] = (float)(i % 5) - 2;
    }
    run.input = values;
    run.velocity = velocity;
    if (encode(&run, NULL) == TERN_OK) {
        check_encoded(&run);
    } else {
        REQUIRE(memcmp(run.values, values, run.count * sizeof *values) == 0);
        REQUIRE(memcmp(run.moved, velocity, run.count * sizeof *values) == 0);
    }
    release(&run);
    free(velocity);
    free(values);
    return 0;
}
