// Partial sums of a round by several nodes: with them the model has the same bits as without, whoever summed what; one
// that does not belong to the round, is damaged or hostile is named, left out, and leaves no trace.
#include "merge/gather.h"
#include "merge/part_delivery.h"
#include "merge/part_form.h"
#include "merge/strategy_rule.h"
#include "store/fixture.h"
#include "tensor/manifest.h"
#include "util/bytes.h"
#include "util/prng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/watched_log.h"
#include "store/parts.h"

#define UPDATES 30
#define NODES 5
#define ROUND 1
#define BODY_MAX 16384

struct update {
    struct tern_arrival arrival;
    uint8_t body[BODY_MAX];
    size_t len;
};

static struct update updates[UPDATES];
static struct tern_db_federation about;
static uint8_t manifest[TERN_MANIFEST_MAX];
static struct tern_db_round round_row;
static struct tern_strategy_totals totals;
static struct tern_reading_room readings;
static struct tern_model model;

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

// A round of the strategy, whose row goes through the store.
static void open_round(struct fixture *fixture, const struct tern_strategy_rule *rule)
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
    tern_strategy_count_none(&totals, rule);
    for (uint32_t u = 0; u < UPDATES && updates[u].len > 0; u++) {
        assert_int_equal(tern_strategy_count(&totals, &updates[u].arrival.contribution), TERN_OK);
    }
}

static struct tern_strategy_rule rule_of(const char *name, float norm_bound)
{
    struct tern_strategy_rule rule = {
        .strategy = tern_strategy_find(name), .server_learning_rate = 0.75F, .learning_rate = 0.1F};
    assert_non_null(rule.strategy);
    const float values[TERN_STRATEGY_PARAMETERS] = {
        [TERN_STRATEGY_NORMALISE] = 1.0F,     [TERN_STRATEGY_LOCAL_MOMENTUM] = 0.5F,
        [TERN_STRATEGY_PROX_MU] = 0.01F,      [TERN_STRATEGY_SERVER_MOMENTUM] = 0.7F,
        [TERN_STRATEGY_BETA1] = 0.9F,         [TERN_STRATEGY_BETA2] = 0.99F,
        [TERN_STRATEGY_TAU] = 0.001F,         [TERN_STRATEGY_SCALE_MAX] = 2.0F,
        [TERN_STRATEGY_STALENESS_MAX] = 2.0F, [TERN_STRATEGY_NORM_BOUND] = norm_bound};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        rule.parameters[i] = (rule.strategy->parameters >> i & 1) != 0 ? values[i] : 0.0F;
    }
    return rule;
}

static int setup(void **state)
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

static void begin(struct tern_merge *merge)
{
    struct tern_strategy_rule rule;
    assert_int_equal(tern_merge_init(merge, &about, NULL), TERN_OK);
    memset(merge->replica_id, 9, TERN_SHA256_SIZE);
    assert_int_equal(tern_rule_read(&round_row, &rule), TERN_OK);
    tern_merge_open(merge, &rule);
}

// Merges what the merge has, or what is stored, and ends it.
static void close_round(struct fixture *fixture, struct tern_merge *merge,
                        uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge_next next;
    assert_ok(fixture, tern_merge_make(merge, fixture->db, &round_row, &totals, &next));
    assert_int_equal(next.report.updates, UPDATES);
    memcpy(sha256, next.model_sha256, TERN_SHA256_SIZE);
    tern_merge_free(merge);
}

// What one machine makes of it: from what is stored, as a replay does.
static void expect(struct fixture *fixture, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    begin(&merge);
    tern_merge_stop(&merge);
    close_round(fixture, &merge, sha256);
}

// As a thread that received the update would hand it on, with a reading or without.
static struct tern_arrival arrive(uint32_t u, bool read)
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

