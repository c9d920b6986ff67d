// Gives a state directory a past, for the tests of the verbs: make_federation DATABASE ROUNDS.
// Three clients and an evaluator; every round has an update of each client, made from seeded noise,
// and is committed by the code that the service commits with, so that `verify` must agree.
#include "merge/merge.h"
#include "store/store.h"
#include "util/prng.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAINERS 3
#define EVALUATOR 4
#define AVERAGED 3 // average_versions of round.strategy

struct maker {
    struct tern_db *db;
    struct tern_merge merge;
    struct tern_codec codec;
    uint64_t now_ms;
};

static enum tern_result add_clients(struct maker *maker)
{
    for (uint64_t id = 1; id <= EVALUATOR; id++) {
        struct tern_db_client client = {.platform = "linux-test",
                                        .evaluator = id == EVALUATOR,
                                        .created_ms = maker->now_ms,
                                        .last_seen_ms = maker->now_ms + 1, // it came
                                        .steps_per_second = 40.0F};
        // The second one tries to steer the operator's terminal.
        snprintf(client.name, sizeof client.name, id == 2 ? "evil\x1b[2J\nname" : "device-%llu",
                 (unsigned long long)id);
        memset(client.token_hash, (int)id, sizeof client.token_hash);
        TERN_TRY(tern_db_client_add(maker->db, &client));
    }
    return TERN_OK;
}

// Everybody has enrolled; the evaluator's bytes count for no round's cost.
static enum tern_result add_enrolments(struct maker *maker)
{
    for (uint64_t id = 1; id <= EVALUATOR; id++) {
        struct tern_db_meter enrolment = {.client = id,
                                          .purpose = TERN_PURPOSE_ENROLL,
                                          .up = {0, 100, 600, 800},
                                          .down = {0, 100, 900, 1000},
                                          .exchanges = 1};
        TERN_TRY(tern_db_meter_add(maker->db, &enrolment));
    }
    struct tern_db_meter evaluation = {.client = EVALUATOR,
                                       .round = 1,
                                       .purpose = TERN_PURPOSE_DOWNLOAD,
                                       .up = {0, 100, 130, 200},
                                       .down = {300, 400, 430, 500},
                                       .exchanges = 1};
    return tern_db_meter_add(maker->db, &evaluation);
}

// The Update message of a client: its change is noise that depends on round and client.
static enum tern_result make_body(struct maker *maker, uint32_t round, uint64_t client,
                                  uint8_t *body, size_t size, size_t *len)
{
    const struct tern_model *model = &maker->merge.model;
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, round, (uint32_t)client);
    float *change = maker->merge.acc;
    for (uint32_t i = 0; i < model->count; i++) {
        change[i] = 0.01F * (tern_prng_float(&rng) - 0.5F);
    }
    size_t bound = tern_container_bound(&maker->codec, model);
    uint8_t *container = malloc(bound);
    size_t used = 0;
    if (container == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_Update message = tern_Update_init_zero;
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, maker->merge.replica_id, TERN_WIRE_REPLICA_BYTES);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    message.num_examples = 100 + (uint32_t)client;
    message.local_steps = 5;
    message.loss = 1.0F / (float)round;
    message.has_error = true;
    enum tern_result result =
        tern_container_encode(&maker->codec, NULL, model, change, container, bound, &used);
    if (result == TERN_OK) {
        result =
            tern_wire_encode_update(&message, (struct tern_span){container, used}, body, size, len);
    }
    free(container);
    return result;
}

static enum tern_result add_meter(struct maker *maker, uint32_t round, uint64_t client, size_t len)
{
    struct tern_db_meter upload = {.client = client,
                                   .round = round,
                                   .purpose = TERN_PURPOSE_UPLOAD,
                                   .up = {len, len + 100, len + 130, len + 200},
                                   .down = {0, 50, 80, 150},
                                   .exchanges = 1};
    struct tern_db_meter download = {.client = client,
                                     .round = round,
                                     .purpose = TERN_PURPOSE_DOWNLOAD,
                                     .up = {0, 100, 130, 200},
                                     .down = {300, 400, 430, 500},
                                     .exchanges = 1};
    TERN_TRY(tern_db_meter_add(maker->db, &upload));
    return tern_db_meter_add(maker->db, &download);
}

static enum tern_result add_update(struct maker *maker, uint32_t round, uint64_t client)
{
    static uint8_t body[1u << 20];
    struct tern_db_update update = {
        .round = round, .client = client, .sequence = round, .received_ms = maker->now_ms};
    TERN_TRY(make_body(maker, round, client, body, sizeof body, &update.body_len));
    update.body = body;
    tern_sha256(body, update.body_len, update.sha256);
    struct tern_db_ledger ledger = {.client = client,
                                    .generation = 0xabcdef01u,
                                    .sequence = round,
                                    .norm = 0.25F,
                                    .maximum = 0.125F,
                                    .round = round,
                                    .loss = 0.5F,
                                    .update_bytes = (uint32_t)update.body_len};
    struct tern_db_assignment assignment = {
        .round = round, .client = client, .state = TERN_ASSIGNMENT_REPORTED, .local_steps = 5};
    TERN_TRY(tern_db_assignment_put(maker->db, &assignment, NULL));
    TERN_TRY(tern_db_update_put(maker->db, &update));
    TERN_TRY(tern_db_ledger_put(maker->db, &ledger));
    return add_meter(maker, round, client, update.body_len);
}

