// Wraps the functions of mbedTLS that differ between 2.28 (Debian 12), 3.6 (Debian 13) and 4, so that
// the client and the aggregator compile with each. Include this header before any header of
// mbedTLS. Branches ask for a feature of the headers. Without TLS 1.3, as in 2.28, the functions for
// TLS 1.3 do nothing. Call a function only from the thread that owns its random numbers,
// configuration, connection or session.
#ifndef TERN_HOSTED_MBEDTLS_VERSIONS_H
#define TERN_HOSTED_MBEDTLS_VERSIONS_H

#define MBEDTLS_ALLOW_PRIVATE_ACCESS // 3.6 offers no functions for the fields of a session
#include <mbedtls/pk.h>
#include <mbedtls/platform_time.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// 1: the PSA functions are the only cryptography, and TLS takes its random numbers from them (4).
#ifdef TF_PSA_CRYPTO_VERSION_NUMBER
#define TERN_MBEDTLS_PSA_ONLY 1
#else
#define TERN_MBEDTLS_PSA_ONLY 0
#endif

// 1: groups, signatures and versions of TLS are set by the numbers of the TLS standard (3.6, 4).
#ifdef MBEDTLS_SSL_IANA_TLS_GROUP_NONE
#define TERN_MBEDTLS_STANDARD_NUMBERS 1
#else
#define TERN_MBEDTLS_STANDARD_NUMBERS 0
#endif

#if TERN_MBEDTLS_PSA_ONLY || defined(MBEDTLS_SSL_PROTO_TLS1_3) || defined(MBEDTLS_USE_PSA_CRYPTO)
#define TERN_MBEDTLS_STARTS_PSA 1
#include <psa/crypto.h>
#else
#define TERN_MBEDTLS_STARTS_PSA 0
#endif
#if !TERN_MBEDTLS_PSA_ONLY
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecdsa.h>
#include <mbedtls/entropy.h>
#endif

#define TERN_MBEDTLS_TEXT_OF(number) #number
#define TERN_MBEDTLS_TEXT(number) TERN_MBEDTLS_TEXT_OF(number)
#define TERN_MBEDTLS_MAJOR TERN_MBEDTLS_TEXT(MBEDTLS_VERSION_MAJOR)

// --- Random numbers

#if TERN_MBEDTLS_PSA_ONLY

// A source of random numbers.
struct tern_mbedtls_random {
    bool is_started;
};

static inline void tern_mbedtls_random_init(struct tern_mbedtls_random *random)
{
    random->is_started = false;
}

// Initialises mbedTLS, too: call it before any other function of mbedTLS. Returns false if the
// system has no entropy.
static inline bool tern_mbedtls_random_start(struct tern_mbedtls_random *random)
{
    random->is_started = psa_crypto_init() == PSA_SUCCESS;
    return random->is_started;
}

static inline void tern_mbedtls_random_free(struct tern_mbedtls_random *random)
{
    random->is_started = false;
}

// Returns 0, or an error.
static inline int tern_mbedtls_random_fill(struct tern_mbedtls_random *random, uint8_t *dst,
                                           size_t len)
{
    (void)random;
    return psa_generate_random(dst, len);
}

static inline void tern_mbedtls_set_random(mbedtls_ssl_config *config,
                                           struct tern_mbedtls_random *random)
{
    (void)config;
    (void)random;
}

#else

struct tern_mbedtls_random {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context generator;
};

static inline void tern_mbedtls_random_init(struct tern_mbedtls_random *random)
{
    mbedtls_entropy_init(&random->entropy);
    mbedtls_ctr_drbg_init(&random->generator);
}

static inline bool tern_mbedtls_random_start(struct tern_mbedtls_random *random)
{
#if TERN_MBEDTLS_STARTS_PSA
    if (psa_crypto_init() != PSA_SUCCESS) {
        return false;
    }
#endif
    return mbedtls_ctr_drbg_seed(&random->generator, mbedtls_entropy_func, &random->entropy, NULL,
                                 0) == 0;
}

static inline void tern_mbedtls_random_free(struct tern_mbedtls_random *random)
{
    mbedtls_ctr_drbg_free(&random->generator);
    mbedtls_entropy_free(&random->entropy);
}

static inline int tern_mbedtls_random_fill(struct tern_mbedtls_random *random, uint8_t *dst,
                                           size_t len)
{
    return mbedtls_ctr_drbg_random(&random->generator, dst, len);
}

static inline void tern_mbedtls_set_random(mbedtls_ssl_config *config,
                                           struct tern_mbedtls_random *random)
{
    mbedtls_ssl_conf_rng(config, mbedtls_ctr_drbg_random, &random->generator);
}

#endif

// --- Keys

// tern_mbedtls_parse_key(): pem is text; size includes its terminating NUL.
// tern_mbedtls_check_pair(): returns 0 if the key is the certificate's.
#if TERN_MBEDTLS_STANDARD_NUMBERS && !TERN_MBEDTLS_PSA_ONLY

static inline int tern_mbedtls_parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t size,
                                         struct tern_mbedtls_random *random)
{
    return mbedtls_pk_parse_key(key, pem, size, NULL, 0, mbedtls_ctr_drbg_random,
                                &random->generator);
}

static inline int tern_mbedtls_check_pair(const mbedtls_pk_context *certificate,
                                          const mbedtls_pk_context *key,
                                          struct tern_mbedtls_random *random)
{
    return mbedtls_pk_check_pair(certificate, key, mbedtls_ctr_drbg_random, &random->generator);
}

