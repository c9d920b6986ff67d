#include "http/tls_stream.h"
#include "hosted/mbedtls_versions.h"
#include "hosted/system.h"
#include "http/certificate.h"
#include "http/tickets.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <errno.h>
#include <linux/tcp.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CA_TAG_SIZE 8u

// Bytes that were read from a socket and that mbedTLS has not requested yet.
struct input {
    size_t start;
    size_t len;
    uint8_t *bytes;
};

// mbedTLS requests the 5 bytes of a record's head before the record. Each read also fetches what follows, up to this size.
#define READ_AHEAD (TERN_TLS_RECORD_MAX + 64u)

struct tern_tls_context {
    struct tern_mbedtls_random random;
    mbedtls_x509_crt certificate;
    mbedtls_pk_context key;
    mbedtls_x509_crt client_ca; // if its version is 0, no client certificate is requested
    uint8_t client_ca_tag[CA_TAG_SIZE];
    bool client_certificate_optional;
    mbedtls_ssl_config config;
    struct tern_ticket_keys *ticket_keys;
    bool (*psk)(void *ctx, uint64_t client,
                uint8_t key[TERN_HTTP_PSK_SIZE]); // NULL = no client has a key
    void *psk_ctx;
    struct tern_tls_session *current;  // session whose handshake runs now, for the callbacks
    struct input ahead;                // bytes of the session `ahead_of`
    struct tern_tls_session *ahead_of; // NULL = no bytes
    uint8_t ahead_bytes[READ_AHEAD];
    uint32_t references; // by sessions, and by the creator
};

#define KEY_TAG_SIZE 8u

// The client whose pre-shared key the handshake proved, and a tag of the key.
struct owner {
    uint32_t client; // 0 = none
    uint8_t key_tag[KEY_TAG_SIZE];
};

// The content of a ticket that the client has offered. Anyone who has seen the ticket can offer it; only the client's
// Finished message proves that the peer owns it.
struct offer {
    uint64_t ticket; // tern_ticket_tag() of the ticket; 0 = no ticket was opened
    struct owner owner;
    struct tern_client_certificate certificate;
};

struct tern_tls_session {
    struct tern_tls_context *context;
    mbedtls_ssl_context ssl;
    struct offer offer;
    bool resumed;
    uint64_t ticket; // tern_ticket_tag() of the ticket that was used or issued; 0 = none
    struct owner owner;
    struct tern_client_certificate certificate;
    const char *refusal; // fault of the client's certificate; NULL = none
    // Bytes that another session displaced from context->ahead, in an allocated block; usually none.
    struct input input;
};

// ChaCha20-Poly1305 is first: without an explicit nonce its records are 8 bytes shorter than GCM's, and devices without
// AES instructions are fastest with it. The suite with a pre-shared key is last: a client that also offers suites with
// certificates can verify our certificate.
#define PSK_SUITE MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256

static const int CIPHERSUITES[] = {
    TERN_MBEDTLS_TLS13_SUITES // the suites of TLS 1.3; all suites below are of TLS 1.2
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    PSK_SUITE,
    0,
};

// --- Pre-shared keys

// Makes the tag of a client's key, which a ticket contains. After a backup is restored, a new client can get the id of
// a former client, but not the former client's key.
static void tag_key(const uint8_t key[TERN_HTTP_PSK_SIZE], uint8_t tag[KEY_TAG_SIZE])
{
    static const char domain[] = "tern psk ticket";
    uint8_t digest[TERN_SHA256_SIZE];
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, domain, sizeof domain - 1);
    tern_sha256_update(&hash, key, TERN_HTTP_PSK_SIZE);
    tern_sha256_final(&hash, digest);
    memcpy(tag, digest, KEY_TAG_SIZE);
}

// Returns the client's id, which a PSK identity contains in decimal digits without leading zeros. 0 = the identity has
// another form.
static uint32_t client_in_identity(const unsigned char *identity, size_t len)
{
    uint64_t id = 0;
    if (len == 0 || len > 10 || identity[0] == '0') {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        if (identity[i] < '0' || identity[i] > '9') {
            return 0;
        }
        id = id * 10 + (uint64_t)(identity[i] - '0');
    }
    return id <= UINT32_MAX ? (uint32_t)id : 0;
}

// Sets the key of a PSK identity. An unknown identity gets a random key, so that its handshake fails exactly like a
// handshake with a wrong key. In TLS 1.3 mbedTLS also calls this function for tickets that cannot be opened; such a
// ticket has no key.
static int find_key(void *ctx, mbedtls_ssl_context *ssl, const unsigned char *identity, size_t len)
{
    struct tern_tls_context *context = ctx;
    struct owner *owner = &context->current->owner;
    if (tern_mbedtls_is_tls13(ssl)) {
        return MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY;
    }
    uint8_t key[TERN_HTTP_PSK_SIZE];
    uint32_t client = client_in_identity(identity, len);
    int error = tern_mbedtls_random_fill(&context->random, key, sizeof key);
    bool known = context->psk(context->psk_ctx, client, key);
    tag_key(key, owner->key_tag);
    owner->client = known ? client : 0;
    error = error != 0 ? error : mbedtls_ssl_set_hs_psk(ssl, key, sizeof key);
    mbedtls_platform_zeroize(key, sizeof key);
    return error;
}

