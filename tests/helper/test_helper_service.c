// The helper's HTTPS service on loopback: keys, tickets and sums by a client of the test, every refusal by its name on the wire,
// hostile requests, and restarts.
#define _GNU_SOURCE // memmem()
#include "helper/ledger.h"
#include "helper/party.h"
#include "helper/service.h"
#include "hosted/system.h"
#include "http/fixture.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/prng.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EPOCH_MS UINT64_C(1000000000) // 11.6 days
#define DAY_MS UINT64_C(86400000)
#define NEVER (UINT64_C(1) << 40) // an expiry in Unix ms that no test reaches
#define DEVICES 12u

struct running {
    char folder[64];
    char ledger[96];
    char code[TERN_JOIN_CODE_TEXT]; // admits DEVICES devices
    uint32_t min_clients;
    struct tern_helper *helper;
    struct tern_http_server *server;
    struct party party;
};

static _Atomic uint64_t clock_ms;

// The certificate of all cases.
static char tls_folder[64];
static char certificate[96];
static char private_key[96];

static int make_certificate(void **state)
{
    (void)state;
    snprintf(tls_folder, sizeof tls_folder, "/tmp/tern-helper-tls-XXXXXX");
    assert_non_null(mkdtemp(tls_folder));
    fixture_certificate(tls_folder);
    snprintf(certificate, sizeof certificate, "%s/server.pem", tls_folder);
    snprintf(private_key, sizeof private_key, "%s/server.key", tls_folder);
    return 0;
}

static int remove_certificate(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", tls_folder);
    return system(command);
}

CASES_SHARE(make_certificate, remove_certificate)

static uint64_t test_clock(void)
{
    return clock_ms;
}

