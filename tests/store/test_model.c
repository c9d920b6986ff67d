// Weights, versions and downloads: what store.h promises of each.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "tests/cases.h"

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
    assert_ok(f, tern_db_weights_get(f->db, kind, version, got, count));
    assert_memory_equal(got, expected, count * sizeof *got);
    free(expected);
    free(got);
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(weights_are_kept_by_kind_and_version)
{
    struct fixture *f = *state;
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 1000, 0.5F);
    put_weights(f, TERN_WEIGHTS_REPLICA, 1, 1000, 0.25F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 2, 1000, 0.125F);
    fixture_reopen(f);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 1, 1000, 0.5F);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 2, 1000, 0.125F);
    check_weights(f, TERN_WEIGHTS_REPLICA, 1, 1000, 0.25F);
}

#define PART (1u << 18)

// One part per transaction, and a kill after each; nothing reads them before the last one.
TEST(pinned_weights_are_stored_in_parts)
{
    struct fixture *f = *state;
    const uint32_t count = 2 * PART + 3;
    float *values = ramp(count, 0.5F);
    float *got = malloc(count * sizeof *got);
    bool more = true;
    uint32_t parts = 0;
    for (; more; parts++) {
        bool whole = true;
        assert_ok(f, tern_db_pinned_is_whole(f->db, "", 7, &whole));
        assert_false(whole);
        assert_int_equal(tern_db_pinned_get(f->db, "", 7, got, count), TERN_ERR_NOT_FOUND);
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_pinned_put_some(f->db, "", 7, values, count, &more));
        assert_ok(f, tern_db_commit(f->db));
        fixture_reopen(f);
    }
    assert_int_equal(parts, 3);
    assert_ok(f, tern_db_pinned_get(f->db, "", 7, got, count));
    assert_memory_equal(got, values, count * sizeof *got);
    free(values);
    free(got);
}

static bool is_pinned(struct fixture *f, uint32_t version)
{
    bool whole = false;
    bool more = true;
    assert_ok(f, tern_db_begin(f->db));
    while (more) {
        assert_ok(f, tern_db_pinned_drop_some(f->db, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_pinned_is_whole(f->db, "", version, &whole));
    return whole;
}

// Each of a label, an order and a restored round keeps the weights.
TEST(pinned_weights_stay_while_something_needs_them)
{
    struct fixture *f = *state;
    float values[4] = {1, 2, 3, 4};
    struct tern_db_label label = {.name = "a", .version = 5};
    struct tern_db_order order = {.strategy = "rollback", .restored = 5};
    struct tern_db_round round = {.round = 9, .mode = TERN_ROUND_RESTORED, .restored = 5};
    bool more = true;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_label_put(f->db, &label));
    assert_ok(f, tern_db_order_put(f->db, &order));
    assert_ok(f, tern_db_round_put(f->db, &round));
    assert_ok(f, tern_db_pinned_put_some(f->db, "", 5, values, 4, &more));
    assert_ok(f, tern_db_pinned_put_some(f->db, "", 6, values, 4, &more));
    assert_ok(f, tern_db_commit(f->db));
    assert_false(is_pinned(f, 6));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_label_drop(f->db, "a"));
    assert_int_equal(tern_db_label_drop(f->db, "a"), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_commit(f->db));
    assert_true(is_pinned(f, 5));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_order_drop(f->db));
    assert_ok(f, tern_db_commit(f->db));
    assert_true(is_pinned(f, 5));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_prune(f->db, 9));
    assert_ok(f, tern_db_commit(f->db));
    assert_false(is_pinned(f, 5));
}

static uint32_t checkpoint(struct fixture *f)
{
    uint32_t version = UINT32_MAX;
    assert_ok(f, tern_db_checkpoint(f->db, &version));
    return version;
}

static void put_part(struct fixture *f, enum tern_db_weights kind, uint32_t version,
                     const float *values, uint32_t count, uint32_t part)
{
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_weights_put_part(f->db, kind, version, values, count, part));
    assert_ok(f, tern_db_commit(f->db));
}

