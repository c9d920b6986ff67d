// Secure rounds on the client: tickets, masked updates, settlements, and every attack of an aggregator that the client refuses.
// The world plays the aggregator and the helper: it opens the ticket, and so it can remove each mask.
#include "client/harness/one_world.h"
#include "secure/masked.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct fake_server *const server = &world.server;

#define KEYS_MAX 512

static struct {
    uint8_t sign_key[TERN_SECRET_SIZE];
    uint8_t sign_public[TERN_P256_PUBLIC_SIZE];
    uint8_t private_key[TERN_SECRET_SIZE]; // of the epoch
    uint32_t epoch;
    bool bad_signature;
    uint64_t log_count; // entries of the helper's log
    uint8_t log_fork;   // which of several logs it shows
    bool admitted;      // the ticket of the last check-in was opened
    bool never_admits;  // the helper takes no ticket
    uint8_t secret[TERN_SECRET_SIZE];
    uint8_t sealed_hash[TERN_SHA256_SIZE];
    char code[TERN_SECURE_CODE_MAX + 1];
    size_t tickets;

    tern_SecureRound secure;         // of every task
    void (*attack)(tern_Task *task); // changes a task
    bool settles;                    // answers bring settlements
    bool counts;                     // and the updates count
    uint32_t unsettled;              // round whose update waits for its settlement
    uint32_t settled;                // round that was settled; 0: none
    bool settled_counted;
    tern_Task task;              // the last one
    float weights[WORLD_VALUES]; // from which its honest members train
    float lie;                   // what value 3 of the client's snapshots has more
    uint8_t packed[WORLD_BLOB];
    size_t packed_len;
    float counted[WORLD_VALUES]; // sum of all updates that count

    // Every mask that left the client: the round's descriptor, and the hash of the bytes.
    struct {
        uint8_t descriptor[TERN_SHA256_SIZE];
        uint64_t nonce;
        uint8_t body[TERN_SHA256_SIZE];
    } used[KEYS_MAX];
    size_t used_count;
} party;

static void federation(uint8_t id[TERN_SHA256_SIZE])
{
    tern_federation_id(world.model.hash, server->seed, id);
}

static void sign_key(tern_HelperKey *helper)
{
    uint8_t id[TERN_SHA256_SIZE];
    uint8_t statement[TERN_SHA256_SIZE];
    federation(id);
    helper->epoch = party.epoch;
    helper->public_key.size = TERN_X25519_PUBLIC_SIZE;
    party.private_key[0] = (uint8_t)party.epoch;
    assert_int_equal(tern_x25519_public(party.private_key, helper->public_key.bytes), TERN_OK);
    tern_helper_key_statement(id, party.epoch, helper->public_key.bytes, statement);
    helper->signature.size = TERN_P256_SIGNATURE_SIZE;
    assert_int_equal(tern_p256_sign(party.sign_key, statement, helper->signature.bytes), TERN_OK);
    helper->signature.bytes[5] ^= party.bad_signature ? 1 : 0;
}

// Shows the end of the helper's log in a task.
static void show_log(tern_SecureRound *round)
{
    uint8_t id[TERN_SHA256_SIZE];
    uint8_t statement[TERN_SHA256_SIZE];
    struct tern_helper_log log = {.count = party.log_count};
    federation(id);
    memset(log.head, (int)party.log_count, sizeof log.head);
    log.head[7] ^= party.log_fork;
    tern_helper_log_statement(id, &log, statement);
    round->log_count = log.count;
    round->log_head.size = TERN_SHA256_SIZE;
    memcpy(round->log_head.bytes, log.head, sizeof log.head);
    round->log_signature.size = TERN_P256_SIGNATURE_SIZE;
    assert_int_equal(tern_p256_sign(party.sign_key, statement, round->log_signature.bytes),
                     TERN_OK);
}

static void open_ticket(const tern_CheckinRequest *checkin)
{
    uint8_t id[TERN_SHA256_SIZE];
    federation(id);
    const struct tern_secure_ticket ticket = {id, world.client.identity.client_id,
                                              checkin->ticket_epoch};
    const struct tern_bytes_view sealed = {checkin->ticket.bytes, checkin->ticket.size};
    party.admitted = tern_secure_ticket_open(&ticket, party.private_key, sealed, party.secret,
                                             party.code) == TERN_OK &&
                     !party.never_admits;
    tern_sha256(sealed.data, sealed.size, party.sealed_hash);
    party.tickets++;
}

static void adapt(struct fake_server *from, tern_CheckinReply *reply)
{
    const tern_CheckinRequest *checkin = &from->last_checkin;
    if (checkin->ticket.size > 0) {
        open_ticket(checkin);
    }
    if (reply->finished) {
        return;
    }
    if (party.settled != 0 && checkin->unsettled == party.settled) {
        reply->has_settled = true;
        reply->settled.round = party.settled;
        reply->settled.counted = party.settled_counted;
    }
    const bool waits = party.unsettled != 0;
    if (!party.admitted || checkin->ticket_epoch != party.epoch) {
        reply->has_helper = true;
        sign_key(&reply->helper);
    }
    if (waits || reply->has_helper) {
        reply->has_task = false;
        reply->come_back_ms = 1000;
        return;
    }
    reply->task.has_secure = true;
    reply->task.secure = party.secure;
    show_log(&reply->task.secure);
    if (party.attack != NULL) {
        party.attack(&reply->task);
    }
    party.task = reply->task;
    memcpy(party.weights, from->weights, sizeof party.weights);
    party.weights[3] -= party.lie;
}