static void start(struct running *running)
{
    char why[TERN_HELPER_WHY_MAX] = "";
    const struct tern_helper_config config = {.ledger = running->ledger,
                                              .min_clients = running->min_clients,
                                              .epoch_ms = EPOCH_MS,
                                              .unix_ms = test_clock};
    const struct tern_http_config http = {
        .address = "127.0.0.1",
        .threads = 1,
        .files = {.certificate = certificate, .private_key = private_key}};
    if (tern_helper_start(&config, &running->helper, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    const struct tern_http_handler handler = tern_helper_handler(running->helper);
    if (tern_http_start(&http, &handler, &running->server, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    running->party.port = tern_http_port(running->server);
}

static void stop(struct running *running)
{
    tern_http_stop(running->server, 1000);
    tern_helper_stop(running->helper);
}

// Opens the ledger as the command line does, with a transaction.
static struct tern_ledger *open_ledger(const struct running *running,
                                       struct tern_ledger_federation *federation)
{
    char why[TERN_LEDGER_WHY_MAX] = "";
    struct tern_ledger *ledger = NULL;
    if (tern_ledger_open(running->ledger, &ledger, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(tern_ledger_begin(ledger), TERN_OK);
    if (federation != NULL) {
        assert_int_equal(tern_ledger_federation_named(ledger, "north", federation), TERN_OK);
    }
    return ledger;
}

static void close_ledger(struct tern_ledger *ledger)
{
    assert_int_equal(tern_ledger_commit(ledger), TERN_OK);
    tern_ledger_close(ledger);
}

static void make_code(const struct running *running, uint32_t uses, uint64_t expires_ms,
                      char text[TERN_JOIN_CODE_TEXT])
{
    struct tern_ledger_federation federation;
    struct tern_ledger_code code = {.uses_left = uses, .expires_ms = expires_ms};
    struct tern_ledger *ledger = open_ledger(running, &federation);
    assert_int_equal(tern_helper_make_code(text, code.hash), TERN_OK);
    assert_int_equal(tern_ledger_add_code(ledger, &federation, &code, 1), TERN_OK);
    close_ledger(ledger);
}

static void make_ledger(struct running *running)
{
    char why[TERN_LEDGER_WHY_MAX];
    uint8_t key[TERN_SECRET_SIZE] = {0, 1, 2, 3};
    struct tern_ledger_federation federation = {.name = "north"};
    assert_int_equal(tern_p256_public(key, running->party.public_key), TERN_OK);
    assert_int_equal(tern_ledger_create(running->ledger, key, 1, why), TERN_OK);
    struct tern_ledger *ledger = open_ledger(running, NULL);
    assert_int_equal(tern_helper_make_token(running->party.token, federation.token_hash), TERN_OK);
    assert_int_equal(tern_ledger_add_federation(ledger, &federation, 1), TERN_OK);
    close_ledger(ledger);
    make_code(running, DEVICES, NEVER, running->code);
}

static int set_up(void **state)
{
    static struct running running;
    memset(&running, 0, sizeof running);
    snprintf(running.folder, sizeof running.folder, "/tmp/tern-helper-XXXXXX");
    assert_non_null(mkdtemp(running.folder));
    snprintf(running.ledger, sizeof running.ledger, "%s/helper.db", running.folder);
    snprintf(running.party.root, sizeof running.party.root, "%s/ca.pem", tls_folder);
    memset(running.party.federation, 7, TERN_SHA256_SIZE);
    running.min_clients = 3;
    clock_ms = EPOCH_MS; // in epoch 1
    assert_int_equal(tern_secret_start(), TERN_OK);
    make_ledger(&running);
    start(&running);
    assert_int_equal(party_epoch(&running.party), 200);
    *state = &running;
    return 0;
}

static int tear_down(void **state)
{
    struct running *running = *state;
    char command[128];
    stop(running);
    snprintf(command, sizeof command, "rm -r %s", running->folder);
    return system(command);
}

#define SERVICE_CASE(name) CASE_WITH(name, set_up, tear_down)

static void admit_all(struct running *running)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(party_admit(&running->party, i, i + 1, running->code, NULL), 200);
    }
}

static void read_head(const struct running *running, uint8_t head[TERN_SHA256_SIZE])
{
    struct tern_ledger *ledger = open_ledger(running, NULL);
    uint64_t count;
    assert_int_equal(tern_ledger_log_head(ledger, &count, head), TERN_OK);
    close_ledger(ledger);
}

// Asserts that the ledger's log has another head than `before`, unless the request was refused.
static void check_head(const struct running *running, const uint8_t before[TERN_SHA256_SIZE],
                       bool refused)
{
    uint8_t head[TERN_SHA256_SIZE];
    read_head(running, head);
    assert_true(!refused || memcmp(head, before, sizeof head) == 0);
}

static void expect_ticket(struct running *running, uint32_t device, const char *code,
                          const char *refusal)
{
    char name[32];
    uint8_t head[TERN_SHA256_SIZE];
    read_head(running, head);
    party_admit(&running->party, device, device + 1, code, name);
    assert_string_equal(name, refusal);
    check_head(running, head, refusal[0] != '\0');
}

static void expect_sum(const struct running *running, const struct test_round *round,
                       const char *refusal)
{
    uint8_t head[TERN_SHA256_SIZE];
    read_head(running, head);
    struct answer answer = party_ask_sum(&running->party, round);
    assert_string_equal(answer.name, refusal);
    assert_int_equal(answer.status == 200, refusal[0] == '\0');
    answer_free(&answer);
    check_head(running, head, refusal[0] != '\0');
}

// --- Epochs

SERVICE_CASE(an_epoch_keeps_its_key_until_its_time_is_over)
{
    struct running *running = *state;
    const tern_EpochKey first = running->party.epoch;
    assert_int_equal(first.epoch, 1);
    assert_int_equal(first.seconds_left, EPOCH_MS / 1000);
    clock_ms += EPOCH_MS - 1000;
    assert_int_equal(party_epoch(&running->party), 200);
    assert_int_equal(running->party.epoch.epoch, 1);
    assert_int_equal(running->party.epoch.seconds_left, 1);
    assert_memory_equal(running->party.epoch.public_key.bytes, first.public_key.bytes, 32);
    clock_ms += 1000;
    assert_int_equal(party_epoch(&running->party), 200);
    assert_int_equal(running->party.epoch.epoch, 2);
    assert_memory_not_equal(running->party.epoch.public_key.bytes, first.public_key.bytes, 32);
    clock_ms += 5 * EPOCH_MS; // nobody asked for the epochs between
    assert_int_equal(party_epoch(&running->party), 200);
    assert_int_equal(running->party.epoch.epoch, 7);
}

SERVICE_CASE(a_token_belongs_to_the_first_federation_that_uses_it)
{
    struct running *running = *state;
    running->party.federation[0] ^= 1;
    assert_int_equal(party_epoch(&running->party), 403);
    char name[32];
    assert_int_equal(party_admit(&running->party, 0, 1, running->code, name), 403);
    assert_string_equal(name, "other-federation");
    struct test_round round;
    party_round(&running->party, 1, 3, &round);
    expect_sum(running, &round, "other-federation");
}

// --- Tickets

SERVICE_CASE(tickets_are_admitted_once_and_refused_by_name)
{
    struct running *running = *state;
    char name[32];
    char other[TERN_JOIN_CODE_TEXT];
    make_code(running, 1, EPOCH_MS + 2000, other);
    assert_int_equal(party_admit(&running->party, 0, 1, running->code, name), 200);
    assert_int_equal(party_send_ticket(&running->party, 0, 1, name), 200);
    assert_int_equal(party_send_ticket(&running->party, 0, 2, name), 422);
    assert_string_equal(name, "unreadable-ticket"); // sealed for client 1
    expect_ticket(running, 0, running->code, "second-ticket");
    expect_ticket(running, 1, "0000-0000-0000-0000", "unknown-code");
    expect_ticket(running, 1, "none", "unknown-code");
    clock_ms = EPOCH_MS + 2000;
    expect_ticket(running, 1, other, "expired-code");
    clock_ms = EPOCH_MS + 1999;
    expect_ticket(running, 1, other, "");
    expect_ticket(running, 2, other, "used-code");
    running->party.epoch.epoch = 2;
    expect_ticket(running, 2, running->code, "wrong-epoch");
    running->party.epoch.epoch = 1;
    running->party.epoch.public_key.bytes[0] ^= 1;
    expect_ticket(running, 2, running->code, "unreadable-ticket");
}

SERVICE_CASE(a_code_may_be_typed_without_hyphens_and_in_capitals)
{
    struct running *running = *state;
    char typed[TERN_JOIN_CODE_TEXT];
    size_t len = 0;
    for (const char *at = running->code; *at != '\0'; at++) {
        if (*at != '-') {
            typed[len++] = (char)(*at >= 'a' ? *at - 'a' + 'A' : *at);
        }
    }
    typed[len] = '\0';
    expect_ticket(running, 0, typed, "");
}

SERVICE_CASE(a_code_admits_its_device_in_the_next_epoch_and_a_revoked_one_needs_another)
{
    struct running *running = *state;
    char once[TERN_JOIN_CODE_TEXT];
    char again[TERN_JOIN_CODE_TEXT];
    struct tern_ledger_federation federation;
    make_code(running, 1, NEVER, once);
    make_code(running, 1, NEVER, again);
    expect_ticket(running, 0, once, "");
    clock_ms += EPOCH_MS;
    assert_int_equal(party_epoch(&running->party), 200);
    expect_ticket(running, 0, once, "");
    expect_ticket(running, 1, once, "used-code");
    struct tern_ledger *ledger = open_ledger(running, &federation);
    assert_int_equal(tern_ledger_revoke(ledger, &federation, 1, 1), TERN_OK);
    close_ledger(ledger);
    expect_ticket(running, 0, once, "revoked-client");
    expect_ticket(running, 0, again, "");
}

// --- Sums

SERVICE_CASE(the_sum_of_masks_reveals_the_sum_of_values_bit_for_bit)
{
    struct running *running = *state;
    struct test_round round;
    admit_all(running);
    for (uint32_t count = 3; count <= DEVICES; count += 3) {
        party_round(&running->party, count, count, &round);
        round.values = 1 + 301 * count;
        struct answer answer = party_ask_sum(&running->party, &round);
        assert_int_equal(answer.status, 200);
        party_check_sum(&running->party, &round, answer_sum(&answer));
        answer_free(&answer);
    }
}

// Asserts that an answer has the end of the log as it is in the ledger. Returns the number of entries.
static uint64_t expect_end(const struct running *running, uint64_t count, const uint8_t *head)
{
    uint8_t stored[TERN_SHA256_SIZE];
    struct tern_ledger *ledger = open_ledger(running, NULL);
    uint64_t number;
    assert_int_equal(tern_ledger_log_head(ledger, &number, stored), TERN_OK);
    close_ledger(ledger);
    assert_int_equal(count, number);
    assert_memory_equal(head, stored, sizeof stored);
    return number;
}

// The end of the log in keys and sums is that of the ledger, signed (party.c), and has the entry of the answer itself.
SERVICE_CASE(answers_have_the_end_of_the_log)
{
    struct running *running = *state;
    struct party *party = &running->party;
    struct test_round round;
    tern_SumReply reply;
    struct tern_span sum;
    const uint64_t before =
        expect_end(running, party->epoch.log_count, party->epoch.log_head.bytes);
    admit_all(running);
    assert_int_equal(party_epoch(party), 200);
    assert_int_equal(expect_end(running, party->epoch.log_count, party->epoch.log_head.bytes),
                     before + DEVICES);
    party_round(party, 1, DEVICES, &round);
    for (int i = 0; i < 2; i++) { // the second answer is the first one again, and adds no entry
        struct answer answer = party_ask_sum(party, &round);
        assert_int_equal(answer.status, 200);
        assert_int_equal(tern_wire_decode_sum_reply(answer.body, answer.body_len, &reply, &sum),
                         TERN_OK);
        assert_int_equal(expect_end(running, reply.log_count, reply.log_head.bytes),
                         before + DEVICES + 1);
        answer_free(&answer);
    }
}

SERVICE_CASE(a_round_gets_its_sum_again_after_a_restart_and_no_other)
{
    struct running *running = *state;
    struct test_round round;
    struct tern_ledger_federation federation;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    struct answer first = party_ask_sum(&running->party, &round);
    assert_int_equal(first.status, 200);
    stop(running);
    start(running);
    struct tern_ledger *ledger = open_ledger(running, &federation);
    assert_int_equal(tern_ledger_revoke(ledger, &federation, 1, 1), TERN_OK);
    close_ledger(ledger);
    struct answer second = party_ask_sum(&running->party, &round);
    assert_int_equal(second.status, 200);
    assert_int_equal(answer_sum(&first).len, answer_sum(&second).len);
    assert_memory_equal(answer_sum(&first).data, answer_sum(&second).data, answer_sum(&first).len);
    answer_free(&first);
    answer_free(&second);
    round.count = 5;
    expect_sum(running, &round, "answered-round");
    round.count = 6;
    round.values++;
    expect_sum(running, &round, "answered-round");
    round.values--;
    round.members[2].nonce++;
    expect_sum(running, &round, "answered-round");
    round.members[2].nonce--;
    round.facts.places_seed++;
    expect_sum(running, &round, "answered-round");
    party_round(&running->party, 2, 6, &round);
    expect_sum(running, &round, "revoked-client");
}

SERVICE_CASE(lists_are_refused_by_name)
{
    struct running *running = *state;
    struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 2, &round);
    expect_sum(running, &round, "too-few-clients");
    party_round(&running->party, 1, 6, &round);
    round.facts.min_clients = 2;
    expect_sum(running, &round, "weak-min-clients");
    party_round(&running->party, 1, 6, &round);
    round.facts.cohort = 5;
    round.facts.bits = tern_secure_bits(&round.facts);
    expect_sum(running, &round, "too-many-clients");
    party_round(&running->party, 1, 6, &round);
    round.facts.bits++;
    expect_sum(running, &round, "wrong-facts");
    party_round(&running->party, 1, 6, &round);
    round.members[3] = round.members[2];
    expect_sum(running, &round, "client-twice");
    party_round(&running->party, 1, 6, &round);
    round.members[3] = round.members[0];
    expect_sum(running, &round, "unsorted-list");
    party_round(&running->party, 1, 6, &round);
    round.members[5].client = 99;
    expect_sum(running, &round, "unknown-ticket");
    party_round(&running->party, 1, 6, &round);
    round.members[5].ticket[0] ^= 1;
    expect_sum(running, &round, "unknown-ticket");
    party_round(&running->party, 1, 6, &round);
    round.facts.epoch = 2;
    expect_sum(running, &round, "wrong-epoch");
    party_round(&running->party, 1, 6, &round);
    expect_sum(running, &round, ""); // none of the refused requests answered the round
}

// Makes it a round whose list is divided into groups of at least `min_clients`.
static void divide(struct test_round *round, uint32_t groups, uint32_t min_clients)
{
    round->facts.groups = groups;
    round->facts.min_clients = min_clients;
    round->facts.bits = tern_secure_bits(&round->facts);
}

// Returns the round with the members of one group alone.
static struct test_round members_of(const struct test_round *round, uint32_t group)
{
    struct test_round part = *round;
    struct tern_secure_groups groups;
    part.count = 0;
    tern_secure_divide(&round->facts, round->members, round->count, &groups);
    for (uint32_t i = 0; i < round->count; i++) {
        if (tern_secure_group_of(&groups, round->members[i].client) == group) {
            part.members[part.count++] = round->members[i];
        }
    }
    return part;
}

SERVICE_CASE(each_group_has_a_sum_of_its_own)
{
    struct running *running = *state;
    static struct test_round round;
    static struct test_round part;
    admit_all(running);
    party_round(&running->party, 1, 10, &round);
    divide(&round, 3, 3);
    struct answer answer = party_ask_sum(&running->party, &round);
    assert_int_equal(answer.status, 200);
    const struct tern_span sums = answer_sum(&answer);
    const size_t size = sums.len / 3;
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        part = members_of(&round, i);
        assert_in_range(part.count, 3, 4);
        party_check_sum(&running->party, &part, (struct tern_span){sums.data + i * size, size});
        count += part.count;
    }
    assert_int_equal(count, 10);
    stop(running);
    start(running);
    struct answer again = party_ask_sum(&running->party, &round);
    assert_int_equal(again.status, 200);
    assert_int_equal(again.body_len, answer.body_len);
    assert_memory_equal(answer_sum(&again).data, sums.data, sums.len);
    answer_free(&again);
    answer_free(&answer);
    divide(&round, 0, 3); // the same round, and one sum
    expect_sum(running, &round, "answered-round");
}

SERVICE_CASE(lists_with_groups_are_refused_by_name)
{
    struct running *running = *state;
    static struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 8, &round);
    divide(&round, 3, 3);
    expect_sum(running, &round, "too-few-clients");
    round.count = 9;
    round.members[8] = round.members[7]; // a client in two groups
    expect_sum(running, &round, "client-twice");
    party_round(&running->party, 1, 9, &round);
    divide(&round, 2, 3);
    expect_sum(running, &round, "wrong-facts");
    divide(&round, 3, 3);
    round.facts.bits++;
    expect_sum(running, &round, "wrong-facts");
    divide(&round, 3, 3);
    expect_sum(running, &round, "");
    party_round(&running->party, 2, 9, &round);
    memset(round.facts.replica, 1, TERN_SHA256_SIZE); // the replica of round 1
    divide(&round, 3, 3);
    expect_sum(running, &round, ""); // the same groups
    party_round(&running->party, 3, 9, &round);
    memset(round.facts.replica, 1, TERN_SHA256_SIZE);
    expect_sum(running, &round, "near-list"); // the sum of all
    party_round(&running->party, 3, 12, &round);
    memset(round.facts.replica, 1, TERN_SHA256_SIZE);
    divide(&round, 3, 3);
    expect_sum(running, &round, "near-list"); // three clients more, and other groups
}

SERVICE_CASE(a_repeated_round_with_a_slightly_different_list_is_refused)
{
    struct running *running = *state;
    struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 8, &round);
    expect_sum(running, &round, "");
    party_round(&running->party, 2, 7, &round);
    memset(round.facts.replica, 1, TERN_SHA256_SIZE); // the replica of round 1
    expect_sum(running, &round, "near-list");
    round.count = 5;
    for (uint32_t i = 0; i < 5; i++) {
        round.members[i] =
            round.members[i + 1]; // differs by 4 - 1 = 3 clients: 1, 7 and 8 are missing
    }
    expect_sum(running, &round, "");
    party_round(&running->party, 3, 7, &round); // another replica
    expect_sum(running, &round, "");
}

