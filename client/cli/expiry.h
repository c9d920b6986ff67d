// When the certificates expire by which the aggregator was last verified, and the client's own, in words. Who
// calls: the verbs that show it, and the narrator, who warns.
#ifndef TERN_CLIENT_EXPIRY_H
#define TERN_CLIENT_EXPIRY_H

#include "posix/transport.h"
#include <stdbool.h>
#include <stdint.h>

// Bytes of a sentence.
#define EXPIRY_MAX 256

// "the aggregator's certificate expires in 12 d, its CA's expires in 300 d, this client's certificate expires
// in 80 d"; what is not known is left out. Returns whether one of them does within two weeks, or has.
bool tern_expiry_say(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX]);

#endif
