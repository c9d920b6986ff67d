// mbedTLS 2.28 (Debian 12) and 3.6 (Debian 13) by the same names: whatever differs between their
// interfaces stands here, for every hosted program that speaks to mbedTLS itself. To be included
// before any header of mbedTLS. TLS 1.3 is 3.6's; with 2.28 what concerns it does nothing.
// Functions on a configuration or a session are called by the thread that owns it.
#ifndef TERN_HOSTED_MBEDTLS_VERSIONS_H
#define TERN_HOSTED_MBEDTLS_VERSIONS_H

#define MBEDTLS_ALLOW_PRIVATE_ACCESS // the fields of a session have no other names in 3.6
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecdsa.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// What the ticket of a TLS 1.3 session stands for. Time is the wall clock's.
#define TERN_MBEDTLS_TICKET_KEY 48u
struct tern_mbedtls_ticket {
    uint16_t ciphersuite;
    uint32_t age_add;
    uint64_t created_ms;
    uint8_t flags; // the key exchanges that it may be used with
    uint8_t key_len;
    uint8_t key[TERN_MBEDTLS_TICKET_KEY];
};

#if MBEDTLS_VERSION_MAJOR >= 3

#include <mbedtls/platform_time.h>
#include <psa/crypto.h>

#define TERN_MBEDTLS_MAJOR "3"

// TLS 1.3's suites, the first that both ends know is used; to be followed by those of 1.2.
#define TERN_MBEDTLS_TLS13_SUITES                                                                  \
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256, MBEDTLS_TLS1_3_AES_128_GCM_SHA256,                    \
        MBEDTLS_TLS1_3_AES_256_GCM_SHA384,

// Before anything else of mbedTLS, as often as one likes. False: there is no entropy.
static inline bool tern_mbedtls_start(void)
{
    return psa_crypto_init() == PSA_SUCCESS;
}

// pem: with its NUL, which size counts.
static inline int tern_mbedtls_parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t size,
                                         mbedtls_ctr_drbg_context *random)
{
    return mbedtls_pk_parse_key(key, pem, size, NULL, 0, mbedtls_ctr_drbg_random, random);
}

// Nothing to do: the multiples of P-256's generator are built in.
static inline int tern_mbedtls_keep_multiples(mbedtls_pk_context *key)
{
    (void)key;
    return 0;
}

static inline int tern_mbedtls_check_pair(const mbedtls_pk_context *certificate,
                                          const mbedtls_pk_context *key,
                                          mbedtls_ctr_drbg_context *random)
{
    return mbedtls_pk_check_pair(certificate, key, mbedtls_ctr_drbg_random, random);
}

// X25519, which saves 33 bytes each way, and P-256 behind it.
static inline void tern_mbedtls_set_curves(mbedtls_ssl_config *config)
{
    static const uint16_t groups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
    mbedtls_ssl_conf_groups(config, groups);
}

// A client takes signatures with SHA-256 alone.
static inline void tern_mbedtls_set_sha256(mbedtls_ssl_config *config)
{
    static const uint16_t signatures[] = {
        MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,
        MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256, MBEDTLS_TLS1_3_SIG_NONE};
    mbedtls_ssl_conf_sig_algs(config, signatures);
}

