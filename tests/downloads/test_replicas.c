// What replicas of clients' own take in the store, when all clients come to each point at once.
#include "store/fixture.h"

#include "downloads/replicas.h"
#include "tests/cases.h"
#include <string.h>

#define CLIENTS 20
#define PARTICIPATIONS 80
#define DOWNLOAD 60
#define DENSE_DOWNLOAD 700
#define VALUES 650

static struct tern_model model;
static float weights[VALUES];
static uint8_t blob[DENSE_DOWNLOAD];
static struct tern_replica_book book;
static uint8_t held[CLIENTS][TERN_SHA256_SIZE];
static uint32_t names;

static void name(uint8_t id[TERN_SHA256_SIZE])
{
    names++;
    memset(id, 0, TERN_SHA256_SIZE);
    memcpy(id, &names, sizeof names);
}

static void open_book(struct fixture *f)
{
    assert_int_equal(tern_model_from_spec(&model, "softmax:64-10"), TERN_OK);
    assert_int_equal(model.count, VALUES);
    book =
        (struct tern_replica_book){.db = f->db, .model = &model, .seed = 1, .keep_versions = 1000};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_replica_book_load(&book));
    assert_ok(f, tern_db_commit(f->db));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        memcpy(held[i], book.seed_id, TERN_SHA256_SIZE);
    }
}

static void take_part(struct fixture *f, uint8_t replica[TERN_SHA256_SIZE], uint32_t version,
                      uint32_t size)
{
    struct tern_db_download row = {
        .to_version = version, .size = size, .payload = size, .codec = "3lc:s=1"};
    name(row.sha256);
    memcpy(row.from_replica, replica, TERN_SHA256_SIZE);
    name(row.to_replica);
    assert_ok(f, tern_replica_add(&book, &row, blob, weights, 0.0F, false, version, NULL));
    assert_ok(f, tern_db_replica_suspect(f->db, replica, true));
    memcpy(replica, row.to_replica, TERN_SHA256_SIZE);
}

// No client has a row here: what they hold is no suspect.
static void collect(struct fixture *f, uint32_t version)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_ok(f, tern_db_replica_suspect(f->db, held[i], false));
    }
    assert_ok(f, tern_replica_collect(&book, version));
}

// The most bytes of all replicas, where each client's downloads take `size` bytes.
static uint64_t most_bytes(struct fixture *f, uint32_t size)
{
    uint64_t most = 0;
    open_book(f);
    for (uint32_t version = TERN_REPLICA_GRACE; version <= PARTICIPATIONS * TERN_REPLICA_GRACE;
         version += TERN_REPLICA_GRACE) {
        assert_ok(f, tern_db_begin(f->db));
        for (uint32_t i = 0; i < CLIENTS; i++) {
            take_part(f, held[i], version, size);
        }
        collect(f, version);
        assert_ok(f, tern_db_commit(f->db));
        most = book.bytes > most ? book.bytes : most;
    }
    struct tern_db_replica_totals totals;
    assert_ok(f, tern_db_replica_totals(f->db, &totals));
    assert_int_equal(book.bytes, totals.whole_bytes + totals.download_bytes);
    assert_int_equal(totals.whole, CLIENTS);
    return most;
}

// docs/OPERATIONS.md promises both bounds to operators who size a disk.
CASE_WITH(test_a_replica_takes_its_values_and_eight_downloads, fixture_setup, fixture_teardown)
{
    const uint64_t whole = VALUES * sizeof(float);
    assert_in_range(most_bytes(*state, DOWNLOAD), CLIENTS * (whole + 7 * DOWNLOAD),
                    CLIENTS * (whole + 8 * DOWNLOAD));
}

CASE_WITH(test_a_replica_takes_twice_its_values_at_most, fixture_setup, fixture_teardown)
{
    const uint64_t whole = VALUES * sizeof(float);
    assert_in_range(most_bytes(*state, DENSE_DOWNLOAD), CLIENTS * (whole + 3 * DENSE_DOWNLOAD),
                    CLIENTS * (2 * whole + DENSE_DOWNLOAD));
}

#define VERSIONS 300u

// Stores the download of each version, which leads on from that of the version before.
static void make_trunk(struct fixture *f, uint8_t ids[VERSIONS + 1][TERN_SHA256_SIZE])
{
    memcpy(ids[0], book.seed_id, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t version = 1; version <= VERSIONS; version++) {
        struct tern_db_download row = {
            .to_version = version, .size = DOWNLOAD, .payload = DOWNLOAD, .codec = "3lc:s=1"};
        name(row.sha256);
        name(row.to_replica);
        memcpy(row.from_replica, ids[version - 1], TERN_SHA256_SIZE);
        memcpy(ids[version], row.to_replica, TERN_SHA256_SIZE);
        assert_ok(f, tern_replica_add(&book, &row, blob, weights, 0.0F, true, version, NULL));
    }
    assert_ok(f, tern_db_commit(f->db));
}

static bool is_there(struct fixture *f, const uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_db_replica row;
    return tern_db_replica_get(f->db, id, &row) == TERN_OK;
}

// The oldest chain goes before the next one loses its end: whoever missed fewer versions than are left can catch up.
CASE_WITH(test_the_oldest_downloads_give_way_first, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    static uint8_t ids[VERSIONS + 1][TERN_SHA256_SIZE];
    uint32_t gaps = 0;
    uint32_t gone = 0;
    open_book(f);
    make_trunk(f, ids);
    const uint64_t before = book.bytes;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_replica_free_disk(&book, VERSIONS, UINT64_MAX));
    assert_ok(f, tern_db_commit(f->db));
    for (uint32_t version = 2; version <= VERSIONS; version++) {
        gone += !is_there(f, ids[version]);
        gaps += is_there(f, ids[version - 1]) && !is_there(f, ids[version]);
    }
    assert_in_range(book.bytes, before / 4, before / 2);
    assert_in_range(gone, VERSIONS / 4, 3 * VERSIONS / 4);
    assert_in_range(gaps, 0, 1);
    assert_false(is_there(f, ids[VERSIONS / 4]));
}