// The round's facts as an honest aggregator and helper have them.
static struct tern_secure_round facts(const tern_Task *task)
{
    static float scales[2];
    struct tern_secure_round round = {
        .round = task->round,
        .local_steps = task->local_steps,
        .batch_size = task->batch_size,
        .learning_rate = task->learning_rate,
        .level = task->secure.level,
        .bits = task->secure.bits,
        .cohort = task->secure.cohort,
        .min_clients = task->secure.min_clients,
        .groups = task->secure.groups,
        .share = task->secure.share,
        .places_seed = task->secure.places_seed,
        .places_max = task->secure.places_max,
        .noise = task->secure.noise,
        .examples_max = task->secure.examples_max,
        .epoch = task->secure.epoch,
        .scale_count = 2,
        .scales = scales,
    };
    federation(round.federation);
    tern_masked_weights_hash(&world.model, party.weights, round.replica);
    memcpy(round.model_hash, world.model.hash, sizeof round.model_hash);
    scales[0] = tern_get_f32(task->secure.scales.bytes);
    scales[1] = tern_get_f32(task->secure.scales.bytes + 4);
    return round;
}

static void note_key(const struct tern_masked_key *masked)
{
    uint8_t body[TERN_SHA256_SIZE];
    tern_sha256(party.packed, party.packed_len, body);
    for (size_t i = 0; i < party.used_count; i++) {
        if (memcmp(party.used[i].descriptor, masked->descriptor, TERN_SHA256_SIZE) == 0 &&
            party.used[i].nonce == masked->nonce) {
            assert_memory_equal(party.used[i].body, body, sizeof body); // the same bytes again
            return;
        }
    }
    assert_true(party.used_count < KEYS_MAX);
    memcpy(party.used[party.used_count].descriptor, masked->descriptor, TERN_SHA256_SIZE);
    party.used[party.used_count].nonce = masked->nonce;
    memcpy(party.used[party.used_count].body, body, sizeof body);
    party.used_count++;
}

// Removes the mask of the last update as the helper would, and decodes it.
static void unmask(const tern_Task *task, float change[WORLD_VALUES])
{
    struct tern_secure_round round = facts(task);
    const struct tern_masked_shape shape = tern_masked_shape_of(&world.model, &round);
    struct tern_masked_key masked = {.nonce = server->last_update.nonce};
    uint8_t key[TERN_SECRET_SIZE];
    assert_int_equal(tern_masked_check(&shape, party.packed, party.packed_len), TERN_OK);
    tern_secure_round_hash(&round, masked.descriptor);
    note_key(&masked);
    assert_int_equal(tern_mask_key(party.secret, &masked, key), TERN_OK);
    assert_int_equal(tern_masked_remove_mask(&shape, key, party.packed), TERN_OK);
    const struct tern_masked_part part = {.sum = party.packed, .members = 1, .weight = 1};
    round.noise = 0; // the whole update, not the step that a sum with noise makes
    tern_masked_decode(&world.model, &round, &part, 1, change);
}

// Closes the round at once: the update is the only one of its sum.
static void take_masked(struct fake_server *from, uint32_t round, struct tern_span packed)
{
    float change[WORLD_VALUES];
    static const float none[WORLD_VALUES];
    memcpy(party.packed, packed.data, packed.len);
    party.packed_len = packed.len;
    unmask(&party.task, change);
    for (int i = 0; i < WORLD_VALUES && party.counts; i++) {
        party.counted[i] += change[i];
    }
    party.unsettled = party.settles ? 0 : round;
    party.settled = party.settles ? round : 0;
    party.settled_counted = party.counts;
    fake_server_commit(from, party.counts ? change : none);
}

static void put_scale(int i, float scale)
{
    tern_put_f32(party.secure.scales.bytes + 4 * i, scale);
}

