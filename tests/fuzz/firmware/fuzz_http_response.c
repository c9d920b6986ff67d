// Any bytes are read as one response, once whole and once in pieces. Both must be understood alike
// and stay within the body's buffer. The first byte is the size of a piece.
#include "http/message.h"
#include <stdlib.h>
#include <string.h>

#define BODY_SIZE 200u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

struct outcome {
    enum tern_result result;
    size_t used;
    bool keep_alive;
    struct tern_response response;
};

static struct outcome read_in_pieces(const uint8_t *data, size_t size, size_t piece, uint8_t *body)
{
    struct outcome outcome = {.result = TERN_AGAIN,
                              .response = {.body = body, .body_size = BODY_SIZE}};
    struct tern_http_reader reader;
    tern_http_reader_start(&reader, &outcome.response);
    while (outcome.result == TERN_AGAIN && outcome.used < size) {
        const size_t left = size - outcome.used;
        const size_t len = left < piece ? left : piece;
        size_t used = 0;
        outcome.result = tern_http_reader_feed(&reader, data + outcome.used, len, &used);
        must(used <= len && (used == len || outcome.result != TERN_AGAIN));
        outcome.used += used;
    }
    if (outcome.result == TERN_AGAIN) {
        outcome.result = tern_http_reader_end(&reader);
    }
    outcome.keep_alive = reader.keep_alive;
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    uint8_t *bodies[2] = {malloc(BODY_SIZE), malloc(BODY_SIZE)};
    must(bodies[0] != NULL && bodies[1] != NULL);
    const size_t piece = 1 + (size_t)data[0] % 64;
    const struct outcome whole = read_in_pieces(data + 1, size - 1, size, bodies[0]);
    const struct outcome cut = read_in_pieces(data + 1, size - 1, piece, bodies[1]);
    must(whole.result == cut.result);
    must(whole.response.status == cut.response.status);
    must(whole.response.retry_after_s == cut.response.retry_after_s);
    if (whole.result == TERN_OK) {
        must(whole.response.status >= 200 && whole.response.status <= 599);
        must(whole.used == cut.used && whole.keep_alive == cut.keep_alive);
        must(whole.response.body_len == cut.response.body_len);
        must(memcmp(bodies[0], bodies[1], whole.response.body_len) == 0);
    }
    free(bodies[0]);
    free(bodies[1]);
    return 0;
}
