// How parts come into the store and out of it: in pieces where they are large, whole or not at all, and not when the
// round is over.
#include "strategies/part_round.h"

#include "hosted/log.h"
#include "merge/part.h"
#include "store/store.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <stdlib.h>
#include <string.h>

static struct tern_db_part first_part(struct fixture *fixture)
{
    struct tern_db_part row;
    size_t count = 0;
    assert_ok(fixture, tern_db_parts(fixture->db, ROUND, &row, 1, &count));
    assert_int_equal(count, 1);
    return row;
}

// An update of so many values that its sums take more than a piece.
static struct tern_arrival large_update(struct update *update, float most, uint8_t **container)
{
    static const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    float *values = malloc(model.count * sizeof *values);
    struct tern_arrival arrival = {
        .client = 1, .round = ROUND, .contribution = {.num_examples = 4, .local_steps = 2}};
    const size_t bound = tern_container_bound(&codec, &model);
    *container = malloc(bound);
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = most / (float)(i + 1);
    }
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, *container, bound, &update->len),
        TERN_OK);
    arrival.container = (struct tern_span){*container, update->len};
    arrival.sum_square = 10.0; // of 1 / i, the sum is below 2
    free(values);
    return arrival;
}

// Gathers the part of one update. Returns whether it was used.
static bool gather_large(struct fixture *fixture, const struct tern_arrival *arrival, float *mean)
{
    struct tern_merge merge;
    struct tern_gather gather;
    struct tern_strategy_totals one;
    begin_merge(&merge);
    tern_merge_defer(&merge, arrival);
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const bool used = tern_gather_missing(&gather) == 0;
    if (used) {
        tern_strategy_totals_init(&one, &totals.rule);
        assert_int_equal(tern_strategy_count_update(&one, &arrival->contribution), TERN_OK);
        tern_exact_mean_take(&merge.arrived, &one, mean);
    }
    tern_merge_free(&merge);
    return used;
}

static void put_piece(struct fixture *fixture, const struct tern_db_part *row)
{
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_part_put(fixture->db, row));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

static enum tern_result see_piece(void *ctx, const struct tern_db_part *piece)
{
    (void)ctx;
    (void)piece;
    return TERN_OK;
}

CASE_WITH(test_a_large_part_comes_in_pieces, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part = {.count = 0};
    struct update update;
    struct update zeros;
    uint8_t *container = NULL;
    uint8_t *empty = NULL;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, "softmax:120000-10"), TERN_OK);
    about = (struct tern_db_federation){.seed = 7, .model_spec = "softmax:120000-10"};
    memcpy(about.model_hash, model.hash, TERN_SHA256_SIZE);
    float *mean = calloc(model.count, sizeof *mean);
    const struct tern_arrival arrival = large_update(&update, 1.0F, &container);
    const struct tern_arrival without_values = large_update(&zeros, 0.0F, &empty);
    begin_part(fixture, &part, UINT64_MAX);
    assert_int_equal(tern_part_add(&part, &arrival, update.len), TERN_OK);
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a"));
    struct tern_db_part row = first_part(fixture);
    assert_true(row.pieces > 1);
    assert_int_equal(row.updates, 1);
    assert_true(gather_large(fixture, &arrival, mean));
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(mean[i] == 1.0F / (float)(i + 1));
    }
    // One piece with other bytes; none of that number; not all of them stored yet.
    row.piece = 1;
    row.body = (struct tern_blob_column){container, 1000};
    put_piece(fixture, &row);
    assert_false(gather_large(fixture, &arrival, mean));
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a"));
    row = first_part(fixture);
    assert_true(gather_large(fixture, &arrival, mean));
    drop_parts(fixture);
    row.body = (struct tern_blob_column){container, 1000};
    put_piece(fixture, &row);
    assert_false(gather_large(fixture, &arrival, mean));
    drop_parts(fixture);
    // A shorter one of the same node leaves nothing of it.
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a"));
    assert_ok(fixture, tern_db_part_show(fixture->db, ROUND, "a", 1, see_piece, NULL));
    tern_part_clear(&part);
    begin_part(fixture, &part, UINT64_MAX);
    assert_int_equal(tern_part_store(&part, fixture->db, "a"), TERN_ERR_STATE);
    assert_int_equal(tern_part_add(&part, &without_values, 1), TERN_OK);
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a"));
    assert_int_equal(first_part(fixture).pieces, 1);
    assert_int_equal(tern_db_part_show(fixture->db, ROUND, "a", 1, see_piece, NULL),
                     TERN_ERR_NOT_FOUND);
    drop_parts(fixture);
    row.piece = 1;
    put_piece(fixture, &row);
    size_t count = 1;
    assert_ok(fixture, tern_db_parts(fixture->db, ROUND, &row, 1, &count));
    assert_int_equal(count, 0);
    tern_part_clear(&part);
    free(container);
    free(empty);
    free(mean);
}

