// When the values of arriving updates are added: at once where they are decoded already or are few, otherwise at the
// close, so that an open round of a large model needs no memory for sums. The model is the same.
#include "merge/merge.h"
#include "store/fixture.h"
#include "tests/cases.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#define SMALL "softmax:300-10"
#define LARGE "softmax:30000-10" // above the number of values that are decoded as an update arrives
#define UPDATES 3

static struct tern_merge merge;
static struct tern_reading_room room;
static struct tern_db_round round_row;

static float value_of(uint32_t u, uint32_t i)
{
    return ((float)(i * 7 % 1001 + u * 131) - 500.5F) / (float)(u + 3);
}

static size_t make_body(uint32_t u, const char *spec, uint8_t *body, size_t size)
{
    const struct tern_encode_context context = {.seed = 1, .round = 1, .client = u};
    struct tern_codec codec;
    size_t used = 0;
    size_t len = 0;
    float *values = malloc(merge.model.count * sizeof *values);
    uint8_t *container = malloc(size);
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    for (uint32_t i = 0; i < merge.model.count; i++) {
        values[i] = value_of(u, i);
    }
    assert_int_equal(
        tern_container_encode(&codec, &context, &merge.model, values, container, size, &used),
        TERN_OK);
    tern_Update message = {
        .num_examples = 10 + u, .local_steps = 5, .loss = 1.0F, .has_error = true};
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, merge.replica_id, TERN_WIRE_REPLICA_BYTES);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, merge.model.hash, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_wire_encode_update(&message, (struct tern_span){container, used}, body, size, &len),
        TERN_OK);
    free(container);
    free(values);
    return len;
}

static void start(const char *spec)
{
    struct tern_db_federation federation = {.seed = 1};
    struct tern_model model;
    memset(&model, 0, sizeof model);
    strncpy(federation.model_spec, spec, sizeof federation.model_spec - 1);
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    memcpy(federation.model_hash, model.hash, sizeof federation.model_hash);
    assert_int_equal(tern_merge_init(&merge, &federation, NULL), TERN_OK);
    tern_merge_seed(&merge, 1);
}

static void arrive(const struct tern_db_update *update, bool decoded,
                   struct tern_strategy_totals *totals)
{
    tern_Update message;
    struct tern_codec_info info;
    struct tern_arrival arrival = {.client = update->client, .round = 1};
    assert_int_equal(
        tern_wire_decode_update(update->body, update->body_len, &message, &arrival.container),
        TERN_OK);
    arrival.contribution = tern_contribution_of(&message);
    if (decoded) {
        assert_int_equal(tern_reading_make(&room, &merge.model, arrival.container.data,
                                           arrival.container.len, &info, &arrival.reading),
                         TERN_OK);
    }
    assert_int_equal(tern_strategy_count_update(totals, &arrival.contribution), TERN_OK);
    tern_merge_arrive(&merge, &arrival);
    tern_reading_free(arrival.reading);
}

// Stores the round's updates, and lets them arrive.
static void receive(struct fixture *f, const char *spec, bool decoded,
                    struct tern_strategy_totals *totals)
{
    const struct tern_strategy_rule rule = {.strategy = tern_strategy_find("fedavg"),
                                            .server_learning_rate = 1.0F};
    const size_t size = merge.model.count * sizeof(float) + 4096;
    uint8_t *body = malloc(size);
    fixture_round(f, 1);
    round_row = (struct tern_db_round){.round = 1, .codec_down = "float32"};
    tern_rule_write(&rule, &round_row);
    tern_strategy_totals_init(totals, &rule);
    tern_merge_open(&merge, &rule);
    for (uint32_t u = 0; u < UPDATES; u++) {
        struct tern_db_update update = {
            .round = 1, .client = fixture_client(f, (uint8_t)(u + 1)), .sequence = 1, .body = body};
        update.body_len = make_body(u, spec, body, size);
        tern_sha256(body, update.body_len, update.sha256);
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_update_put(f->db, &update));
        assert_ok(f, tern_db_commit(f->db));
        arrive(&update, decoded, totals);
    }
    free(body);
}

// Closes the round, and makes it anew from the stored updates: both have the same weights.
static void close_round(struct fixture *f, const struct tern_strategy_totals *totals)
{
    struct tern_merge_next live;
    struct tern_merge_next replayed;
    struct tern_download_made made;
    struct tern_strategy_report report;
    assert_ok(f, tern_merge_make(&merge, f->db, &round_row, totals, &live));
    assert_int_equal(live.report.updates, UPDATES);
    assert_int_equal(merge.arrived.used, 0);
    tern_merge_seed(&merge, 1);
    assert_ok(f, tern_merge_round(&merge, f->db, &round_row, &made, &report));
    memcpy(replayed.model_sha256, merge.model_sha256, sizeof replayed.model_sha256);
    assert_memory_equal(live.model_sha256, replayed.model_sha256, sizeof live.model_sha256);
    tern_merge_free(&merge);
}

CASE_WITH(test_an_open_round_of_a_large_model_has_no_sums, fixture_setup, fixture_teardown)
{
    struct tern_strategy_totals totals;
    start(LARGE);
    receive(*state, "float32", false, &totals);
    assert_int_equal(merge.deferred, UPDATES);
    assert_int_equal(merge.arrived.used, 0);
    assert_null(merge.arrived.scratch);
    close_round(*state, &totals);
}

CASE_WITH(test_decoded_values_are_added_at_once, fixture_setup, fixture_teardown)
{
    struct tern_strategy_totals totals;
    start(LARGE);
    receive(*state, "uniform:error=0.05", true, &totals);
    assert_int_equal(merge.deferred, 0);
    assert_int_equal(merge.arrived.updates, UPDATES);
    // Values within a factor of 65,000 share cells, however many updates there are.
    assert_int_equal(merge.arrived.used, merge.model.count * sizeof(uint64_t));
    close_round(*state, &totals);
}

CASE_WITH(test_a_small_model_is_decoded_as_updates_arrive, fixture_setup, fixture_teardown)
{
    struct tern_strategy_totals totals;
    start(SMALL);
    receive(*state, "float32", false, &totals);
    assert_int_equal(merge.deferred, 0);
    assert_int_equal(merge.arrived.updates, UPDATES);
    close_round(*state, &totals);
}
