// Session tickets of TLS (RFC 5077, RFC 8446): the keys that seal them, the sealing of these keys for a shared
// database, the tickets that a ClientHello offers, and which client used which ticket. The listener's TLS and
// connections call it on each loop; the command line shares the keys between servers. Thread-safe.
#ifndef TERN_HTTP_TICKETS_H
#define TERN_HTTP_TICKETS_H

#include "result.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

// --- Keys that seal tickets

// All loops share the keys, and a file keeps them, so that neither another loop nor a restart costs a device a full
// handshake. Each day gets a new key; old keys open tickets until no valid ticket can be sealed by them.

#define TERN_TICKET_LIFETIME_S 259200u // a ticket is valid for three days
#define TERN_TICKET_ROTATION_S 86400u
#define TERN_TICKET_OVERHEAD 32u // key name, nonce, tag
#define TERN_TICKET_LEAD_S 600u  // servers receive a shared key this long before it seals

struct tern_ticket_keys;

// Reads the file, or creates it (mode 0600) with a first key when it is absent.
// TERN_ERR_CONFIG  the file cannot be read or written, others may read it, or it holds something else
TERN_MUST_USE enum tern_result tern_ticket_keys_open(const char *path, uint64_t now_s,
                                                     struct tern_ticket_keys **keys, char why[256]);
// Checks whether tern_ticket_keys_open() could read or create the file; changes nothing.
TERN_MUST_USE enum tern_result tern_ticket_keys_check(const char *path, char why[256]);
void tern_ticket_keys_close(struct tern_ticket_keys *keys); // accepts NULL

// Makes a new key when the newest is a day old, and replaces the file. Cheap otherwise; does nothing for shared keys.
// Returns an error of tern_file_write() or tern_random_fill(); the old keys stay in use then.
TERN_MUST_USE enum tern_result tern_ticket_keys_rotate(struct tern_ticket_keys *keys,
                                                       uint64_t now_s);

// Seals with AES-256-GCM under the newest key whose time has begun. ticket: len + TERN_TICKET_OVERHEAD bytes.
TERN_MUST_USE enum tern_result tern_ticket_seal(struct tern_ticket_keys *keys, uint64_t now_s,
                                                const uint8_t *plain, size_t len, uint8_t *ticket);

// Opens an untrusted ticket. plain: len - TERN_TICKET_OVERHEAD bytes.
// TERN_ERR_NOT_FOUND  no key has sealed it
// TERN_ERR_CORRUPT    it is forged or damaged
TERN_MUST_USE enum tern_result tern_ticket_open(struct tern_ticket_keys *keys,
                                                const uint8_t *ticket, size_t len, uint8_t *plain);

// --- Keys that several servers share

// Bytes of all keys in the format of the file; a secret.
#define TERN_TICKET_KEYS_SIZE 272u

// Marks the keys as shared: tern_ticket_keys_rotate() makes no keys from now on.
void tern_ticket_keys_share(struct tern_ticket_keys *keys);
// Writes all keys to `bytes`; returns their length.
size_t tern_ticket_keys_write(struct tern_ticket_keys *keys, uint8_t bytes[TERN_TICKET_KEYS_SIZE]);
// Replaces the keys, and writes the file where they differ. A file that cannot be written keeps the old keys; the
// database has the new ones.
// TERN_ERR_CORRUPT  the bytes are something else; nothing has changed
TERN_MUST_USE enum tern_result tern_ticket_keys_replace(struct tern_ticket_keys *keys,
                                                        const uint8_t *bytes, size_t len);
// Adds a key to `bytes` (*len of them) when the newest will be a day old in TERN_TICKET_LEAD_S, or is from the future.
// The new key seals after TERN_TICKET_LEAD_S.
// TERN_ERR_CORRUPT  the bytes are something else; or an error of tern_random_fill()
TERN_MUST_USE enum tern_result tern_ticket_keys_extend(uint8_t bytes[TERN_TICKET_KEYS_SIZE],
                                                       size_t *len, uint64_t now_s);

// --- Sealing the keys for a database

// Servers that share keys keep them in their database, sealed by the private key of their certificate: all the servers
// have it, and the database's backups and readers do not.