static void begin_part(struct fixture *fixture, struct tern_part *part, uint64_t memory)
{
    struct tern_part_round round;
    assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
    assert_int_equal(tern_part_begin(part, &model, &round, memory), TERN_OK);
}

static void add_to_part(struct tern_part *part, uint32_t u, bool read)
{
    struct tern_arrival arrival = arrive(u, read);
    assert_int_equal(tern_part_add(part, &arrival, updates[u].len), TERN_OK);
    tern_reading_free(arrival.reading);
}

static void store_part(struct fixture *fixture, struct tern_part *part, const char *node)
{
    assert_ok(fixture, tern_part_store(part, fixture->db, node));
    tern_part_clear(part);
}

static void drop_parts(struct fixture *fixture)
{
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_parts_drop(fixture->db, ROUND));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

// Who has an update: the leader itself, nobody, or a node from 0 on.
enum { OWN = NODES, NOBODY };

struct division {
    int of[UPDATES];
};

static uint32_t held; // updates that parts held as readings when they were stored

static void count_held(const struct tern_part *part)
{
    for (uint32_t i = 0; i < part->mean.group_count; i++) {
        const struct tern_exact_held *each = part->mean.groups[i].held;
        for (; each != NULL; each = each->next) {
            held++;
        }
    }
}

// With parts of that division. Returns how many updates were in no part that was taken.
static uint32_t play(struct fixture *fixture, const struct division *division, uint32_t turn,
                     uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    struct tern_gather gather;
    struct tern_part parts[NODES];
    memset(parts, 0, sizeof parts);
    begin(&merge);
    for (int p = 0; p < NODES; p++) {
        begin_part(fixture, &parts[p], UINT64_MAX);
    }
    for (uint32_t i = 0; i < UPDATES; i++) {
        const uint32_t u = (i * 7 + turn) % UPDATES;
        struct tern_arrival arrival = arrive(u, i % 2 == 0);
        if (division->of[u] == OWN) {
            tern_merge_arrive(&merge, &arrival);
        } else {
            tern_merge_defer(&merge, &arrival);
        }
        tern_reading_free(arrival.reading);
        if (division->of[u] < NODES) {
            add_to_part(&parts[division->of[u]], u, i % 3 != 0);
        }
    }
    for (int p = 0; p < NODES; p++) {
        char node[32];
        snprintf(node, sizeof node, "node-%d", p);
        count_held(&parts[p]);
        if (parts[p].count > 0) {
            store_part(fixture, &parts[p], node);
        }
        tern_part_clear(&parts[p]);
    }
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const uint32_t missing = tern_gather_missing(&gather);
    tern_gather_rest(&gather);
    assert_true(merge.arrives && merge.arrived.updates == UPDATES);
    close_round(fixture, &merge, sha256);
    drop_parts(fixture);
    assert_int_equal(atomic_load(&readings.bytes), 0);
    return missing;
}

static uint32_t divide(struct division *division, struct tern_prng *rng, uint32_t nodes)
{
    uint32_t nobodys = 0;
    for (uint32_t u = 0; u < UPDATES; u++) {
        const uint32_t drawn = tern_prng_below(rng, nodes + 2);
        division->of[u] = drawn < nodes ? (int)drawn : drawn == nodes ? OWN : NOBODY;
        nobodys += division->of[u] == NOBODY;
    }
    return nobodys;
}

static const char *const divided[] = {"fedavgm", "fednova",    "fedavg", "fedprox",
                                      "fedadam", "fedadagrad", "fedyogi"};

static void test_every_division_gives_the_same_bits(void **state)
{
    struct fixture *fixture = *state;
    struct tern_prng rng;
    uint32_t left = 0; // that were nobody's
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < 2 * sizeof divided / sizeof divided[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(divided[i / 2], i % 2 == 0 ? 0.0F : 2.0F);
        uint8_t expected[TERN_SHA256_SIZE];
        uint8_t found[TERN_SHA256_SIZE];
        open_round(fixture, &rule);
        expect(fixture, expected);
        for (uint32_t turn = 1; turn <= NODES; turn++) {
            struct division division;
            const uint32_t nobodys = divide(&division, &rng, turn);
            assert_int_equal(play(fixture, &division, turn, found), nobodys);
            assert_memory_equal(found, expected, TERN_SHA256_SIZE);
            left += nobodys;
        }
    }
    assert_true(left > 0 && held > 0);
}

