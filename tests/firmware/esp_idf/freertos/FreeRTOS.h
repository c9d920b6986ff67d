// Stands in for ESP-IDF's.
#ifndef TERN_TEST_FREERTOS_FREERTOS_H
#define TERN_TEST_FREERTOS_FREERTOS_H

#include <stdint.h>

typedef uint32_t TickType_t;
#define pdMS_TO_TICKS(ms) ((TickType_t)((ms) / 10))

#endif
