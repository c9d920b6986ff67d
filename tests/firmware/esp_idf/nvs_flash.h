// Stands in for ESP-IDF's.
#ifndef TERN_TEST_NVS_FLASH_H
#define TERN_TEST_NVS_FLASH_H

#include "esp_err.h"

esp_err_t nvs_flash_init(void);

#endif