// Those that are no weighted mean of the round's own updates take no parts, and say so.
static void test_other_strategies_take_none(void **state)
{
    struct fixture *fixture = *state;
    static const char *const others[] = {"fedmedian", "fedtrimmedavg", "krum", "multikrum",
                                         "fedbuff"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(others[i], 0.0F);
        struct tern_part part = {.count = 0};
        struct tern_part_round round;
        struct tern_merge merge;
        uint8_t expected[TERN_SHA256_SIZE];
        uint8_t found[TERN_SHA256_SIZE];
        open_round(fixture, &rule);
        assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
        assert_false(tern_part_suits(&round.rule));
        assert_int_equal(tern_part_begin(&part, &model, &round, UINT64_MAX), TERN_ERR_STATE);
        assert_int_equal(tern_part_add(&part, &updates[0].arrival, 1), TERN_ERR_STATE);
        expect(fixture, expected);
        begin(&merge);
        for (uint32_t u = 0; u < UPDATES; u++) {
            tern_merge_defer(&merge, &updates[u].arrival);
        }
        assert_int_equal(merge.deferred_count, 0);
        close_round(fixture, &merge, found);
        assert_memory_equal(found, expected, TERN_SHA256_SIZE);
    }
    for (size_t i = 0; i < sizeof divided / sizeof divided[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(divided[i], 0.0F);
        assert_true(tern_part_suits(&rule));
    }
}

// --- Parts that are not used

#define HALF (UPDATES / 2)

// A part of the first half.
static void make_half(struct fixture *fixture, struct tern_part *part)
{
    *part = (struct tern_part){.count = 0};
    begin_part(fixture, part, UINT64_MAX);
    for (uint32_t u = 0; u < HALF; u++) {
        add_to_part(part, u, u % 2 == 0);
    }
}

// Closes the round with what is stored of parts; the second half arrived at the leader. Returns how many updates were
// missing.
static uint32_t close_half(struct fixture *fixture, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    struct tern_gather gather;
    begin(&merge);
    for (uint32_t u = 0; u < UPDATES; u++) {
        struct tern_arrival arrival = arrive(u, u % 2 == 0);
        if (u < HALF) {
            tern_merge_defer(&merge, &arrival);
        } else {
            tern_merge_arrive(&merge, &arrival);
        }
        tern_reading_free(arrival.reading);
    }
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const uint32_t missing = tern_gather_missing(&gather);
    tern_gather_rest(&gather);
    close_round(fixture, &merge, sha256);
    return missing;
}

// Nobody uses what is stored of parts, which the log says by name; the model is that of one machine.
static void assert_refused(struct fixture *fixture, const char *why)
{
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    expect(fixture, expected);
    watch_log();
    const uint32_t missing = close_half(fixture, found);
    const unsigned named = lines_with(why);
    leave_log();
    assert_int_equal(missing, HALF);
    assert_int_equal(named, 1);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
    drop_parts(fixture);
}

static void test_parts_of_something_else_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    make_half(fixture, &part);
    part.round.base_version++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it is of another base version");
    make_half(fixture, &part);
    part.round.base[31] ^= 1;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it is of another base version");
    make_half(fixture, &part);
    part.round.rule.strategy = tern_strategy_find("fedprox");
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it is of another strategy");
    make_half(fixture, &part);
    part.round.rule.parameters[TERN_STRATEGY_NORM_BOUND] = 3.0F;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "or of other parameters");
    make_half(fixture, &part);
    part.round.rule.server_learning_rate = 1.0F;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "or of other parameters");
    make_half(fixture, &part);
    struct tern_model other = model;
    other.hash[0] ^= 1;
    part.mean.model = &other;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it is of another model");
}