// Another list in between does not hide that two lists differ by one device.
SERVICE_CASE(a_small_change_is_found_among_all_lists_of_the_epoch)
{
    struct running *running = *state;
    struct tern_ledger_federation federation;
    struct tern_ledger_figures figures;
    struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 5, &round); // 1 to 5
    expect_sum(running, &round, "");
    party_round(&running->party, 2, 8, &round);
    round.count = 3; // 6 to 8
    memmove(round.members, round.members + 5, 3 * sizeof round.members[0]);
    expect_sum(running, &round, "");
    struct tern_ledger *ledger = open_ledger(running, &federation);
    assert_int_equal(tern_ledger_figures(ledger, federation.id, &figures), TERN_OK);
    assert_int_equal(figures.small_changes, 0);
    close_ledger(ledger);
    party_round(&running->party, 3, 4, &round); // 1 to 4
    expect_sum(running, &round, "");
    ledger = open_ledger(running, &federation);
    assert_int_equal(tern_ledger_figures(ledger, federation.id, &figures), TERN_OK);
    assert_int_equal(figures.small_changes, 1);
    struct tern_ledger_answer answer;
    assert_int_equal(tern_ledger_newest_answer(ledger, federation.id, &answer), TERN_OK);
    assert_int_equal(answer.changed, 1);
    tern_ledger_answer_free(&answer);
    close_ledger(ledger);
}

