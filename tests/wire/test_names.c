// Paths and replica ids: made and read the same way on both ends.
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/text.h"
#include "wire/examples.h"
#include "wire/wire.h"
#include <stdlib.h>
#include <string.h>

CASE(paths_are_read_as_they_are_made)
{
    char path[TERN_PATH_MAX];
    uint8_t sha256[TERN_SHA256_SIZE];
    uint8_t got[TERN_SHA256_SIZE];
    uint32_t round;
    uint32_t sequence;
    example_hash(0x40, sha256);
    tern_path_download(sha256, path);
    assert_string_equal(path, "/v1/downloads/QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8");
    assert_int_equal(tern_path_parse_download(path, got), TERN_OK);
    assert_memory_equal(got, sha256, sizeof(got));
    tern_path_update(4, 17, path);
    assert_string_equal(path, "/v1/updates/4/17");
    tern_path_update(UINT32_MAX, 0, path);
    assert_string_equal(path, "/v1/updates/4294967295/0");
    assert_int_equal(tern_path_parse_update(path, &round, &sequence), TERN_OK);
    assert_int_equal(round, UINT32_MAX);
    assert_int_equal(sequence, 0);
}

CASE(other_paths_are_not_found)
{
    static const char *const paths[] = {
        "",
        "/",
        "/v1/updates",
        "/v1/updates/",
        "/v1/updates/4",
        "/v1/updates/4/",
        "/v1/updates//17",
        "/v1/updates/4/17/",
        "/v1/updates/4/17 ",
        "/v1/updates/04/17",
        "/v1/updates/4/017",
        "/v1/updates/+4/17",
        "/v1/updates/-4/17",
        "/v1/updates/4/0x11",
        "/v1/updates/4294967296/1",
        "/v1/updates/1/42949672950",
        "/v2/updates/4/17",
        "/v1/downloads/",
        "/v1/downloads/QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl",
        "/v1/downloads/QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl9",
        "/v1/downloads/QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8A",
        "/v1/downloads/QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdX+8",
        "/v1/downloads/../../etc/passwd",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        uint8_t sha256[TERN_SHA256_SIZE];
        uint32_t round;
        uint32_t sequence;
        assert_int_equal(tern_path_parse_update(paths[i], &round, &sequence), TERN_ERR_NOT_FOUND);
        assert_int_equal(tern_path_parse_download(paths[i], sha256), TERN_ERR_NOT_FOUND);
    }
}

// The ids come from an independent SHA-256 (Python's hashlib) over the documented bytes.
CASE(replica_ids_are_as_documented)
{
    uint8_t hash[TERN_SHA256_SIZE];
    uint8_t blob[TERN_SHA256_SIZE];
    uint8_t id[TERN_SHA256_SIZE];
    char text[2 * TERN_SHA256_SIZE + 1];
    example_hash(0xa0, hash);
    tern_replica_from_seed(hash, 42, id);
    tern_hex_encode(id, sizeof(id), text);
    assert_string_equal(text, "ef5551f5709adfb8995a919f7ab49cee9c1500149cf7bab12cea0ce95ac0fd07");
    example_hash(0x40, blob);
    tern_replica_step(id, blob, id); // in place
    tern_hex_encode(id, sizeof(id), text);
    assert_string_equal(text, "45237e533abccf571e3effd9b4cd851456b49a5aca522835ba1a5d5dab509325");
}

CASE(text_is_utf8_without_control_characters)
{
    static const char *const good[] = {
        "",
        "plain",
        "\xC2\xA0",
        "\xDF\xBF",
        "\xE0\xA0\x80",
        "\xED\x9F\xBF",
        "\xEF\xBF\xBD",
        "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF",
    };
    static const char *const bad[] = {
        "\x01",
        "\x1f",
        "\x7f",
        "\xC2\x80",
        "\xC2\x9F",
        "\x80",
        "\xC0\x80",
        "\xC1\xBF",
        "\xC3",
        "\xC3\xC3",
        "\xE0\x9F\xBF",
        "\xE2\x82",
        "\xED\xA0\x80",
        "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF",
        "\xF0\x90\x80",
        "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80",
        "\xFF",
        "ok\xE2\x28\xA1",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(tern_utf8_is_text(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(tern_utf8_is_text(bad[i], strlen(bad[i])));
    }
    assert_false(tern_utf8_is_text("a\0b", 3));
}

CASE(pre_shared_keys_are_as_documented)
{
    uint8_t psk[TERN_PSK_SIZE];
    uint8_t want[TERN_PSK_SIZE];
    const char *hex = "aca8da3d90d4909b45776e85e9fc45c0dc61592dbec8e921fc805990aef4c14f";
    assert_int_equal(tern_hex_decode(hex, want, sizeof(want)), TERN_OK);
    tern_psk_from_token("AAECAwQFBgcICQoLDA0ODw", psk);
    assert_memory_equal(psk, want, sizeof(psk));
}
