// One segment there and back, with everything that must hold for any codec on the way.
#ifndef TERN_TEST_ROUND_TRIP_H
#define TERN_TEST_ROUND_TRIP_H

#include "codec/codec.h"

enum { TRIP_MOST = 70000 };

// What the last call of round_trip() made. One test at a time.
struct trip {
    float rest[TRIP_MOST];    // what is fed back
    float decoded[TRIP_MOST]; // by tern_codec_decode()
    uint8_t *payload;
    size_t len;
    struct tern_codec_info info;
};
extern struct trip trip;

struct tern_codec codec_of(const char *spec);

// Encodes n values and reads the payload in all ways; fails the test unless
//   bounds hold, nothing is written past them, and they do not exceed those of any codec;
//   what is fed back is value - decoded, bit by bit (+0 without feedback);
//   mode zero is chosen exactly when all decodes to zero;
//   accumulating adds weight * decoded, in two roundings (or leaves a zero out);
//   inspection counts what was decoded.
void round_trip(const char *spec, const struct tern_encode_context *context, const float *values,
                size_t n);

// Expects values to be refused as `expected`, and unchanged.
void refuse_values(const char *spec, const float *values, size_t n, enum tern_result expected);

// Expects the three readers to refuse a payload, and to change nothing.
void refuse_payload(const uint8_t *payload, size_t len, size_t n, enum tern_result expected);

// Feeds the readers damaged copies of the last payload: they agree, and stay inside what they were
// given (under ASan). Returns how many were accepted.
size_t damage_payload(size_t n, unsigned times);

#endif