SERVICE_CASE(invented_devices_do_not_fill_a_list)
{
    struct running *running = *state;
    struct test_round round;
    for (uint32_t i = 0; i < 6; i++) {
        expect_ticket(running, i, running->code, "");
    }
    party_round(&running->party, 1, 6, &round);
    expect_sum(running, &round, "");
    expect_ticket(running, 6, running->code, "");
    expect_ticket(running, 7, running->code, "");
    party_round(&running->party, 2, 8, &round);
    expect_sum(running, &round, "too-many-newcomers");
    party_round(&running->party, 2, 7, &round);
    expect_sum(running, &round, "");
    party_round(&running->party, 3, 8, &round); // device 8 was admitted before the last answer
    expect_sum(running, &round, "");
    expect_ticket(running, 8, running->code, "");
    expect_ticket(running, 9, running->code, "");
    party_round(&running->party, 4, 10, &round);
    expect_sum(running, &round, "too-many-newcomers");
    clock_ms += DAY_MS;
    expect_sum(running, &round, "");
}

SERVICE_CASE(rounds_of_the_last_epoch_are_closed_and_older_ones_are_not)
{
    struct running *running = *state;
    struct test_round round;
    struct test_round later;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    clock_ms += EPOCH_MS;
    struct answer answer = party_ask_sum(&running->party, &round);
    assert_int_equal(answer.status, 200);
    party_check_sum(&running->party, &round, answer_sum(&answer));
    answer_free(&answer);
    party_round(&running->party, 2, 6, &later);
    later.facts.epoch = 2; // the tickets are of epoch 1
    expect_sum(running, &later, "unknown-ticket");
    clock_ms += EPOCH_MS;
    assert_int_equal(party_epoch(&running->party), 200); // begins epoch 3
    expect_sum(running, &round, "wrong-epoch");          // its secrets are erased
}

