// The helper's ledger: what is committed stays, also after kills; what is not committed is gone; the log's chain holds.
#include "helper/ledger.h"
#include "tests/cases.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    char folder[64];
    char path[96];
    struct tern_ledger *ledger;
    struct tern_ledger_federation federation;
};

static void open_again(struct place *place)
{
    char why[TERN_LEDGER_WHY_MAX] = "";
    tern_ledger_close(place->ledger);
    if (tern_ledger_open(place->path, &place->ledger, why) != TERN_OK) {
        fail_msg("%s", why);
    }
}

static int set_up(void **state)
{
    static struct place place;
    char why[TERN_LEDGER_WHY_MAX];
    const uint8_t key[TERN_LEDGER_KEY_SIZE] = {1, 2, 3};
    memset(&place, 0, sizeof place);
    snprintf(place.folder, sizeof place.folder, "/tmp/tern-ledger-XXXXXX");
    assert_non_null(mkdtemp(place.folder));
    snprintf(place.path, sizeof place.path, "%s/helper.db", place.folder);
    assert_int_equal(tern_ledger_create(place.path, key, 1000, why), TERN_OK);
    open_again(&place);
    snprintf(place.federation.name, sizeof place.federation.name, "north");
    assert_int_equal(tern_ledger_begin(place.ledger), TERN_OK);
    assert_int_equal(tern_ledger_add_federation(place.ledger, &place.federation, 1001), TERN_OK);
    assert_int_equal(tern_ledger_commit(place.ledger), TERN_OK);
    *state = &place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char command[128];
    tern_ledger_close(place->ledger);
    snprintf(command, sizeof command, "rm -r %s", place->folder);
    return system(command);
}

#define LEDGER_CASE(name) CASE_WITH(name, set_up, tear_down)

// Returns the number of entries, after checking the chain of their heads.
static uint64_t check_log(struct tern_ledger *ledger)
{
    struct tern_ledger_entry entry = {.number = 0};
    uint8_t head[TERN_SHA256_SIZE] = {0};
    uint64_t before = 0;
    while (tern_ledger_next_entry(ledger, entry.number, &entry) == TERN_OK) {
        assert_int_equal(entry.number, before + 1);
        tern_ledger_chain(head, &entry, head);
        assert_memory_equal(head, entry.head, sizeof head);
        before = entry.number;
    }
    return before;
}

static void fill(uint8_t *bytes, size_t len, unsigned value)
{
    memset(bytes, (int)value, len);
}

static void begin(struct place *place)
{
    assert_int_equal(tern_ledger_begin(place->ledger), TERN_OK);
}

static void commit(struct place *place)
{
    assert_int_equal(tern_ledger_commit(place->ledger), TERN_OK);
}

static struct tern_ledger_code add_code(struct place *place, uint32_t uses, unsigned value)
{
    struct tern_ledger_code code = {.uses_left = uses, .expires_ms = 5000, .label = "site"};
    fill(code.hash, sizeof code.hash, value);
    assert_int_equal(tern_ledger_add_code(place->ledger, &place->federation, &code, 1002), TERN_OK);
    return code;
}

static void admit(struct place *place, const struct tern_ledger_code *code, uint64_t client,
                  uint64_t epoch)
{
    struct tern_ledger_ticket ticket = {.client = client, .epoch = epoch};
    fill(ticket.hash, sizeof ticket.hash, (unsigned)client);
    fill(ticket.secret, sizeof ticket.secret, (unsigned)client + 100);
    assert_int_equal(tern_ledger_admit(place->ledger, &place->federation, code, &ticket, 1003),
                     TERN_OK);
}

LEDGER_CASE(a_new_ledger_keeps_its_key_and_is_never_replaced)
{
    struct place *place = *state;
    uint8_t key[TERN_LEDGER_KEY_SIZE];
    char why[TERN_LEDGER_WHY_MAX];
    assert_int_equal(tern_ledger_signing_key(place->ledger, key), TERN_OK);
    assert_int_equal(key[2], 3);
    assert_int_equal(tern_ledger_create(place->path, key, 1, why), TERN_ERR_CONFLICT);
    assert_int_equal(check_log(place->ledger), 2);
    struct tern_ledger *none = NULL;
    assert_int_equal(tern_ledger_open("/nonexistent/helper.db", &none, why), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "tern-helper init"));
}

