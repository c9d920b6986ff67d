// Tern's ports on Zephyr: TLS sockets, a flash area, the kernel's clock, and its generator for keys. Used by the thread that
// steps the client.
#ifndef TERN_ZEPHYR_H
#define TERN_ZEPHYR_H

#include "flash.h"
#include "ports.h"
#include "stream/transport.h"

// The caller zeroes it and sets the fields that are not private.
struct tern_zephyr_connection {
    const char *host; // host name in the aggregator's certificate
    const char *port; // as text, e.g. "8443"
    int tag;          // tag of the only trusted CA, from tls_credential_add()
    int fd;           // private
    bool is_open;     // private
};

// *connection is borrowed.
struct tern_stream tern_zephyr_stream(struct tern_zephyr_connection *connection);

struct flash_area;

// A region of flash; fields are private.
struct tern_zephyr_area {
    const struct flash_area *area;
    uint32_t block_size;
};

// Sets *flash to a flash area, for flash_store.h. id: FIXED_PARTITION_ID(label); block_size and program_size: as in the board's
// devicetree. *area is borrowed.
// TERN_ERR_NOT_FOUND  there is no such area, or its driver is missing
TERN_MUST_USE enum tern_result tern_zephyr_flash(struct tern_flash *flash,
                                                 struct tern_zephyr_area *area, uint8_t id,
                                                 uint32_t block_size, uint32_t program_size);

// The clock port: the kernel's uptime. unix_seconds: the application's function, which returns 0 while the date is unknown;
// NULL = always unknown.
struct tern_clock tern_zephyr_clock(uint64_t (*unix_seconds)(void *ctx));

// The entropy port: sys_csrand_get().
// TERN_ERR_IO  there is no generator
struct tern_entropy tern_zephyr_entropy(void);

#endif