static void drop_others(struct fixture *f)
{
    bool more = true;
    assert_ok(f, tern_db_begin(f->db));
    while (more) {
        assert_ok(f, tern_db_checkpoint_drop_some(f->db, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
}

// However far it came, a checkpoint does not count before its last part.
TEST(a_checkpoint_is_there_with_its_last_part)
{
    struct fixture *f = *state;
    const uint32_t count = PART + 1;
    float *values = ramp(count, 0.25F);
    uint32_t version;
    assert_int_equal(tern_db_vector_parts(PART), 1);
    assert_int_equal(tern_db_vector_parts(count), 2);
    assert_int_equal(tern_db_checkpoint(f->db, &version), TERN_ERR_NOT_FOUND);
    put_weights(f, TERN_WEIGHTS_REPLICA, 1, count, 0.5F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, count, 0.5F);
    const enum tern_db_weights kinds[] = {TERN_WEIGHTS_REPLICA, TERN_WEIGHTS_GLOBAL};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(checkpoint(f), 1);
        check_weights(f, TERN_WEIGHTS_REPLICA, 1, count, 0.5F);
        check_weights(f, TERN_WEIGHTS_GLOBAL, 1, count, 0.5F);
        put_part(f, kinds[i / 2], 2, values, count, 1 - i % 2);
        fixture_reopen(f);
    }
    assert_int_equal(checkpoint(f), 2);
    check_weights(f, TERN_WEIGHTS_REPLICA, 2, count, 0.25F);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 2, count, 0.25F);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_weights_put_part(f->db, TERN_WEIGHTS_GLOBAL, 2, values, count, 2),
                     TERN_ERR_ARGUMENT);
    tern_db_rollback(f->db);
    free(values);
}

// What came before, and what was begun and left; initial weights are no checkpoint.
TEST(others_than_the_newest_are_dropped)
{
    struct fixture *f = *state;
    const uint32_t count = 2 * PART + 1;
    float *values = ramp(count, 0.25F);
    put_weights(f, TERN_WEIGHTS_INITIAL, 0, 10, 0.5F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, count, 0.5F);
    put_part(f, TERN_WEIGHTS_GLOBAL, 2, values, count, 2);
    drop_others(f);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 1, count, 0.5F);
    put_part(f, TERN_WEIGHTS_REPLICA, 2, values, count, 1);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 3, count, 0.25F);
    drop_others(f);
    assert_int_equal(checkpoint(f), 3);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 3, count, 0.25F);
    check_weights(f, TERN_WEIGHTS_INITIAL, 0, 10, 0.5F);
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_GLOBAL, 1, values, count),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_REPLICA, 2, values, count),
                     TERN_ERR_NOT_FOUND);
    free(values);
}

TEST(weights_may_span_parts)
{
    struct fixture *f = *state;
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 2 * PART + 1, 0.5F);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 1, 2 * PART + 1, 0.5F);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 2, PART, 0.25F);
    check_weights(f, TERN_WEIGHTS_GLOBAL, 2, PART, 0.25F);
}

TEST(missing_and_other_sizes_are_told)
{
    struct fixture *f = *state;
    float values[5];
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_GLOBAL, 1, values, 5),
                     TERN_ERR_NOT_FOUND);
    put_weights(f, TERN_WEIGHTS_GLOBAL, 1, 4, 0.5F);
    assert_int_equal(tern_db_weights_get(f->db, TERN_WEIGHTS_GLOBAL, 1, values, 5),
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

TEST(versions_are_found_by_number_and_replica)
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

// Stores a download of the trunk, which leads to the replica of its version.
static struct tern_db_download put_download(struct fixture *f, uint32_t to, bool snapshot)
{
    struct tern_db_version version = version_of(to);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_version_put(f->db, &version));
    assert_ok(f, tern_db_commit(f->db));
    return put_download_to(f, to, snapshot, version.replica[0]);
}

TEST(downloads_are_found_by_hash_and_end)
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

#define PART_BYTES (1u << 20)
#define LONG (4 * PART + 1) // values of weights that are stored in parts

// A download of three parts, the last one short.
static uint8_t large[2 * PART_BYTES + 12345];

static struct tern_db_download large_download(void)
{
    struct tern_db_download download = {.snapshot = true, .to_version = 1, .size = sizeof large};
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (uint8_t)(i / 5 + i / PART_BYTES);
    }
    tern_sha256(large, sizeof large, download.sha256);
    return download;
}

static enum tern_result view_part(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    size_t *viewed = ctx;
    assert_true(at + len <= sizeof large);
    *viewed += len;
    *data = large + at;
    return TERN_OK;
}

static enum tern_result view_none(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    (void)ctx;
    (void)at;
    (void)len;
    (void)data;
    return TERN_ERR_BUSY;
}

