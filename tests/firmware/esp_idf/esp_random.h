// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_RANDOM_H
#define TERN_TEST_ESP_RANDOM_H

#include <stddef.h>

void esp_fill_random(void *buf, size_t len);

#endif