#define TERN_TICKET_SEALED_OVERHEAD 28u // nonce, tag

// A secret; tern_ticket_sealer_wipe() erases it.
struct tern_ticket_sealer {
    uint8_t id[TERN_SHA256_SIZE]; // identifies the private key and reveals nothing about it
    uint8_t key[TERN_SHA256_SIZE];
};

// Derives the sealer by HMAC-SHA256 (RFC 2104) under the private key in DER, so that every form of the PEM file gives
// the same sealer.
// TERN_ERR_CONFIG     the file cannot be read, or holds no private key; `why` tells which
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_ticket_sealer_make(const char *private_key, struct tern_ticket_sealer *sealer, char why[256]);
void tern_ticket_sealer_wipe(struct tern_ticket_sealer *sealer);

// Seals with AES-256-GCM under a random nonce. sealed: len + TERN_TICKET_SEALED_OVERHEAD bytes.
TERN_MUST_USE enum tern_result tern_ticket_sealer_seal(const struct tern_ticket_sealer *sealer,
                                                       const uint8_t *plain, size_t len,
                                                       uint8_t *sealed);
// Opens untrusted bytes. plain: len - TERN_TICKET_SEALED_OVERHEAD bytes.
// TERN_ERR_CORRUPT  the bytes are damaged, or another key has sealed them
TERN_MUST_USE enum tern_result tern_ticket_sealer_open(const struct tern_ticket_sealer *sealer,
                                                       const uint8_t *sealed, size_t len,
                                                       uint8_t *plain);

// --- Tickets that a ClientHello offers

#define TERN_CLIENT_HELLO_MAX 4096u // bytes of the connection that the parser reads
#define TERN_OFFERED_TICKETS 3u

struct tern_offered_ticket {
    const uint8_t *bytes; // borrowed from the caller
    size_t len;
};

// Reads the extension session_ticket of TLS 1.2 (RFC 5077) and the identities of pre_shared_key of TLS 1.3 (RFC 8446,
// section 4.2.11) from the first record of a connection. Returns how many tickets were found, the first of them in
// `offered`; 0 also where the bytes are not one whole ClientHello in one record. Pure.
size_t tern_client_hello_tickets(const uint8_t *bytes, size_t len,
                                 struct tern_offered_ticket offered[TERN_OFFERED_TICKETS]);

// --- Clients that used a ticket

// Remembers which client has used a session ticket on this listener, so that the first bytes of a connection
// identify the client (docs/SECURITY.md, "Limits"). A table of fixed size in memory: a client whose ticket was
// evicted, or used before a crash, is a stranger until it shows its token. An orderly stop writes the table to a file.
struct tern_known_tickets;

// NULL when memory is short.
struct tern_known_tickets *tern_known_tickets_new(void);
void tern_known_tickets_free(struct tern_known_tickets *tickets); // accepts NULL

// Reads what tern_known_tickets_save() wrote, and removes the file, so that none is left after a crash. A file that is
// absent or something else is an empty table.
void tern_known_tickets_load(struct tern_known_tickets *tickets, const char *path, uint64_t now_s);
// Writes the tickets that can still be valid: 16 bytes each, 2 MiB at most. Removes the file where there are none.
// Returns an error of tern_file_write(), or TERN_ERR_NO_MEMORY.
TERN_MUST_USE enum tern_result tern_known_tickets_save(struct tern_known_tickets *tickets,
                                                       const char *path, uint64_t now_s);

// Hashes a ticket to its key in the table; never 0.
uint64_t tern_ticket_tag(const uint8_t *ticket, size_t len);

// Records that the client has authenticated on a connection that was given this ticket, or began
// with it. client 0: the ticket's client was refused, and is a stranger from now on.
void tern_known_tickets_note(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client);

// Returns the client that authenticated last on the ticket; 0 = none. Call it for a ticket that a handshake has proved.
uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, uint64_t tag);

// Returns the client that has used a ticket which this beginning of a TLS connection offers; 0 = none. Other
// bytes, and an incomplete ClientHello, offer none.
uint64_t tern_known_tickets_offered(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                    size_t len);

#endif