// Whether the owner still has the key whose tag the ticket contains.
static bool is_current(const struct tern_tls_context *context, const struct owner *owner)
{
    uint8_t key[TERN_HTTP_PSK_SIZE];
    uint8_t tag[KEY_TAG_SIZE];
    if (context->psk == NULL || !context->psk(context->psk_ctx, owner->client, key)) {
        return false;
    }
    tag_key(key, tag);
    mbedtls_platform_zeroize(key, sizeof key);
    return tern_equal_constant_time(tag, owner->key_tag, KEY_TAG_SIZE);
}

// Whether the session has a proven client if and only if its suite uses a pre-shared key. mbedTLS would resume a ticket
// of a certificate handshake with a PSK suite, and vice versa.
static bool is_consistent(const struct tern_tls_session *session)
{
    bool has_owner = session->owner.client != 0;
    return has_owner == (session->ssl.session->ciphersuite == PSK_SUITE);
}

// --- Clients' certificates

static bool requests_certificate(const struct tern_tls_context *context)
{
    return context->client_ca.version != 0;
}

// Returns the alert that describes the fault to the client (RFC 5246, section 7.2.2).
static unsigned char alert_of(uint32_t flags)
{
    if ((flags & MBEDTLS_X509_BADCERT_MISSING) != 0) {
        return MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE;
    }
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        return MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA;
    }
    if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0) {
        return MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED;
    }
    return MBEDTLS_SSL_ALERT_MSG_BAD_CERT;
}

static int refuse_certificate(struct tern_tls_session *session, uint32_t flags, const char *why)
{
    session->refusal = why;
    (void)mbedtls_ssl_send_alert_message(&session->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
                                         alert_of(flags));
    return MBEDTLS_ERR_X509_FATAL_ERROR;
}

static bool is_for_clients(const mbedtls_x509_crt *certificate)
{
    return mbedtls_x509_crt_check_key_usage(certificate, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) == 0 &&
           mbedtls_x509_crt_check_extended_key_usage(certificate, MBEDTLS_OID_CLIENT_AUTH,
                                                     MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH)) ==
               0;
}

// Called in a full handshake for each certificate of the client's chain; the last call, with depth 0, is for the
// client's certificate. Ends the handshake for every fault, because mbedTLS accepts bad certificates if certificates
// are optional.
static int on_certificate(void *ctx, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
    const struct tern_tls_context *context = ctx;
    struct tern_tls_session *session = context->current;
    if (*flags != 0) {
        return refuse_certificate(session, *flags, tern_client_certificate_why(*flags));
    }
    if (depth > 0) {
        return 0;
    }
    if (!is_for_clients(certificate)) {
        return refuse_certificate(session, MBEDTLS_X509_BADCERT_EXT_KEY_USAGE,
                                  tern_client_certificate_why(MBEDTLS_X509_BADCERT_EXT_KEY_USAGE));
    }
    if (!tern_client_certificate_read(certificate, &session->certificate)) {
        return refuse_certificate(
            session, MBEDTLS_X509_BADCERT_OTHER,
            "the client's certificate does not have exactly one common name of 1 to "
            "63 bytes");
    }
    return 0;
}

// Sends the alert for a missing certificate, which mbedTLS does not send under TLS 1.2.
static void refuse_missing(struct tern_tls_session *session)
{
    const uint32_t missing = MBEDTLS_X509_BADCERT_MISSING;
    (void)refuse_certificate(session, missing, tern_client_certificate_why(missing));
}

// --- Tickets

// A ticket contains only what this listener needs to resume a session, since each reconnect sends it; mbedTLS's own form is
// twice as long. The ticket of a client with a pre-shared key also has the client's id. The first byte is the version.
#define TICKET_CERTIFICATE 1u
#define TICKET_PSK 2u
#define TICKET_TLS13 3u // always from a handshake with the certificate
#define TICKET_PLAIN (1u + 1u + 1u + 2u + 8u + 48u)
#define TICKET_PLAIN_PSK (TICKET_PLAIN + 4u + KEY_TAG_SIZE)
#define TICKET_TLS13_HEAD (1u + 2u + 4u + 8u + 1u) // before the key
#define TICKET_BASE_MAX TICKET_PLAIN_PSK

_Static_assert(TICKET_TLS13_HEAD + TERN_MBEDTLS_TICKET_KEY <= TICKET_BASE_MAX,
               "a TLS 1.3 ticket fits");

