// A ClientHello of any peer, of which the tickets are looked for before it has proven anything.
#include "http/tickets.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_offered_ticket offered[TERN_OFFERED_TICKETS];
    const size_t count = tern_client_hello_tickets(data, size, offered);
    if (count > TERN_OFFERED_TICKETS) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (offered[i].len == 0 || offered[i].bytes < data ||
            offered[i].len > size - (size_t)(offered[i].bytes - data)) {
            abort();
        }
    }
    return 0;
}
