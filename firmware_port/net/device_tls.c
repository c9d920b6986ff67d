#include "net/tls_state.h"

#include <mbedtls/memory_buffer_alloc.h>
#include <mbedtls/platform_util.h>
#include <string.h>

#ifdef TERN_TLS_PSK
#include "util/bytes.h"
#include "wire/wire.h"
#endif

// Bytes that mbedTLS always occupies at the start of the arena.
#define ARENA_HEAD 64u
#define UNTOUCHED 0x5a

// --- Callbacks of mbedTLS

static int gather_entropy(void *ctx, unsigned char *dst, size_t len)
{
    (void)ctx;
    return tern_board_entropy(dst, len) ? 0 : MBEDTLS_ERR_HMAC_DRBG_ENTROPY_SOURCE_FAILED;
}

static int tcp_send(void *ctx, const unsigned char *src, size_t len)
{
    struct tern_tcp *tcp = ctx;
    const size_t sent = tern_tcp_write(tcp, src, len);
    if (sent > 0) {
        return (int)sent;
    }
    return tern_tcp_state(tcp) == TERN_TCP_OPEN ? MBEDTLS_ERR_SSL_WANT_WRITE
                                                : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int tcp_receive(void *ctx, unsigned char *dst, size_t size)
{
    struct tern_tcp *tcp = ctx;
    const size_t received = tern_tcp_read(tcp, dst, size);
    if (received > 0) {
        return (int)received;
    }
    return tern_tcp_state(tcp) == TERN_TCP_OPEN ? MBEDTLS_ERR_SSL_WANT_READ
                                                : MBEDTLS_ERR_SSL_CONN_EOF;
}

#ifdef TERN_TLS_ECDSA
// Accepts certificates with any validity dates if the board's time is unknown. All other checks remain.
static int forgive_dates(void *ctx, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
    (void)ctx;
    (void)certificate;
    (void)depth;
    if (tern_board_unix_seconds() == 0) {
        *flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
    }
    return 0;
}
#endif

// --- Setting up

static bool is_short_of_memory(int error)
{
    const int low = -(-error & 0x7f); // an mbedTLS error is the sum of a high and a low code
    const int high = error - low;
    return low == MBEDTLS_ERR_MPI_ALLOC_FAILED || high == MBEDTLS_ERR_SSL_ALLOC_FAILED ||
           high == MBEDTLS_ERR_ECP_ALLOC_FAILED || high == MBEDTLS_ERR_X509_ALLOC_FAILED;
}

static void start_arena(struct tern_firmware_tls *tls)
{
    mbedtls_memory_buffer_alloc_init(tls->arena, sizeof tls->arena);
    memset(tls->arena + ARENA_HEAD, UNTOUCHED, sizeof tls->arena - ARENA_HEAD);
}

size_t tern_firmware_tls_peak(const struct tern_firmware_tls *tls, size_t *given)
{
    size_t reached = sizeof tls->arena;
    while (reached > ARENA_HEAD && tls->arena[reached - 1] == UNTOUCHED) {
        reached--;
    }
    *given = sizeof tls->arena;
    return reached;
}

static enum tern_result start_verifying(struct tern_firmware_tls *tls,
                                        const struct tern_board_settings *settings)
{
#ifdef TERN_TLS_ECDSA
    if (settings->ca != NULL) {
        mbedtls_x509_crt_init(&tls->ca);
        if (mbedtls_x509_crt_parse_der_nocopy(&tls->ca, settings->ca, settings->ca_len) != 0) {
            return TERN_ERR_ARGUMENT;
        }
        static const int suite[] = {TERN_TLS_SUITE_ECDSA, 0};
        mbedtls_ssl_conf_ciphersuites(&tls->config, suite);
        mbedtls_ssl_conf_authmode(&tls->config, MBEDTLS_SSL_VERIFY_REQUIRED);
        mbedtls_ssl_conf_ca_chain(&tls->config, &tls->ca, NULL);
        mbedtls_ssl_conf_verify(&tls->config, forgive_dates, NULL);
        return TERN_OK;
    }
#endif
#ifdef TERN_TLS_PSK
    if (settings->token != NULL) {
        static const int suite[] = {TERN_TLS_SUITE_PSK, 0};
        mbedtls_ssl_conf_ciphersuites(&tls->config, suite);
        tern_firmware_tls_identify(tls, settings->client_id, settings->token);
        return TERN_OK;
    }
#endif
    (void)settings;
    return TERN_ERR_ARGUMENT;
}

static enum tern_result start_session(struct tern_firmware_tls *tls, struct tern_tcp *tcp,
                                      const char *host)
{
    mbedtls_ssl_init(&tls->ssl);
    mbedtls_ssl_session_init(&tls->session);
    if (mbedtls_ssl_setup(&tls->ssl, &tls->config) != 0) {
        return TERN_ERR_NO_MEMORY;
    }
#ifdef TERN_TLS_ECDSA
    if (mbedtls_ssl_set_hostname(&tls->ssl, host) != 0) {
        return TERN_ERR_NO_MEMORY;
    }
#endif
    (void)host;
    mbedtls_ssl_set_bio(&tls->ssl, tcp, tcp_send, tcp_receive, NULL);
    return TERN_OK;
}

enum tern_result tern_firmware_tls_start(struct tern_firmware_tls *tls, struct tern_tcp *tcp,
                                         const struct tern_board_settings *settings)
{
    start_arena(tls);
    mbedtls_hmac_drbg_init(&tls->random);
    if (mbedtls_hmac_drbg_seed(&tls->random, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256),
                               gather_entropy, NULL, NULL, 0) != 0) {
        return TERN_ERR_IO;
    }
    mbedtls_ssl_config_init(&tls->config);
    if (mbedtls_ssl_config_defaults(&tls->config, MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return TERN_ERR_NO_MEMORY;
    }
    mbedtls_ssl_conf_rng(&tls->config, mbedtls_hmac_drbg_random, &tls->random);
    if (mbedtls_ssl_conf_max_frag_len(&tls->config, MBEDTLS_SSL_MAX_FRAG_LEN_1024) != 0) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(start_verifying(tls, settings));
    return start_session(tls, tcp, settings->server_host);
}

static void forget_session(struct tern_firmware_tls *tls)
{
    mbedtls_ssl_session_free(&tls->session);
    mbedtls_ssl_session_init(&tls->session);
    tls->has_session = false;
}

void tern_firmware_tls_identify(struct tern_firmware_tls *tls, uint64_t client_id,
                                const char *token)
{
#ifdef TERN_TLS_PSK
    uint8_t key[TERN_PSK_SIZE];
    char identity[TERN_DECIMAL_MAX + 1];
    const char *end = tern_put_decimal(identity, (size_t)client_id); // fits: PROTOCOL.md
    tern_psk_from_token(token, key);
    // If memory is missing, there is no key and the next handshake fails.
    (void)mbedtls_ssl_conf_psk(&tls->config, key, sizeof key, (const uint8_t *)identity,
                               (size_t)(end - identity));
    mbedtls_platform_zeroize(key, sizeof key);
    forget_session(tls);
#endif
    (void)tls;
    (void)client_id;
    (void)token;
}

// --- A session

enum tern_result tern_firmware_tls_open(struct tern_firmware_tls *tls)
{
    if (mbedtls_ssl_session_reset(&tls->ssl) != 0) {
        return TERN_ERR_NO_MEMORY;
    }
    if (tls->has_session && mbedtls_ssl_set_session(&tls->ssl, &tls->session) != 0) {
        forget_session(tls); // makes a full handshake instead
    }
    return TERN_OK;
}

static enum tern_result after_handshake(struct tern_firmware_tls *tls, int error)
{
    if (error == MBEDTLS_ERR_SSL_WANT_READ || error == MBEDTLS_ERR_SSL_WANT_WRITE) {
        return TERN_AGAIN;
    }
    forget_session(tls); // the server may have rejected the session
    if (error == MBEDTLS_ERR_SSL_CONN_EOF) {
        return TERN_ERR_NETWORK;
    }
    return is_short_of_memory(error) ? TERN_ERR_NO_MEMORY : TERN_ERR_TLS;
}

enum tern_result tern_firmware_tls_handshake(struct tern_firmware_tls *tls)
{
    const int error = mbedtls_ssl_handshake(&tls->ssl);
    if (error != 0) {
        return after_handshake(tls, error);
    }
    forget_session(tls);
    tls->has_session = mbedtls_ssl_get_session(&tls->ssl, &tls->session) == 0;
    return TERN_OK;
}

enum tern_result tern_firmware_tls_write(struct tern_firmware_tls *tls, const uint8_t *src,
                                         size_t len, size_t *written)
{
    const int result = mbedtls_ssl_write(&tls->ssl, src, len);
    *written = result > 0 ? (size_t)result : 0;
    if (result > 0) {
        return TERN_OK;
    }
    return result == MBEDTLS_ERR_SSL_WANT_WRITE ? TERN_AGAIN : TERN_ERR_NETWORK;
}

enum tern_result tern_firmware_tls_read(struct tern_firmware_tls *tls, uint8_t *dst, size_t size,
                                        size_t *len)
{
    const int result = mbedtls_ssl_read(&tls->ssl, dst, size);
    *len = result > 0 ? (size_t)result : 0;
    if (result > 0 || result == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        return TERN_OK;
    }
    return result == MBEDTLS_ERR_SSL_WANT_READ ? TERN_AGAIN : TERN_ERR_NETWORK;
}
