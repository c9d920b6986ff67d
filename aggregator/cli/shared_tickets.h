// Several aggregators on one database share the keys of session tickets, so that a client which comes to another one
// resumes its session and pays no full handshake. The keys lie in the database, sealed by the private key of the
// aggregators' certificate (http/tickets.h). Whoever finds the next key due makes it. Who calls: serve.
#ifndef TERN_CLI_SHARED_TICKETS_H
#define TERN_CLI_SHARED_TICKETS_H

#include "http/tickets.h"

struct tern_shared_tickets;

struct tern_shared_tickets_config {
    const char *database;    // a URL
    const char *private_key; // PEM file, read again each time
    const char *file;        // of this server's ticket keys
};

// Before the server is started: its file gets the keys of the others, or they get its keys. What cannot be had is
// logged, and the file stays as it is.
void tern_shared_tickets_begin(const struct tern_shared_tickets_config *config);

// From then on, once a minute, on a thread and a connection of its own. keys: of the server that runs; they outlive
// what is started. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_shared_tickets_start(const struct tern_shared_tickets_config *config,
                          struct tern_ticket_keys *keys, struct tern_shared_tickets **out);
void tern_shared_tickets_stop(struct tern_shared_tickets *shared); // NULL is allowed

#endif