// Every client holds the newest one.
static enum tern_result store_replica(struct maker *maker)
{
    const struct tern_merge *merge = &maker->merge;
    struct tern_db_replica row = {.trunk = true,
                                  .form = TERN_REPLICA_SEED,
                                  .version = merge->version,
                                  .residual = 0.5F * (float)merge->version,
                                  .used_ms = maker->now_ms};
    memcpy(row.id, merge->replica_id, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_replica_put(maker->db, &row));
    for (uint64_t id = 1; id <= TRAINERS; id++) {
        struct tern_db_client client;
        TERN_TRY(tern_db_client_get(maker->db, id, &client));
        client.version = merge->version;
        memcpy(client.replica, merge->replica_id, TERN_SHA256_SIZE);
        TERN_TRY(tern_db_client_update(maker->db, &client));
    }
    return merge->version == 0
               ? TERN_OK
               : tern_db_replica_weights_put(maker->db, row.id, merge->replica, merge->model.count);
}

static enum tern_result store_version(struct maker *maker, uint32_t round)
{
    struct tern_merge *merge = &maker->merge;
    struct tern_db_version version = {
        .version = merge->version, .round = round, .created_ms = maker->now_ms};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_version_put(maker->db, &version));
    TERN_TRY(store_replica(maker));
    return tern_merge_checkpoint(merge, maker->db, UINT64_MAX);
}

static enum tern_result do_round(struct maker *maker, uint32_t number)
{
    struct tern_db_round round = {
        .round = number,
        .state = TERN_ROUND_OPEN,
        .base_version = number - 1,
        .target = TRAINERS,
        .quorum = 2,
        .opened_ms = maker->now_ms,
        .deadline_ms = maker->now_ms + 60000,
        .attempts = 1,
        .strategy = "fedavg",
        .strategy_parameters =
            "normalise=1,local_momentum=0,scale_max=0,norm_bound=0,examples_bound=0",
        .server_learning_rate = 1.0F,
        .codec_up = "3lc:s=1",
        .codec_down = "3lc:s=1",
        .learning_rate = 0.05F,
        .averaged = number < AVERAGED ? number : AVERAGED};
    struct tern_download_made made;
    struct tern_strategy_report report;
    TERN_TRY(tern_db_round_put(maker->db, &round));
    for (uint64_t client = 1; client <= TRAINERS; client++) {
        TERN_TRY(add_update(maker, number, client));
    }
    TERN_TRY(tern_merge_round(&maker->merge, maker->db, &round, &made, &report));
    maker->now_ms += 2500;
    round.state = TERN_ROUND_COMMITTED;
    round.closed_ms = maker->now_ms;
    round.applied = report.updates;
    round.mean_loss = report.mean_loss;
    struct tern_db_evaluation evaluation = {.version = maker->merge.version,
                                            .client = EVALUATOR,
                                            .num_examples = 200,
                                            .loss = 0.5F,
                                            .accuracy = 0.5F + 0.125F * (float)(number % 4)};
    TERN_TRY(tern_db_round_put(maker->db, &round));
    TERN_TRY(tern_db_evaluation_put(maker->db, &evaluation));
    return store_version(maker, number);
}

static enum tern_result make(struct maker *maker, uint32_t rounds)
{
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(maker->db, &federation));
    TERN_TRY(tern_merge_init(&maker->merge, &federation, NULL));
    TERN_TRY(tern_codec_parse("3lc:s=1", &maker->codec, NULL));
    tern_merge_seed(&maker->merge, federation.seed);
    TERN_TRY(tern_db_begin(maker->db));
    TERN_TRY(add_clients(maker));
    TERN_TRY(store_version(maker, 0));
    if (rounds > 0) {
        TERN_TRY(add_enrolments(maker));
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        TERN_TRY(do_round(maker, round));
    }
    return tern_db_commit(maker->db);
}

int main(int argc, char **argv)
{
    char why[256] = "usage: make_federation DATABASE ROUNDS";
    static struct maker maker = {.now_ms = 1700000000000u};
    if (argc != 3 || tern_db_open(argv[1], 0, &maker.db, why) != TERN_OK) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    enum tern_result result = make(&maker, (uint32_t)strtoul(argv[2], NULL, 10));
    if (result != TERN_OK) {
        fprintf(stderr, "%s: %s\n", tern_result_name(result), tern_db_error(maker.db));
    }
    tern_merge_free(&maker.merge);
    tern_db_close(maker.db);
    return result == TERN_OK ? 0 : 1;
}