// Flag of the version byte: the client sent a certificate. The ticket then ends with the certificate's expiry, the tag
// of the CAs that verified the certificate, the client's name, and the name's length.
#define TICKET_HAS_CLIENT_CERTIFICATE 0x80u
#define TICKET_CLIENT_CERTIFICATE_MIN (8u + CA_TAG_SIZE + 1u)
#define TICKET_MAX (TICKET_BASE_MAX + TICKET_CLIENT_CERTIFICATE_MIN + TERN_HTTP_NAME_SIZE)

static bool has_expired(uint64_t start_ms)
{
    const uint64_t now = tern_unix_ms();
    return now > start_ms && now - start_ms >= TERN_TICKET_LIFETIME_S * UINT64_C(1000);
}

// Returns the bytes written.
static size_t pack_session(const mbedtls_ssl_session *session, const struct owner *owner,
                           uint8_t plain[TICKET_MAX])
{
    plain[0] = owner->client != 0 ? TICKET_PSK : TICKET_CERTIFICATE;
    plain[1] = session->mfl_code;
    plain[2] = (uint8_t)session->encrypt_then_mac;
    tern_put_le16(plain + 3, (uint16_t)session->ciphersuite);
    tern_put_le64(plain + 5, (uint64_t)session->start);
    memcpy(plain + 13, session->master, sizeof session->master);
    if (owner->client == 0) {
        return TICKET_PLAIN;
    }
    tern_put_le32(plain + TICKET_PLAIN, owner->client);
    memcpy(plain + TICKET_PLAIN + 4, owner->key_tag, KEY_TAG_SIZE);
    return TICKET_PLAIN_PSK;
}

// Reads the ticket's owner. False: the ticket does not have the length of its version.
static bool unpack_owner(const uint8_t *plain, size_t len, struct owner *owner)
{
    memset(owner, 0, sizeof *owner);
    if (len == TICKET_PLAIN) {
        return plain[0] == TICKET_CERTIFICATE;
    }
    if (len != TICKET_PLAIN_PSK || plain[0] != TICKET_PSK) {
        return false;
    }
    owner->client = tern_get_le32(plain + TICKET_PLAIN);
    memcpy(owner->key_tag, plain + TICKET_PLAIN + 4, KEY_TAG_SIZE);
    return owner->client != 0;
}

static bool unpack_session(const uint8_t plain[TICKET_PLAIN], mbedtls_ssl_session *session)
{
    uint64_t start = tern_get_le64(plain + 5);
    if (start > UINT64_MAX / 1000 || has_expired(start * 1000)) {
        return false;
    }
    tern_mbedtls_set_tls12(session);
    session->mfl_code = plain[1];
    session->encrypt_then_mac = plain[2];
    session->ciphersuite = tern_get_le16(plain + 3);
    session->start = (mbedtls_time_t)start;
    memcpy(session->master, plain + 13, sizeof session->master);
    return true;
}

// Returns the bytes written.
static size_t pack_tls13(const mbedtls_ssl_session *session, uint8_t plain[TICKET_MAX])
{
    struct tern_mbedtls_ticket ticket = tern_mbedtls_ticket_of(session, tern_unix_ms());
    plain[0] = TICKET_TLS13;
    tern_put_le16(plain + 1, ticket.ciphersuite);
    tern_put_le32(plain + 3, ticket.age_add);
    tern_put_le64(plain + 7, ticket.created_ms);
    plain[15] = ticket.flags;
    memcpy(plain + TICKET_TLS13_HEAD, ticket.key, ticket.key_len);
    const size_t len = TICKET_TLS13_HEAD + ticket.key_len;
    mbedtls_platform_zeroize(&ticket, sizeof ticket);
    return len;
}

static bool unpack_tls13(const uint8_t *plain, size_t len, mbedtls_ssl_session *session)
{
    struct tern_mbedtls_ticket ticket = {0};
    if (len <= TICKET_TLS13_HEAD || len > TICKET_TLS13_HEAD + sizeof ticket.key ||
        plain[0] != TICKET_TLS13) {
        return false;
    }
    ticket.ciphersuite = tern_get_le16(plain + 1);
    ticket.age_add = tern_get_le32(plain + 3);
    ticket.created_ms = tern_get_le64(plain + 7);
    ticket.flags = plain[15];
    ticket.key_len = (uint8_t)(len - TICKET_TLS13_HEAD);
    memcpy(ticket.key, plain + TICKET_TLS13_HEAD, ticket.key_len);
    const bool is_valid = !has_expired(ticket.created_ms);
    if (is_valid) {
        tern_mbedtls_take_ticket(&ticket, tern_unix_ms(), session);
    }
    mbedtls_platform_zeroize(&ticket, sizeof ticket);
    return is_valid;
}

