// Session-ticket keys that several servers share lie in their database, sealed by what its backups and readers do not
// have and all the servers do: the private key of their certificate. Any thread.
#ifndef TERN_HTTP_TICKET_SEALER_H
#define TERN_HTTP_TICKET_SEALER_H

#include "result.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_TICKET_SEALED_OVERHEAD 28u // nonce, tag

// A secret, to be wiped by tern_ticket_sealer_wipe().
struct tern_ticket_sealer {
    uint8_t id[TERN_SHA256_SIZE]; // of the private key; tells nothing of it
    uint8_t key[TERN_SHA256_SIZE];
};

// HMAC-SHA256 (RFC 2104) under the private key in DER, so that it does not matter in which form the PEM file has it.
// TERN_ERR_CONFIG  it cannot be read, or is no private key: why says so; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_ticket_sealer_make(const char *private_key, struct tern_ticket_sealer *sealer, char why[256]);
void tern_ticket_sealer_wipe(struct tern_ticket_sealer *sealer);

// sealed: len + TERN_TICKET_SEALED_OVERHEAD bytes. AES-256-GCM under a nonce of random bytes.
TERN_MUST_USE enum tern_result tern_ticket_sealer_seal(const struct tern_ticket_sealer *sealer,
                                                       const uint8_t *plain, size_t len,
                                                       uint8_t *sealed);
// plain: len - TERN_TICKET_SEALED_OVERHEAD bytes. sealed is untrusted.
// TERN_ERR_CORRUPT  it is damaged, or another key's
TERN_MUST_USE enum tern_result tern_ticket_sealer_open(const struct tern_ticket_sealer *sealer,
                                                       const uint8_t *sealed, size_t len,
                                                       uint8_t *plain);

#endif