LEDGER_CASE(a_federation_gets_its_identity_once)
{
    struct place *place = *state;
    struct tern_ledger_federation found;
    uint8_t identity[TERN_SHA256_SIZE];
    fill(identity, sizeof identity, 5);
    begin(place);
    assert_int_equal(tern_ledger_set_identity(place->ledger, &place->federation, identity, 1002),
                     TERN_OK);
    struct tern_ledger_federation again = {.name = "north"};
    assert_int_equal(tern_ledger_add_federation(place->ledger, &again, 1), TERN_ERR_CONFLICT);
    commit(place);
    assert_int_equal(tern_ledger_federation_named(place->ledger, "north", &found), TERN_OK);
    assert_true(found.has_identity);
    assert_memory_equal(found.identity, identity, sizeof identity);
    assert_int_equal(tern_ledger_federation_named(place->ledger, "south", &found),
                     TERN_ERR_NOT_FOUND);
}

LEDGER_CASE(a_code_is_used_once_for_each_client)
{
    struct place *place = *state;
    struct tern_ledger_code found;
    struct tern_ledger_client client;
    begin(place);
    const struct tern_ledger_code code = add_code(place, 2, 1);
    admit(place, &code, 7, 1);
    admit(place, &code, 7, 2); // the next epoch
    commit(place);
    assert_int_equal(tern_ledger_code(place->ledger, code.hash, &found), TERN_OK);
    assert_int_equal(found.uses_left, 1);
    assert_string_equal(found.label, "site");
    assert_int_equal(tern_ledger_client(place->ledger, 1, 7, &client), TERN_OK);
    assert_int_equal(client.code, code.id);
    assert_int_equal(client.admitted, 4); // the entry of the first ticket
    assert_int_equal(tern_ledger_client(place->ledger, 2, 7, &client), TERN_ERR_NOT_FOUND);
}

LEDGER_CASE(revoked_clients_are_admitted_by_another_code)
{
    struct place *place = *state;
    struct tern_ledger_client client;
    uint32_t revoked = 0;
    begin(place);
    const struct tern_ledger_code code = add_code(place, 3, 1);
    const struct tern_ledger_code other = add_code(place, 1, 2);
    admit(place, &code, 7, 1);
    admit(place, &code, 8, 1);
    assert_int_equal(tern_ledger_revoke(place->ledger, &place->federation, 7, 1), TERN_OK);
    assert_int_equal(tern_ledger_revoke(place->ledger, &place->federation, 9, 1),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(
        tern_ledger_cancel_code(place->ledger, &place->federation, code.id, 1, &revoked), TERN_OK);
    assert_int_equal(revoked, 1); // client 8
    admit(place, &other, 7, 1);
    commit(place);
    assert_int_equal(tern_ledger_client(place->ledger, 1, 7, &client), TERN_OK);
    assert_false(client.revoked);
    assert_int_equal(client.code, other.id);
    assert_int_equal(tern_ledger_client(place->ledger, 1, 8, &client), TERN_OK);
    assert_true(client.revoked);
}

static bool contains(const uint8_t *content, size_t size, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + len <= size; at++) {
        if (memcmp(content + at, bytes, len) == 0) {
            return true;
        }
    }
    return false;
}

// Returns whether a file of the ledger contains these bytes.
static bool is_on_disk(const struct place *place, const uint8_t *bytes, size_t len)
{
    static const char *const suffixes[] = {"", "-wal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[112];
        snprintf(path, sizeof path, "%s%s", place->path, suffixes[i]);
        FILE *file = fopen(path, "rb");
        static uint8_t content[4000000];
        const size_t read = file != NULL ? fread(content, 1, sizeof content, file) : 0;
        if (file != NULL) {
            fclose(file);
        }
        if (contains(content, read, bytes, len)) {
            return true;
        }
    }
    return false;
}

LEDGER_CASE(keys_and_secrets_of_old_epochs_are_erased_from_the_disk)
{
    struct place *place = *state;
    struct tern_ledger_epoch epoch = {.epoch = 1, .begins_ms = 10};
    struct tern_ledger_ticket ticket = {.client = 0};
    uint8_t secret[TERN_LEDGER_KEY_SIZE];
    fill(secret, sizeof secret, 107);
    fill(epoch.private_key, sizeof epoch.private_key, 0xA1);
    begin(place);
    const struct tern_ledger_code code = add_code(place, 1, 1);
    assert_int_equal(tern_ledger_add_epoch(place->ledger, &place->federation, &epoch), TERN_OK);
    admit(place, &code, 7, 1);
    commit(place);
    open_again(place);
    assert_true(is_on_disk(place, secret, sizeof secret));
    for (epoch.epoch = 2; epoch.epoch <= 3; epoch.epoch++) {
        assert_int_equal(tern_ledger_ticket(place->ledger, 1, 1, 7, &ticket), TERN_OK);
        fill(epoch.private_key, sizeof epoch.private_key, 0xA0 + (unsigned)epoch.epoch);
        begin(place);
        assert_int_equal(tern_ledger_add_epoch(place->ledger, &place->federation, &epoch), TERN_OK);
        commit(place);
    }
    assert_int_equal(tern_ledger_ticket(place->ledger, 1, 1, 7, &ticket), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_ledger_newest_epoch(place->ledger, 1, &epoch), TERN_OK);
    assert_int_equal(epoch.epoch, 3);
    assert_int_equal(epoch.private_key[0], 0xA3);
    assert_false(is_on_disk(place, secret, sizeof secret));
    fill(secret, sizeof secret, 0xA1);
    assert_false(is_on_disk(place, secret, sizeof secret));
}