// Stores the next part in a transaction of its own, and returns whether the download is complete.
static bool store_part(struct fixture *f, const struct tern_db_download *download)
{
    struct tern_db_download found;
    size_t viewed = 0;
    bool more = false;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put_some(f->db, download, view_part, &viewed, &more));
    assert_ok(f, tern_db_commit(f->db));
    assert_in_range(viewed, 1, PART_BYTES);
    assert_int_equal(tern_db_download_get(f->db, download->sha256, &found, NULL, 0),
                     more ? TERN_ERR_NOT_FOUND : TERN_OK);
    return !more;
}

// Returns how many transactions it takes to delete all bytes of downloads without a row.
static unsigned drop_unused(struct fixture *f)
{
    unsigned drops = 0;
    bool more = true;
    while (more) {
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_parts_drop_some(f->db, LONG, &more));
        assert_ok(f, tern_db_commit(f->db));
        drops += more;
    }
    return drops;
}

TEST(a_large_download_is_stored_in_parts)
{
    struct fixture *f = *state;
    static uint8_t got[sizeof large];
    const struct tern_db_download download = large_download();
    struct tern_db_download found;
    size_t viewed = 0;
    bool more = false;
    assert_false(store_part(f, &download));
    fixture_reopen(f); // as after a kill
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put_some(f->db, &download, view_part, &viewed, &more));
    tern_db_rollback(f->db);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_download_put_some(f->db, &download, view_none, NULL, &more),
                     TERN_ERR_BUSY);
    assert_ok(f, tern_db_commit(f->db));
    assert_false(store_part(f, &download));
    assert_true(store_part(f, &download));
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &found, got, sizeof got));
    assert_memory_equal(got, large, sizeof got);
    assert_int_equal(drop_unused(f), 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put(f->db, &download, large)); // is there
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_check(f->db));
    run_sql(f->path, "DELETE FROM weights WHERE part = 1");
    assert_int_equal(tern_db_check(f->db), TERN_ERR_IO);
    assert_true(tern_db_damaged(f->db));
}

TEST(parts_of_a_deleted_download_are_dropped)
{
    struct fixture *f = *state;
    const struct tern_db_download download = large_download();
    uint64_t freed = 0;
    struct tern_db_download found;
    assert_false(store_part(f, &download));
    assert_int_equal(drop_unused(f), 1); // given up
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put(f->db, &download, large));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(drop_unused(f), 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_snapshot_prune(f->db, 2, &freed));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(freed, sizeof large);
    assert_int_equal(drop_unused(f), 1);
    assert_int_equal(tern_db_download_stream(f->db, &download, take_none, NULL),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_download_get(f->db, download.sha256, &found, NULL, 0),
                     TERN_ERR_NOT_FOUND);
    assert_false(store_part(f, &download)); // begins anew
}

static bool put_weights_part(struct fixture *f, const uint8_t id[TERN_SHA256_SIZE],
                             const float *weights)
{
    bool more = false;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replica_weights_put_some(f->db, id, weights, LONG, &more));
    assert_ok(f, tern_db_commit(f->db));
    return !more;
}

// The replica has its weights with its last part, and its parts are dropped behind it.
TEST(long_weights_of_a_replica_are_stored_in_parts)
{
    struct fixture *f = *state;
    static float weights[LONG];
    static float got[LONG];
    struct tern_db_replica replica = {.id = {7}, .form = TERN_REPLICA_SNAPSHOT};
    uint64_t freed = 0;
    for (uint32_t i = 0; i < LONG; i++) {
        weights[i] = (float)i;
    }
    assert_false(put_weights_part(f, replica.id, weights));
    assert_int_equal(drop_unused(f), 1); // given up
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replica_put(f->db, &replica));
    assert_ok(f, tern_db_commit(f->db));
    assert_false(put_weights_part(f, replica.id, weights));
    fixture_reopen(f); // as after a kill
    for (uint32_t part = 1; part < 5; part++) {
        assert_true(put_weights_part(f, replica.id, weights) == (part == 4));
    }
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replica_weights_put(f->db, replica.id, weights, LONG));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(drop_unused(f), 0);
    assert_ok(f, tern_db_replica_weights_get(f->db, replica.id, got, LONG));
    assert_memory_equal(got, weights, sizeof got);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replica_drop(f->db, replica.id, &freed));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(freed, sizeof weights);
    assert_int_equal(drop_unused(f), 2); // of five parts four at once
    assert_int_equal(tern_db_replica_weights_get(f->db, replica.id, got, LONG), TERN_ERR_NOT_FOUND);
}

TEST(a_download_is_read_in_pieces)
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

TEST(old_snapshots_are_forgotten)
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
