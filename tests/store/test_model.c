// Weights, versions and downloads: what store.h promises of each.
#include "store/fixture.h"

#include <stdlib.h>
#include <string.h>

static float *ramp(uint32_t count, float step)
{
    float *values = malloc(count * sizeof *values);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = step * (float)i;
    }
    return values;
}

static void put_weights(struct fixture *f, enum tern_db_weights kind, uint32_t version,
                        uint32_t count, float step)
{
    float *values = ramp(count, step);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_weights_put(f->db, kind, version, values, count));
    assert_ok(f, tern_db_commit(f->db));
    free(values);
}

static void check_weights(struct fixture *f, enum tern_db_weights kind, uint32_t version,
                          uint32_t count, float step)
{
    float *expected = ramp(count, step);
    float *got = malloc(count * sizeof *got);
    uint32_t got_version = 0;
    assert_ok(f, tern_db_weights_get(f->db, kind, &got_version, got, count));
    assert_int_equal(got_version, version);
    assert_memory_equal(got, expected, count * sizeof *got);
    free(expected);
    free(got);
}

static void the_newest_weights_of_a_kind_are_kept(void **state)
{
    struct fixture *f = *state;
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 1000, 0.5F);
    put_weights(f, TERN_WEIGHTS_REPLICA, 1, 1000, 0.25F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 2, 1000, 0.125F);
    fixture_reopen(f);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 2, 1000, 0.125F);
    check_weights(f, TERN_WEIGHTS_REPLICA, 1, 1000, 0.25F);
}

static void weights_may_span_parts(void **state)
{
    struct fixture *f = *state;
    uint32_t part = 1u << 20;
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 2 * part + 1, 0.5F);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 1, 2 * part + 1, 0.5F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 2, part, 0.25F); // fewer parts than before
    check_weights(f, TERN_WEIGHTS_GLOBAL, 2, part, 0.25F);
}

static void missing_and_other_sizes_are_told(void **state)
{
    struct fixture *f = *state;
    float values[5];
    uint32_t version;
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_GLOBAL, &version, values, 5),
                     TERN_ERR_NOT_FOUND);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 4, 0.5F);
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_GLOBAL, &version, values, 5),
                     TERN_ERR_CORRUPT);
    assert_non_null(strstr(tern_db_error(f->db), "4 values, not 5"));
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_weights_put(f->db, TERN_WEIGHTS_GLOBAL, 1, values, 0),
                     TERN_ERR_ARGUMENT);
    assert_ok(f, tern_db_commit(f->db));
}

static struct tern_db_version version_of(uint32_t number)
{
    struct tern_db_version version = {
        .version = number, .round = number, .created_ms = 10 + number};
    memset(version.replica, (int)(number + 1), sizeof version.replica);
    memset(version.model_sha256, (int)(number + 2), sizeof version.model_sha256);
    return version;
}

static void versions_are_found_by_number_and_replica(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 0; i < 3; i++) {
        struct tern_db_version version = version_of(i);
        assert_ok(f, tern_db_version_put(f->db, &version));
    }
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    struct tern_db_version expected = version_of(2);
    struct tern_db_version got;
    memset(&got, 0, sizeof got);
    assert_ok(f, tern_db_version_get(f->db, 2, &got));
    assert_memory_equal(got.replica, expected.replica, sizeof got.replica);
    assert_memory_equal(got.model_sha256, expected.model_sha256, sizeof got.model_sha256);
    assert_int_equal(got.created_ms, 12);
    assert_int_equal(tern_db_version_get(f->db, 3, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_version_last(f->db, &got));
    assert_int_equal(got.version, 2);
    uint32_t number = 99;
    assert_ok(f, tern_db_version_of_replica(f->db, version_of(0).replica, &number));
    assert_int_equal(number, 0);
    memset(got.replica, 0xee, sizeof got.replica);
    assert_int_equal(tern_db_version_of_replica(f->db, got.replica, &number), TERN_ERR_NOT_FOUND);
}

// A download that ends at the replica of these bytes.
static struct tern_db_download put_download_to(struct fixture *f, uint32_t to, bool snapshot,
                                               uint8_t replica)
{
    uint8_t blob[64];
    memset(blob, (int)to * 16 + replica + snapshot * 128, sizeof blob);
    struct tern_db_download download = {.snapshot = snapshot,
                                        .from_version = snapshot ? 0 : to - 1,
                                        .to_version = to,
                                        .size = sizeof blob,
                                        .payload = 40};
    memset(download.to_replica, replica, sizeof download.to_replica);
    tern_sha256(blob, sizeof blob, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put(f->db, &download, blob));
    assert_ok(f, tern_db_download_put(f->db, &download, blob)); // the same again is no error
    assert_ok(f, tern_db_commit(f->db));
    return download;
}

// Of the trunk: it ends at the replica of its version.
static struct tern_db_download put_download(struct fixture *f, uint32_t to, bool snapshot)
{
    struct tern_db_version version = version_of(to);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_version_put(f->db, &version));
    assert_ok(f, tern_db_commit(f->db));
    return put_download_to(f, to, snapshot, version.replica[0]);
}