// --- Noise

// Whether a file of the ledger has these bytes.
static bool ledger_has(const struct running *running, const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"", "-wal"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s%s", running->ledger, names[i]);
        FILE *file = fopen(path, "rb");
        static uint8_t content[1 << 22];
        const size_t size = file != NULL ? fread(content, 1, sizeof content, file) : 0;
        assert_true(size < sizeof content && (i > 0 || size > 0));
        found = found || (size > 0 && memmem(content, size, bytes, len) != NULL);
        if (file != NULL) {
            fclose(file);
        }
    }
    return found;
}

static void expect_variance(const struct test_round *round, const uint8_t *noise)
{
    const struct tern_masked_shape shape = {
        .tensors = round->facts.scale_count, .values = round->values, .bits = round->facts.bits};
    const double variance = (double)tern_secure_variance(&round->facts);
    double square = 0;
    for (uint32_t i = 0; i < round->values; i++) {
        const int32_t value = tern_masked_value(&shape, noise, i);
        square += (double)value * value;
    }
    assert_int_equal(tern_get_le32(noise), 0); // examples and loss
    assert_int_equal(tern_get_le32(noise + 4), 0);
    assert_true(square / round->values > 0.75 * variance && // 5 standard errors of 777 values
                square / round->values < 1.25 * variance);
}