static int set_up(void **state)
{
    (void)state;
    memset(&party, 0, sizeof party);
    world_init(&world);
    world.inexact = true;
    server->adapt = adapt;
    server->take_masked = take_masked;
    server->codec = "float32";
    server->target = WORLD_ROUNDS;
    server->local_steps = 4;
    assert_int_equal(tern_secret_start(), TERN_OK);
    memset(party.sign_key, 7, sizeof party.sign_key);
    memset(party.private_key, 9, sizeof party.private_key);
    assert_int_equal(tern_p256_public(party.sign_key, party.sign_public), TERN_OK);
    party.epoch = 12;
    party.log_count = 40;
    party.settles = true;
    party.counts = true;
    party.secure = (tern_SecureRound){.bits = 8,
                                      .level = 1,
                                      .min_clients = 50,
                                      .epoch = 12,
                                      .share = 1,
                                      .places_seed = 99,
                                      .cohort = 100,
                                      .scales = {.size = 8}};
    put_scale(0, 0.02f); // near 0.25 * 0.5 * 4 * 0.04, the first scales of a model of zeros
    put_scale(1, 0.03f);
    world.config.helper_key = party.sign_public;
    world.config.helper_code = "HELPER-CODE-7";
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

// Asserts: encoded changes = counted updates + the update that waits for its settlement + error buffer, to the rounding of
// float32.
static void check_conservation(void)
{
    float buffer[WORLD_VALUES];
    world_buffer(&world, buffer);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const double off =
            (double)party.counted[i] + (double)buffer[i] - (double)world.store.encoded[i];
        if (fabs(off) > 2e-5) {
            fail_msg("value %d: encoded %.8g, but counted %.8g + buffer %.8g", i,
                     (double)world.store.encoded[i], (double)party.counted[i], (double)buffer[i]);
        }
    }
}

// --- Tickets

TEST(a_client_seals_its_secret_to_the_helper_and_sends_it_until_it_is_admitted)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_TICKET, &event);
    assert_int_equal(event.epoch, 12);
    assert_true(server->last_checkin.secure);
    assert_int_equal(server->last_checkin.ticket.size, 0);
    run_until(TERN_EVENT_TASK, NULL);
    assert_true(party.admitted);
    assert_string_equal(party.code, "HELPER-CODE-7");
    assert_int_equal(party.tickets, 1);
    run_until(TERN_EVENT_SETTLED, NULL);
    run_until(TERN_EVENT_SETTLED, NULL);
    assert_int_equal(server->last_checkin.ticket.size, 0);
    assert_int_equal(server->last_checkin.ticket_epoch, 12);
    assert_int_equal(party.tickets, 1);
}

TEST(a_ticket_survives_a_restart_and_is_sent_again_when_the_aggregator_lacks_it)
{
    uint8_t hash[TERN_SHA256_SIZE];
    run_until(TERN_EVENT_TASK, NULL);
    memcpy(hash, party.sealed_hash, sizeof hash);
    party.admitted = false;
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(party.tickets, 2);
    assert_memory_equal(hash, party.sealed_hash, sizeof hash);
    assert_int_equal(world_count_events(&world, TERN_EVENT_TICKET), 1);
    assert_int_equal(world_count_events(&world, TERN_EVENT_WAITING), 0); // in the same visit
}

TEST(a_ticket_is_sent_in_the_visit_that_seals_it)
{
    world.config.leaves = true;
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(party.tickets, 1);
    assert_int_equal(world_count_events(&world, TERN_EVENT_WAITING), 0);
}

TEST(a_ticket_that_was_not_sent_is_due_after_a_restart)
{
    run_until(TERN_EVENT_TICKET, NULL);
    boot();
    assert_int_equal(tern_client_step(&world.client), TERN_OK);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_DOWNLOAD);
    assert_int_equal(party.tickets, 1);
    for (int i = 0; i < 2; i++) { // a ticket that was admitted is not sent again
        run_until(TERN_EVENT_UPLOADED, NULL);
        boot();
    }
    assert_int_equal(party.tickets, 1);
}

TEST(a_ticket_that_is_not_admitted_does_not_keep_the_client_busy)
{
    party.never_admits = true;
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(party.tickets, 1);
    assert_in_range(tern_client_next_ms(&world.client), 1000, 1100);
}

TEST(a_new_epoch_gets_another_secret)
{
    uint8_t secret[TERN_SECRET_SIZE];
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(secret, party.secret, sizeof secret);
    party.epoch = party.secure.epoch = 13;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_memory_not_equal(secret, party.secret, sizeof secret);
    assert_int_equal(world_count_events(&world, TERN_EVENT_TICKET), 2);
    check_conservation();
}

static void hash_record(enum tern_record which, uint8_t hash[TERN_SHA256_SIZE])
{
    const struct fake_record *record = &world.store.records[which];
    const bool exists = record->data != NULL;
    tern_sha256(exists ? (const void *)record->data : "", exists ? record->len : 0, hash);
}

// Runs until the client refuses something with this part of the reason, and asserts that its error buffer, its last masked update
// and its ticket, unless it had none, are unchanged.
static void expect_refusal(const char *part)
{
    struct tern_client_event event;
    const size_t updates = server->puts;
    const bool has_ticket = world.store.records[TERN_RECORD_SECURE].data != NULL;
    uint8_t before[2][TERN_SHA256_SIZE];
    uint8_t after[2][TERN_SHA256_SIZE];
    hash_record(TERN_RECORD_UPLOAD, before[0]);
    hash_record(TERN_RECORD_SECURE, before[1]);
    run_until(TERN_EVENT_FAILURE, &event);
    if (event.why == NULL || strstr(event.why, part) == NULL) {
        fail_msg("\"%s\" does not have \"%s\"", event.why, part);
    }
    assert_int_equal(server->puts, updates);
    hash_record(TERN_RECORD_UPLOAD, after[0]);
    hash_record(TERN_RECORD_SECURE, after[1]);
    assert_memory_equal(before, after, has_ticket ? sizeof before : sizeof before[0]);
}