// Which versions are spoken; of two the newer is preferred. TLS 1.3 agrees on keys anew with and
// without a ticket, and leaves the application's own pre-shared keys to 1.2.
static inline void tern_mbedtls_set_versions(mbedtls_ssl_config *config, bool tls12, bool tls13)
{
    mbedtls_ssl_conf_min_tls_version(config, tls12 ? MBEDTLS_SSL_VERSION_TLS1_2
                                                   : MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_max_tls_version(config, tls13 ? MBEDTLS_SSL_VERSION_TLS1_3
                                                   : MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_tls13_key_exchange_modes(config,
                                              MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ALL);
}

// Whether a connection is TLS 1.3; known from the ClientHello on.
static inline bool tern_mbedtls_is_tls13(const mbedtls_ssl_context *connection)
{
    return connection->tls_version == MBEDTLS_SSL_VERSION_TLS1_3;
}

// A client takes the tickets of TLS 1.3, which come behind the handshake, when it reads.
static inline void tern_mbedtls_take_tickets(mbedtls_ssl_config *config)
{
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        config, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
}

// Of a blocking connection, whose reads end without data only where such a ticket was.
static inline int tern_mbedtls_read(mbedtls_ssl_context *connection, uint8_t *dst, size_t size)
{
    int result = mbedtls_ssl_read(connection, dst, size);
    while (result == MBEDTLS_ERR_SSL_WANT_READ ||
           result == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        result = mbedtls_ssl_read(connection, dst, size);
    }
    return result;
}

// Whether a server ends its TLS 1.3 handshakes with a ticket. May change during a handshake.
static inline void tern_mbedtls_give_tickets(mbedtls_ssl_config *config, bool give)
{
    mbedtls_ssl_conf_new_session_tickets(config, give ? 1 : 0);
}

static inline struct tern_mbedtls_ticket tern_mbedtls_ticket_of(const mbedtls_ssl_session *session,
                                                                uint64_t now_ms)
{
    struct tern_mbedtls_ticket ticket = {.ciphersuite = (uint16_t)session->ciphersuite,
                                         .age_add = session->ticket_age_add,
                                         .created_ms = now_ms,
                                         .flags = session->ticket_flags,
                                         .key_len = session->resumption_key_len};
    memcpy(ticket.key, session->resumption_key, sizeof ticket.key);
    return ticket;
}

// mbedTLS counts the age of tickets on a clock that begins when the machine does.
static inline void tern_mbedtls_take_ticket(const struct tern_mbedtls_ticket *ticket,
                                            uint64_t now_ms, mbedtls_ssl_session *session)
{
    session->tls_version = MBEDTLS_SSL_VERSION_TLS1_3;
    session->ciphersuite = ticket->ciphersuite;
    session->ticket_age_add = ticket->age_add;
    session->ticket_flags = ticket->flags;
    session->ticket_creation_time =
        mbedtls_ms_time() - ((int64_t)now_ms - (int64_t)ticket->created_ms);
    session->resumption_key_len = ticket->key_len;
    memcpy(session->resumption_key, ticket->key, sizeof ticket->key);
}

// Says that a session was TLS 1.2's, which is what its other fields are for.
static inline void tern_mbedtls_set_tls12(mbedtls_ssl_session *session)
{
    session->tls_version = MBEDTLS_SSL_VERSION_TLS1_2;
}

#else

#define TERN_MBEDTLS_MAJOR "2"
#define TERN_MBEDTLS_TLS13_SUITES

static inline bool tern_mbedtls_start(void)
{
    return true;
}

static inline int tern_mbedtls_parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t size,
                                         mbedtls_ctr_drbg_context *random)
{
    (void)random;
    return mbedtls_pk_parse_key(key, pem, size, NULL, 0);
}

// Of a key for elliptic curves mbedTLS makes a copy for each signature, with which the multiples of the
// generator go that it has computed: half of the time that the signature takes. Of a key for ECDSA alone
// it makes none. The key is then one thread's. Returns mbedTLS's error; the key is as it was then.
static inline int tern_mbedtls_keep_multiples(mbedtls_pk_context *key)
{
    mbedtls_pk_context kept;
    if (mbedtls_pk_get_type(key) != MBEDTLS_PK_ECKEY) {
        return 0;
    }
    mbedtls_pk_init(&kept);
    int error = mbedtls_pk_setup(&kept, mbedtls_pk_info_from_type(MBEDTLS_PK_ECDSA));
    error =
        error == 0 ? mbedtls_ecdsa_from_keypair(mbedtls_pk_ec(kept), mbedtls_pk_ec(*key)) : error;
    mbedtls_pk_free(error == 0 ? key : &kept);
    if (error == 0) {
        *key = kept;
    }
    return error;
}

static inline int tern_mbedtls_check_pair(const mbedtls_pk_context *certificate,
                                          const mbedtls_pk_context *key,
                                          mbedtls_ctr_drbg_context *random)
{
    (void)random;
    return mbedtls_pk_check_pair(certificate, key);
}

static inline void tern_mbedtls_set_curves(mbedtls_ssl_config *config)
{
    static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_CURVE25519,
                                                  MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE};
    mbedtls_ssl_conf_curves(config, curves);
}

static inline void tern_mbedtls_set_sha256(mbedtls_ssl_config *config)
{
    static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_NONE};
    mbedtls_ssl_conf_sig_hashes(config, hashes);
}

static inline void tern_mbedtls_set_versions(mbedtls_ssl_config *config, bool tls12, bool tls13)
{
    (void)tls12;
    (void)tls13;
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
}

static inline bool tern_mbedtls_is_tls13(const mbedtls_ssl_context *connection)
{
    (void)connection;
    return false;
}

static inline void tern_mbedtls_take_tickets(mbedtls_ssl_config *config)
{
    (void)config;
}

static inline int tern_mbedtls_read(mbedtls_ssl_context *connection, uint8_t *dst, size_t size)
{
    return mbedtls_ssl_read(connection, dst, size);
}

static inline void tern_mbedtls_give_tickets(mbedtls_ssl_config *config, bool give)
{
    (void)config;
    (void)give;
}

static inline struct tern_mbedtls_ticket tern_mbedtls_ticket_of(const mbedtls_ssl_session *session,
                                                                uint64_t now_ms)
{
    (void)session;
    return (struct tern_mbedtls_ticket){.created_ms = now_ms};
}

static inline void tern_mbedtls_take_ticket(const struct tern_mbedtls_ticket *ticket,
                                            uint64_t now_ms, mbedtls_ssl_session *session)
{
    (void)ticket;
    (void)now_ms;
    (void)session;
}

static inline void tern_mbedtls_set_tls12(mbedtls_ssl_session *session)
{
    (void)session;
}

#endif

#endif
