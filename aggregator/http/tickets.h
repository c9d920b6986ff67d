// Session tickets of TLS (RFC 5077, RFC 8446): the keys that seal tickets, the encryption of the keys for a shared
// database, the tickets in a ClientHello, and the client of each used ticket. TLS streams and connections call this
// module on each loop; the command line shares the keys between servers. Thread-safe.
#ifndef TERN_HTTP_TICKETS_H
#define TERN_HTTP_TICKETS_H

#include "result.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

// --- Keys that seal tickets

// All loops share the keys and a file keeps them, so that a device needs no full handshake on another loop or after a
// restart. A new key is made each day; an old key opens tickets until all of its tickets have expired.

#define TERN_TICKET_LIFETIME_S 259200u // a ticket is valid for three days
#define TERN_TICKET_ROTATION_S 86400u
#define TERN_TICKET_OVERHEAD 32u // key name, nonce, tag
#define TERN_TICKET_LEAD_S 600u  // servers receive a shared key this long before it seals

struct tern_ticket_keys;

// Reads the file, or creates it (mode 0600) with a first key when it is absent.
// TERN_ERR_CONFIG  the file cannot be read or written, other users may read it, or it is no ticket key file
TERN_MUST_USE enum tern_result tern_ticket_keys_open(const char *path, uint64_t now_s,
                                                     struct tern_ticket_keys **keys, char why[256]);
// Checks whether tern_ticket_keys_open() could read or create the file; changes nothing.
TERN_MUST_USE enum tern_result tern_ticket_keys_check(const char *path, char why[256]);
void tern_ticket_keys_close(struct tern_ticket_keys *keys); // accepts NULL

// Makes a new key if the newest key is a day old, and replaces the file; otherwise returns quickly. Does nothing for
// shared keys. On an error of tern_file_write() or tern_random_fill() the old keys stay in use.
TERN_MUST_USE enum tern_result tern_ticket_keys_rotate(struct tern_ticket_keys *keys,
                                                       uint64_t now_s);

// Seals with AES-256-GCM under the newest key whose time has begun. ticket: len + TERN_TICKET_OVERHEAD bytes.
TERN_MUST_USE enum tern_result tern_ticket_seal(struct tern_ticket_keys *keys, uint64_t now_s,
                                                const uint8_t *plain, size_t len, uint8_t *ticket);

// Opens an untrusted ticket. plain: len - TERN_TICKET_OVERHEAD bytes.
// TERN_ERR_NOT_FOUND  none of the keys has sealed the ticket
// TERN_ERR_CORRUPT    the ticket is forged or damaged
TERN_MUST_USE enum tern_result tern_ticket_open(struct tern_ticket_keys *keys,
                                                const uint8_t *ticket, size_t len, uint8_t *plain);

// --- Keys that several servers share

// Largest size of all keys in the format of the file, in bytes. These bytes are a secret.
#define TERN_TICKET_KEYS_SIZE 272u

// Marks the keys as shared: from now on tern_ticket_keys_rotate() makes no keys.
void tern_ticket_keys_share(struct tern_ticket_keys *keys);
// Writes all keys to `bytes`; returns their length.
size_t tern_ticket_keys_write(struct tern_ticket_keys *keys, uint8_t bytes[TERN_TICKET_KEYS_SIZE]);
// Replaces the keys, and writes the file if `bytes` has different keys. A write error is ignored, since the database
// has the keys.
// TERN_ERR_CORRUPT  the bytes are no ticket keys; nothing has changed
TERN_MUST_USE enum tern_result tern_ticket_keys_replace(struct tern_ticket_keys *keys,
                                                        const uint8_t *bytes, size_t len);
// Adds a key to the *len bytes of `bytes` if the newest key will be a day old in TERN_TICKET_LEAD_S, or is from the
// future. The new key is used after TERN_TICKET_LEAD_S.
// TERN_ERR_CORRUPT  the bytes are no ticket keys; or an error of tern_random_fill()
TERN_MUST_USE enum tern_result tern_ticket_keys_extend(uint8_t bytes[TERN_TICKET_KEYS_SIZE],
                                                       size_t *len, uint64_t now_s);

// --- Encryption of the keys for a database

// Servers that share ticket keys store the keys in their database, encrypted under the private key of the certificate.
// All servers have the private key; readers of the database and of its backups do not.

#define TERN_TICKET_SEALED_OVERHEAD 28u // nonce, tag

// Encrypts ticket keys. The sealer is a secret; tern_ticket_sealer_wipe() overwrites it.
struct tern_ticket_sealer {
    uint8_t id[TERN_SHA256_SIZE]; // identifies the private key and reveals nothing about it
    uint8_t key[TERN_SHA256_SIZE];
};

// Derives the sealer by HMAC-SHA256 (RFC 2104) under the private key in DER, so that every PEM form of the key gives the
// same sealer.
// TERN_ERR_CONFIG     the file cannot be read, or has no private key; `why` has the reason
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

// --- Tickets in a ClientHello

#define TERN_CLIENT_HELLO_MAX 4096u // most bytes of a ClientHello that are parsed
#define TERN_OFFERED_TICKETS 3u

struct tern_offered_ticket {
    const uint8_t *bytes; // borrowed from the caller
    size_t len;
};

// Reads the extension session_ticket of TLS 1.2 (RFC 5077) and the identities of pre_shared_key of TLS 1.3 (RFC 8446,
// section 4.2.11) from the first record of a connection. Returns the number of tickets in `offered`; 0 also if the bytes
// are not one complete ClientHello in one record. Pure.
size_t tern_client_hello_tickets(const uint8_t *bytes, size_t len,
                                 struct tern_offered_ticket offered[TERN_OFFERED_TICKETS]);

// --- Clients that used a ticket

// Maps session tickets to the clients that used them on this listener, so that the first bytes of a connection identify
// the client (docs/SECURITY.md, "Limits"). The table has a fixed size; an orderly stop writes the table to a file. A
// client whose ticket was evicted, or was lost in a crash, is a stranger until it sends its token.
struct tern_known_tickets;

// NULL when memory is short.
struct tern_known_tickets *tern_known_tickets_new(void);
void tern_known_tickets_free(struct tern_known_tickets *tickets); // accepts NULL

// Reads the file of tern_known_tickets_save() and deletes the file, so that after a crash no outdated file is left. If
// the file is absent or malformed, the table stays empty.
void tern_known_tickets_load(struct tern_known_tickets *tickets, const char *path, uint64_t now_s);
// Writes the tickets that can still be valid: 16 bytes each, 2 MiB at most. Deletes the file if there are none.
// Returns an error of tern_file_write(), or TERN_ERR_NO_MEMORY.
TERN_MUST_USE enum tern_result tern_known_tickets_save(struct tern_known_tickets *tickets,
                                                       const char *path, uint64_t now_s);

// Hashes a ticket to its key in the table; never 0.
uint64_t tern_ticket_tag(const uint8_t *ticket, size_t len);

// Records that the client has authenticated on a connection that began with this ticket or received it. client 0: the
// credentials were refused; connections with the ticket are strangers from now on.
void tern_known_tickets_record(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client);

// Returns the last client that was recorded for the ticket; 0 = none. The result is trustworthy only after a completed
// handshake with the ticket.
uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, uint64_t tag);

// Returns the client of a ticket in the first bytes of a TLS connection. 0: no known ticket, no ClientHello, or an
// incomplete ClientHello.
uint64_t tern_known_tickets_offered(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                    size_t len);

#endif
