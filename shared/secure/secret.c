#include "secure/secret.h"
#include "build.h"
#include <psa/crypto.h>
#include <string.h>

// mbedTLS 2.28 has no lock around its table of keys. Every key exists between import() and destroy(), which hold this lock;
// only keystreams keep a key longer. Small builds have one thread.
#if TERN_SMALL
static void lock(void)
{
}

static void unlock(void)
{
}
#else
#include <stdatomic.h>

static atomic_flag is_locked = ATOMIC_FLAG_INIT;

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&is_locked, memory_order_acquire)) {
    }
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&is_locked, memory_order_release);
}
#endif

static enum tern_result result_of(psa_status_t status)
{
    switch (status) {
    case PSA_SUCCESS:
        return TERN_OK;
    case PSA_ERROR_INSUFFICIENT_MEMORY:
        return TERN_ERR_NO_MEMORY;
    case PSA_ERROR_INVALID_SIGNATURE:
        return TERN_ERR_UNAUTHORIZED;
    default:
        return TERN_ERR_STATE;
    }
}

enum tern_result tern_secret_start(void)
{
    lock();
    const psa_status_t status = psa_crypto_init();
    unlock();
    return result_of(status);
}

void tern_secret_erase(void *secret, size_t size)
{
    volatile uint8_t *bytes = secret;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = 0;
    }
}

// What one key of the crypto library may be used for.
struct key_use {
    psa_key_type_t type;
    size_t bits;
    psa_key_usage_t usage;
    psa_algorithm_t algorithm;
};

static const struct key_use X25519_USE = {PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY), 255,
                                          PSA_KEY_USAGE_DERIVE, PSA_ALG_ECDH};
static const struct key_use SIGN_USE = {PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_SECP_R1), 256,
                                        PSA_KEY_USAGE_SIGN_HASH,
                                        PSA_ALG_DETERMINISTIC_ECDSA(PSA_ALG_SHA_256)};
static const struct key_use VERIFY_USE = {PSA_KEY_TYPE_ECC_PUBLIC_KEY(PSA_ECC_FAMILY_SECP_R1), 256,
                                          PSA_KEY_USAGE_VERIFY_HASH,
                                          PSA_ALG_ECDSA(PSA_ALG_SHA_256)};
static const struct key_use HMAC_USE = {PSA_KEY_TYPE_HMAC, 256, PSA_KEY_USAGE_SIGN_MESSAGE,
                                        PSA_ALG_HMAC(PSA_ALG_SHA_256)};
static const struct key_use SEAL_USE = {PSA_KEY_TYPE_CHACHA20, 256, PSA_KEY_USAGE_ENCRYPT,
                                        PSA_ALG_CHACHA20_POLY1305};
static const struct key_use OPEN_USE = {PSA_KEY_TYPE_CHACHA20, 256, PSA_KEY_USAGE_DECRYPT,
                                        PSA_ALG_CHACHA20_POLY1305};
static const struct key_use STREAM_USE = {PSA_KEY_TYPE_CHACHA20, 256, PSA_KEY_USAGE_ENCRYPT,
                                          PSA_ALG_STREAM_CIPHER};

// Imports a key, and takes the lock until destroy(). After an error there is no key and no lock.
static psa_status_t import(const struct key_use *use, const uint8_t *bytes, size_t size,
                           psa_key_id_t *key)
{
    psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
    psa_set_key_type(&attributes, use->type);
    psa_set_key_bits(&attributes, use->bits);
    psa_set_key_usage_flags(&attributes, use->usage);
    psa_set_key_algorithm(&attributes, use->algorithm);
    lock();
    const psa_status_t status = psa_import_key(&attributes, bytes, size, key);
    if (status != PSA_SUCCESS) {
        unlock();
    }
    psa_reset_key_attributes(&attributes);
    return status;
}

static void destroy(psa_key_id_t key)
{
    (void)psa_destroy_key(key);
    unlock();
}