// Adds the answer of a round with clients 1 to `count`.
static enum tern_result add_answer(struct place *place, uint32_t round, uint32_t count,
                                   unsigned replica)
{
    uint64_t clients[200];
    struct tern_ledger_answer answer = {.round = round,
                                        .min_clients = 5,
                                        .values = 10,
                                        .sums = 3,
                                        .count = count,
                                        .clients = clients};
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = i + 1;
    }
    fill(answer.descriptor, sizeof answer.descriptor, round);
    fill(answer.list_hash, sizeof answer.list_hash, count);
    fill(answer.replica, sizeof answer.replica, replica);
    answer.changed = round % 7;
    return tern_ledger_add_answer(place->ledger, &place->federation, &answer, 1004);
}

LEDGER_CASE(answers_are_found_by_round_by_age_and_by_replica)
{
    struct place *place = *state;
    struct tern_ledger_answer answer = {0};
    struct tern_ledger_figures figures;
    begin(place);
    assert_int_equal(add_answer(place, 12, 6, 1), TERN_OK);
    assert_int_equal(add_answer(place, 13, 7, 2), TERN_OK);
    assert_int_equal(add_answer(place, 5, 8, 1), TERN_OK);
    commit(place);
    assert_int_equal(tern_ledger_answer(place->ledger, 1, 13, &answer), TERN_OK);
    assert_int_equal(answer.count, 7);
    assert_int_equal(answer.clients[6], 7);
    assert_int_equal(answer.values, 10);
    tern_ledger_answer_free(&answer);
    assert_int_equal(tern_ledger_answer(place->ledger, 2, 13, &answer), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_ledger_newest_answer(place->ledger, 1, &answer), TERN_OK);
    assert_int_equal(answer.round, 5);
    tern_ledger_answer_free(&answer);
    uint8_t replica[TERN_SHA256_SIZE];
    fill(replica, sizeof replica, 1);
    assert_int_equal(tern_ledger_next_of_replica(place->ledger, 1, replica, 0, &answer), TERN_OK);
    assert_int_equal(answer.round, 12);
    tern_ledger_answer_free(&answer);
    assert_int_equal(tern_ledger_next_of_replica(place->ledger, 1, replica, answer.entry, &answer),
                     TERN_OK);
    assert_int_equal(answer.round, 5);
    tern_ledger_answer_free(&answer);
    assert_int_equal(tern_ledger_next_of_replica(place->ledger, 1, replica, answer.entry, &answer),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_ledger_figures(place->ledger, 1, &figures), TERN_OK);
    assert_int_equal(figures.answers, 3);
    assert_int_equal(figures.last_round, 5);
    assert_int_equal(figures.small_changes, 0); // of 5, 6 and 5 clients
}

LEDGER_CASE(a_released_round_is_no_longer_found_by_its_replica)
{
    struct place *place = *state;
    struct tern_ledger_answer answer = {0};
    uint8_t replica[TERN_SHA256_SIZE];
    fill(replica, sizeof replica, 1);
    begin(place);
    assert_int_equal(add_answer(place, 12, 6, 1), TERN_OK);
    assert_int_equal(add_answer(place, 13, 6, 1), TERN_OK);
    assert_int_equal(tern_ledger_release(place->ledger, &place->federation, 12, 1005), TERN_OK);
    assert_int_equal(tern_ledger_release(place->ledger, &place->federation, 14, 1006),
                     TERN_ERR_NOT_FOUND);
    commit(place);
    assert_int_equal(tern_ledger_next_of_replica(place->ledger, 1, replica, 0, &answer), TERN_OK);
    assert_int_equal(answer.round, 13);
    tern_ledger_answer_free(&answer);
    assert_int_equal(tern_ledger_answer(place->ledger, 1, 12, &answer),
                     TERN_OK); // keeps its answer
    tern_ledger_answer_free(&answer);
    assert_int_equal(check_log(place->ledger), 5);
}

LEDGER_CASE(a_round_has_one_answer)
{
    struct place *place = *state;
    begin(place);
    assert_int_equal(add_answer(place, 12, 6, 1), TERN_OK);
    assert_int_equal(add_answer(place, 12, 6, 1), TERN_ERR_CONFLICT);
    tern_ledger_rollback(place->ledger);
    assert_int_equal(check_log(place->ledger), 2);
}