TEST(a_key_that_the_helper_did_not_sign_gets_no_ticket)
{
    party.bad_signature = true;
    expect_refusal("not signed by secure.helper_key");
    expect_refusal("not signed by secure.helper_key");
    assert_int_equal(party.tickets, 0);
    party.bad_signature = false;
    run_until(TERN_EVENT_SETTLED, NULL);
}

TEST(a_key_of_an_earlier_epoch_gets_no_ticket)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.epoch = 11;
    expect_refusal("earlier epoch");
    assert_int_equal(party.tickets, 1);
}

// --- Masked updates

TEST(an_update_reveals_nothing_beside_the_mask)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_SETTLED, &event);
    assert_int_equal(event.round, 1);
    assert_true(event.counted);
    const tern_Update *update = &server->last_update;
    assert_true(update->masked);
    assert_int_equal(update->num_examples, 1);
    assert_true(update->loss == 0);
    assert_true(update->error.norm == 0 && update->error.maximum == 0);
    assert_false(update->has_evaluation);
    assert_true(server->last_checkin.error.norm == 0 && server->last_checkin.error.maximum == 0);
    check_conservation();
}

TEST(rounds_under_masks_lose_nothing)
{
    for (int round = 0; round < 20; round++) {
        party.secure.share = (uint32_t[]){1, 2, 10}[round % 3];
        party.secure.places_seed = 1000 + (uint64_t)round;
        party.secure.level = 1 + (uint32_t)round % 2;
        party.secure.bits = tern_secure_bits(
            &(struct tern_secure_round){.cohort = 100, .level = party.secure.level});
        party.counts = round % 4 != 2;
        server->next_in_reply = round % 2 == 1;
        run_until(TERN_EVENT_SETTLED, NULL);
        check_conservation();
    }
    assert_int_equal(party.used_count, 20);
    world_check_replica(&world);
}

TEST(examples_weigh_a_change)
{
    float change[WORLD_VALUES];
    party.secure.examples_max = 400; // the trainer has 100
    run_until(TERN_EVENT_SETTLED, NULL);
    world_buffer(&world, change);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(fabsf(change[i] + party.counted[i] - world.change[i] / 4) < 1e-6f);
    }
    assert_int_equal(tern_get_le32(party.packed), 100);
    assert_int_equal(tern_get_le32(party.packed + 4), 512); // loss 0.5, weight 1/4
}

TEST(a_smaller_error_buffer_rounds_what_is_given_back_alone)
{
    world.error_storage = TERN_ERROR_INT8;
    boot();
    party.counts = false;
    run_until(TERN_EVENT_SETTLED, NULL);
    float buffer[WORLD_VALUES];
    world_buffer(&world, buffer);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(fabsf(buffer[i] - world.change[i]) <=
                    2.0f / 127); // two roundings of values up to 1
    }
}

// --- Settlements

TEST(an_accepted_update_waits_for_its_settlement_through_restarts)
{
    struct tern_client_event event;
    party.settles = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    for (int i = 0; i < 3; i++) {
        boot();
        run_until(TERN_EVENT_WAITING, NULL);
        assert_int_equal(server->last_checkin.unsettled, 1);
    }
    assert_int_equal(server->puts, 1);
    party.settled = 1;
    party.unsettled = 0;
    party.settles = true;
    run_until(TERN_EVENT_SETTLED, &event);
    assert_true(event.counted);
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(server->last_checkin.unsettled, 0);
    check_conservation();
}

TEST(an_update_that_is_given_back_returns_to_the_error_buffer_after_a_restart)
{
    struct tern_client_event event;
    party.settles = false;
    party.counts = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    boot();
    run_until(TERN_EVENT_WAITING, NULL);
    party.settled = 1;
    party.unsettled = 0;
    run_until(TERN_EVENT_SETTLED, &event);
    assert_false(event.counted);
    check_conservation();
    boot();
    check_conservation();
    run_until(TERN_EVENT_TASK, NULL);
    assert_true(server->last_checkin.has_error); // of a buffer that is not zero
    assert_true(server->last_checkin.error.norm == 0 && server->last_checkin.error.maximum == 0);
}

TEST(a_task_beside_an_update_that_is_given_back_is_taken_in_the_same_visit)
{
    world.config.leaves = true;
    boot();
    party.counts = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    boot();
    run_until(TERN_EVENT_SETTLED, NULL);
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_WAITING), 0);
}

TEST(no_task_is_accepted_before_the_settlement)
{
    party.settles = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.unsettled = 0; // a task comes, and no settlement
    expect_refusal("what became of");
    assert_int_equal(world.trainings, 1);
}

TEST(a_settlement_of_another_round_is_ignored)
{
    party.settles = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.settled = 7;
    run_until(TERN_EVENT_WAITING, NULL);
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_SETTLED), 0);
    assert_int_equal(server->last_checkin.unsettled, 1);
}

