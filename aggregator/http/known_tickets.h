// Which session tickets known clients have used on this listener, so that a connection which begins with one of them
// is recognised by its first bytes (docs/SECURITY.md, "Limits"). Kept in memory, in a table of fixed size: what it
// forgets, or what was used before a restart, makes its client a stranger until it shows its token. Thread-safe.
#ifndef TERN_HTTP_KNOWN_TICKETS_H
#define TERN_HTTP_KNOWN_TICKETS_H

#include <stddef.h>
#include <stdint.h>

struct tern_known_tickets;

// NULL when memory is short.
struct tern_known_tickets *tern_known_tickets_new(void);
void tern_known_tickets_free(struct tern_known_tickets *tickets); // NULL is nothing

// What stands for a ticket in the table; never 0.
uint64_t tern_ticket_tag(const uint8_t *ticket, size_t len);

// The client has proven itself on a connection that was given this ticket, or has begun with it.
void tern_known_tickets_note(struct tern_known_tickets *tickets, uint64_t tag, uint64_t client);

// The client that has used a ticket which this beginning of a TLS connection offers; 0 = none. Bytes of anything
// else, or of a part of a ClientHello, offer none.
uint64_t tern_known_tickets_client(struct tern_known_tickets *tickets, const uint8_t *bytes,
                                   size_t len);

#endif
