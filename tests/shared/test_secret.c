// The cryptography of secure rounds against the vectors of the RFCs.
#include "secure/secret.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <pthread.h>
#include <string.h>

static int start(void **state)
{
    (void)state;
    return tern_secret_start() == TERN_OK ? 0 : -1;
}
CASES_SHARE(start, NULL)

static size_t from_hex(const char *text, uint8_t *bytes)
{
    assert_int_equal(tern_hex_decode(text, bytes, strlen(text) / 2), TERN_OK);
    return strlen(text) / 2;
}

static void expect_hex(const uint8_t *bytes, const char *text)
{
    uint8_t expected[256];
    assert_memory_equal(bytes, expected, from_hex(text, expected));
}

CASE(x25519_agrees_as_in_rfc_7748)
{
    uint8_t alice[32];
    uint8_t bob[32];
    uint8_t alice_public[32];
    uint8_t bob_public[32];
    uint8_t shared[32];
    from_hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a", alice);
    from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb", bob);
    assert_int_equal(tern_x25519_public(alice, alice_public), TERN_OK);
    assert_int_equal(tern_x25519_public(bob, bob_public), TERN_OK);
    expect_hex(alice_public, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    expect_hex(bob_public, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
    assert_int_equal(tern_x25519_agree(alice, bob_public, shared), TERN_OK);
    expect_hex(shared, "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
    assert_int_equal(tern_x25519_agree(bob, alice_public, shared), TERN_OK);
    expect_hex(shared, "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
}

CASE(a_public_key_of_small_order_is_refused)
{
    uint8_t private_key[32] = {1, 2, 3};
    uint8_t zero[32] = {0};
    uint8_t one[32] = {1};
    uint8_t shared[32];
    assert_int_equal(tern_x25519_agree(private_key, zero, shared), TERN_ERR_CORRUPT);
    assert_int_equal(tern_x25519_agree(private_key, one, shared), TERN_ERR_CORRUPT);
}

CASE(hkdf_derives_as_in_rfc_5869)
{
    uint8_t secret[22];
    uint8_t salt[13];
    uint8_t info[10];
    uint8_t derived[42];
    memset(secret, 0x0b, sizeof secret);
    from_hex("000102030405060708090a0b0c", salt);
    from_hex("f0f1f2f3f4f5f6f7f8f9", info);
    assert_int_equal(tern_hkdf((struct tern_bytes_view){salt, sizeof salt},
                               (struct tern_bytes_view){secret, sizeof secret},
                               (struct tern_bytes_view){info, sizeof info}, derived,
                               sizeof derived),
                     TERN_OK);
    expect_hex(
        derived,
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    // A.3: without salt and info
    assert_int_equal(tern_hkdf((struct tern_bytes_view){NULL, 0},
                               (struct tern_bytes_view){secret, sizeof secret},
                               (struct tern_bytes_view){NULL, 0}, derived, sizeof derived),
                     TERN_OK);
    expect_hex(
        derived,
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

CASE(chacha20_is_that_of_rfc_8439)
{
    uint8_t key[32];
    uint8_t nonce[12];
    uint8_t blocks[2 * TERN_KEYSTREAM_BLOCK];
    struct tern_keystream stream;
    from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", key);
    from_hex("000000090000004a00000000", nonce);
    assert_int_equal(tern_keystream_open(&stream, key, nonce), TERN_OK);
    assert_int_equal(tern_keystream_next(&stream, blocks, 2), TERN_OK);
    tern_keystream_close(&stream);
    expect_hex(blocks + TERN_KEYSTREAM_BLOCK, // 2.3.2: the block with counter 1
               "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
               "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e");
    memset(key, 0, sizeof key);
    assert_int_equal(tern_keystream_open(&stream, key, NULL), TERN_OK);
    assert_int_equal(tern_keystream_next(&stream, blocks, 1), TERN_OK);
    tern_keystream_close(&stream);
    expect_hex(blocks, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
                       "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
}

struct sealed_example {
    uint8_t recipient[32];
    uint8_t public_key[32];
    uint8_t ephemeral[32];
    uint8_t info[20];
    uint8_t aad[7];
    uint8_t plain[29];
    uint8_t sealed[29 + TERN_HPKE_OVERHEAD];
};

static void load_example(struct sealed_example *example)
{
    from_hex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
             example->recipient);
    from_hex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a",
             example->public_key);
    from_hex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600",
             example->ephemeral);
    from_hex("4f6465206f6e2061204772656369616e2055726e", example->info);
    from_hex("436f756e742d30", example->aad);
    from_hex("4265617574792069732074727574682c20747275746820626561757479", example->plain);
    from_hex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a"
             "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b"
             "51a28",
             example->sealed);
}

#define VIEW(array) ((struct tern_bytes_view){array, sizeof(array)})

CASE(hpke_seals_as_in_rfc_9180)
{
    struct sealed_example e;
    uint8_t sealed[sizeof e.sealed];
    uint8_t plain[sizeof e.plain];
    load_example(&e);
    assert_int_equal(
        tern_hpke_seal(e.public_key, e.ephemeral, VIEW(e.info), VIEW(e.aad), VIEW(e.plain), sealed),
        TERN_OK);
    assert_memory_equal(sealed, e.sealed, sizeof sealed);
    assert_int_equal(tern_hpke_open(e.recipient, VIEW(e.info), VIEW(e.aad), VIEW(e.sealed), plain),
                     TERN_OK);
    assert_memory_equal(plain, e.plain, sizeof plain);
}

CASE(a_changed_sealed_message_is_not_opened)
{
    struct sealed_example e;
    uint8_t plain[sizeof e.plain];
    load_example(&e);
    for (size_t i = 0; i < sizeof e.sealed; i++) {
        e.sealed[i] ^= 4;
        assert_int_equal(
            tern_hpke_open(e.recipient, VIEW(e.info), VIEW(e.aad), VIEW(e.sealed), plain),
            TERN_ERR_CORRUPT);
        e.sealed[i] ^= 4;
    }
    e.aad[0] ^= 1;
    assert_int_equal(tern_hpke_open(e.recipient, VIEW(e.info), VIEW(e.aad), VIEW(e.sealed), plain),
                     TERN_ERR_CORRUPT);
    const struct tern_bytes_view cut = {e.sealed, TERN_HPKE_OVERHEAD - 1};
    assert_int_equal(tern_hpke_open(e.recipient, VIEW(e.info), VIEW(e.aad), cut, plain),
                     TERN_ERR_CORRUPT);
}

CASE(ecdsa_signs_as_in_rfc_6979)
{
    uint8_t private_key[32];
    uint8_t public_key[TERN_P256_PUBLIC_SIZE];
    uint8_t signature[TERN_P256_SIGNATURE_SIZE];
    uint8_t hash[32];
    from_hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721", private_key);
    tern_sha256("sample", 6, hash);
    assert_int_equal(tern_p256_public(private_key, public_key), TERN_OK);
    expect_hex(public_key, "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
                           "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299");
    assert_int_equal(tern_p256_sign(private_key, hash, signature), TERN_OK);
    expect_hex(signature, "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
                          "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8");
    assert_int_equal(tern_p256_verify(public_key, hash, signature), TERN_OK);
    for (size_t i = 0; i < sizeof signature; i++) {
        signature[i] ^= 1;
        assert_int_equal(tern_p256_verify(public_key, hash, signature), TERN_ERR_UNAUTHORIZED);
        signature[i] ^= 1;
    }
    hash[31] ^= 1;
    assert_int_equal(tern_p256_verify(public_key, hash, signature), TERN_ERR_UNAUTHORIZED);
    public_key[64] ^= 1; // no point of the curve
    assert_int_equal(tern_p256_verify(public_key, hash, signature), TERN_ERR_UNAUTHORIZED);
}

CASE(zero_is_no_signing_key)
{
    const uint8_t zero[32] = {0};
    uint8_t public_key[TERN_P256_PUBLIC_SIZE];
    assert_int_equal(tern_p256_public(zero, public_key), TERN_ERR_ARGUMENT);
}

// mbedTLS has 32 places for keys by default.
CASE(no_call_leaves_a_key_behind)
{
    for (unsigned i = 0; i < 3; i++) {
        struct tern_keystream streams[8];
        const uint8_t key[32] = {1};
        for (unsigned s = 0; s < 8; s++) {
            assert_int_equal(tern_keystream_open(&streams[s], key, NULL), TERN_OK);
        }
        for (unsigned s = 0; s < 8; s++) {
            tern_keystream_close(&streams[s]);
        }
    }
    for (unsigned i = 0; i < 40; i++) {
        struct sealed_example e;
        uint8_t plain[sizeof e.plain];
        load_example(&e);
        e.sealed[40] ^= 1;
        assert_int_equal(
            tern_hpke_open(e.recipient, VIEW(e.info), VIEW(e.aad), VIEW(e.sealed), plain),
            TERN_ERR_CORRUPT);
    }
}

// --- Threads

// Each thread has its own key, whose keystream must stay the same.
static void *use_keys(void *own_key)
{
    uint8_t *key = own_key;
    uint8_t first[TERN_KEYSTREAM_BLOCK];
    uint8_t block[TERN_KEYSTREAM_BLOCK];
    bool works = true;
    for (unsigned i = 0; i < 20000 && works; i++) {
        struct tern_keystream stream;
        works = tern_keystream_open(&stream, key, NULL) == TERN_OK;
        works = works && tern_keystream_next(&stream, i == 0 ? first : block, 1) == TERN_OK;
        works = works && (i == 0 || memcmp(first, block, sizeof block) == 0);
        if (works) {
            tern_keystream_close(&stream);
        }
    }
    return works ? own_key : NULL;
}

CASE(threads_share_the_table_of_keys)
{
    pthread_t threads[4];
    uint8_t keys[4][TERN_SECRET_SIZE] = {{1}, {2}, {3}, {4}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_keys, keys[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *works = NULL;
        assert_int_equal(pthread_join(threads[i], &works), 0);
        assert_non_null(works);
    }
}