// Runs SQL as another program could.
static int run_sql(const struct place *place, const char *sql)
{
    sqlite3 *handle = NULL;
    assert_int_equal(sqlite3_open(place->path, &handle), SQLITE_OK);
    const int code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_close(handle);
    return code;
}

LEDGER_CASE(entries_and_answers_are_neither_changed_nor_deleted)
{
    struct place *place = *state;
    begin(place);
    assert_int_equal(add_answer(place, 12, 6, 1), TERN_OK);
    commit(place);
    assert_int_not_equal(run_sql(place, "UPDATE log SET fact = 'x' WHERE number = 1"), SQLITE_OK);
    assert_int_not_equal(run_sql(place, "DELETE FROM log"), SQLITE_OK);
    assert_int_not_equal(run_sql(place, "UPDATE answers SET round = 1"), SQLITE_OK);
    assert_int_not_equal(run_sql(place, "DELETE FROM answers"), SQLITE_OK);
    assert_int_equal(check_log(place->ledger), 3);
}

LEDGER_CASE(another_connection_s_change_is_noticed)
{
    struct place *place = *state;
    struct tern_ledger *other = NULL;
    char why[TERN_LEDGER_WHY_MAX];
    const int64_t before = tern_ledger_changes(place->ledger);
    assert_int_equal(tern_ledger_changes(place->ledger), before);
    assert_int_equal(tern_ledger_open(place->path, &other, why), TERN_OK);
    assert_int_equal(tern_ledger_begin(other), TERN_OK);
    assert_int_equal(
        tern_ledger_set_token(other, &place->federation, place->federation.token_hash, 1), TERN_OK);
    assert_int_equal(tern_ledger_commit(other), TERN_OK);
    assert_int_not_equal(tern_ledger_changes(place->ledger), before);
    tern_ledger_close(other);
}

LEDGER_CASE(a_file_of_another_program_is_refused)
{
    struct place *place = *state;
    struct tern_ledger *other = NULL;
    char why[TERN_LEDGER_WHY_MAX];
    assert_int_equal(run_sql(place, "PRAGMA user_version = 9"), SQLITE_OK);
    assert_int_equal(tern_ledger_open(place->path, &other, why), TERN_ERR_IO);
    assert_non_null(strstr(why, "the file was not changed"));
}

// Adds answers until a signal ends the process, and reports each one behind its commit.
static void add_until_killed(struct place *place, uint32_t round, int report)
{
    char why[TERN_LEDGER_WHY_MAX];
    struct tern_ledger *ledger = NULL;
    if (tern_ledger_open(place->path, &ledger, why) != TERN_OK) {
        _exit(1);
    }
    place->ledger = ledger;
    for (;; round++) {
        if (tern_ledger_begin(ledger) != TERN_OK || add_answer(place, round, 100, 1) != TERN_OK ||
            tern_ledger_commit(ledger) != TERN_OK ||
            write(report, &round, sizeof round) != (ssize_t)sizeof round) {
            _exit(1);
        }
    }
}

// Kills a process that adds answers once it has reported some of them. Returns the last reported round.
static uint32_t kill_after(struct place *place, uint32_t round, unsigned reports, unsigned us)
{
    int pipes[2];
    uint32_t last = round - 1;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        add_until_killed(place, round, pipes[1]);
    }
    close(pipes[1]);
    for (unsigned i = 0; i < reports; i++) {
        assert_int_equal(read(pipes[0], &last, sizeof last), sizeof last);
    }
    usleep(us);
    kill(child, SIGKILL);
    while (read(pipes[0], &last, sizeof last) == (ssize_t)sizeof last) {
    }
    close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return last;
}

LEDGER_CASE(what_was_committed_before_a_kill_is_there)
{
    struct place *place = *state;
    uint32_t round = 1;
    tern_ledger_close(place->ledger); // no connection may live across fork()
    place->ledger = NULL;
    srand(33);
    for (unsigned i = 0; i < 30; i++) {
        struct tern_ledger_answer newest = {0};
        const uint32_t reported = kill_after(place, round, 1 + i % 3, (unsigned)(rand() % 3000));
        open_again(place);
        assert_int_equal(tern_ledger_newest_answer(place->ledger, 1, &newest), TERN_OK);
        // The last commit may have happened without its report.
        assert_in_range(newest.round, reported, reported + 1);
        assert_int_equal(check_log(place->ledger), 2 + newest.round);
        assert_int_equal(newest.entry, 2 + newest.round);
        round = newest.round + 1;
        tern_ledger_answer_free(&newest);
        tern_ledger_close(place->ledger);
        place->ledger = NULL;
    }
}