TEST(a_late_masked_update_is_given_back_at_once)
{
    server->faults[1] = FAULT_LATE;
    run_until(TERN_EVENT_UPLOADED, NULL);
    check_conservation();
    run_until(TERN_EVENT_SETTLED, NULL);
    check_conservation();
}

TEST(an_update_above_the_budget_is_sent_later_with_its_key)
{
    run_until(TERN_EVENT_SETTLED, NULL);
    world.config.budget_per_round = 20;
    boot();
    const size_t before = party.used_count;
    for (int i = 0; i < 5; i++) {
        const enum tern_result result = tern_client_step(&world.client);
        assert_true(result == TERN_OK || result == TERN_AGAIN);
        world.now_ms += 60000;
    }
    world.config.budget_per_round = 0;
    boot();
    run_until(TERN_EVENT_SETTLED, NULL);
    assert_int_equal(party.used_count, before + 1);
    check_conservation();
}

// --- Kills

static void run_with_cut_at(size_t write, bool after)
{
    void *fixture = NULL;
    assert_int_equal(set_up(&fixture), 0);
    party.counts = write % 3 != 0;
    world.store.cut_at = world.store.writes + write;
    world.store.cut_after = after;
    for (int i = 0; i < 6; i++) {
        const enum tern_result result = world_run_until(&world, TERN_EVENT_SETTLED, NULL);
        if (world.power_off) {
            boot();
        } else {
            assert_true(result == TERN_OK || result == TERN_AGAIN);
        }
    }
    run_until(TERN_EVENT_TASK, NULL);
    check_conservation();
    assert_int_equal(world.exchanges_off, 0);
    tear_down(&fixture);
}

CASE(killed_at_any_write_no_key_masks_two_updates)
{
    for (size_t write = 1; write <= 24; write++) {
        run_with_cut_at(write, false);
        run_with_cut_at(write, true);
    }
}

CASE(killed_at_any_exchange_no_key_masks_two_updates)
{
    for (size_t exchange = 2; exchange <= 24; exchange++) {
        void *fixture = NULL;
        assert_int_equal(set_up(&fixture), 0);
        world.cut_exchange_at = exchange;
        for (int i = 0; i < 5; i++) {
            (void)world_run_until(&world, TERN_EVENT_SETTLED, NULL);
            if (world.power_off) {
                boot();
            }
        }
        run_until(TERN_EVENT_TASK, NULL);
        check_conservation();
        tear_down(&fixture);
    }
}

TEST(a_lost_answer_is_followed_by_the_same_bytes)
{
    struct tern_client_event event;
    server->faults[1] = FAULT_LOSE_REPLY;
    server->faults[2] = FAULT_LOSE_REPLY;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_true(event.duplicate);
    run_until(TERN_EVENT_SETTLED, NULL);
    run_until(TERN_EVENT_FAILURE, NULL);
    boot();
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_true(event.duplicate);
    assert_int_equal(party.used_count, 2);
}

// Puts the upload record of an earlier time back, as a restored backup does.
static void restore_upload(struct fake_record *backup)
{
    struct fake_record *record = &world.store.records[TERN_RECORD_UPLOAD];
    free(record->data);
    *record = *backup;
}

TEST(a_restored_client_masks_another_update_with_another_key)
{
    run_until(TERN_EVENT_SETTLED, NULL);
    struct fake_record backup = world.store.records[TERN_RECORD_UPLOAD];
    backup.data = malloc(backup.len);
    assert_non_null(backup.data);
    memcpy(backup.data, world.store.records[TERN_RECORD_UPLOAD].data, backup.len);
    run_until(TERN_EVENT_ENCODED, NULL);
    const struct tern_client_masked first = world.client.masked;
    const uint32_t generation = world.client.generation;
    restore_upload(&backup);
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    assert_int_equal(world.client.generation, generation);
    assert_int_equal(world.client.sequence, 2);
    assert_int_equal(world.client.masked.round, first.round);
    assert_memory_not_equal(world.client.masked.key, first.key, sizeof first.key);
    const uint64_t nonce = server->last_update.nonce;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(server->last_update.nonce != 0 && server->last_update.nonce != nonce);
}

// --- Attacks of an aggregator

static float moved_scale;

static void move_scale(tern_Task *task)
{
    tern_put_f32(task->secure.scales.bytes + 4, moved_scale);
}

TEST(a_moved_scale_is_refused)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.attack = move_scale;
    moved_scale = 0.1201f; // 4 * 0.03
    expect_refusal("scale moved by more than a factor of 4");
    moved_scale = 0.0074f;
    expect_refusal("scale moved by more than a factor of 4");
    boot();
    expect_refusal("scale moved by more than a factor of 4");
    moved_scale = 0.119f;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(the_first_scales_follow_from_the_replica)
{
    party.attack = move_scale;
    moved_scale = 0.0801f; // the rule gives 0.02
    expect_refusal("scale moved by more than a factor of 4");
    moved_scale = 0.079f;
    run_until(TERN_EVENT_SETTLED, NULL);
}