// Returns the bytes written.
static size_t append_certificate(const struct tern_tls_context *context,
                                 const struct tern_client_certificate *certificate, uint8_t *plain,
                                 size_t len)
{
    const size_t name_len = strlen(certificate->name);
    if (name_len == 0) {
        return 0;
    }
    plain[0] |= TICKET_HAS_CLIENT_CERTIFICATE;
    tern_put_le64(plain + len, certificate->ends_s);
    memcpy(plain + len + 8, context->client_ca_tag, CA_TAG_SIZE);
    memcpy(plain + len + 8 + CA_TAG_SIZE, certificate->name, name_len);
    plain[len + 8 + CA_TAG_SIZE + name_len] = (uint8_t)name_len;
    return TICKET_CLIENT_CERTIFICATE_MIN + name_len;
}

// Reads the client certificate's data and removes them from the ticket's end. False: the certificate has expired, or
// the trusted CAs have changed.
static bool cut_certificate(const struct tern_tls_context *context, uint8_t *plain, size_t *len,
                            struct tern_client_certificate *certificate)
{
    *certificate = (struct tern_client_certificate){.name = ""};
    if (*len == 0) {
        return false;
    }
    if ((plain[0] & TICKET_HAS_CLIENT_CERTIFICATE) == 0) {
        return true;
    }
    plain[0] &= (uint8_t)~TICKET_HAS_CLIENT_CERTIFICATE;
    const size_t name_len = plain[*len - 1];
    if (name_len == 0 || name_len >= sizeof certificate->name ||
        *len <= TICKET_CLIENT_CERTIFICATE_MIN + name_len) {
        return false;
    }
    *len -= TICKET_CLIENT_CERTIFICATE_MIN + name_len;
    certificate->ends_s = tern_get_le64(plain + *len);
    memcpy(certificate->name, plain + *len + 8 + CA_TAG_SIZE, name_len);
    return certificate->ends_s > tern_unix_ms() / 1000 &&
           memcmp(plain + *len + 8, context->client_ca_tag, CA_TAG_SIZE) == 0;
}

// Whether the ticket proves what the configuration requires now, since a resumed handshake requests no certificate.
static bool meets_requirements(const struct tern_tls_context *context, const struct owner *owner,
                               const struct tern_client_certificate *certificate)
{
    const bool required = requests_certificate(context) && !context->client_certificate_optional;
    return !required || owner->client != 0 || certificate->name[0] != '\0';
}

