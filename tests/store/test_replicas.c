// Replicas and the downloads between them: what store.h promises of each.
#include "store/fixture.h"
#include "tests/cases.h"

#include <string.h>

static struct tern_db_replica replica(uint8_t id, uint8_t parent)
{
    struct tern_db_replica row = {.form = parent != 0 ? TERN_REPLICA_STEP : TERN_REPLICA_SEED,
                                  .version = id,
                                  .depth = parent != 0,
                                  .bytes = 100,
                                  .residual = 0.5F,
                                  .used_ms = 1000 - id};
    memset(row.id, id, TERN_SHA256_SIZE);
    memset(row.parent, parent, TERN_SHA256_SIZE);
    memset(row.download, parent, TERN_SHA256_SIZE);
    return row;
}

static void put(struct fixture *f, uint8_t id, uint8_t parent)
{
    struct tern_db_replica row = replica(id, parent);
    assert_ok(f, tern_db_replica_put(f->db, &row));
}

static struct tern_db_replica get(struct fixture *f, uint8_t id)
{
    uint8_t name[TERN_SHA256_SIZE];
    struct tern_db_replica row;
    memset(name, id, sizeof name);
    assert_ok(f, tern_db_replica_get(f->db, name, &row));
    return row;
}

static void put_edge(struct fixture *f, uint8_t from, uint8_t to)
{
    static const uint8_t blob[40];
    struct tern_db_download row = {.to_version = to, .size = 40, .payload = 30, .codec = "3lc:s=1"};
    memset(row.sha256, 100 + to, TERN_SHA256_SIZE);
    memset(row.from_replica, from, TERN_SHA256_SIZE);
    memset(row.to_replica, to, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_download_put(f->db, &row, blob));
}

