// Implements Tern's ports (ports.h, flash.h, stream/transport.h) on Zephyr: mbedTLS on its sockets, a flash area, the kernel's
// clock, and the kernel's generator for keys. Used by the thread that calls tern_client_step().
#ifndef TERN_ZEPHYR_H
#define TERN_ZEPHYR_H

#include "flash.h"
#include "ports.h"
#include "stream/transport.h"

#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

// The step of tern_zephyr_stream().open() that failed.
enum tern_zephyr_step {
    TERN_ZEPHYR_CONFIGURATION, // mbedTLS lacks an option or memory, or `ca` is no certificate
    TERN_ZEPHYR_DNS,           // the name has no address
    TERN_ZEPHYR_CONNECT,       // no address accepts a connection
    TERN_ZEPHYR_HANDSHAKE,     // the server broke off, or was silent for too long
    TERN_ZEPHYR_CERTIFICATE // the server's certificate is not under `ca`, not for `host`, or not valid today
};

// The caller zeroes it and sets the first four fields.
struct tern_zephyr_connection {
    const char *host; // the aggregator's host name or address, which must be in its certificate
    const char *port; // TCP port as text, e.g. "8443"
    const char *ca;   // the only trusted CA: PEM with a NUL, or DER
    size_t ca_len;    // bytes, including a NUL

    // Describe the last failure of open(), for the log.
    enum tern_zephyr_step failed_step;
    int failed_error; // of getaddrinfo(), errno, mbedTLS's code, or its flags of the certificate

    // Private.
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_ssl_session session; // of the last handshake, for resumption
    mbedtls_x509_crt trusted;
    int fd;
    bool is_ready; // config and ssl are initialised
    bool is_open;
    bool has_session;
};

// Returns a stream for struct tern_stream_transport: mbedTLS on a socket that does not block, so that each call ends within its
// time. Only the look-up of the name has a limit of its own, CONFIG_NET_SOCKETS_DNS_TIMEOUT. *connection is borrowed.
struct tern_stream tern_zephyr_stream(struct tern_zephyr_connection *connection);

// Returns the step's name for a log: "configuration", "dns", "connect", "handshake" or "certificate".
const char *tern_zephyr_step_name(enum tern_zephyr_step step);

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