static void downloads_are_found_by_hash_and_end(void **state)
{
    struct fixture *f = *state;
    struct tern_db_download delta = put_download(f, 5, false);
    struct tern_db_download snapshot = put_download(f, 5, true);
    struct tern_db_download got;
    uint8_t blob[64];
    assert_ok(f, tern_db_download_to(f->db, 5, false, &got));
    assert_memory_equal(got.sha256, delta.sha256, sizeof got.sha256);
    assert_int_equal(got.from_version, 4);
    assert_int_equal(got.payload, 40);
    assert_ok(f, tern_db_download_to(f->db, 5, true, &got));
    assert_memory_equal(got.sha256, snapshot.sha256, sizeof got.sha256);
    assert_int_equal(tern_db_download_to(f->db, 6, false, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_download_get(f->db, delta.sha256, &got, NULL, 0));
    assert_int_equal(got.size, 64);
    assert_int_equal(tern_db_download_get(f->db, delta.sha256, &got, blob, 63), TERN_ERR_NO_SPACE);
    assert_ok(f, tern_db_download_get(f->db, delta.sha256, &got, blob, 64));
    assert_int_equal(blob[63], 5 * 16 + delta.to_replica[0]);
    delta.sha256[0] ^= 1;
    assert_int_equal(tern_db_download_get(f->db, delta.sha256, &got, blob, 64), TERN_ERR_NOT_FOUND);
}

struct pieces {
    uint8_t bytes[700000];
    size_t len;
    size_t most; // of one piece
};

static enum tern_result take_piece(void *ctx, const uint8_t *data, size_t len)
{
    struct pieces *pieces = ctx;
    assert_true(len <= sizeof pieces->bytes - pieces->len);
    memcpy(pieces->bytes + pieces->len, data, len);
    pieces->len += len;
    pieces->most = len > pieces->most ? len : pieces->most;
    return TERN_OK;
}

static enum tern_result take_none(void *ctx, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return TERN_ERR_NO_SPACE;
}

static void a_download_is_read_in_pieces(void **state)
{
    struct fixture *f = *state;
    static struct pieces pieces;
    static uint8_t blob[sizeof pieces.bytes];
    struct tern_db_download download = {.snapshot = true, .to_version = 1, .size = sizeof blob};
    struct tern_db_download found;
    for (size_t i = 0; i < sizeof blob; i++) {
        blob[i] = (uint8_t)(i / 7);
    }
    tern_sha256(blob, sizeof blob, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put(f->db, &download, blob));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &found, NULL, 0));
    memset(&pieces, 0, sizeof pieces);
    assert_ok(f, tern_db_download_stream(f->db, &found, take_piece, &pieces));
    assert_int_equal(pieces.len, sizeof blob);
    assert_true(pieces.most < sizeof blob);
    assert_memory_equal(pieces.bytes, blob, sizeof blob);
    assert_int_equal(tern_db_download_stream(f->db, &found, take_none, NULL), TERN_ERR_NO_SPACE);
    found.sha256[0] ^= 1;
    pieces.len = 0;
    assert_int_equal(tern_db_download_stream(f->db, &found, take_piece, &pieces), TERN_ERR_IO);
    found.id += 100;
    assert_int_equal(tern_db_download_stream(f->db, &found, take_piece, &pieces),
                     TERN_ERR_NOT_FOUND);
}

static void old_snapshots_are_forgotten(void **state)
{
    struct fixture *f = *state;
    put_download(f, 3, true);
    put_download(f, 4, true);
    put_download(f, 5, true);
    struct tern_db_download delta = put_download(f, 2, false); // goes with its replica
    struct tern_db_download opening = put_download_to(f, 2, true, 7);
    struct tern_db_replica opened = {.form = TERN_REPLICA_SNAPSHOT, .version = 2};
    memcpy(opened.id, opening.to_replica, sizeof opened.id);
    memcpy(opened.download, opening.sha256, sizeof opened.download);
    uint64_t freed = 0;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replica_put(f->db, &opened));
    assert_ok(f, tern_db_snapshot_prune(f->db, 5, &freed));
    assert_int_equal(freed, 2 * 64);
    assert_ok(f, tern_db_snapshot_prune(f->db, 5, &freed));
    assert_int_equal(freed, 0);
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_download got;
    assert_ok(f, tern_db_download_get(f->db, delta.sha256, &got, NULL, 0));
    assert_ok(f, tern_db_download_get(f->db, opening.sha256, &got, NULL, 0));
    assert_int_equal(tern_db_download_to(f->db, 3, true, &got), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_download_to(f->db, 4, true, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_download_to(f->db, 5, true, &got));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_weights_of_a_kind_are_kept), TEST(weights_may_span_parts),
        TEST(missing_and_other_sizes_are_told),      TEST(versions_are_found_by_number_and_replica),
        TEST(downloads_are_found_by_hash_and_end),   TEST(a_download_is_read_in_pieces),
        TEST(old_snapshots_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