#else

static inline int tern_mbedtls_parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t size,
                                         struct tern_mbedtls_random *random)
{
    (void)random;
    return mbedtls_pk_parse_key(key, pem, size, NULL, 0);
}

static inline int tern_mbedtls_check_pair(const mbedtls_pk_context *certificate,
                                          const mbedtls_pk_context *key,
                                          struct tern_mbedtls_random *random)
{
    (void)random;
    return mbedtls_pk_check_pair(certificate, key);
}

#endif

#if TERN_MBEDTLS_STANDARD_NUMBERS

// Does nothing: mbedTLS 3.6 contains the precomputed multiples of P-256's generator.
static inline int tern_mbedtls_keep_multiples(mbedtls_pk_context *key)
{
    (void)key;
    return 0;
}

#else

// Makes signatures with an elliptic-curve key twice as fast. mbedTLS copies a key of the general
// type for each signature, and loses the multiples of the generator that it has computed. It does
// not copy a key of the type ECDSA, so this function changes the key to that type. Afterwards only
// one thread may use the key. Returns an error code of mbedTLS; the key is then unchanged.
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

#endif

// --- Settings of a configuration

#if TERN_MBEDTLS_STANDARD_NUMBERS

// Offers X25519 first, because its public key is 33 bytes shorter than that of P-256.
static inline void tern_mbedtls_set_curves(mbedtls_ssl_config *config)
{
    static const uint16_t groups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                      MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
    mbedtls_ssl_conf_groups(config, groups);
}

// Makes a client accept only signatures with SHA-256.
static inline void tern_mbedtls_set_sha256(mbedtls_ssl_config *config)
{
    static const uint16_t signatures[] = {
        MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,
        MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256, MBEDTLS_TLS1_3_SIG_NONE};
    mbedtls_ssl_conf_sig_algs(config, signatures);
}

#else

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

#endif

// --- Sessions of TLS 1.2

// Marks the session as one of TLS 1.2, whose fields the caller sets.
static inline void tern_mbedtls_set_tls12(mbedtls_ssl_session *session)
{
#if TERN_MBEDTLS_STANDARD_NUMBERS
    session->tls_version = MBEDTLS_SSL_VERSION_TLS1_2;
#else
    (void)session;
#endif
}

// --- TLS 1.3

// The session that a TLS 1.3 ticket resumes. Times are milliseconds since 1970.
#define TERN_MBEDTLS_TICKET_KEY 48u
struct tern_mbedtls_ticket {
    uint16_t ciphersuite;
    uint32_t age_add;
    uint64_t created_ms;
    uint8_t flags; // key exchanges that the ticket allows
    uint8_t key_len;
    uint8_t key[TERN_MBEDTLS_TICKET_KEY];
};

#ifdef MBEDTLS_SSL_PROTO_TLS1_3

// Cipher suites of TLS 1.3 in order of preference. The list ends with a comma, so that the suites
// of TLS 1.2 can follow it.
#define TERN_MBEDTLS_TLS13_SUITES                                                                  \
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256, MBEDTLS_TLS1_3_AES_128_GCM_SHA256,                    \
        MBEDTLS_TLS1_3_AES_256_GCM_SHA384,

// Sets the allowed versions of TLS. A TLS 1.3 handshake always has an ephemeral key exchange, also
// when it resumes a session; the application's own pre-shared keys are used with TLS 1.2 only.
static inline void tern_mbedtls_set_versions(mbedtls_ssl_config *config, bool tls12, bool tls13)
{
    mbedtls_ssl_conf_min_tls_version(config, tls12 ? MBEDTLS_SSL_VERSION_TLS1_2
                                                   : MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_max_tls_version(config, tls13 ? MBEDTLS_SSL_VERSION_TLS1_3
                                                   : MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_tls13_key_exchange_modes(config,
                                              MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ALL);
}

// Returns true if the connection uses TLS 1.3. Valid from the ClientHello on.
static inline bool tern_mbedtls_is_tls13(const mbedtls_ssl_context *connection)
{
    return connection->tls_version == MBEDTLS_SSL_VERSION_TLS1_3;
}

// Lets a client receive TLS 1.3 tickets, which arrive after the handshake, while it reads. Without the
// switch it receives them always.
static inline void tern_mbedtls_take_tickets(mbedtls_ssl_config *config)
{
#ifdef MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        config, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
#else
    (void)config;
#endif
}

// Reads from a blocking connection. mbedtls_ssl_read() returns early when a ticket arrives; this
// function then continues reading.
static inline int tern_mbedtls_read(mbedtls_ssl_context *connection, uint8_t *dst, size_t size)
{
    int result = mbedtls_ssl_read(connection, dst, size);
    while (result == MBEDTLS_ERR_SSL_WANT_READ ||
           result == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        result = mbedtls_ssl_read(connection, dst, size);
    }
    return result;
}

// Sets whether a server sends a ticket after each TLS 1.3 handshake. May be called during a
// handshake.
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

// Copies the ticket into the session. mbedTLS measures the age of a ticket by a clock that starts
// at boot, so the time of creation is converted to that clock.
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

#else

#define TERN_MBEDTLS_TLS13_SUITES

static inline void tern_mbedtls_set_versions(mbedtls_ssl_config *config, bool tls12, bool tls13)
{
    (void)tls12;
    (void)tls13;
#if TERN_MBEDTLS_STANDARD_NUMBERS
    mbedtls_ssl_conf_min_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
#else
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#endif
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

#endif

#endif
