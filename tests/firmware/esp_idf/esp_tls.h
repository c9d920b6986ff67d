// Stands in for ESP-IDF's: what tern_esp.c uses of it, as its documentation declares that.
#ifndef TERN_TEST_ESP_TLS_H
#define TERN_TEST_ESP_TLS_H

#include "esp_err.h"
#include <stdbool.h>
#include <sys/types.h>

typedef struct esp_tls esp_tls_t;
typedef struct esp_tls_last_error *esp_tls_error_handle_t;

typedef struct esp_tls_cfg {
    const unsigned char *cacert_buf;
    unsigned int cacert_bytes;
    int timeout_ms;
    bool skip_common_name;
} esp_tls_cfg_t;

esp_tls_t *esp_tls_init(void);
int esp_tls_conn_new_sync(const char *hostname, int hostlen, int port, const esp_tls_cfg_t *cfg,
                          esp_tls_t *tls);
ssize_t esp_tls_conn_write(esp_tls_t *tls, const void *data, size_t datalen);
ssize_t esp_tls_conn_read(esp_tls_t *tls, void *data, size_t datalen);
int esp_tls_conn_destroy(esp_tls_t *tls);
esp_err_t esp_tls_get_conn_sockfd(esp_tls_t *tls, int *sockfd);
esp_err_t esp_tls_get_error_handle(esp_tls_t *tls, esp_tls_error_handle_t *error_handle);
esp_err_t esp_tls_get_and_clear_last_error(esp_tls_error_handle_t h, int *esp_tls_code,
                                           int *esp_tls_flags);

#endif