static psa_status_t export_public(psa_key_id_t key, uint8_t *public_key, size_t size)
{
    size_t written = 0;
    psa_status_t status = psa_export_public_key(key, public_key, size, &written);
    return status == PSA_SUCCESS && written != size ? PSA_ERROR_GENERIC_ERROR : status;
}

// --- X25519

enum tern_result tern_x25519_public(const uint8_t private_key[TERN_SECRET_SIZE],
                                    uint8_t public_key[TERN_X25519_PUBLIC_SIZE])
{
    psa_key_id_t key = 0;
    TERN_TRY(result_of(import(&X25519_USE, private_key, TERN_SECRET_SIZE, &key)));
    psa_status_t status = export_public(key, public_key, TERN_X25519_PUBLIC_SIZE);
    destroy(key);
    return result_of(status);
}

enum tern_result tern_x25519_agree(const uint8_t private_key[TERN_SECRET_SIZE],
                                   const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                                   uint8_t shared[TERN_SECRET_SIZE])
{
    psa_key_id_t key = 0;
    TERN_TRY(result_of(import(&X25519_USE, private_key, TERN_SECRET_SIZE, &key)));
    size_t written = 0;
    psa_status_t status = psa_raw_key_agreement(
        PSA_ALG_ECDH, key, public_key, TERN_X25519_PUBLIC_SIZE, shared, TERN_SECRET_SIZE, &written);
    destroy(key);
    uint8_t any = 0;
    for (size_t i = 0; status == PSA_SUCCESS && i < written; i++) {
        any |= shared[i];
    }
    // mbedTLS refuses points of small order itself; RFC 9180 requires this check of every implementation.
    if (status == PSA_ERROR_INVALID_ARGUMENT || (status == PSA_SUCCESS && any == 0)) {
        return TERN_ERR_CORRUPT;
    }
    return result_of(status);
}

// --- HKDF

static psa_status_t derive(psa_key_derivation_operation_t *operation, struct tern_bytes_view salt,
                           struct tern_bytes_view secret, struct tern_bytes_view info, uint8_t *dst,
                           size_t size)
{
    psa_status_t status = psa_key_derivation_setup(operation, PSA_ALG_HKDF(PSA_ALG_SHA_256));
    if (status == PSA_SUCCESS && salt.size > 0) {
        status = psa_key_derivation_input_bytes(operation, PSA_KEY_DERIVATION_INPUT_SALT, salt.data,
                                                salt.size);
    }
    if (status == PSA_SUCCESS) {
        status = psa_key_derivation_input_bytes(operation, PSA_KEY_DERIVATION_INPUT_SECRET,
                                                secret.data, secret.size);
    }
    if (status == PSA_SUCCESS) {
        status = psa_key_derivation_input_bytes(operation, PSA_KEY_DERIVATION_INPUT_INFO, info.data,
                                                info.size);
    }
    if (status == PSA_SUCCESS) {
        status = psa_key_derivation_output_bytes(operation, dst, size);
    }
    return status;
}

enum tern_result tern_hkdf(struct tern_bytes_view salt, struct tern_bytes_view secret,
                           struct tern_bytes_view info, uint8_t *dst, size_t size)
{
    psa_key_derivation_operation_t operation = PSA_KEY_DERIVATION_OPERATION_INIT;
    psa_status_t status = derive(&operation, salt, secret, info, dst, size);
    (void)psa_key_derivation_abort(&operation);
    return result_of(status);
}

// --- HPKE. "suite" bytes: RFC 9180, sections 4.1 and 5.1; KEM 0x0020, KDF 0x0001, AEAD 0x0003.

static const uint8_t KEM_SUITE[5] = {'K', 'E', 'M', 0x00, 0x20};
static const uint8_t HPKE_SUITE[10] = {'H', 'P', 'K', 'E', 0x00, 0x20, 0x00, 0x01, 0x00, 0x03};

// A labelled input of HKDF under construction.
struct labelled {
    uint8_t bytes[160];
    size_t size;
};

