// The keys that session tickets (RFC 5077) are sealed with: shared by all loops, kept in a file, so
// that neither another loop nor a restart costs a device a full handshake. A new key is made every
// day; old ones still open tickets until no valid ticket can be under them. Thread-safe.
#ifndef TERN_HTTP_TICKET_KEYS_H
#define TERN_HTTP_TICKET_KEYS_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_TICKET_LIFETIME_S 259200u // of one ticket: three days
#define TERN_TICKET_ROTATION_S 86400u
#define TERN_TICKET_OVERHEAD 32u // key name, nonce, tag

struct tern_ticket_keys;

// Reads the file, or makes it (mode 0600) with a first key when it is absent.
// TERN_ERR_CONFIG  it cannot be read or written, others may read it, or it is something else
TERN_MUST_USE enum tern_result tern_ticket_keys_open(const char *path, uint64_t now_s,
                                                     struct tern_ticket_keys **keys, char why[256]);
// Whether that could read the file, or would make it; changes nothing.
TERN_MUST_USE enum tern_result tern_ticket_keys_check(const char *path, char why[256]);
void tern_ticket_keys_close(struct tern_ticket_keys *keys);

// Makes a new key when the newest is a day old, and writes the file atomically. Cheap otherwise.
// Otherwise an error of tern_file_write() or tern_random_fill(); the old keys stay in use.
TERN_MUST_USE enum tern_result tern_ticket_keys_rotate(struct tern_ticket_keys *keys,
                                                       uint64_t now_s);

// ticket: len + TERN_TICKET_OVERHEAD bytes. AES-256-GCM under the newest key.
TERN_MUST_USE enum tern_result tern_ticket_seal(struct tern_ticket_keys *keys, const uint8_t *plain,
                                                size_t len, uint8_t *ticket);

// plain: len - TERN_TICKET_OVERHEAD bytes. ticket is untrusted.
// TERN_ERR_NOT_FOUND no key made it; TERN_ERR_CORRUPT it is forged or damaged
TERN_MUST_USE enum tern_result tern_ticket_open(struct tern_ticket_keys *keys,
                                                const uint8_t *ticket, size_t len, uint8_t *plain);

#endif
