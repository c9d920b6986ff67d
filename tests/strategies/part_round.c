#include "strategies/part_round.h"

#include "store/store.h"
#include "tensor/manifest.h"
#include "util/prng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct update updates[UPDATES];
struct tern_db_federation about;
static uint8_t manifest[TERN_MANIFEST_MAX];
struct tern_db_round round_row;
struct tern_strategy_totals totals;
struct tern_reading_room readings;
struct tern_model model;

// --- A model with tensors of every rule, and updates of every codec

static void add(struct tern_model *made, const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(made, name, &count, 1, rule), TERN_OK);
}

static void make_model(void)
{
    static struct tern_model made;
    tern_model_clear(&made);
    add(&made, "frozen", 40, TERN_RULE_SKIP);
    add(&made, "mean", 30, TERN_RULE_DENSE);
    add(&made, "own", 20, TERN_RULE_LOCAL);
    add(&made, "weight", 700, TERN_RULE_COMPRESS);
    add(&made, "bias", 10, TERN_RULE_FUSE);
    add(&made, "scale", 15, TERN_RULE_FUSE);
    about = (struct tern_db_federation){.seed = 7, .manifest = manifest};
    about.manifest_len = tern_manifest_encode(&made, manifest);
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_manifest(&model, manifest, about.manifest_len), TERN_OK);
    memcpy(about.model_hash, model.hash, TERN_SHA256_SIZE);
}

// Far apart from one to the next, so that they need several bins; one in six is far larger than the others, and one in
// three has nothing in dense tensors, so that sums may hold it as a reading.
static void make_values(uint32_t u, float *values)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, u, 0);
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = ldexpf(tern_prng_float(&rng) - 0.5F, (int)(u * 5 % 12) - (u % 6 == 0 ? 6 : 12));
    }
    for (uint32_t s = 0; s < model.segment_count; s++) {
        const struct tern_segment *segment = &model.segments[s];
        const bool is_zero =
            tern_segment_is_skipped(segment) || (u % 3 == 0 && !tern_segment_is_coded(segment));
        for (uint32_t i = 0; is_zero && i < segment->count; i++) {
            values[segment->offset + i] = 0.0F;
        }
    }
}

static const char *const specs[] = {"3lc:s=1,clip=4,coder=range",
                                    "float32",
                                    "3lc:s=1",
                                    "density:p=0.2,coder=gaps",
                                    "int8",
                                    "float16",
                                    "bfloat16",
                                    "onebit",
                                    "qsgd:levels=7,bucket=512",
                                    "inceptionn:bound=10",
                                    "uniform:error=0.1",
                                    "sparse:p=0.05",
                                    "stochastic-ternary",
                                    "density:p=0.05,coder=range",
                                    "dgc:p=0.01,warmup=20",
                                    "scalecom:p=0.05"};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void make_update(struct fixture *fixture, uint32_t u)
{
    struct update *update = &updates[u];
    struct tern_arrival *arrival = &update->arrival;
    static uint8_t container[BODY_MAX];
    struct tern_codec codec;
    struct tern_codec_info info;
    size_t used = 0;
    float *values = malloc(model.count * sizeof *values);
    float *velocity = calloc(model.count, sizeof *velocity);
    make_values(u, values);
    assert_int_equal(tern_codec_parse(specs[u % SPECS], &codec, NULL), TERN_OK);
    const struct tern_encode_context context = {
        .seed = 1, .round = ROUND, .client = u, .velocity = velocity};
    assert_int_equal(
        tern_container_encode(&codec, &context, &model, values, container, sizeof container, &used),
        TERN_OK);
    free(velocity);
    free(values);
    tern_Update message = {.num_examples = 1 + u * 7919 % 1000,
                           .local_steps = 1 + u * 3 % 4,
                           .loss = 1.0F / 3.0F,
                           .has_error = true};
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    message.model_hash.size = TERN_SHA256_SIZE;
    assert_int_equal(tern_wire_encode_update(&message, (struct tern_span){container, used},
                                             update->body, sizeof update->body, &update->len),
                     TERN_OK);
    *arrival =
        (struct tern_arrival){.client = fixture_client(fixture, (uint8_t)(u + 1)), .round = ROUND};
    assert_int_equal(
        tern_wire_decode_update(update->body, update->len, &message, &arrival->container), TERN_OK);
    arrival->contribution = tern_contribution_of(&message);
    tern_sha256(update->body, update->len, arrival->sha256);
    assert_int_equal(
        tern_container_inspect(&model, arrival->container.data, arrival->container.len, &info),
        TERN_OK);
    arrival->sum_square = info.sum_square;
    const struct tern_db_update row = {.round = ROUND,
                                       .client = arrival->client,
                                       .sequence = 1,
                                       .body = update->body,
                                       .body_len = update->len};
    struct tern_db_update stored = row;
    memcpy(stored.sha256, arrival->sha256, TERN_SHA256_SIZE);
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_update_put(fixture->db, &stored));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

