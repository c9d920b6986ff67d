// The connection of an aggregator to the helper of secure rounds: HTTPS requests with the federation's token, over one kept
// connection of the client's transport. Implements the port of secure/ask.h. Called by cli/.
#ifndef TERN_SECURE_LINK_H
#define TERN_SECURE_LINK_H

#include "secure/ask.h"

struct tern_helper_link;

// Strings are copied.
struct tern_helper_link_config {
    const char *server;     // "https://host:port" of the helper
    const char *ca;         // PEM file with the CA of the helper; "" = the system's certificates
    const char *token_file; // file with the federation's token
};

// Opens the link, without a connection. why: a sentence on failure.
// TERN_ERR_CONFIG  a setting or the token is invalid; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_helper_link_open(const struct tern_helper_link_config *config,
                                                     struct tern_helper_link **link, char why[512]);
struct tern_helper_port tern_helper_link_port(struct tern_helper_link *link);
// Ends a request that is under way within a second, and refuses further ones.
void tern_helper_link_stop(struct tern_helper_link *link);  // NULL is allowed
void tern_helper_link_close(struct tern_helper_link *link); // NULL is allowed

#endif
