// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_NETIF_H
#define TERN_TEST_ESP_NETIF_H

#include "esp_err.h"

esp_err_t esp_netif_init(void);

#endif
