// Stands in for ESP-IDF's.
#ifndef TERN_TEST_PROTOCOL_EXAMPLES_COMMON_H
#define TERN_TEST_PROTOCOL_EXAMPLES_COMMON_H

#include "esp_err.h"

esp_err_t example_connect(void);

#endif