static int write_ticket(void *ctx, const mbedtls_ssl_session *session, unsigned char *start,
                        const unsigned char *end, size_t *len, uint32_t *lifetime)
{
    struct tern_tls_context *context = ctx;
    uint8_t plain[TICKET_MAX];
    if ((size_t)(end - start) < sizeof plain + TERN_TICKET_OVERHEAD) {
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    }
    size_t plain_len = tern_mbedtls_is_tls13(&context->current->ssl)
                           ? pack_tls13(session, plain)
                           : pack_session(session, &context->current->owner, plain);
    plain_len += append_certificate(context, &context->current->certificate, plain, plain_len);
    enum tern_result result =
        tern_ticket_seal(context->ticket_keys, tern_unix_ms() / 1000, plain, plain_len, start);
    mbedtls_platform_zeroize(plain, sizeof plain);
    *len = plain_len + TERN_TICKET_OVERHEAD;
    context->current->ticket = tern_ticket_tag(start, *len);
    *lifetime = TERN_TICKET_LIFETIME_S;
    return result == TERN_OK ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

// Reads a decrypted ticket, if the ticket is still valid.
static int unpack_ticket(struct tern_tls_context *context, uint8_t *plain, size_t len,
                         mbedtls_ssl_session *session, struct offer *offer)
{
    if (!cut_certificate(context, plain, &len, &offer->certificate)) {
        return MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    }
    struct owner *owner = &offer->owner;
    const bool is_tls13 = tern_mbedtls_is_tls13(&context->current->ssl);
    const bool is_its_owners = is_tls13 || (unpack_owner(plain, len, owner) &&
                                            (owner->client == 0 || is_current(context, owner)));
    const bool is_valid =
        is_its_owners && meets_requirements(context, owner, &offer->certificate) &&
        (is_tls13 ? unpack_tls13(plain, len, session) : unpack_session(plain, session));
    return is_valid ? 0 : MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
}

// Opens a ticket. After an error mbedTLS continues with a full handshake.
static int parse_ticket(void *ctx, mbedtls_ssl_session *session, unsigned char *ticket, size_t len)
{
    struct tern_tls_context *context = ctx;
    uint8_t plain[TICKET_MAX];
    if (len < TERN_TICKET_OVERHEAD || len > sizeof plain + TERN_TICKET_OVERHEAD ||
        tern_ticket_open(context->ticket_keys, ticket, len, plain) != TERN_OK) {
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    }
    struct offer offer = {.ticket = tern_ticket_tag(ticket, len)};
    int result = unpack_ticket(context, plain, len - TERN_TICKET_OVERHEAD, session, &offer);
    if (result == 0) {
        context->current->offer = offer;
    }
    mbedtls_platform_zeroize(plain, sizeof plain);
    return result;
}

// --- Context

static enum tern_result parse_files(struct tern_tls_context *context,
                                    const struct tern_pem *certificate,
                                    const struct tern_pem *private_key, char why[256])
{
    int error =
        mbedtls_x509_crt_parse(&context->certificate, certificate->bytes, certificate->size);
    if (error != 0) {
        return tern_pem_refuse(certificate->path, "the certificate", error, why);
    }
    error = tern_mbedtls_parse_key(&context->key, private_key->bytes, private_key->size,
                                   &context->random);
    if (error != 0) {
        return tern_pem_refuse(private_key->path, "the private key", error, why);
    }
    if (tern_mbedtls_check_pair(&context->certificate.pk, &context->key, &context->random) != 0) {
        snprintf(why, 256, "the private key %.100s does not belong to the certificate %.100s",
                 private_key->path, certificate->path);
        return TERN_ERR_CONFIG;
    }
    error = tern_mbedtls_keep_multiples(&context->key);
    return error == 0 ? TERN_OK : tern_pem_refuse(private_key->path, "the private key", error, why);
}

static enum tern_result parse_client_ca(struct tern_tls_context *context,
                                        const struct tern_pem *client_ca, char why[256])
{
    uint8_t digest[TERN_SHA256_SIZE];
    if (client_ca->bytes == NULL) {
        return TERN_OK;
    }
    const int error =
        mbedtls_x509_crt_parse(&context->client_ca, client_ca->bytes, client_ca->size);
    if (error != 0) {
        return tern_pem_refuse(client_ca->path, "the CA of clients", error, why);
    }
    tern_sha256(client_ca->bytes, client_ca->size, digest);
    memcpy(context->client_ca_tag, digest, CA_TAG_SIZE);
    return TERN_OK;
}

static bool configure(struct tern_tls_context *context)
{
    mbedtls_ssl_config *config = &context->config;
    if (mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
        mbedtls_ssl_conf_own_cert(config, &context->certificate, &context->key) != 0) {
        return false;
    }
    tern_mbedtls_set_random(config, &context->random);
    tern_mbedtls_set_versions(config, true, true);
    mbedtls_ssl_conf_ciphersuites(config, CIPHERSUITES);
    tern_mbedtls_set_curves(config);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_NONE);
    if (requests_certificate(context)) {
        mbedtls_ssl_conf_ca_chain(config, &context->client_ca, NULL);
        mbedtls_ssl_conf_authmode(config, context->client_certificate_optional
                                              ? MBEDTLS_SSL_VERIFY_OPTIONAL
                                              : MBEDTLS_SSL_VERIFY_REQUIRED);
        mbedtls_ssl_conf_verify(config, on_certificate, context);
        // The handshake omits the list of trusted CAs: a device has one certificate and chooses none.
        mbedtls_ssl_conf_cert_req_ca_list(config, MBEDTLS_SSL_CERT_REQ_CA_LIST_DISABLED);
    }
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    if (context->psk != NULL) {
        mbedtls_ssl_conf_psk_cb(config, find_key,
                                context); // mbedTLS offers PSK_SUITE only with this callback
    }
    if (context->ticket_keys != NULL) {
        mbedtls_ssl_conf_session_tickets_cb(config, write_ticket, parse_ticket, context);
    }
    return true;
}

enum tern_result tern_tls_context_new(const struct tern_tls_config *config,
                                      struct tern_tls_context **out, char why[256])
{
    struct tern_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    tern_mbedtls_random_init(&context->random);
    mbedtls_x509_crt_init(&context->certificate);
    mbedtls_pk_init(&context->key);
    mbedtls_x509_crt_init(&context->client_ca);
    mbedtls_ssl_config_init(&context->config);
    context->references = 1;
    context->ticket_keys = config->keys;
    context->psk = config->psk;
    context->psk_ctx = config->psk_ctx;
    context->client_certificate_optional = config->client_certificate_optional;
    enum tern_result result = TERN_OK;
    const bool has_random = tern_mbedtls_random_start(&context->random);
    if (has_random) {
        result = parse_files(context, &config->certificate, &config->private_key, why);
    }
    if (result == TERN_OK && has_random) {
        result = parse_client_ca(context, &config->client_ca, why);
    }
    if (result == TERN_OK && !(has_random && configure(context))) {
        snprintf(why, 256, "TLS cannot be set up: the system has no entropy, or memory is short");
        result = TERN_ERR_CONFIG;
    }
    if (result != TERN_OK) {
        tern_tls_context_release(context);
        return result;
    }
    *out = context;
    return TERN_OK;
}