// 1 is the seed, 2 and 3 are made from it, 4 from 3.
static void put_tree(struct fixture *f)
{
    assert_ok(f, tern_db_begin(f->db));
    put(f, 1, 0);
    put(f, 2, 1);
    put(f, 3, 1);
    put(f, 4, 3);
    put_edge(f, 1, 2);
    put_edge(f, 1, 3);
    put_edge(f, 3, 4);
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(rows_come_back_and_know_their_children)
{
    struct fixture *f = *state;
    put_tree(f);
    put(f, 4, 3); // again: left as it is
    struct tern_db_replica orphan = replica(9, 8);
    assert_int_equal(tern_db_replica_put(f->db, &orphan), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    struct tern_db_replica row = get(f, 3);
    assert_int_equal(row.form, TERN_REPLICA_STEP);
    assert_int_equal(row.children, 1);
    assert_int_equal(row.parent[0], 1);
    assert_int_equal(row.used_ms, 997);
    assert_true(row.residual == 0.5F);
    assert_int_equal(get(f, 1).children, 2);
    assert_int_equal(tern_db_replica_get(f->db, orphan.id, &row), TERN_ERR_NOT_FOUND);
}

TEST(a_clock_that_is_set_keeps_the_order_of_use)
{
    struct fixture *f = *state;
    put_tree(f);
    assert_ok(f, tern_db_replicas_set_clock(f->db, 10000));
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    assert_int_equal(get(f, 3).used_ms, 10997);
    assert_int_equal(get(f, 4).used_ms, 10996);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_replicas_set_clock(f->db, -10997));
    assert_int_equal(get(f, 2).used_ms, 1);
    assert_int_equal(get(f, 4).used_ms, 1); // never in front of the beginning of time
    assert_ok(f, tern_db_commit(f->db));
}

TEST(dropping_takes_the_downloads_along)
{
    struct fixture *f = *state;
    uint64_t freed = 0;
    uint32_t count = 0;
    uint8_t ids[8][TERN_SHA256_SIZE];
    struct tern_db_download edge;
    put_tree(f);
    assert_int_equal(tern_db_replica_drop(f->db, get(f, 3).id, &freed), TERN_ERR_STATE);
    assert_ok(f, tern_db_replica_drop(f->db, get(f, 4).id, &freed));
    assert_int_equal(freed, 40);
    assert_int_equal(get(f, 3).children, 0);
    assert_ok(f, tern_db_replica_suspects(f->db, ids, 8, &count));
    assert_int_equal(count, 1);
    assert_int_equal(ids[0][0], 3);
    assert_int_equal(tern_db_delta_find(f->db, get(f, 3).id, 4, "3lc:s=1", &edge),
                     TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_delta_find(f->db, get(f, 1).id, 3, "3lc:s=1", &edge));
    assert_int_equal(edge.to_replica[0], 3);
    assert_ok(f, tern_db_delta_find(f->db, get(f, 1).id, 2, "3lc:s=1", &edge));
    assert_int_equal(edge.to_replica[0], 2);
    assert_ok(f, tern_db_replica_unused(f->db, UINT32_MAX, ids, 8, &count));
    assert_int_equal(count, 2);
    assert_int_equal(ids[0][0], 3); // used longer ago than 2
    assert_int_equal(ids[1][0], 2);
    assert_ok(f, tern_db_commit(f->db));
}

TEST(whole_weights_cut_a_replica_from_its_parent)
{
    struct fixture *f = *state;
    const float weights[5] = {1.0F, -2.0F, 0.5F, 0.0F, 3.0F};
    float got[5];
    uint64_t freed = 0;
    struct tern_db_replica_totals totals;
    put_tree(f);
    assert_ok(f, tern_db_replica_weights_put(f->db, get(f, 4).id, weights, 5));
    assert_int_equal(get(f, 4).form, TERN_REPLICA_WHOLE);
    assert_int_equal(get(f, 4).depth, 0);
    assert_int_equal(get(f, 3).children, 0);
    assert_true(get(f, 3).suspect);
    assert_ok(f, tern_db_replica_weights_get(f->db, get(f, 4).id, got, 5));
    assert_memory_equal(got, weights, sizeof got);
    assert_int_equal(tern_db_replica_weights_get(f->db, get(f, 2).id, got, 5), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_replica_totals(f->db, &totals));
    assert_int_equal(totals.replicas, 4);
    assert_int_equal(totals.whole, 1);
    assert_int_equal(totals.whole_bytes, sizeof weights);
    assert_int_equal(totals.download_bytes, 3 * 40);
    assert_ok(f, tern_db_replica_drop(f->db, get(f, 4).id, &freed));
    assert_int_equal(freed, 40 + sizeof weights);
    assert_ok(f, tern_db_commit(f->db));
}

TEST(an_edge_is_found_by_its_ends_and_codec)
{
    struct fixture *f = *state;
    struct tern_db_download edge;
    put_tree(f);
    assert_ok(f, tern_db_delta_find(f->db, get(f, 1).id, 3, "3lc:s=1", &edge));
    assert_int_equal(edge.to_replica[0], 3);
    assert_int_equal(tern_db_delta_find(f->db, get(f, 1).id, 3, "float32", &edge),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_delta_find(f->db, get(f, 1).id, 4, "3lc:s=1", &edge),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_snapshot_find(f->db, 3, "3lc:s=1", &edge), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_commit(f->db));
}

TEST(who_is_revoked_holds_nothing)
{
    struct fixture *f = *state;
    bool held = true;
    uint64_t id = fixture_client(f, 7);
    struct tern_db_client client;
    put_tree(f);
    assert_ok(f, tern_db_replica_held(f->db, get(f, 2).id, &held));
    assert_false(held);
    assert_ok(f, tern_db_client_get(f->db, id, &client));
    memset(client.replica, 2, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_client_update(f->db, &client));
    assert_ok(f, tern_db_replica_held(f->db, get(f, 2).id, &held));
    assert_true(held);
    assert_ok(f, tern_db_client_revoke(f->db, id));
    assert_ok(f, tern_db_replica_held(f->db, get(f, 2).id, &held));
    assert_false(held);
    assert_ok(f, tern_db_commit(f->db));
}
