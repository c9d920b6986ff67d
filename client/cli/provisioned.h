// Reads what `tern-aggregator provision --json` printed. From the main thread.
#ifndef TERN_CLIENT_PROVISIONED_H
#define TERN_CLIENT_PROVISIONED_H

#include "client.h"

// path: "-" is the standard input.
// TERN_ERR_IO       it cannot be read
// TERN_ERR_CORRUPT  it is not one such object
TERN_MUST_USE enum tern_result tern_provisioned_read(const char *path,
                                                     struct tern_client_identity *identity);

#endif