static uint32_t replayed_round;

static void replay(tern_Task *task)
{
    task->round = replayed_round;
}

TEST(a_replayed_round_is_refused)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.attack = replay;
    for (replayed_round = 1; replayed_round <= 2; replayed_round++) {
        expect_refusal("it was replayed");
        boot();
        expect_refusal("it was replayed");
        expect_refusal("it was replayed");
        assert_int_equal(server->last_checkin.failed_round, 2); // whatever the task's round
        assert_int_equal(server->last_checkin.failure, tern_TrainingFailure_FAILURE_REPLAYED);
    }
    replayed_round = 9;
    run_until(TERN_EVENT_TASK, NULL);
}

static void fewer_clients(tern_Task *task)
{
    task->secure.min_clients = 49;
}

TEST(fewer_clients_than_the_setting_are_refused)
{
    party.attack = fewer_clients;
    expect_refusal("fewer updates than secure.min_clients");
    world.config.secure_min_clients = 49;
    boot();
    run_until(TERN_EVENT_SETTLED, NULL);
}

// --- Groups

static void four_groups(tern_Task *task)
{
    task->secure.groups = 4;
}

static void no_groups(tern_Task *task)
{
    task->secure.groups = 0;
}

// The helper unmasks an update only with the groups that the client was given, and each group needs the fewest clients.
TEST(groups_are_a_fact_of_the_round)
{
    party.secure.groups = 3;
    party.secure.cohort = 189;
    party.secure.bits = 7; // 63 clients in a group
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, NULL);
    check_conservation();
    party.attack = no_groups;
    expect_refusal("the bits of a masked value");
    party.attack = four_groups;
    party.secure.cohort = 252; // 63 in each of four
    expect_refusal("out of range");
    party.attack = NULL;
    party.secure.cohort = 149; // 50 in two groups, 49 in one
    party.secure.bits = 7;
    expect_refusal("out of range");
}

// --- The helper's log

static void spoil_log_signature(tern_Task *task)
{
    task->secure.log_signature.bytes[63] ^= 1;
}

static void add_log_entry(tern_Task *task)
{
    task->secure.log_count++;
}

static void change_log_head(tern_Task *task)
{
    task->secure.log_head.bytes[31] ^= 1;
}

// A statement that the helper signed for another federation.
static void show_foreign_log(tern_Task *task)
{
    server->seed++;
    show_log(&task->secure);
    server->seed--;
}

TEST(a_log_that_the_helper_did_not_sign_is_refused)
{
    void (*const attacks[])(tern_Task *) = {spoil_log_signature, add_log_entry, change_log_head,
                                            show_foreign_log};
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        party.attack = attacks[i];
        expect_refusal("log is not signed by secure.helper_key");
    }
    assert_int_equal(world.trainings, 0);
    party.attack = NULL;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(tern_client_masked(&world.client)->log_count, 40);
}

TEST(a_log_that_was_rolled_back_is_refused)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.log_count = 39;
    expect_refusal("fewer entries than before");
    boot();
    expect_refusal("fewer entries than before");
    expect_refusal("fewer entries than before");
    assert_int_equal(server->last_checkin.failed_round, world.client.failed_round);
    assert_int_equal(server->last_checkin.failure, tern_TrainingFailure_FAILURE_HELPER_LOG);
    assert_int_equal(world.trainings, 1);
    party.log_count = 40; // the same log, after a round without a sum
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(two_logs_are_refused)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.log_fork = 1;
    expect_refusal("there are two logs");
    boot();
    expect_refusal("there are two logs");
    assert_int_equal(world.trainings, 1);
    // A device cannot see whether a longer log continues the one that it saw: `tern-helper log` shows it to its operator.
    party.log_count = 41;
    run_until(TERN_EVENT_UPLOADED, NULL);
    party.log_fork = 0;
    expect_refusal("there are two logs");
}

// --- Noise

// The noise of an honest round.
static void set_noise(uint32_t places_max, uint32_t noise)
{
    const struct tern_secure_round round = {.cohort = party.secure.cohort,
                                            .level = party.secure.level,
                                            .places_max = places_max,
                                            .noise = noise,
                                            .scale_count = 2};
    party.secure.places_max = places_max;
    party.secure.noise = noise;
    party.secure.bits = tern_secure_bits(&round);
}

static void less_noise(tern_Task *task)
{
    task->secure.noise = 499; // the same bits
}

static void more_places(tern_Task *task)
{
    task->secure.places_max = 10000; // other bits
}

static void weights_by_examples(tern_Task *task)
{
    task->secure.examples_max = 100;
}

static void no_limit(tern_Task *task)
{
    task->secure.places_max = 0;
}

TEST(less_noise_than_the_setting_is_refused)
{
    world.config.secure_min_noise = 500;
    boot();
    expect_refusal("less noise to the sum than secure.min_noise"); // none
    set_noise(3, 500);
    party.attack = less_noise;
    expect_refusal("less noise to the sum than secure.min_noise");
    party.attack = NULL;
    run_until(TERN_EVENT_SETTLED, NULL);
}