static void append(struct labelled *text, const void *bytes, size_t size)
{
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

// Starts "HPKE-v1" || suite || label, behind the length of the output for LabeledExpand(); output 0: LabeledExtract().
static void start_label(struct labelled *text, size_t output, struct tern_bytes_view suite,
                        const char *label)
{
    text->size = 0;
    if (output > 0) {
        append(text, (const uint8_t[]){(uint8_t)(output >> 8), (uint8_t)output}, 2);
    }
    append(text, "HPKE-v1", 7);
    append(text, suite.data, suite.size);
    append(text, label, strlen(label));
}

static struct tern_bytes_view view_of(const struct labelled *text)
{
    return (struct tern_bytes_view){text->bytes, text->size};
}

// LabeledExtract("", label, ikm) of the key schedule: HMAC with a key of 32 zero bytes. ikm may be long, so it is streamed.
static enum tern_result extract(const char *label, struct tern_bytes_view ikm,
                                uint8_t dst[TERN_SECRET_SIZE])
{
    static const uint8_t zeros[TERN_SECRET_SIZE];
    struct labelled text;
    start_label(&text, 0, (struct tern_bytes_view){HPKE_SUITE, sizeof HPKE_SUITE}, label);
    psa_key_id_t key = 0;
    TERN_TRY(result_of(import(&HMAC_USE, zeros, sizeof zeros, &key)));
    psa_mac_operation_t operation = PSA_MAC_OPERATION_INIT;
    psa_status_t status = psa_mac_sign_setup(&operation, key, PSA_ALG_HMAC(PSA_ALG_SHA_256));
    if (status == PSA_SUCCESS) {
        status = psa_mac_update(&operation, text.bytes, text.size);
    }
    if (status == PSA_SUCCESS && ikm.size > 0) {
        status = psa_mac_update(&operation, ikm.data, ikm.size);
    }
    size_t written = 0;
    if (status == PSA_SUCCESS) {
        status = psa_mac_sign_finish(&operation, dst, TERN_SECRET_SIZE, &written);
    }
    (void)psa_mac_abort(&operation);
    destroy(key);
    return result_of(status);
}

// The key and nonce of one sealed message.
struct message_key {
    uint8_t key[TERN_SECRET_SIZE];
    uint8_t nonce[12];
};

// KeySchedule(mode_base, shared secret, info): RFC 9180, section 5.1.
static enum tern_result schedule(const uint8_t shared[TERN_SECRET_SIZE],
                                 struct tern_bytes_view info, struct message_key *message)
{
    const struct tern_bytes_view suite = {HPKE_SUITE, sizeof HPKE_SUITE};
    uint8_t context[1 + 2 * TERN_SECRET_SIZE] = {0}; // mode_base
    TERN_TRY(extract("psk_id_hash", (struct tern_bytes_view){NULL, 0}, context + 1));
    TERN_TRY(extract("info_hash", info, context + 1 + TERN_SECRET_SIZE));
    struct labelled secret;
    struct labelled expand;
    const struct tern_bytes_view salt = {shared, TERN_SECRET_SIZE};
    start_label(&secret, 0, suite, "secret");
    start_label(&expand, sizeof message->key, suite, "key");
    append(&expand, context, sizeof context);
    TERN_TRY(
        tern_hkdf(salt, view_of(&secret), view_of(&expand), message->key, sizeof message->key));
    start_label(&expand, sizeof message->nonce, suite, "base_nonce");
    append(&expand, context, sizeof context);
    return tern_hkdf(salt, view_of(&secret), view_of(&expand), message->nonce,
                     sizeof message->nonce);
}

// ExtractAndExpand() of DHKEM: RFC 9180, section 4.1.
static enum tern_result encapsulated(const uint8_t private_key[TERN_SECRET_SIZE],
                                     const uint8_t *peer, const uint8_t *ephemeral_public,
                                     const uint8_t *recipient_public,
                                     uint8_t shared[TERN_SECRET_SIZE])
{
    const struct tern_bytes_view suite = {KEM_SUITE, sizeof KEM_SUITE};
    uint8_t agreed[TERN_SECRET_SIZE];
    TERN_TRY(tern_x25519_agree(private_key, peer, agreed));
    struct labelled secret;
    struct labelled expand;
    start_label(&secret, 0, suite, "eae_prk");
    append(&secret, agreed, sizeof agreed);
    start_label(&expand, TERN_SECRET_SIZE, suite, "shared_secret");
    append(&expand, ephemeral_public, TERN_X25519_PUBLIC_SIZE);
    append(&expand, recipient_public, TERN_X25519_PUBLIC_SIZE);
    enum tern_result result = tern_hkdf((struct tern_bytes_view){NULL, 0}, view_of(&secret),
                                        view_of(&expand), shared, TERN_SECRET_SIZE);
    tern_secret_erase(agreed, sizeof agreed);
    tern_secret_erase(&secret, sizeof secret);
    return result;
}

enum tern_result tern_hpke_seal(const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                                const uint8_t ephemeral[TERN_SECRET_SIZE],
                                struct tern_bytes_view info, struct tern_bytes_view aad,
                                struct tern_bytes_view plain, uint8_t *sealed)
{
    uint8_t shared[TERN_SECRET_SIZE];
    struct message_key message;
    psa_key_id_t key = 0;
    TERN_TRY(tern_x25519_public(ephemeral, sealed));
    TERN_TRY(encapsulated(ephemeral, public_key, sealed, public_key, shared));
    TERN_TRY(schedule(shared, info, &message));
    TERN_TRY(result_of(import(&SEAL_USE, message.key, sizeof message.key, &key)));
    size_t written = 0;
    psa_status_t status = psa_aead_encrypt(
        key, PSA_ALG_CHACHA20_POLY1305, message.nonce, sizeof message.nonce, aad.data, aad.size,
        plain.data, plain.size, sealed + TERN_X25519_PUBLIC_SIZE, plain.size + 16, &written);
    destroy(key);
    tern_secret_erase(shared, sizeof shared);
    tern_secret_erase(&message, sizeof message);
    return result_of(status);
}

enum tern_result tern_hpke_open(const uint8_t private_key[TERN_SECRET_SIZE],
                                struct tern_bytes_view info, struct tern_bytes_view aad,
                                struct tern_bytes_view sealed, uint8_t *plain)
{
    if (sealed.size < TERN_HPKE_OVERHEAD) {
        return TERN_ERR_CORRUPT;
    }
    const uint8_t *ephemeral_public = sealed.data;
    uint8_t public_key[TERN_X25519_PUBLIC_SIZE];
    uint8_t shared[TERN_SECRET_SIZE];
    struct message_key message;
    psa_key_id_t key = 0;
    TERN_TRY(tern_x25519_public(private_key, public_key));
    TERN_TRY(encapsulated(private_key, ephemeral_public, ephemeral_public, public_key, shared));
    TERN_TRY(schedule(shared, info, &message));
    TERN_TRY(result_of(import(&OPEN_USE, message.key, sizeof message.key, &key)));
    size_t written = 0;
    psa_status_t status = psa_aead_decrypt(
        key, PSA_ALG_CHACHA20_POLY1305, message.nonce, sizeof message.nonce, aad.data, aad.size,
        ephemeral_public + TERN_X25519_PUBLIC_SIZE, sealed.size - TERN_X25519_PUBLIC_SIZE, plain,
        sealed.size - TERN_HPKE_OVERHEAD, &written);
    destroy(key);
    tern_secret_erase(shared, sizeof shared);
    tern_secret_erase(&message, sizeof message);
    return status == PSA_ERROR_INVALID_SIGNATURE ? TERN_ERR_CORRUPT : result_of(status);
}

// --- ECDSA

enum tern_result tern_p256_public(const uint8_t private_key[TERN_SECRET_SIZE],
                                  uint8_t public_key[TERN_P256_PUBLIC_SIZE])
{
    psa_key_id_t key = 0;
    psa_status_t status = import(&SIGN_USE, private_key, TERN_SECRET_SIZE, &key);
    if (status == PSA_ERROR_INVALID_ARGUMENT) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(result_of(status));
    status = export_public(key, public_key, TERN_P256_PUBLIC_SIZE);
    destroy(key);
    return result_of(status);
}

enum tern_result tern_p256_sign(const uint8_t private_key[TERN_SECRET_SIZE], const uint8_t hash[32],
                                uint8_t signature[TERN_P256_SIGNATURE_SIZE])
{
    psa_key_id_t key = 0;
    TERN_TRY(result_of(import(&SIGN_USE, private_key, TERN_SECRET_SIZE, &key)));
    size_t written = 0;
    psa_status_t status = psa_sign_hash(key, SIGN_USE.algorithm, hash, 32, signature,
                                        TERN_P256_SIGNATURE_SIZE, &written);
    destroy(key);
    return result_of(status);
}

enum tern_result tern_p256_verify(const uint8_t public_key[TERN_P256_PUBLIC_SIZE],
                                  const uint8_t hash[32],
                                  const uint8_t signature[TERN_P256_SIGNATURE_SIZE])
{
    psa_key_id_t key = 0;
    psa_status_t status = import(&VERIFY_USE, public_key, TERN_P256_PUBLIC_SIZE, &key);
    if (status == PSA_SUCCESS) {
        status = psa_verify_hash(key, VERIFY_USE.algorithm, hash, 32, signature,
                                 TERN_P256_SIGNATURE_SIZE);
        destroy(key);
    }
    // A public key that is not a point of the curve has made no signature.
    return status == PSA_ERROR_INVALID_ARGUMENT ? TERN_ERR_UNAUTHORIZED : result_of(status);
}

// --- ChaCha20

static psa_cipher_operation_t *operation_of(struct tern_keystream *stream)
{
    _Static_assert(
        sizeof stream->operation >= sizeof(psa_cipher_operation_t),
        "psa_cipher_operation_t of this crypto library does not fit struct tern_keystream");
    return (void *)stream->operation;
}

enum tern_result tern_keystream_open(struct tern_keystream *stream,
                                     const uint8_t key[TERN_SECRET_SIZE],
                                     const uint8_t nonce[TERN_KEYSTREAM_NONCE])
{
    static const uint8_t zeros[TERN_KEYSTREAM_NONCE];
    *operation_of(stream) = psa_cipher_operation_init();
    psa_key_id_t id = 0;
    TERN_TRY(result_of(import(&STREAM_USE, key, TERN_SECRET_SIZE, &id)));
    stream->key = id;
    psa_status_t status = psa_cipher_encrypt_setup(operation_of(stream), id, PSA_ALG_STREAM_CIPHER);
    unlock();
    if (status == PSA_SUCCESS) {
        status =
            psa_cipher_set_iv(operation_of(stream), nonce == NULL ? zeros : nonce, sizeof zeros);
    }
    if (status != PSA_SUCCESS) {
        tern_keystream_close(stream);
    }
    return result_of(status);
}

enum tern_result tern_keystream_next(struct tern_keystream *stream, uint8_t *dst, size_t blocks)
{
    static const uint8_t zeros[TERN_KEYSTREAM_BLOCK];
    for (size_t i = 0; i < blocks; i++) {
        size_t written = 0;
        psa_status_t status =
            psa_cipher_update(operation_of(stream), zeros, sizeof zeros,
                              dst + i * TERN_KEYSTREAM_BLOCK, TERN_KEYSTREAM_BLOCK, &written);
        if (status != PSA_SUCCESS || written != TERN_KEYSTREAM_BLOCK) {
            return status == PSA_SUCCESS ? TERN_ERR_STATE : result_of(status);
        }
    }
    return TERN_OK;
}

void tern_keystream_close(struct tern_keystream *stream)
{
    (void)psa_cipher_abort(operation_of(stream));
    lock();
    destroy(stream->key);
    tern_secret_erase(stream, sizeof *stream);
}
