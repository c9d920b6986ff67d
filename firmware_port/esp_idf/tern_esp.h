// Tern's ports on ESP-IDF: its TLS, a data partition, its timer and its random numbers. For the thread
// that steps the client; one connection and one partition for each struct.
#ifndef TERN_ESP_H
#define TERN_ESP_H

#include "flash.h"
#include "ports.h"
#include "stream/stream.h"

struct esp_tls;

struct tern_esp_connection {
    const char *
        host; // of the aggregator, which its certificate must carry; the caller sets the first four
    uint16_t port;
    const char *ca;      // PEM with its NUL, the only CA that is trusted
    size_t ca_len;       // with the NUL
    struct esp_tls *tls; // private, NULL at first
};

// *connection is borrowed.
struct tern_stream tern_esp_stream(struct tern_esp_connection *connection);

// The data partition with this label, as flash_store.h takes it.
// TERN_ERR_NOT_FOUND  the partition table has none
TERN_MUST_USE enum tern_result tern_esp_flash(struct tern_flash *flash, const char *label);

// esp_timer, and the date once the application has set it (SNTP); unknown before 2020.
struct tern_clock tern_esp_clock(void);

// The hardware's generator, whose numbers are random while Wi-Fi or Bluetooth is on: start one before.
struct tern_entropy tern_esp_entropy(void);

#endif