// Another one that is open, too.
static void test_a_part_of_another_round_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    fixture_round(fixture, ROUND + 1);
    make_half(fixture, &part);
    assert_int_equal(tern_part_add(&part, &(struct tern_arrival){.round = ROUND + 1}, 1),
                     TERN_ERR_STATE);
    assert_int_equal(part.count, HALF);
    part.round.round++;
    store_part(fixture, &part, "a"); // where nobody looks for it
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    expect(fixture, expected);
    assert_int_equal(close_half(fixture, found), HALF);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
}

static void test_updates_that_were_not_accepted_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    // Of a client that has none, of another body, of other examples, steps or norm, and one that the leader has itself.
    make_half(fixture, &part);
    part.updates[3].client += 1000;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
    make_half(fixture, &part);
    part.updates[HALF - 1].sha256[5] ^= 4;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
    make_half(fixture, &part);
    part.updates[0].num_examples++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
    make_half(fixture, &part);
    part.updates[0].local_steps++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
    make_half(fixture,
              &part); // its sums could be larger then than the values that the leader has read
    part.updates[0].sum_square *= 1.5;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
    make_half(fixture, &part);
    add_to_part(&part, HALF, false);
    store_part(fixture, &part, "a");
    assert_refused(fixture, "longer than the round's");
    begin_part(fixture, &part, UINT64_MAX);
    add_to_part(&part, HALF, false);
    store_part(fixture, &part, "a");
    assert_refused(fixture, "was not accepted as it has it");
}

// Of two parts that have an update in common, the first is used.
static void test_an_overlap_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct tern_part one = {.count = 0};
    struct tern_part other = {.count = 0};
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    begin_part(fixture, &other, UINT64_MAX);
    for (uint32_t u = 5; u < HALF; u++) {
        add_to_part(&other, u, false);
    }
    store_part(fixture, &other, "b");
    begin_part(fixture, &one, UINT64_MAX);
    for (uint32_t u = 0; u < 6; u++) {
        add_to_part(&one, u, false);
    }
    add_to_part(&one, 2, false);
    assert_int_equal(tern_part_store(&one, fixture->db, "a"), TERN_ERR_CONFLICT);
    tern_part_clear(&one);
    begin_part(fixture, &one, UINT64_MAX);
    for (uint32_t u = 0; u < 6; u++) {
        add_to_part(&one, u, false);
    }
    store_part(fixture, &one, "a");
    expect(fixture, expected);
    watch_log();
    const uint32_t missing = close_half(fixture, found);
    const unsigned named = lines_of("part-refused", "round=1 node=b updates=10");
    leave_log();
    assert_int_equal(missing, HALF - 6);
    assert_int_equal(named, 1);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
}

// --- Damage

struct bytes {
    uint8_t data[65536];
    size_t len;
    size_t at;
    size_t piece; // bytes that a reader is given at once
};

static enum tern_result keep_bytes(void *ctx, const uint8_t *data, size_t len)
{
    struct bytes *bytes = ctx;
    assert_true(bytes->len + len <= sizeof bytes->data);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return TERN_OK;
}

static enum tern_result give_bytes(void *ctx, const uint8_t **data, size_t *len)
{
    struct bytes *bytes = ctx;
    *data = bytes->data + bytes->at;
    *len = bytes->len - bytes->at < bytes->piece ? bytes->len - bytes->at : bytes->piece;
    bytes->at += *len;
    return TERN_OK;
}

