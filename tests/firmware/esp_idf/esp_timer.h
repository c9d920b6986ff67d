// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_TIMER_H
#define TERN_TEST_ESP_TIMER_H

#include <stdint.h>

int64_t esp_timer_get_time(void);

#endif
