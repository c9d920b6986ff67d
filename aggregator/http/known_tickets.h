// Remembers which client has used a session ticket on this listener, so that the first bytes of a connection
// identify the client (docs/SECURITY.md, "Limits"). A table of fixed size in memory: a client whose ticket was
// evicted, or used before a crash, is a stranger until it shows its token. An orderly stop keeps the table in a
// file. Thread-safe.
#ifndef TERN_HTTP_KNOWN_TICKETS_H
#define TERN_HTTP_KNOWN_TICKETS_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct tern_known_tickets;

// NULL when memory is short.
struct tern_known_tickets *tern_known_tickets_new(void);
void tern_known_tickets_free(struct tern_known_tickets *tickets); // accepts NULL

// Reads what tern_known_tickets_save() wrote, and removes the file, so that none is left after a crash. A file that is
// absent or something else is an empty table.
void tern_known_tickets_load(struct tern_known_tickets *tickets, const char *path, uint64_t now_s);
// Writes the tickets that can still be valid: 16 bytes each, 2 MiB at most. Without any it
// removes the file.
// An error of tern_file_write(), or TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_known_tickets_save(struct tern_known_tickets *tickets,
                                                       const char *path, uint64_t now_s);

// Hashes a ticket to its key in the table; never 0.
uint64_t tern_ticket_tag(const uint8_t *ticket, size_t len);

// Records that the client has authenticated on a connection that was given this ticket, or began
// with it. client 0: the ticket's client was refused, and is a stranger from now on.
void tern_known_tickets_note(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client);

// Returns the client that authenticated last on the ticket; 0 = none. Call it for a ticket that a handshake has proved.
uint64_t tern_known_tickets_of(struct tern_known_tickets *tickets, uint64_t tag);

// Returns the client that has used a ticket which this beginning of a TLS connection offers; 0 = none. Other
// bytes, and an incomplete ClientHello, offer none.
uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                   size_t len);

#endif
