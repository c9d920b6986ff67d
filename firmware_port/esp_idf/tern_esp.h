// Tern's ports on ESP-IDF: TLS, a data partition, timer and random numbers. Used by the thread that steps the client.
#ifndef TERN_ESP_H
#define TERN_ESP_H

#include "flash.h"
#include "ports.h"
#include "stream/transport.h"

struct esp_tls;

struct tern_esp_connection {
    // of the aggregator, which its certificate must carry; the caller sets the first four
    const char *host;
    uint16_t port;
    const char *ca;      // the only trusted CA, PEM with a NUL
    size_t ca_len;       // bytes, including the NUL
    struct esp_tls *tls; // private, NULL at first
};

// *connection is borrowed.
struct tern_stream tern_esp_stream(struct tern_esp_connection *connection);

// Sets *flash to the data partition with this label, for flash_store.h.
// TERN_ERR_NOT_FOUND  the partition table has no such partition
TERN_MUST_USE enum tern_result tern_esp_flash(struct tern_flash *flash, const char *label);

// The clock port: esp_timer, and the date after the application has set it (SNTP); dates before 2020 are unknown.
struct tern_clock tern_esp_clock(void);

// The entropy port: the hardware generator. It is random only while Wi-Fi or Bluetooth is on: start one before.
struct tern_entropy tern_esp_entropy(void);

#endif
