#define _GNU_SOURCE
#include "tls_client.h"
#include <errno.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tls_client {
    int fd;
    struct tern_mbedtls_random random;
    mbedtls_x509_crt root;
    mbedtls_x509_crt certificate;
    mbedtls_pk_context private_key;
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_ssl_session *session;
    uint64_t sent;
    uint64_t received;
    size_t longest;      // record, so far
    size_t record_left;  // bytes of the present record that are to come
    uint8_t header[5];   // of the next one
    size_t header_bytes; // of it that came
};

static const int LEAN_SUITES[] = {
    TERN_MBEDTLS_TLS13_SUITES MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};

static int socket_send(void *ctx, const unsigned char *data, size_t len)
{
    struct tls_client *client = ctx;
    ssize_t sent = TEMP_FAILURE_RETRY(send(client->fd, data, len, MSG_NOSIGNAL));
    client->sent += sent > 0 ? (uint64_t)sent : 0;
    return sent >= 0 ? (int)sent : -1;
}

static size_t take_header(struct tls_client *client, uint8_t byte)
{
    client->header[client->header_bytes++] = byte;
    if (client->header_bytes == sizeof client->header) {
        client->header_bytes = 0;
        client->record_left = (size_t)client->header[3] << 8 | client->header[4];
        client->longest =
            client->record_left > client->longest ? client->record_left : client->longest;
    }
    return 1;
}

static void follow_records(struct tls_client *client, const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t inside = client->record_left < len ? client->record_left : len;
        client->record_left -= inside;
        size_t used = inside > 0 ? inside : take_header(client, data[0]);
        data += used;
        len -= used;
    }
}

static int socket_receive(void *ctx, unsigned char *dst, size_t size)
{
    struct tls_client *client = ctx;
    ssize_t received = TEMP_FAILURE_RETRY(recv(client->fd, dst, size, 0));
    client->received += received > 0 ? (uint64_t)received : 0;
    follow_records(client, dst, received > 0 ? (size_t)received : 0);
    return received >= 0 ? (int)received : -1;
}

static bool take_certificate(struct tls_client *client, const struct tls_client_settings *settings)
{
    uint8_t pem[4000] = {0};
    FILE *file = fopen(settings->private_key, "r");
    const size_t len = file != NULL ? fread(pem, 1, sizeof pem - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return tern_mbedtls_parse_key(&client->private_key, pem, len + 1, &client->random) == 0 &&
           mbedtls_x509_crt_parse_file(&client->certificate, settings->certificate) == 0 &&
           mbedtls_ssl_conf_own_cert(&client->config, &client->certificate, &client->private_key) ==
               0;
}

static bool set_up(struct tls_client *client, const struct tls_client_settings *settings)
{
    mbedtls_ssl_config *config = &client->config;
    if (!tern_mbedtls_random_start(&client->random) ||
        mbedtls_x509_crt_parse_file(&client->root, settings->root) != 0 ||
        mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return false;
    }
    tern_mbedtls_set_random(config, &client->random);
    mbedtls_ssl_conf_ca_chain(config, &client->root, NULL);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    tern_mbedtls_take_tickets(config);
    tern_mbedtls_set_versions(config, !settings->tls13, settings->tls13);
    mbedtls_ssl_conf_ciphersuites(config, settings->ciphersuites != NULL ? settings->ciphersuites
                                                                         : LEAN_SUITES);
    tern_mbedtls_set_curves(config);
    tern_mbedtls_set_sha256(config);
    if ((settings->certificate != NULL && !take_certificate(client, settings)) ||
        (settings->identity != NULL &&
         mbedtls_ssl_conf_psk(config, settings->key, 32, (const uint8_t *)settings->identity,
                              strlen(settings->identity)) != 0) ||
        (settings->max_fragment != 0 &&
         mbedtls_ssl_conf_max_frag_len(config, settings->max_fragment) != 0)) {
        return false;
    }
    if (mbedtls_ssl_setup(&client->ssl, config) != 0 ||
        mbedtls_ssl_set_hostname(&client->ssl, "localhost") != 0) {
        return false;
    }
    mbedtls_ssl_set_bio(&client->ssl, client, socket_send, socket_receive, NULL);
    bool resumes = settings->session != NULL && settings->session->ticket != NULL;
    return !resumes || mbedtls_ssl_set_session(&client->ssl, settings->session) == 0;
}

struct tls_client *tls_client_open(int fd, const struct tls_client_settings *settings)
{
    struct tls_client *client = calloc(1, sizeof *client);
    client->fd = fd;
    client->session = settings->session;
    tern_mbedtls_random_init(&client->random);
    mbedtls_x509_crt_init(&client->root);
    mbedtls_x509_crt_init(&client->certificate);
    mbedtls_pk_init(&client->private_key);
    mbedtls_ssl_config_init(&client->config);
    mbedtls_ssl_init(&client->ssl);
    int error = set_up(client, settings) ? mbedtls_ssl_handshake(&client->ssl) : -1;
    if (error != 0) {
        if (settings->alert != NULL) {
            *settings->alert =
                error == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE ? client->ssl.in_msg[1] : -1;
        }
        client->session = NULL;
        tls_client_close(client);
        return NULL;
    }
    return client;
}

void tls_client_close(struct tls_client *client)
{
    if (client->session != NULL) {
        mbedtls_ssl_session_free(client->session);
        mbedtls_ssl_session_init(client->session);
        if (mbedtls_ssl_get_session(&client->ssl, client->session) != 0) {
            fprintf(stderr, "the session could not be kept\n");
        }
    }
    mbedtls_ssl_free(&client->ssl);
    mbedtls_ssl_config_free(&client->config);
    mbedtls_x509_crt_free(&client->root);
    mbedtls_x509_crt_free(&client->certificate);
    mbedtls_pk_free(&client->private_key);
    tern_mbedtls_random_free(&client->random);
    free(client);
}

ssize_t tls_client_send(struct tls_client *client, const void *data, size_t len)
{
    return mbedtls_ssl_write(&client->ssl, data, len);
}

ssize_t tls_client_receive(struct tls_client *client, void *dst, size_t size)
{
    return tern_mbedtls_read(&client->ssl, dst, size);
}

const char *tls_client_ciphersuite(const struct tls_client *client)
{
    return mbedtls_ssl_get_ciphersuite(&client->ssl);
}

size_t tls_client_longest_record(const struct tls_client *client)
{
    return client->longest;
}

uint64_t tls_client_bytes_sent(const struct tls_client *client)
{
    return client->sent;
}

uint64_t tls_client_bytes_received(const struct tls_client *client)
{
    return client->received;
}