// Asks for a round's sum, which has noise of the right size, and returns its values without masks.
static void expect_noise(const struct running *running, const struct test_round *round,
                         int32_t *values)
{
    const struct tern_masked_shape shape = {
        .tensors = round->facts.scale_count, .values = round->values, .bits = round->facts.bits};
    static uint8_t noise[1 << 16];
    struct answer answer = party_ask_sum(&running->party, round);
    assert_int_equal(answer.status, 200);
    party_open_noise(&running->party, round, answer_sum(&answer), noise);
    for (uint32_t i = 0; i < round->values; i++) {
        values[i] = tern_masked_value(&shape, noise, i);
    }
    expect_variance(round, noise);
    assert_false(ledger_has(running, answer_sum(&answer).data + 40, 64));
    assert_false(ledger_has(running, noise + 40, 64));
    answer_free(&answer);
}

SERVICE_CASE(noise_is_another_one_in_each_round_and_is_never_stored)
{
    struct running *running = *state;
    struct test_round round;
    static int32_t first[777];
    static int32_t second[777];
    double product = 0;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    assert_true(ledger_has(running, round.members[0].ticket, TERN_SHA256_SIZE));
    party_add_noise(&round, 400, 1000);
    expect_noise(running, &round, first);
    party_round(&running->party, 2, 6, &round);
    party_add_noise(&round, 400, 1000);
    expect_noise(running, &round, second);
    for (uint32_t i = 0; i < 777; i++) {
        product += (double)first[i] * second[i];
    }
    const double variance = (double)tern_secure_variance(&round.facts);
    assert_true(product / 777 / variance > -0.2 && product / 777 / variance < 0.2);
}

