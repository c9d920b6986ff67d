// Finds the session tickets that a ClientHello offers, before the TLS library reads it. Pure; any thread.
#ifndef TERN_HTTP_CLIENT_HELLO_H
#define TERN_HTTP_CLIENT_HELLO_H

#include <stddef.h>
#include <stdint.h>

#define TERN_CLIENT_HELLO_MAX 4096u // bytes of the connection that the parser reads
#define TERN_OFFERED_TICKETS 3u

struct tern_offered_ticket {
    const uint8_t *bytes; // borrowed from the caller
    size_t len;
};

// Reads the extension session_ticket of TLS 1.2 (RFC 5077) and the identities of pre_shared_key of TLS 1.3 (RFC 8446,
// section 4.2.11) from the first record of a connection. Returns how many tickets were found, the first of them in
// `offered`; 0 also where the bytes are not one whole ClientHello in one record.
size_t tern_client_hello_tickets(const uint8_t *bytes, size_t len,
                                 struct tern_offered_ticket offered[TERN_OFFERED_TICKETS]);

#endif
