// The pre-shared key of a client without certificates (PROTOCOL.md, "Clients with a pre-shared
// key"). Both ends derive it here: the device for its handshake, the aggregator when it makes the
// client. Pure; reentrant.
#ifndef TERN_WIRE_PSK_H
#define TERN_WIRE_PSK_H

#include "util/sha256.h"

#define TERN_PSK_SIZE TERN_SHA256_SIZE

// SHA-256("tern psk v1" || token): token is the bearer token as text, NUL-terminated.
void tern_psk_from_token(const char *token, uint8_t psk[TERN_PSK_SIZE]);

#endif