void tern_tls_context_release(struct tern_tls_context *context)
{
    if (context == NULL || --context->references > 0) {
        return;
    }
    mbedtls_ssl_config_free(&context->config);
    mbedtls_pk_free(&context->key);
    mbedtls_x509_crt_free(&context->certificate);
    mbedtls_x509_crt_free(&context->client_ca);
    tern_mbedtls_random_free(&context->random);
    free(context);
}

// --- Session

static int socket_send(void *ctx, const unsigned char *src, size_t len)
{
    struct tern_stream *stream = ctx;
    ssize_t sent = send(stream->fd, src, len, MSG_NOSIGNAL);
    if (sent >= 0) {
        stream->bytes_sent += (uint64_t)sent;
        return (int)sent;
    }
    bool later = errno == EAGAIN || errno == EINTR;
    return later ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static size_t take_from(struct input *input, uint8_t *dst, size_t size)
{
    const size_t len = size < input->len ? size : input->len;
    memcpy(dst, input->bytes + input->start, len);
    input->start += len;
    input->len -= len;
    return len;
}

// Returns up to `size` bytes that the session has read ahead; 0 = none.
static size_t take_ahead(struct tern_tls_session *session, uint8_t *dst, size_t size)
{
    if (session->input.len > 0) {
        return take_from(&session->input, dst, size);
    }
    return session->context->ahead_of == session ? take_from(&session->context->ahead, dst, size)
                                                 : 0;
}

// Moves the context's bytes to their session, so that another session can read ahead. Returns false if memory is short.
static bool vacate_ahead(struct tern_tls_context *context)
{
    struct tern_tls_session *owner = context->ahead_of;
    if (owner != NULL && context->ahead.len > 0) {
        uint8_t *bytes = malloc(context->ahead.len);
        if (bytes == NULL) {
            return false;
        }
        free(owner->input.bytes);
        owner->input = (struct input){.bytes = bytes, .len = context->ahead.len};
        (void)take_from(&context->ahead, bytes, owner->input.len);
    }
    context->ahead_of = NULL;
    return true;
}

static int socket_receive(void *ctx, unsigned char *dst, size_t size)
{
    struct tern_stream *stream = ctx;
    struct tern_tls_context *context = stream->tls->context;
    size_t len = take_ahead(stream->tls, dst, size);
    stream->bytes_ahead -= len;
    if (len == 0) {
        const bool reads_ahead = vacate_ahead(context);
        const struct iovec vector[2] = {{.iov_base = dst, .iov_len = size},
                                        {.iov_base = context->ahead_bytes, .iov_len = READ_AHEAD}};
        const ssize_t received = readv(stream->fd, vector, reads_ahead ? 2 : 1);
        if (received < 0) {
            const bool later = errno == EAGAIN || errno == EINTR;
            return later ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
        }
        len = (size_t)received < size ? (size_t)received : size;
        stream->bytes_ahead = (size_t)received - len;
        if (stream->bytes_ahead > 0) {
            context->ahead_of = stream->tls;
            context->ahead =
                (struct input){.bytes = context->ahead_bytes, .len = stream->bytes_ahead};
        }
    }
    stream->bytes_received += len;
    return (int)len;
}

static void free_session(struct tern_tls_session *session)
{
    if (session != NULL) {
        mbedtls_ssl_free(&session->ssl);
        if (session->context->ahead_of == session) {
            session->context->ahead_of = NULL;
        }
        free(session->input.bytes);
        tern_tls_context_release(session->context);
        free(session);
    }
}

// NULL: memory is short.
static struct tern_tls_session *new_session(struct tern_tls_context *context,
                                            struct tern_stream *stream)
{
    struct tern_tls_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->context = context;
    context->references++;
    mbedtls_ssl_init(&session->ssl);
    tern_mbedtls_give_tickets(&context->config, true);
    if (mbedtls_ssl_setup(&session->ssl, &context->config) != 0) {
        free_session(session);
        return NULL;
    }
    mbedtls_ssl_set_bio(&session->ssl, stream, socket_send, socket_receive, NULL);
    return session;
}

static enum tern_stream_status status_of(int result)
{
    switch (result) {
    case MBEDTLS_ERR_SSL_WANT_READ:
        return TERN_STREAM_WANT_READ;
    case MBEDTLS_ERR_SSL_WANT_WRITE:
        return TERN_STREAM_WANT_WRITE;
    case 0: // the TCP stream ended; the HTTP layer detects an incomplete message
    case MBEDTLS_ERR_SSL_CONN_EOF:
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
        return TERN_STREAM_END;
    default:
        return TERN_STREAM_FAILED;
    }
}

// Drops the offered ticket in the state SERVER_CERTIFICATE, which only a full handshake reaches: with TLS 1.3 mbedTLS opens
// the ticket first, and may then reject its binder or age. A resumed connection gets no new ticket, since a ticket can be
// used many times.
static int step_handshake(struct tern_tls_session *session)
{
    if (session->ssl.state == MBEDTLS_SSL_SERVER_CERTIFICATE) {
        session->offer = (struct offer){.ticket = 0};
    }
    tern_mbedtls_give_tickets(&session->context->config, session->offer.ticket == 0);
    return mbedtls_ssl_handshake_step(&session->ssl);
}

// Takes over the content of the offered ticket, after the client's Finished message has proved that the peer owns it.
static void accept_offer(struct tern_tls_session *session)
{
    if (session->offer.ticket != 0) {
        session->resumed = true;
        session->ticket = session->offer.ticket;
        session->owner = session->offer.owner;
        session->certificate = session->offer.certificate;
    }
}

enum tern_stream_status tern_stream_handshake(struct tern_stream *stream)
{
    struct tern_tls_session *session = stream->tls;
    int result = 0;
    session->context->current = session;
    while (result == 0 && session->ssl.state != MBEDTLS_SSL_HANDSHAKE_OVER) {
        result = step_handshake(session);
    }
    session->context->current = NULL;
    if (result == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE) {
        refuse_missing(session);
    }
    if (result != 0) {
        return status_of(result);
    }
    accept_offer(session);
    return is_consistent(session) ? TERN_STREAM_DONE : TERN_STREAM_FAILED;
}

static enum tern_stream_status tls_read(struct tern_tls_session *session, uint8_t *dst, size_t size,
                                        size_t *len)
{
    int result = mbedtls_ssl_read(&session->ssl, dst, size);
    if (result <= 0) {
        return status_of(result);
    }
    *len = (size_t)result;
    return TERN_STREAM_DONE;
}

// Writes one record of up to TERN_TLS_RECORD_MAX bytes. After TERN_STREAM_WANT_WRITE pass the same bytes again.
static enum tern_stream_status write_record(struct tern_tls_session *session, const uint8_t *src,
                                            size_t len, size_t *written)
{
    int result = mbedtls_ssl_write(&session->ssl, src, len);
    if (result <= 0) {
        return status_of(result);
    }
    *written = (size_t)result;
    return TERN_STREAM_DONE;
}

// --- Stream

// Most unsent bytes in the kernel's buffer. The number is small, so that the write deadline and the meter follow a
// reply's progress.
#define UNSENT_MAX 131072

// TCP_LAST_ACK of <netinet/tcp.h>, which cannot be included beside <linux/tcp.h>.
#define STATE_LAST_ACK 9

static uint32_t header_bytes(int fd)
{
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    bool is_v6 = getsockname(fd, (struct sockaddr *)&local, &len) == 0 &&
                 local.ss_family == AF_INET6 &&
                 !IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)&local)->sin6_addr);
    return (is_v6 ? 40u : 20u) + 20u;
}

