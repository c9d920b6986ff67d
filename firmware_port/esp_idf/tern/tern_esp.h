// Implements Tern's ports (ports.h, flash.h, stream/transport.h) on ESP-IDF: TLS, a data partition, timer and random numbers.
// Used by the thread that calls tern_client_step().
#ifndef TERN_ESP_H
#define TERN_ESP_H

#include "flash.h"
#include "ports.h"
#include "stream/transport.h"

struct esp_tls;

struct tern_esp_connection {
    // The caller sets the fields that are not private.
    const char *host; // the aggregator's host name, which must be in its certificate
    uint16_t port;
    const char *ca;      // the only trusted CA, PEM with a NUL
    size_t ca_len;       // bytes, including the NUL
    struct esp_tls *tls; // private; NULL before the first call
};

// Returns a stream for struct tern_stream_transport. *connection is borrowed.
struct tern_stream tern_esp_stream(struct tern_esp_connection *connection);

// Sets *flash to the data partition with this label, for flash_store.h.
// TERN_ERR_NOT_FOUND  the partition table has no such partition
TERN_MUST_USE enum tern_result tern_esp_flash(struct tern_flash *flash, const char *label);

// Returns the clock port: esp_timer for milliseconds, and the system time as the date, which the application must set, e.g. by
// SNTP. A date before 2020 counts as unknown.
struct tern_clock tern_esp_clock(void);

// Returns the entropy port: the hardware generator. Its numbers are random only while Wi-Fi or Bluetooth is on, so start one of
// them first.
struct tern_entropy tern_esp_entropy(void);

#endif
