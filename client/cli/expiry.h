// Describes when the certificates of the last verified connection and the client's own expire. Called by the verbs
// that print it, and by verb_run.c, which warns.
#ifndef TERN_CLIENT_EXPIRY_H
#define TERN_CLIENT_EXPIRY_H

#include "posix/transport.h"
#include <stdbool.h>
#include <stdint.h>

// Bytes of a sentence.
#define EXPIRY_MAX 256

// Writes "the aggregator's certificate expires in 12 d, its CA's expires in 300 d, this client's certificate expires
// in 80 d" and omits unknown dates. Returns whether one expires within two weeks or has expired.
bool tern_expiry_describe(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX]);

#endif