SERVICE_CASE(each_group_has_noise_of_its_own)
{
    struct running *running = *state;
    static struct test_round round;
    static struct test_round part;
    static uint8_t noise[3][1 << 13];
    admit_all(running);
    party_round(&running->party, 1, 9, &round);
    round.facts.groups = 3;
    party_add_noise(&round, 400, 1000);
    struct answer answer = party_ask_sum(&running->party, &round);
    assert_int_equal(answer.status, 200);
    const size_t size = answer_sum(&answer).len / 3;
    assert_true(size <= sizeof noise[0]);
    for (uint32_t i = 0; i < 3; i++) {
        part = members_of(&round, i);
        party_open_noise(&running->party, &part,
                         (struct tern_span){answer_sum(&answer).data + i * size, size}, noise[i]);
        expect_variance(&round, noise[i]);
    }
    assert_memory_not_equal(noise[0], noise[1], size);
    assert_memory_not_equal(noise[1], noise[2], size);
    struct answer again = party_ask_sum(&running->party, &round);
    assert_memory_equal(answer_sum(&again).data, answer_sum(&answer).data, 3 * size);
    answer_free(&again);
    answer_free(&answer);
}

SERVICE_CASE(a_round_has_one_noise_and_none_after_a_restart)
{
    struct running *running = *state;
    struct test_round round;
    struct test_round next;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    party_add_noise(&round, 400, 1000);
    struct answer first = party_ask_sum(&running->party, &round);
    struct answer second = party_ask_sum(&running->party, &round);
    assert_int_equal(second.status, 200);
    assert_memory_equal(answer_sum(&first).data, answer_sum(&second).data, answer_sum(&first).len);
    answer_free(&first);
    answer_free(&second);
    round.facts.noise = 0; // the same list without noise
    round.facts.bits = tern_secure_bits(&round.facts);
    expect_sum(running, &round, "answered-round");
    party_add_noise(&round, 400, 1000);
    party_round(&running->party, 2, 6, &next);
    party_add_noise(&next, 400, 1000);
    expect_sum(running, &next, "");
    expect_sum(running, &round, "noise-not-kept"); // the next sum replaced it
    stop(running);
    start(running);
    expect_sum(running, &next, "noise-not-kept");
    party_round(&running->party, 3, 6, &round);
    expect_sum(running, &round, ""); // without noise
}

SERVICE_CASE(noise_with_facts_that_make_it_impossible_is_refused)
{
    struct running *running = *state;
    struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    party_add_noise(&round, 0, 1000);
    expect_sum(running, &round, "wrong-facts");
    party_add_noise(&round, 400, 1000);
    round.facts.examples_max = 10;
    expect_sum(running, &round, "wrong-facts");
    round.facts.examples_max = 0;
    expect_sum(running, &round, "");
}

// --- Hostile requests

