// Stands in for ESP-IDF's.
#ifndef TERN_TEST_FREERTOS_TASK_H
#define TERN_TEST_FREERTOS_TASK_H

#include "freertos/FreeRTOS.h"

void vTaskDelay(const TickType_t ticks);

#endif