enum tern_result tern_stream_open(struct tern_stream *stream, int fd, bool is_tcp,
                                  struct tern_tls_context *context)
{
    *stream = (struct tern_stream){.fd = fd, .header_bytes = is_tcp ? header_bytes(fd) : 0};
    if (is_tcp) {
        int on = 1;
        int unsent = UNSENT_MAX;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    }
    if (context != NULL) {
        stream->tls = new_session(context, stream);
        if (stream->tls == NULL) {
            tern_stream_close(stream);
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

void tern_stream_close(struct tern_stream *stream)
{
    free_session(stream->tls);
    stream->tls = NULL;
    close(stream->fd);
    stream->fd = -1;
}

struct tern_stream_peer tern_stream_peer(const struct tern_stream *stream)
{
    const struct tern_tls_session *session = stream->tls;
    if (session == NULL) {
        return (struct tern_stream_peer){.certificate = "", .refusal = ""};
    }
    return (struct tern_stream_peer){.resumed = session->resumed,
                                     .client = session->owner.client,
                                     .ticket = session->ticket,
                                     .certificate = session->certificate.name,
                                     .refusal = session->refusal != NULL ? session->refusal : ""};
}

static enum tern_stream_status status_of_errno(enum tern_stream_status later)
{
    return errno == EAGAIN || errno == EINTR ? later : TERN_STREAM_FAILED;
}

static enum tern_stream_status plain_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                          size_t *len)
{
    ssize_t received = recv(stream->fd, dst, size, 0);
    if (received < 0) {
        return status_of_errno(TERN_STREAM_WANT_READ);
    }
    *len = (size_t)received;
    stream->bytes_received += *len;
    return received == 0 ? TERN_STREAM_END : TERN_STREAM_DONE;
}

enum tern_stream_status tern_stream_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                         size_t *len)
{
    return stream->tls != NULL ? tls_read(stream->tls, dst, size, len)
                               : plain_read(stream, dst, size, len);
}

static enum tern_stream_status plain_write(struct tern_stream *stream,
                                           const struct tern_stream_parts *parts, size_t *written)
{
    // sendmsg() does not write through its iovecs, although their type is not const.
    struct iovec vector[2] = {
        {.iov_base = (void *)(uintptr_t)parts->a, .iov_len = parts->a_len},
        {.iov_base = (void *)(uintptr_t)parts->b, .iov_len = parts->b_len},
    };
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    ssize_t sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
        return status_of_errno(TERN_STREAM_WANT_WRITE);
    }
    *written = (size_t)sent;
    stream->bytes_sent += *written;
    return TERN_STREAM_DONE;
}