static size_t count_parts(struct fixture *fixture)
{
    struct tern_db_part rows[TERN_GATHER_NODES];
    size_t count = 0;
    assert_ok(fixture, tern_db_parts(fixture->db, ROUND, rows, TERN_GATHER_NODES, &count));
    return count;
}

// A part with more bytes than the updates that it replaces is not delivered.
CASE_WITH(test_a_part_that_does_not_pay_stays, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part = {.count = 0};
    bool delivered = true;
    assert_ok(fixture, tern_part_deliver(&part, fixture->db, "a", &delivered));
    assert_false(delivered);
    begin_part(fixture, &part, UINT64_MAX);
    add_to_part(&part, 0, true); // a sparse one
    assert_ok(fixture, tern_part_deliver(&part, fixture->db, "a", &delivered));
    assert_false(delivered);
    assert_int_equal(count_parts(fixture), 0);
    for (uint32_t u = 1; u < UPDATES; u++) { // of one number of steps, so that there is one sum
        struct tern_arrival arrival = updates[u].arrival;
        arrival.contribution.local_steps = updates[0].arrival.contribution.local_steps;
        assert_int_equal(tern_part_add(&part, &arrival, updates[u].len), TERN_OK);
    }
    assert_ok(fixture, tern_part_deliver(&part, fixture->db, "a", &delivered));
    assert_true(delivered);
    assert_int_equal(count_parts(fixture), 1);
    tern_part_clear(&part);
}

// Nobody loads clients anew for it, where a store knows such transactions.
CASE_WITH(test_a_delivery_is_no_change_for_others, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    const char *path = tern_db_path(fixture->db);
    struct tern_part part;
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(path, TERN_DB_SECOND, &other, why), TERN_OK);
    make_half(fixture, &part);
    (void)tern_db_changed_by_others(fixture->db);
    assert_ok(fixture, tern_part_store(&part, other, "a"));
    assert_int_equal(tern_db_changed_by_others(fixture->db), !tern_db_is_url(path));
    tern_part_clear(&part);
    tern_db_close(other);
}

// Once the round is closed nobody takes it, and what was delivered goes.
CASE_WITH(test_a_part_that_is_late_is_refused, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    make_half(fixture, &part);
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a"));
    assert_int_equal(count_parts(fixture), 1);
    assert_ok(fixture, tern_part_store(&part, fixture->db, "a")); // once more
    assert_int_equal(count_parts(fixture), 1);
    assert_ok(fixture, tern_db_begin(fixture->db));
    round_row.state = TERN_ROUND_COMMITTED;
    assert_ok(fixture, tern_db_round_put(fixture->db, &round_row));
    assert_ok(fixture, tern_db_parts_drop(fixture->db, ROUND));
    assert_ok(fixture, tern_db_commit(fixture->db));
    assert_int_equal(count_parts(fixture), 0);
    assert_int_equal(tern_part_store(&part, fixture->db, "a"), TERN_ERR_CONFLICT);
    assert_int_equal(count_parts(fixture), 0);
    tern_part_clear(&part);
}

int main(void)
{
    tern_log_set_level(TERN_LOG_ERROR);
    return test_cases_run(&cases_of_this_file, __FILE__);
}