static enum tern_part_fault read_bytes(struct fixture *fixture, struct bytes *bytes,
                                       uint64_t memory)
{
    struct tern_part part = {.count = 0};
    struct tern_part_round round;
    enum tern_part_fault fault = TERN_PART_NONE;
    const struct tern_part_source source = {bytes, give_bytes};
    bytes->at = 0;
    assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
    assert_int_equal(tern_part_read(&part, &model, &round, memory, HALF, &source, &fault), TERN_OK);
    assert_int_equal(part.count, fault == TERN_PART_NONE ? HALF : 0);
    assert_int_equal(part.mean.used > 0, fault == TERN_PART_NONE);
    tern_part_clear(&part);
    return fault;
}

static void write_half(struct fixture *fixture, struct bytes *bytes)
{
    struct tern_part part;
    make_half(fixture, &part);
    *bytes = (struct bytes){.piece = 1000};
    assert_int_equal(tern_part_write(&part, keep_bytes, bytes), TERN_OK);
    tern_part_clear(&part);
}

// The hash of what precedes it, as somebody hostile would set it.
static void sign(struct bytes *bytes)
{
    tern_sha256(bytes->data, bytes->len - TERN_SHA256_SIZE,
                bytes->data + bytes->len - TERN_SHA256_SIZE);
}

static void test_every_damaged_byte_is_found(void **state)
{
    static struct bytes whole;
    static struct bytes bytes;
    struct tern_prng rng;
    write_half(*state, &whole);
    for (whole.piece = 1; whole.piece < whole.len; whole.piece = whole.piece * 5 + 3) {
        assert_int_equal(read_bytes(*state, &whole, UINT64_MAX), TERN_PART_NONE);
    }
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (size_t at = 0; at < whole.len; at += at < 2000 ? 1 : 37) {
        bytes = whole;
        bytes.data[at] ^= (uint8_t)(1 + tern_prng_below(&rng, 255));
        assert_int_not_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_NONE);
    }
    for (size_t len = 0; len < whole.len; len += len < 500 ? 1 : 101) {
        bytes = whole;
        bytes.len = len;
        assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_CUT);
    }
    bytes = whole;
    bytes.len++;
    assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_LONG);
    bytes = whole;
    bytes.data[bytes.len - 1] ^= 1;
    assert_int_equal(read_bytes(*state, &bytes, UINT64_MAX), TERN_PART_HASH);
    assert_int_equal(read_bytes(*state, &whole, 8 * model.count - 1), TERN_PART_MEMORY);
}

// Bytes whose hash is right, changed at `at`.
static enum tern_part_fault read_changed(struct fixture *fixture, const struct bytes *whole,
                                         size_t at, uint64_t value, size_t len)
{
    static struct bytes bytes;
    uint8_t le[8];
    bytes = *whole;
    tern_put_le64(le, value);
    memcpy(bytes.data + at, le, len);
    sign(&bytes);
    return read_bytes(fixture, &bytes, UINT64_MAX);
}

