// The keys that session tickets (RFC 5077) are sealed with: shared by all loops, kept in a file, so
// that neither another loop nor a restart costs a device a full handshake. A new key is made every
// day; old ones still open tickets until no valid ticket can be under them. Several servers may share
// them (the last part below): then whoever lets them do so makes new ones, before they are used.
// Thread-safe.
#ifndef TERN_HTTP_TICKET_KEYS_H
#define TERN_HTTP_TICKET_KEYS_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_TICKET_LIFETIME_S 259200u // of one ticket: three days
#define TERN_TICKET_ROTATION_S 86400u
#define TERN_TICKET_OVERHEAD 32u // key name, nonce, tag
#define TERN_TICKET_LEAD_S 600u  // a shared key is known for so long before it seals

struct tern_ticket_keys;

// Reads the file, or makes it (mode 0600) with a first key when it is absent.
// TERN_ERR_CONFIG  it cannot be read or written, others may read it, or it is something else
TERN_MUST_USE enum tern_result tern_ticket_keys_open(const char *path, uint64_t now_s,
                                                     struct tern_ticket_keys **keys, char why[256]);
// Whether that could read the file, or would make it; changes nothing.
TERN_MUST_USE enum tern_result tern_ticket_keys_check(const char *path, char why[256]);
void tern_ticket_keys_close(struct tern_ticket_keys *keys);

// Makes a new key when the newest is a day old, and writes the file atomically. Cheap otherwise, and
// nothing where keys are shared.
// Otherwise an error of tern_file_write() or tern_random_fill(); the old keys stay in use.
TERN_MUST_USE enum tern_result tern_ticket_keys_rotate(struct tern_ticket_keys *keys,
                                                       uint64_t now_s);

// ticket: len + TERN_TICKET_OVERHEAD bytes. AES-256-GCM under the newest key whose time has come.
TERN_MUST_USE enum tern_result tern_ticket_seal(struct tern_ticket_keys *keys, uint64_t now_s,
                                                const uint8_t *plain, size_t len, uint8_t *ticket);

// plain: len - TERN_TICKET_OVERHEAD bytes. ticket is untrusted.
// TERN_ERR_NOT_FOUND no key made it; TERN_ERR_CORRUPT it is forged or damaged
TERN_MUST_USE enum tern_result tern_ticket_open(struct tern_ticket_keys *keys,
                                                const uint8_t *ticket, size_t len, uint8_t *plain);

// --- Keys that several servers share

// All keys as bytes, a secret: the file's format.
#define TERN_TICKET_KEYS_SIZE 272u

// From now on tern_ticket_keys_rotate() makes none.
void tern_ticket_keys_share(struct tern_ticket_keys *keys);
// Returns how many bytes they take.
size_t tern_ticket_keys_write(struct tern_ticket_keys *keys, uint8_t bytes[TERN_TICKET_KEYS_SIZE]);
// Takes those keys in the place of its own, and writes the file where they differ. One that cannot be written
// stays as it was: whoever shares the keys has them.
// TERN_ERR_CORRUPT  they are something else; nothing has changed
TERN_MUST_USE enum tern_result tern_ticket_keys_take(struct tern_ticket_keys *keys,
                                                     const uint8_t *bytes, size_t len);
// The bytes in place, of *len, with one key more when the newest will be a day old in TERN_TICKET_LEAD_S, or
// is from the future: it seals from that time on.
// TERN_ERR_CORRUPT  they are something else; or an error of tern_random_fill()
TERN_MUST_USE enum tern_result tern_ticket_keys_extend(uint8_t bytes[TERN_TICKET_KEYS_SIZE],
                                                       size_t *len, uint64_t now_s);

#endif