static enum tern_stream_status tls_write(struct tern_stream *stream,
                                         const struct tern_stream_parts *parts, uint8_t *scratch,
                                         size_t *written)
{
    if (parts->a_len == 0) {
        size_t len = parts->b_len < TERN_TLS_RECORD_MAX ? parts->b_len : TERN_TLS_RECORD_MAX;
        return write_record(stream->tls, parts->b, len, written);
    }
    size_t a_len = parts->a_len < TERN_TLS_RECORD_MAX ? parts->a_len : TERN_TLS_RECORD_MAX;
    size_t room = TERN_TLS_RECORD_MAX - a_len;
    size_t b_len = parts->b_len < room ? parts->b_len : room;
    memcpy(scratch, parts->a, a_len);
    if (b_len > 0) {
        memcpy(scratch + a_len, parts->b, b_len);
    }
    return write_record(stream->tls, scratch, a_len + b_len, written);
}

enum tern_stream_status tern_stream_write(struct tern_stream *stream,
                                          const struct tern_stream_parts *parts, uint8_t *scratch,
                                          size_t *written)
{
    return stream->tls != NULL ? tls_write(stream, parts, scratch, written)
                               : plain_write(stream, parts, written);
}

void tern_stream_shut(struct tern_stream *stream, bool sends_alert)
{
    if (stream->tls != NULL && sends_alert) {
        (void)mbedtls_ssl_close_notify(&stream->tls->ssl); // after an error the FIN is enough
    }
    stream->bytes_received += stream->bytes_ahead;
    stream->bytes_ahead = 0;
    free_session(stream->tls);
    stream->tls = NULL;
    (void)shutdown(stream->fd, SHUT_WR); // fails only if the connection is closed already
}

// --- Counters

// Returns how many received bytes no read has returned yet.
static uint64_t bytes_unread(const struct tern_stream *stream)
{
    int unread = 0;
    const bool has_unread = ioctl(stream->fd, FIONREAD, &unread) == 0 && unread > 0;
    return (has_unread ? (uint64_t)unread : 0) + stream->bytes_ahead;
}

// Reads the socket's counters. Counts received bytes as read(), since tcpi_bytes_received counts a FIN as a byte.
static void read_counters(const struct tern_stream *stream, struct tern_socket_counters *counters,
                          struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    *counters = (struct tern_socket_counters){.bytes_received = stream->bytes_received,
                                              .bytes_sent = stream->bytes_sent};
    if (stream->header_bytes == 0 ||
        getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, info, &len) != 0) {
        return;
    }
    uint32_t timestamps = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0 ? 12 : 0;
    counters->bytes_sent = info->tcpi_bytes_sent;
    counters->bytes_retransmitted = info->tcpi_bytes_retrans;
    // The kernel sends the SYN-ACK before the socket exists, so that tcpi_segs_out lacks it.
    counters->segments_sent = info->tcpi_segs_out + 1;
    counters->segments_received = info->tcpi_segs_in;
    counters->header_bytes = stream->header_bytes + timestamps;
}

// Subtracts an estimate of the segments whose bytes are unread, since tcpi_segs_in counts these segments, too. Usually the
// kernel has received no more than the stream has read, which saves a system call.
static void leave_out_unread(const struct tern_stream *stream, const struct tcp_info *info,
                             struct tern_socket_counters *counters)
{
    if (info->tcpi_bytes_received == stream->bytes_received) {
        return;
    }
    const uint64_t size = info->tcpi_rcv_mss > 0 ? info->tcpi_rcv_mss : 536;
    const uint64_t segments = (bytes_unread(stream) + size - 1) / size;
    if (segments < counters->segments_received) {
        counters->segments_received -= (uint32_t)segments;
    }
}

void tern_stream_counters(const struct tern_stream *stream, bool at_end,
                          struct tern_socket_counters *counters)
{
    struct tcp_info info;
    read_counters(stream, counters, &info);
    if (!at_end) {
        leave_out_unread(stream, &info, counters);
        return;
    }
    counters->bytes_received += bytes_unread(stream);
    if (stream->header_bytes != 0 && info.tcpi_state == STATE_LAST_ACK) {
        counters->segments_received++;
    }
}
