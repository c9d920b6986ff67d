// Tern's ports on Zephyr: TLS sockets, a flash area, the kernel's clock, and its generator that is fit
// for keys. For the thread that steps the client; one connection and one flash area for each struct.
#ifndef TERN_ZEPHYR_H
#define TERN_ZEPHYR_H

#include "flash.h"
#include "ports.h"
#include "stream/stream.h"

// Zeroed by the caller, who then sets what is not private.
struct tern_zephyr_connection {
    const char *host; // of the aggregator, which its certificate must carry
    const char *port; // "8443"
    int tag;          // of the CA, by tls_credential_add(): the only one that is trusted
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

// A flash area, as flash_store.h takes it: id is FIXED_PARTITION_ID(label); block_size and
// program_size are those of its memory in the board's devicetree. *area is borrowed.
// TERN_ERR_NOT_FOUND  there is no such area, or its driver is missing
TERN_MUST_USE enum tern_result tern_zephyr_flash(struct tern_flash *flash,
                                                 struct tern_zephyr_area *area, uint8_t id,
                                                 uint32_t block_size, uint32_t program_size);

// Uptime. unix_seconds: the application's, 0 while it does not know; NULL = never.
struct tern_clock tern_zephyr_clock(uint64_t (*unix_seconds)(void *ctx));

// sys_csrand_get().
// TERN_ERR_IO  there is no generator
struct tern_entropy tern_zephyr_entropy(void);

#endif
