// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_EVENT_H
#define TERN_TEST_ESP_EVENT_H

#include "esp_err.h"

esp_err_t esp_event_loop_create_default(void);

#endif