SERVICE_CASE(strangers_get_nothing)
{
    struct running *running = *state;
    struct party stranger = running->party;
    struct test_round round;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    stranger.token[3] = stranger.token[3] == 'A' ? 'B' : 'A';
    struct answer answer = party_ask_sum(&stranger, &round);
    assert_int_equal(answer.status, 401);
    answer_free(&answer);
    stranger.token[0] = '\0';
    assert_int_equal(party_epoch(&stranger), 401);
    answer = party_ask(&running->party, "GET", "/v1/sums", NULL, 0);
    assert_int_equal(answer.status, 405);
    answer_free(&answer);
    answer = party_ask(&running->party, "POST", "/v1/epoch/x", NULL, 0);
    assert_int_equal(answer.status, 405);
    answer_free(&answer);
    answer = party_ask(&running->party, "GET", "/v1/epoch/x", NULL, 0);
    assert_int_equal(answer.status, 400);
    answer_free(&answer);
    answer = party_ask(&running->party, "GET", "/metrics", NULL, 0);
    assert_int_equal(answer.status, 404);
    answer_free(&answer);
    expect_sum(running, &round, "");
}

SERVICE_CASE(bodies_over_the_limit_are_refused_before_they_are_read)
{
    struct running *running = *state;
    static uint8_t large[600];
    struct answer answer = party_ask(&running->party, "POST", TERN_PATH_TICKETS, large, 513);
    assert_int_equal(answer.status, 413);
    answer_free(&answer);
    answer = party_ask(&running->party, "POST", TERN_PATH_TICKETS, large, 0);
    assert_int_equal(answer.status, 400);
    answer_free(&answer);
}

// Whatever is changed in a request, the helper answers it, and it answers with the right sum, if with any.
SERVICE_CASE(damaged_requests_are_answered_and_release_nothing_else)
{
    struct running *running = *state;
    struct test_round round;
    struct tern_prng rng;
    size_t len = 0;
    admit_all(running);
    party_round(&running->party, 1, 6, &round);
    uint8_t *request = party_sum_request(&round, &len);
    struct answer first = party_ask(&running->party, "POST", TERN_PATH_SUMS, request, len);
    assert_int_equal(first.status, 200);
    tern_prng_init(&rng, 34, TERN_PRNG_TEST, 0, 0);
    for (unsigned i = 0; i < 80; i++) {
        uint8_t *damaged = malloc(len);
        assert_non_null(damaged);
        memcpy(damaged, request, len);
        damaged[tern_prng_below(&rng, (uint32_t)len)] ^= (uint8_t)(1u << tern_prng_below(&rng, 8));
        const size_t cut = i % 3 == 0 ? tern_prng_below(&rng, (uint32_t)len) : len;
        struct answer answer = party_ask(&running->party, "POST", TERN_PATH_SUMS, damaged, cut);
        assert_true(answer.status == 200 || (answer.status >= 400 && answer.status < 500));
        if (answer.status ==
            200) { // another round number: a round of its own, which no device trained
            assert_true(answer_sum(&answer).len != answer_sum(&first).len ||
                        memcmp(answer_sum(&answer).data, answer_sum(&first).data,
                               answer_sum(&first).len) != 0);
        }
        answer_free(&answer);
        free(damaged);
    }
    struct answer again = party_ask(&running->party, "POST", TERN_PATH_SUMS, request, len);
    assert_int_equal(again.status, 200);
    assert_memory_equal(answer_sum(&again).data, answer_sum(&first).data, answer_sum(&first).len);
    answer_free(&first);
    answer_free(&again);
    free(request);
}

// --- The command line beside a running helper

SERVICE_CASE(another_token_replaces_the_old_one_within_seconds)
{
    struct running *running = *state;
    struct tern_ledger_federation federation;
    struct party renewed = running->party;
    uint8_t hash[TERN_SHA256_SIZE];
    struct tern_ledger *ledger = open_ledger(running, &federation);
    assert_int_equal(tern_helper_make_token(renewed.token, hash), TERN_OK);
    assert_int_equal(tern_ledger_set_token(ledger, &federation, hash, 1), TERN_OK);
    close_ledger(ledger);
    while (party_epoch(&renewed) != 200) {
        usleep(20000); // ctest ends a test that waits for ever
    }
    assert_int_equal(party_epoch(&running->party), 401);
}
