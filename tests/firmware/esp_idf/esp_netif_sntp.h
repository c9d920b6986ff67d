// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_NETIF_SNTP_H
#define TERN_TEST_ESP_NETIF_SNTP_H

#include "esp_err.h"
#include <freertos/FreeRTOS.h>

typedef struct esp_sntp_config {
    const char *servers[1];
} esp_sntp_config_t;

#define ESP_NETIF_SNTP_DEFAULT_CONFIG(server)                                                      \
    {                                                                                              \
        .servers = { server }                                                                      \
    }

esp_err_t esp_netif_sntp_init(const esp_sntp_config_t *config);
esp_err_t esp_netif_sntp_sync_wait(TickType_t tout);

#endif
