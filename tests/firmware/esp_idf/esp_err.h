// Stands in for ESP-IDF's.
#ifndef TERN_TEST_ESP_ERR_H
#define TERN_TEST_ESP_ERR_H

typedef int esp_err_t;
#define ESP_OK 0
#define ESP_FAIL -1
#define ESP_ERROR_CHECK(call)                                                                      \
    do {                                                                                           \
        if ((call) != ESP_OK) {                                                                    \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

#endif