TEST(facts_that_make_noise_weaker_are_refused)
{
    set_noise(3, 500);
    party.attack = more_places;
    expect_refusal("bits of a masked value");
    party.attack = no_limit;
    expect_refusal("fact of the secure round is out of range");
    party.attack = weights_by_examples;
    expect_refusal("fact of the secure round is out of range");
    assert_int_equal(world.trainings, 0);
    party.attack = NULL;
    run_until(TERN_EVENT_SETTLED, NULL);
}

TEST(with_noise_an_update_has_few_values_and_reports_no_facts)
{
    set_noise(3, 500);
    for (int round = 0; round < 5; round++) {
        party.counts = round % 2 == 0;
        run_until(TERN_EVENT_SETTLED, NULL);
        check_conservation(); // what the limit leaves out stays in the error buffer
        assert_int_equal(tern_get_le32(party.packed), 0);
        assert_int_equal(tern_get_le32(party.packed + 4), 0);
        assert_true(tern_get_le32(party.packed + 8) <= 1 && tern_get_le32(party.packed + 12) <= 1);
        const struct tern_secure_round round_facts = facts(&party.task);
        const struct tern_masked_shape shape = tern_masked_shape_of(&world.model, &round_facts);
        uint32_t not_zero = 0;
        for (uint32_t i = 0; i < shape.values; i++) {
            not_zero += tern_masked_value(&shape, party.packed, i) != 0;
        }
        assert_true(not_zero > 0 && not_zero <= 3);
    }
}

static void other_epoch(tern_Task *task)
{
    task->secure.epoch = 11;
}

static void fewer_bits(tern_Task *task)
{
    task->secure.bits = 7;
}

static void more_bits(tern_Task *task)
{
    task->secure.bits = 20;
}

static void more_scales(tern_Task *task)
{
    tern_put_f32(task->secure.scales.bytes + 8, 0.03f);
    task->secure.scales.size = 12;
}

static void evaluation(tern_Task *task)
{
    task->evaluate = true;
}

static void own_limit(tern_Task *task)
{
    task->error_directive = tern_ErrorDirective_ERROR_LIMIT;
}

static void decay(tern_Task *task)
{
    task->error_directive = tern_ErrorDirective_ERROR_DECAY;
}

static void reset(tern_Task *task)
{
    task->error_directive = tern_ErrorDirective_ERROR_RESET;
}

static void step_ahead(tern_Task *task)
{
    task->error_directive = tern_ErrorDirective_ERROR_STEP_AHEAD;
}

static void full_gradient(tern_Task *task)
{
    task->gradient = tern_Gradient_GRADIENT_FULL;
    task->local_steps = 1;
}

static void no_mask(tern_Task *task)
{
    task->has_secure = false;
}