void open_round(struct fixture *fixture, const struct tern_strategy_rule *rule)
{
    struct tern_db_version version = {.version = 0};
    round_row = (struct tern_db_round){.round = ROUND,
                                       .state = TERN_ROUND_OPEN,
                                       .learning_rate = rule->learning_rate,
                                       .codec_down = "float32"};
    memset(version.replica, 9, TERN_SHA256_SIZE);
    tern_rule_write(rule, &round_row);
    assert_ok(fixture, tern_db_begin(fixture->db));
    const enum tern_result known = tern_db_version_get(fixture->db, 0, &version);
    if (known == TERN_ERR_NOT_FOUND) {
        assert_ok(fixture, tern_db_version_put(fixture->db, &version));
    }
    assert_ok(fixture, tern_db_round_put(fixture->db, &round_row));
    assert_ok(fixture, tern_db_commit(fixture->db));
    assert_ok(fixture, tern_db_round_get(fixture->db, ROUND, &round_row));
    tern_strategy_totals_init(&totals, rule);
    for (uint32_t u = 0; u < UPDATES && updates[u].len > 0; u++) {
        assert_int_equal(tern_strategy_count_update(&totals, &updates[u].arrival.contribution),
                         TERN_OK);
    }
}

struct tern_strategy_rule rule_of(const char *name, float norm_bound)
{
    struct tern_strategy_rule rule = {
        .strategy = tern_strategy_find(name), .server_learning_rate = 0.75F, .learning_rate = 0.1F};
    assert_non_null(rule.strategy);
    const float values[TERN_STRATEGY_PARAMETERS] = {[TERN_STRATEGY_NORMALISE] = 1.0F,
                                                    [TERN_STRATEGY_LOCAL_MOMENTUM] = 0.5F,
                                                    [TERN_STRATEGY_PROX_MU] = 0.01F,
                                                    [TERN_STRATEGY_SERVER_MOMENTUM] = 0.7F,
                                                    [TERN_STRATEGY_BETA1] = 0.9F,
                                                    [TERN_STRATEGY_BETA2] = 0.99F,
                                                    [TERN_STRATEGY_TAU] = 0.001F,
                                                    [TERN_STRATEGY_SCALE_MAX] = 2.0F,
                                                    [TERN_STRATEGY_STALENESS_MAX] = 2.0F,
                                                    [TERN_STRATEGY_NORM_BOUND] = norm_bound,
                                                    [TERN_STRATEGY_EXAMPLES_BOUND] =
                                                        norm_bound > 0.0F ? 1.0F : 0.0F};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        rule.parameters[i] = (rule.strategy->parameters >> i & 1) != 0 ? values[i] : 0.0F;
    }
    return rule;
}

int part_round_setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *fixture = *state;
    const struct tern_strategy_rule rule = rule_of("fedavg", 0.0F);
    make_model();
    totals.rule = rule;
    memset(updates, 0, sizeof updates);
    open_round(fixture, &rule);
    for (uint32_t u = 0; u < UPDATES; u++) {
        make_update(fixture, u);
    }
    open_round(fixture, &rule);
    return 0;
}

// --- The close

void begin_merge(struct tern_merge *merge)
{
    struct tern_strategy_rule rule;
    assert_int_equal(tern_merge_init(merge, &about, NULL), TERN_OK);
    memset(merge->replica_id, 9, TERN_SHA256_SIZE);
    assert_int_equal(tern_rule_read(&round_row, &rule), TERN_OK);
    tern_merge_open(merge, &rule);
}

void close_round(struct fixture *fixture, struct tern_merge *merge,
                 uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge_next next;
    assert_ok(fixture, tern_merge_make(merge, fixture->db, &round_row, &totals, &next));
    assert_int_equal(next.report.updates, UPDATES);
    memcpy(sha256, next.model_sha256, TERN_SHA256_SIZE);
    tern_merge_free(merge);
}

void expect_model(struct fixture *fixture, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    begin_merge(&merge);
    tern_merge_stop(&merge);
    close_round(fixture, &merge, sha256);
}

struct tern_arrival arrive(uint32_t u, bool read)
{
    struct tern_arrival arrival = updates[u].arrival;
    struct tern_codec_info info;
    if (read) {
        assert_int_equal(tern_reading_make(&readings, &model, arrival.container.data,
                                           arrival.container.len, &info, &arrival.reading),
                         TERN_OK);
    }
    return arrival;
}

// --- Parts

void begin_part(struct fixture *fixture, struct tern_part *part, uint64_t memory)
{
    struct tern_part_round round;
    assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
    assert_int_equal(tern_part_begin(part, &model, &round, memory), TERN_OK);
}

void add_to_part(struct tern_part *part, uint32_t u, bool read)
{
    struct tern_arrival arrival = arrive(u, read);
    assert_int_equal(tern_part_add(part, &arrival, updates[u].len), TERN_OK);
    tern_reading_free(arrival.reading);
}

void store_part(struct fixture *fixture, struct tern_part *part, const char *node)
{
    assert_ok(fixture, tern_part_store(part, fixture->db, node));
    tern_part_clear(part);
}

void drop_parts(struct fixture *fixture)
{
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_parts_drop(fixture->db, ROUND));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

void make_half(struct fixture *fixture, struct tern_part *part)
{
    *part = (struct tern_part){.count = 0};
    begin_part(fixture, part, UINT64_MAX);
    for (uint32_t u = 0; u < HALF; u++) {
        add_to_part(part, u, u % 2 == 0);
    }
}
