// Implements Tern's ports (ports.h, flash.h, stream/transport.h) on Zephyr: TLS sockets, a flash area, the kernel's clock, and
// the kernel's generator for keys. Used by the thread that calls tern_client_step().
#ifndef TERN_ZEPHYR_H
#define TERN_ZEPHYR_H

#include "flash.h"
#include "ports.h"
#include "stream/transport.h"

// The caller zeroes it and sets the fields that are not private.
struct tern_zephyr_connection {
    const char *host; // the aggregator's host name, which must be in its certificate
    const char *port; // TCP port as text, e.g. "8443"
    int tag;          // tag of the only trusted CA, from tls_credential_add()
    int fd;           // private
    bool is_open;     // private
};

// Returns a stream for struct tern_stream_transport. *connection is borrowed.
struct tern_stream tern_zephyr_stream(struct tern_zephyr_connection *connection);

struct flash_area;

// A region of flash; fields are private.
struct tern_zephyr_area {
    const struct flash_area *area;
    uint32_t block_size;
};

// Sets *flash to a flash area, for flash_store.h. id: FIXED_PARTITION_ID(label). block_size, program_size: erase-block-size and
// write-block-size of the flash in the board's devicetree. *area is borrowed.
// TERN_ERR_NOT_FOUND  there is no such area, or its driver is missing
TERN_MUST_USE enum tern_result tern_zephyr_flash(struct tern_flash *flash,
                                                 struct tern_zephyr_area *area, uint8_t id,
                                                 uint32_t block_size, uint32_t program_size);

// Returns the clock port: the kernel's uptime for milliseconds, and unix_seconds, a function of the application, for the date.
// It returns 0 while the date is unknown. unix_seconds NULL: the date is always unknown.
struct tern_clock tern_zephyr_clock(uint64_t (*unix_seconds)(void *ctx));

// Returns the entropy port, which calls sys_csrand_get(). The port returns TERN_ERR_IO if Zephyr has no generator.
struct tern_entropy tern_zephyr_entropy(void);

#endif