TEST(a_task_that_would_reveal_or_differ_is_refused_by_name)
{
    const struct {
        void (*attack)(tern_Task *task);
        const char *part;
    } rows[] = {
        {other_epoch, "another epoch than this client's ticket"},
        {fewer_bits, "bits of a masked value"},
        {more_bits, "bits of a masked value"},
        {more_scales, "scales are not one for each tensor"},
        {evaluation, "evaluation on this client's data"},
        {decay, "directive that changes"},
        {reset, "directive that changes"},
        {own_limit, "directive that changes"},
        {step_ahead, "directive that changes"},
        {full_gradient, "variance reduction"},
        {no_mask, "allows masked updates only"},
    };
    run_until(TERN_EVENT_UPLOADED, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        party.attack = rows[i].attack;
        expect_refusal(rows[i].part);
    }
    assert_int_equal(world.trainings, 1);
    party.attack = NULL;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(statistics_of_columns_are_refused)
{
    server->statistics = tern_StatisticsState_STATISTICS_WANTED;
    world.columns.measure = (enum tern_result(*)(void *, uint8_t *, uint32_t *))1; // never called
    expect_refusal("statistics of this client's columns");
    assert_int_equal(server->told_times, 0);
}

static enum tern_result scale_columns(void *ctx, uint32_t tag, const uint8_t *columns)
{
    (void)ctx;
    (void)tag;
    (void)columns;
    return TERN_OK;
}

static void offer_scaling(void)
{
    const tern_Scaling message = {.clients = 3, .num_examples = 1000};
    struct fake_download *scaling = &server->scaling;
    uint8_t columns[TERN_WIRE_COLUMN_BYTES];
    tern_column_put(columns, 0, (struct tern_column_pair){1, 2});
    assert_int_equal(tern_wire_encode_scaling(&message, (struct tern_span){columns, sizeof columns},
                                              scaling->blob, sizeof scaling->blob, &scaling->len),
                     TERN_OK);
    tern_sha256(scaling->blob, scaling->len, scaling->sha256);
    world.columns = (struct tern_column_port){
        .count = 1,
        .measure = (enum tern_result(*)(void *, uint8_t *, uint32_t *))1, // never called
        .scale = scale_columns};
}

TEST(a_scaling_of_columns_is_refused)
{
    offer_scaling();
    boot();
    expect_refusal("sends a scaling of columns");
    assert_int_equal(world_count_events(&world, TERN_EVENT_SCALED), 0);
    server->scaling.len = 0;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(a_client_with_a_scaling_from_before_its_helper_key_takes_no_secure_task)
{
    offer_scaling();
    world.config.helper_key = NULL;
    boot();
    run_until(TERN_EVENT_SCALED, NULL);
    world.config.helper_key = party.sign_public;
    boot();
    expect_refusal("columns have a scaling of the federation");
    assert_int_equal(world.trainings, 0);
}

TEST(an_evaluator_reports_no_evaluation)
{
    world.config.helper_key = NULL;
    world.config.evaluator = true;
    world_free(&world);
    memset(&world.store, 0, sizeof world.store);
    boot(); // enrolled as an evaluator before the helper's key was set
    world.config.evaluator = false;
    world.config.helper_key = party.sign_public;
    boot();
    server->evaluate = true;
    server->adapt = NULL;
    commit(1);
    expect_refusal("evaluation on this client's data");
    assert_false(server->last_checkin.has_evaluation);
    assert_int_equal(world.evaluations, 0);
}

TEST(a_masked_update_needs_memory)
{
    world.blob_size = 1200; // a masked update has 8 * 608 bits and four counters
    boot();
    expect_refusal("does not fit into this client's memory");
}

TEST(fewer_steps_than_the_task_are_refused)
{
    world.config.max_local_steps = 3;
    boot();
    expect_refusal("client.max_local_steps");
}

// Two members with different facts have different masks, so a server that gives one of them another model or other steps can
// remove neither with the sum of the honest round's masks.
static void more_steps(tern_Task *task)
{
    task->local_steps++;
}

TEST(unequal_steps_make_another_mask)
{
    static const float none[WORLD_VALUES];
    float change[WORLD_VALUES];
    run_until(TERN_EVENT_ENCODED, NULL);
    const tern_Task honest = party.task;
    tern_Task other = honest;
    more_steps(&other);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(party.used_count, 1);
    memcpy(change, party.counted, sizeof change);
    assert_memory_not_equal(change, none, sizeof change);

    // The same update, unmasked by the facts of a round with one more step, is noise.
    const struct tern_secure_round round = facts(&other);
    struct tern_masked_key masked = {.nonce = server->last_update.nonce};
    uint8_t key[TERN_SECRET_SIZE];
    tern_secure_round_hash(&round, masked.descriptor);
    assert_memory_not_equal(masked.descriptor, party.used[0].descriptor, TERN_SHA256_SIZE);
    assert_int_equal(tern_mask_key(party.secret, &masked, key), TERN_OK);
}

static uint32_t values_out_of_range(void)
{
    const struct tern_secure_round round = facts(&party.task);
    const struct tern_masked_shape shape = tern_masked_shape_of(&world.model, &round);
    uint32_t count = 0;
    for (uint32_t i = 0; i < shape.values; i++) {
        const int32_t value = tern_masked_value(&shape, party.packed, i);
        count += value < -1 || value > 1;
    }
    return count;
}

TEST(a_snapshot_of_other_weights_under_the_id_of_the_trunk_makes_another_mask)
{
    run_until(TERN_EVENT_SETTLED, NULL);
    server->snapshots = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(values_out_of_range(), 0); // an honest snapshot
    party.lie = 0.25f;
    party.counts = false;
    server->weights[3] += party.lie;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(world.start[3] == party.weights[3] + party.lie);
    assert_true(values_out_of_range() > WORLD_VALUES / 2);
}

TEST(a_client_without_a_helper_refuses_secure_rounds)
{
    world.config.helper_key = NULL;
    boot();
    party.admitted = true;
    party.epoch = 0;
    expect_refusal("this client has no secure.helper_key");
    assert_false(server->last_checkin.secure);
}

CASE(a_helper_needs_a_code_and_a_client_that_trains)
{
    void *fixture = NULL;
    assert_int_equal(set_up(&fixture), 0);
    world.config.helper_code = "";
    assert_int_equal(world_boot(&world), TERN_ERR_ARGUMENT);
    world.config.helper_code =
        "a code of more than sixty-four characters, which no helper ever prints";
    assert_int_equal(world_boot(&world), TERN_ERR_ARGUMENT);
    world.config.helper_code = "code";
    world.config.evaluator = true;
    assert_int_equal(world_boot(&world), TERN_ERR_ARGUMENT);
    tear_down(&fixture);
}

// --- Records

TEST(without_the_record_of_the_ticket_the_client_makes_another)
{
    party.settles = false;
    party.counts = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_SECURE);
    party.admitted = false;
    boot();
    run_until(TERN_EVENT_TICKET, NULL);
    party.settled = 1;
    party.unsettled = 0;
    run_until(TERN_EVENT_SETTLED, NULL); // the upload record has the mask's key
    check_conservation();
}