static void test_hostile_parts_are_named(void **state)
{
    static struct bytes whole;
    write_half(*state, &whole);
    const size_t head = 8 + 12 + 64 + 24 + 12 + 4 * TERN_STRATEGY_PARAMETERS + 8;
    const size_t groups = head + (size_t)HALF * 56;
    const size_t cells =
        groups + 4 * 8; // of four numbers of steps; fedavg has one group, see below
    (void)cells;
    assert_int_equal(read_changed(*state, &whole, 0, 'x', 1), TERN_PART_FORM);
    assert_int_equal(read_changed(*state, &whole, 8, 2, 4), TERN_PART_FORM);
    assert_int_equal(read_changed(*state, &whole, 12, ROUND + 1, 4), TERN_PART_ROUND);
    assert_int_equal(read_changed(*state, &whole, 16, 1, 4), TERN_PART_BASE);
    assert_int_equal(read_changed(*state, &whole, 20, 0, 8), TERN_PART_MODEL);
    assert_int_equal(read_changed(*state, &whole, 52, 0, 8), TERN_PART_BASE);
    assert_int_equal(read_changed(*state, &whole, 84, 'x', 1), TERN_PART_STRATEGY);
    // More updates than the round has, or none; none of its groups; more groups than updates.
    assert_int_equal(read_changed(*state, &whole, head - 8, UINT32_MAX, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head - 8, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head - 4, 0, 4), TERN_PART_GROUPS);
    assert_int_equal(read_changed(*state, &whole, head - 4, UINT32_MAX, 4), TERN_PART_GROUPS);
    // A client twice; no examples, no steps; a norm that is none, or beyond all that is accepted.
    assert_int_equal(read_changed(*state, &whole, head + 56, updates[0].arrival.client, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 8, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 12, 0, 4), TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0x7ff8) << 48, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0x7fe0) << 48, 8),
                     TERN_PART_UPDATES);
    assert_int_equal(read_changed(*state, &whole, head + 16, UINT64_C(0xbff0) << 48, 8),
                     TERN_PART_UPDATES);
    // Steps that no update of it did; a bin that there is not.
    assert_int_equal(read_changed(*state, &whole, groups, 77, 4), TERN_PART_GROUPS);
    assert_int_equal(read_changed(*state, &whole, groups + 4, 1 << 16, 4), TERN_PART_GROUPS);
    // Wider cells than there are.
    assert_int_equal(read_changed(*state, &whole, cells, 9, 1), TERN_PART_FORM);
    // Its updates are not so large.
    for (uint32_t u = 0; u < HALF; u++) {
        const size_t norm = head + 56 * u + 16;
        tern_put_le64(whole.data + norm, tern_double_bits(0x1p-60));
    }
    assert_int_equal(read_changed(*state, &whole, 0, 't', 1), TERN_PART_SUMS);
}

// --- Delivery

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
    begin(&merge);
    tern_merge_defer(&merge, arrival);
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const bool used = tern_gather_missing(&gather) == 0;
    if (used) {
        tern_strategy_count_none(&one, &totals.rule);
        assert_int_equal(tern_strategy_count(&one, &arrival->contribution), TERN_OK);
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

static void test_a_large_part_comes_in_pieces(void **state)
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
static void test_a_part_that_does_not_pay_stays(void **state)
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

// A part that finds no memory covers nothing any more.
static void test_memory_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct tern_part part = {.count = 0};
    begin_part(fixture, &part, 8 * model.count - 1);
    assert_int_equal(tern_part_add(&part, &updates[1].arrival, 1), TERN_ERR_NO_SPACE);
    assert_int_equal(part.count, 0);
    assert_int_equal(tern_part_add(&part, &updates[1].arrival, 1), TERN_ERR_STATE);
    tern_part_clear(&part);
}

// Nobody loads clients anew for it, where a store knows such transactions.
static void test_a_delivery_is_no_change_for_others(void **state)
{
    struct fixture *fixture = *state;
    const char *path = tern_db_path(fixture->db);
    struct tern_part part;
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open_again(path, &other, why), TERN_OK);
    make_half(fixture, &part);
    (void)tern_db_changed_by_others(fixture->db);
    assert_ok(fixture, tern_part_store(&part, other, "a"));
    assert_int_equal(tern_db_changed_by_others(fixture->db), !tern_db_is_url(path));
    tern_part_clear(&part);
    tern_db_close(other);
}

// Once the round is closed nobody takes it, and what was delivered goes.
static void test_a_part_that_is_late_is_refused(void **state)
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_division_gives_the_same_bits, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_other_strategies_take_none, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_parts_of_something_else_are_refused, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_another_round_is_refused, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_updates_that_were_not_accepted_are_refused, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_overlap_is_refused, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_damaged_byte_is_found, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_parts_are_named, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_large_part_comes_in_pieces, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_that_does_not_pay_stays, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_delivery_is_no_change_for_others, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_part_that_is_late_is_refused, setup,
                                        fixture_teardown),
    };
    tern_log_set_level(TERN_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
