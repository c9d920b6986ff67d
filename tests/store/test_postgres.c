// What only PostgreSQL has: connections that are lost, also when a commit is on its way, services that keep each
// other away, and URLs.
#define _GNU_SOURCE
#include "store/fixture.h"
#include "store/run_sql.h"
#include "store/schema.h"
#include "tests/postgres/place.h"

#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// --- A server between, which cuts the connection once

// How often the server has answered.
struct turns {
    _Atomic unsigned count;
};

enum cut { CUT_BEFORE_COMMIT, CUT_BEHIND_COMMIT, CUT_NEVER };

static int socket_at(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "%.90s/.s.PGSQL.5432", folder);
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

// Whether the connection goes on.
static bool pass(int from, int to, const char *until, bool *seen, bool passes)
{
    static char bytes[65536];
    const ssize_t len = read(from, bytes, sizeof bytes);
    if (len <= 0) {
        return false;
    }
    *seen = *seen || memmem(bytes, (size_t)len, until, strlen(until) + 1) != NULL;
    return *seen && !passes ? false : write(to, bytes, (size_t)len) == len;
}

// Both ends say COMMIT, with a NUL behind it: one that it shall be done, the other that it is.
static void pass_on(int client, int server, enum cut cut, bool cuts, bool *has_cut,
                    struct turns *turns)
{
    bool asks = false;
    struct pollfd ends[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool asked = false;
    bool done = false;
    for (bool goes_on = true; goes_on && poll(ends, 2, -1) > 0;) {
        if (ends[0].revents != 0) {
            goes_on = pass(client, server, "COMMIT", &asked, !cuts || cut == CUT_BEHIND_COMMIT);
            asks = true;
        }
        if (goes_on && ends[1].revents != 0) {
            goes_on = pass(server, client, "COMMIT", &done, !cuts);
            turns->count += asks;
            asks = false;
        }
    }
    *has_cut = *has_cut || asked;
}

static void serve_between(const char *real, int listener, enum cut cut, struct turns *turns)
{
    bool has_cut = cut == CUT_NEVER;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // also with a test that fails
    for (int client; (client = accept(listener, NULL, NULL)) >= 0;) {
        struct sockaddr_un address;
        const int server = socket_at(real, &address);
        if (connect(server, (const struct sockaddr *)&address, sizeof address) != 0) {
            _exit(1);
        }
        pass_on(client, server, cut, !has_cut, &has_cut, turns);
        close(client);
        close(server);
    }
    _exit(0);
}

struct between {
    pid_t process;
    struct turns *turns;
    char path[512]; // of the fixture's database through it
};

// The database's URL has the folder of its socket as its host.
static struct between start_between(const struct fixture *fixture, enum cut cut)
{
    struct between between;
    struct sockaddr_un address;
    char real[128];
    const char *host = strstr(fixture->path, "host=") + 5;
    const size_t len = strcspn(host, "&");
    snprintf(real, sizeof real, "%.*s", (int)len, host);
    snprintf(between.path, sizeof between.path, "%.*s%s%s", (int)(host - fixture->path),
             fixture->path, fixture->folder, host + len);
    const int listener = socket_at(fixture->folder, &address);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    between.turns = mmap(NULL, sizeof *between.turns, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(between.turns != MAP_FAILED);
    between.process = fork();
    assert_true(between.process >= 0);
    if (between.process == 0) {
        serve_between(real, listener, cut, between.turns);
    }
    close(listener);
    return between;
}

static void stop_between(const struct between *between)
{
    assert_int_equal(kill(between->process, SIGKILL), 0);
    assert_int_equal(waitpid(between->process, NULL, 0), between->process);
    munmap(between->turns, sizeof *between->turns);
}

static struct tern_db *open_at(const char *path)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    if (tern_db_open(path, &db, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    return db;
}

static enum tern_result add(struct tern_db *db, uint8_t token)
{
    struct tern_db_client client = {.name = "x"};
    memset(client.token_hash, token, sizeof client.token_hash);
    return tern_db_client_add(db, &client);
}

static enum tern_result add_alone(struct tern_db *db, uint8_t token)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, add(db, token));
}

static enum tern_result find(struct tern_db *db, uint64_t id)
{
    struct tern_db_client client;
    return tern_db_client_get(db, id, &client);
}

static void a_commit_whose_reply_is_lost_was_stored(void **state)
{
    struct fixture *f = *state;
    const struct between between = start_between(f, CUT_BEHIND_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(add_alone(db, 1), TERN_OK);
    assert_ok(f, find(f->db, 1));
    assert_int_equal(add_alone(db, 2), TERN_OK);
    assert_false(tern_db_changed_by_others(db));
    tern_db_close(db);
    stop_between(&between);
}

static void a_commit_that_is_lost_was_not(void **state)
{
    struct fixture *f = *state;
    const struct between between = start_between(f, CUT_BEFORE_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(add_alone(db, 1), TERN_ERR_IO);
    assert_non_null(strstr(tern_db_error(db), "nothing of this was stored"));
    assert_int_equal(find(f->db, 1), TERN_ERR_NOT_FOUND);
    assert_int_equal(add_alone(db, 2), TERN_OK);
    assert_ok(f, find(f->db, 1)); // its id was not used up
    assert_false(tern_db_changed_by_others(db));
    tern_db_close(db);
    stop_between(&between);
}

static void without_an_answer_an_outcome_is_not_guessed(void **state)
{
    struct fixture *f = *state;
    const struct between between = start_between(f, CUT_BEHIND_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(add(db, 1), TERN_OK);
    unlink(fixture_file(f, ".s.PGSQL.5432")); // nobody can connect again
    assert_int_equal(tern_db_commit(db), TERN_ERR_IO);
    assert_non_null(strstr(tern_db_error(db), "does not say whether"));
    assert_int_equal(find(db, 1), TERN_ERR_IO);
    tern_db_close(db);
    stop_between(&between);
}

// --- Connections that the server ends

struct named {
    struct tern_db *db;
    char name[32]; // as PostgreSQL knows its connection
};

static struct named open_named(const struct fixture *f)
{
    struct named named;
    char path[512];
    snprintf(named.name, sizeof named.name, "test-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s&application_name=%s", f->path, named.name);
    named.db = open_at(path);
    return named;
}

static void end_connection(const struct named *named)
{
    char text[256];
    PGconn *connection = PQconnectdb(getenv("TERN_TEST_STORE"));
    snprintf(text, sizeof text,
             "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
             " WHERE application_name = '%s'",
             named->name);
    PGresult *result = PQexec(connection, text);
    assert_int_equal(PQntuples(result), 1);
    PQclear(result);
    PQfinish(connection);
}

static void a_connection_that_ends_is_made_anew(void **state)
{
    struct fixture *f = *state;
    const struct named named = open_named(f);
    assert_int_equal(add_alone(named.db, 1), TERN_OK);
    assert_int_equal(find(named.db, 1), TERN_OK);
    end_connection(&named);
    assert_int_equal(find(named.db, 1), TERN_OK);
    end_connection(&named);
    assert_int_equal(add_alone(named.db, 2), TERN_OK);
    end_connection(&named);
    assert_int_equal(tern_db_begin_reading(named.db), TERN_OK);
    assert_int_equal(find(named.db, 2), TERN_OK);
    tern_db_rollback(named.db);
    tern_db_close(named.db);
}

static void a_transaction_ends_with_its_connection(void **state)
{
    struct fixture *f = *state;
    const struct named named = open_named(f);
    assert_int_equal(tern_db_begin(named.db), TERN_OK);
    assert_int_equal(add(named.db, 1), TERN_OK);
    end_connection(&named);
    assert_int_equal(add(named.db, 2), TERN_ERR_IO);
    assert_true(tern_db_error(named.db)[0] != '\0');
    assert_int_equal(find(named.db, 1),
                     TERN_ERR_IO); // not by a connection that knows nothing of it
    assert_int_equal(tern_db_commit(named.db), TERN_ERR_IO);
    assert_int_equal(find(named.db, 1), TERN_ERR_NOT_FOUND);
    assert_int_equal(add_alone(named.db, 3), TERN_OK);
    assert_false(tern_db_damaged(named.db));
    tern_db_close(named.db);
}

static void rows_end_with_their_connection(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const struct named named = open_named(f);
    assert_int_equal(tern_db_begin_reading(named.db), TERN_OK);
    end_connection(&named);
    struct tern_db_rows *rows = tern_db_clients(named.db);
    assert_false(tern_db_next(rows, &client));
    assert_int_equal(tern_db_end(rows), TERN_ERR_IO);
    tern_db_rollback(named.db);
    tern_db_close(named.db);
}

// --- Writes that are queued

static void do_sql(const char *url, const char *sql)
{
    PGconn *connection = PQconnectdb(url);
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
    PQfinish(connection);
}

static enum tern_result queue_schedule(struct tern_db *db, uint32_t local_steps)
{
    const struct tern_db_schedule row = {.client = 1, .local_steps = local_steps};
    return tern_db_schedule_put(db, &row);
}

static enum tern_result queue_ledger(struct tern_db *db, uint32_t sequence)
{
    const struct tern_db_ledger row = {.client = 1, .sequence = sequence};
    return tern_db_ledger_put(db, &row);
}

static uint32_t scheduled(struct fixture *f)
{
    struct tern_db_schedule row = {.local_steps = 0};
    assert_ok(f, tern_db_may_miss(tern_db_schedule_get(f->db, 1, &row)));
    return row.local_steps;
}

static uint32_t in_ledger(struct fixture *f)
{
    struct tern_db_ledger row = {.sequence = 0};
    assert_ok(f, tern_db_may_miss(tern_db_ledger_get(f->db, 1, &row)));
    return row.sequence;
}

// The disk is full for each new row of the schedule.
static void fill_disk(struct fixture *f)
{
    do_sql(f->path,
           "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION"
           " 'no space left' USING ERRCODE = '53100'; END$$;"
           "CREATE TRIGGER fail BEFORE INSERT ON schedule FOR EACH ROW EXECUTE FUNCTION fail()");
}

static void expect_full_disk(struct tern_db *db)
{
    assert_non_null(strstr(tern_db_error(db), "the disk of PostgreSQL is full"));
    assert_non_null(strstr(tern_db_error(db), "INSERT INTO schedule"));
}

static void a_queued_write_that_fails_ends_its_transaction(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const uint64_t id = fixture_client(f, 1);
    fill_disk(f);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_ok(f, queue_ledger(f->db, 8));
    // Not the failure of what is asked, and the same for all that follows.
    assert_int_equal(tern_db_client_get(f->db, id, &client), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(tern_db_client_get(f->db, id, &client), TERN_ERR_IO);
    assert_int_equal(add(f->db, 2), TERN_ERR_IO);
    assert_int_equal(queue_ledger(f->db, 9), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(tern_db_commit(f->db), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(in_ledger(f), 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 10));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(in_ledger(f), 10);
}

// With nothing between that looks: COMMIT is on its way along with it.
static void a_queued_write_that_fails_is_found_by_the_commit(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    fill_disk(f);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_int_equal(tern_db_commit(f->db), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(in_ledger(f), 0);
    assert_int_equal(add_alone(f->db, 2), TERN_OK);
}

// As by SQLite: what fails by itself is no reason to end the transaction of what was queued before it.
static void a_queued_write_outlives_a_refused_one(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_int_equal(add(f->db, 1), TERN_ERR_CONFLICT);
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), 1);
    assert_int_equal(in_ledger(f), 7);
}

static void what_is_queued_is_rolled_back(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 1));
    tern_db_rollback(f->db);
    assert_int_equal(scheduled(f), 0);
    struct tern_db *other = open_at(f->path);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(queue_schedule(other, 2), TERN_OK);
    tern_db_close(other); // and by a close
    assert_int_equal(scheduled(f), 0);
    fill_disk(f); // what would fail, too, unseen
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 3));
    tern_db_rollback(f->db);
    assert_int_equal(scheduled(f), 0);
    assert_int_equal(add_alone(f->db, 2), TERN_OK);
}

// The server finds nothing wrong with it: no COMMIT may be on its way yet.
static void a_change_of_nothing_stores_nothing(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.id = fixture_client(f, 1)};
    for (uint32_t i = 1; i <= 2;
         i++) { // the first time to have the statements prepared, which looks
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, queue_schedule(f->db, i));
        assert_ok(f, queue_ledger(f->db, i));
        assert_ok(f, tern_db_client_update(f->db, &client));
        assert_int_equal(tern_db_commit(f->db), i == 1 ? TERN_OK : TERN_ERR_IO);
        client.id = 77;
    }
    assert_non_null(strstr(tern_db_error(f->db), "UPDATE clients"));
    assert_int_equal(scheduled(f), 1);
    assert_int_equal(in_ledger(f), 1);
}

static void what_is_queued_is_lost_with_its_connection(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const uint64_t id = fixture_client(f, 1);
    const struct named named = open_named(f);
    for (int looks = 0; looks < 2; looks++) {
        assert_int_equal(tern_db_begin(named.db), TERN_OK);
        assert_int_equal(queue_schedule(named.db, 1), TERN_OK);
        end_connection(&named);
        assert_int_equal(queue_schedule(named.db, 2), TERN_OK); // nobody has looked
        if (looks) {
            assert_int_equal(tern_db_client_get(named.db, id, &client), TERN_ERR_IO);
        }
        assert_int_equal(tern_db_commit(named.db), TERN_ERR_IO);
        assert_true(tern_db_error(named.db)[0] != '\0');
        assert_int_equal(scheduled(f), 0);
        assert_int_equal(tern_db_client_get(named.db, id, &client), TERN_OK);
    }
    assert_int_equal(tern_db_begin(named.db), TERN_OK);
    assert_int_equal(queue_schedule(named.db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(named.db), TERN_OK);
    assert_int_equal(scheduled(f), 3);
    tern_db_close(named.db);
}

// COMMIT goes along with what is queued, and its reply is lost.
static void a_queue_whose_reply_is_lost_was_stored(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_BEHIND_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(scheduled(f), 3);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 4), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(scheduled(f), 4);
    tern_db_close(db);
    stop_between(&between);
}

static void a_queue_that_is_lost_was_not(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_BEFORE_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_ERR_IO);
    assert_non_null(strstr(tern_db_error(db), "nothing of this was stored"));
    assert_int_equal(scheduled(f), 0);
    tern_db_close(db);
    stop_between(&between);
}

// What one client leaves behind in a round, in one transaction.
static void report(struct fixture *f, struct tern_db *db, uint32_t round)
{
    uint8_t body[200];
    const struct tern_db_update update = fixture_update(round, 1, body, sizeof body);
    struct tern_db_assignment row = {.round = round, .client = 1};
    const struct tern_db_meter meter = {
        .round = round, .client = 1, .purpose = TERN_PURPOSE_UPLOAD, .exchanges = 1};
    struct tern_db_client client;
    fixture_round(f, round);
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_assignment_put(db, &row, NULL), TERN_OK);
    row.state = TERN_ASSIGNMENT_REPORTED;
    assert_int_equal(tern_db_assignment_put(db, &row, &(enum tern_db_assignment_state){0}),
                     TERN_OK);
    assert_int_equal(queue_schedule(db, round), TERN_OK);
    assert_int_equal(tern_db_update_put(db, &update), TERN_OK);
    assert_int_equal(queue_ledger(db, round), TERN_OK);
    assert_int_equal(tern_db_client_update(db, &client), TERN_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tern_db_meter_add(db, &meter), TERN_OK);
    }
    assert_int_equal(tern_db_commit(db), TERN_OK);
}

// The look at the clients before; the beginning; whether rows were dropped and who evaluates, which the meter asks;
// that each change has changed a row, and the commit.
#define MOST_TURNS 6

static void a_transaction_takes_few_trips(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_NEVER);
    struct tern_db *db = open_at(between.path);
    report(f, db, 1); // statements are prepared
    const unsigned before = between.turns->count;
    report(f, db, 2);
    const unsigned turns = between.turns->count - before;
    assert_in_range(turns, 1, MOST_TURNS);
    tern_db_close(db);
    stop_between(&between);
}

#define MANY 1500 // several times of what is queued at once
#define SOME 40
#define BODY 400000 // together more than what sockets hold

static void as_much_is_queued_as_there_is(void **state)
{
    struct fixture *f = *state;
    static uint8_t body[BODY];
    struct tern_db_update update;
    fixture_client(f, 1);
    for (uint32_t round = 1; round <= SOME; round++) {
        fixture_round(f, round);
    }
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 1; i <= MANY; i++) {
        assert_ok(f, queue_schedule(f->db, i));
    }
    for (uint32_t round = 1; round <= SOME; round++) {
        update = fixture_update(round, 1, body, sizeof body);
        assert_ok(f, tern_db_update_put(f->db, &update));
        assert_ok(f, queue_ledger(f->db, round));
    }
    assert_int_equal(scheduled(f), MANY); // in its own transaction
    assert_int_equal(in_ledger(f), SOME);
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), MANY);
    for (uint32_t round = 1; round <= SOME; round++) {
        assert_ok(f, tern_db_update_find(f->db, round, 1, &update));
        assert_int_equal(update.id, round);
        assert_int_equal(update.body_len, BODY);
    }
    assert_ok(f, tern_db_check(f->db)); // each body by its hash
}

static enum tern_result view_zeros(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    (void)at;
    (void)len;
    *data = ctx;
    return TERN_OK;
}

// What libpq does in no pipeline comes behind the queue.
static void a_value_in_pieces_follows_what_is_queued(void **state)
{
    struct fixture *f = *state;
    static uint8_t body[100000];
    struct tern_db_download download = {.size = sizeof body, .to_version = 1};
    fixture_client(f, 1);
    tern_sha256(body, sizeof body, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 5));
    assert_ok(f, tern_db_download_put_pieces(f->db, &download, view_zeros, body));
    assert_ok(f, queue_schedule(f->db, 6));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), 6);
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &download, NULL, 0));
}

// --- Services

static void two_services_do_not_serve_one_database(void **state)
{
    struct fixture *f = *state;
    struct tern_db *other = open_at(f->path);
    assert_ok(f, tern_db_hold(f->db));
    assert_int_equal(tern_db_hold(other), TERN_ERR_STATE);
    assert_non_null(strstr(tern_db_error(other), "another aggregator"));
    assert_int_equal(add_alone(other, 1), TERN_OK); // verbs go on
    tern_db_close(f->db);
    assert_int_equal(tern_db_hold(other), TERN_OK);
    f->db = other;
}

static void who_may_not_write_does_not_serve(void **state)
{
    struct fixture *f = *state;
    char path[512];
    do_sql(f->path,
           "CREATE ROLE looker LOGIN; DO $$BEGIN EXECUTE"
           " format('GRANT USAGE ON SCHEMA %I TO looker', current_schema()); EXECUTE"
           " format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO looker', current_schema()); END$$");
    const char *host = strchr(f->path, '@');
    assert_non_null(host);
    snprintf(path, sizeof path, "postgresql://looker%s", host);
    struct tern_db *db = open_at(path);
    assert_int_equal(tern_db_hold(db), TERN_ERR_CONFIG);
    assert_non_null(strstr(tern_db_error(db), "may not write"));
    tern_db_close(db);
    do_sql(f->path, "DROP OWNED BY looker; DROP ROLE looker");
}

static void tables_of_another_program_are_left_alone(void **state)
{
    struct fixture *f = *state;
    const struct tern_db_federation federation = {.model_spec = "softmax:4-2"};
    char path[512];
    char why[256];
    struct tern_db *db = NULL;
    test_store_place(f->folder, "foreign", path, sizeof path);
    do_sql(path, "CREATE TABLE schema_version (v INTEGER)");
    assert_int_equal(tern_db_create(path, &federation, NULL, 10, why), TERN_ERR_CONFLICT);
    assert_non_null(strstr(why, "another program"));
    assert_int_equal(tern_db_open(path, &db, why), TERN_ERR_NOT_FOUND);
}

static void a_service_holds_it_by_each_connection(void **state)
{
    struct fixture *f = *state;
    const struct named named = open_named(f);
    assert_int_equal(tern_db_hold(named.db), TERN_OK);
    end_connection(&named);
    assert_int_equal(find(named.db, 1), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_hold(f->db), TERN_ERR_STATE);
    tern_db_close(named.db);
}

// --- Rows and texts

#define CLIENTS 60

// A connection does one thing at a time, where the store asks for one while rows of another are left.
static void rows_wait_while_others_are_asked_for(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    assert_ok(f, tern_db_begin(f->db));
    for (uint8_t i = 1; i <= CLIENTS; i++) {
        assert_ok(f, add(f->db, i));
    }
    struct tern_db_rows *rows = tern_db_clients(f->db);
    uint64_t seen = 0;
    while (tern_db_next(rows, &client)) {
        assert_int_equal(client.id, ++seen);
        client.last_seen_ms = seen;
        assert_ok(f, tern_db_client_update(f->db, &client));
        assert_ok(f, find(f->db, seen % CLIENTS + 1));
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    assert_int_equal(seen, CLIENTS);
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_client_get(f->db, CLIENTS, &client));
    assert_int_equal(client.last_seen_ms, CLIENTS);
}

static void what_is_no_text_is_refused_alone(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.name = "\xff\xfe"};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, add(f->db, 1));
    assert_int_equal(tern_db_client_add(f->db, &client), TERN_ERR_ARGUMENT);
    assert_ok(f, add(f->db, 2));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, find(f->db, 2));
    assert_int_equal(find(f->db, 3), TERN_ERR_NOT_FOUND);
}

static void add_metric(struct fixture *f, const char *name)
{
    struct tern_db_metric metric = {.version = 1, .client = 1};
    snprintf(metric.name, sizeof metric.name, "%s", name);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_metric_put(f->db, &metric));
    assert_ok(f, tern_db_commit(f->db));
}

// As in SQLite; the database itself goes by a language's rules.
static void texts_are_in_the_order_of_their_bytes(void **state)
{
    struct fixture *f = *state;
    struct tern_db_metric metric;
    fixture_client(f, 1);
    add_metric(f, "auc");
    add_metric(f, "F1");
    struct tern_db_rows *rows = tern_db_metrics_from(f->db, 0);
    assert_true(tern_db_next(rows, &metric));
    assert_string_equal(metric.name, "F1");
    assert_true(tern_db_next(rows, &metric));
    assert_string_equal(metric.name, "auc");
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

static enum tern_result take_nothing(void *ctx, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return TERN_OK;
}

static void a_value_of_another_length_is_damage(void **state)
{
    struct fixture *f = *state;
    static uint8_t body[1000];
    struct tern_db_download download = {.size = sizeof body, .to_version = 1};
    tern_sha256(body, sizeof body, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_download_put(f->db, &download, body));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &download, NULL, 0));
    assert_ok(f, tern_db_download_stream(f->db, &download, take_nothing, NULL));
    run_sql(f->path, "UPDATE download_bodies SET body = body || body");
    assert_int_equal(tern_db_download_stream(f->db, &download, take_nothing, NULL), TERN_ERR_IO);
    assert_true(tern_db_damaged(f->db));
}

static void a_copy_and_a_restore_are_pg_dumps_business(void **state)
{
    struct fixture *f = *state;
    char why[256] = "";
    assert_int_equal(tern_db_backup(f->db, fixture_file(f, "copy"), why), TERN_ERR_STATE);
    assert_non_null(strstr(why, "pg_dump"));
    assert_int_equal(access(fixture_file(f, "copy"), F_OK), -1);
}

// --- URLs

static void refused(const char *url, enum tern_result expected, const char *says)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    assert_int_equal(tern_db_open(url, &db, why), expected);
    assert_null(db);
    if (strstr(why, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, says);
    }
}

static void a_password_in_a_url_is_refused(void **state)
{
    (void)state;
    refused("postgresql://tern:secret@localhost/tern", TERN_ERR_CONFIG, "holds a password");
    refused("postgres:///tern?password=secret", TERN_ERR_CONFIG, "holds a password");
    refused("postgresql:///tern?nonsense=1", TERN_ERR_CONFIG, "nonsense");
}

static void a_server_that_is_not_there_is_told(void **state)
{
    (void)state;
    refused("postgresql:///tern?host=/nowhere", TERN_ERR_IO, "/nowhere");
}

// --- Programs of two versions: the next one has one step more

static const char *const steps[] = {"ALTER TABLE clients ADD COLUMN site TEXT NOT NULL DEFAULT ''",
                                    NULL};

static void a_schema_changes_while_nobody_else_has_it_open(void **state)
{
    struct fixture *f = *state;
    char why[256];
    int64_t version = 0;
    struct tern_db *db = NULL;
    const struct named named = open_named(f);
    assert_int_equal(tern_schema_current(f->db->sql, steps), TERN_ERR_STATE);
    assert_non_null(strstr(tern_db_error(f->db), "tern-aggregator serve"));
    assert_int_equal(tern_schema_migrate(f->db->sql, steps), TERN_ERR_STATE);
    assert_non_null(strstr(tern_db_error(f->db), named.name)); // who is in the way
    assert_ok(f, tern_sql_version(f->db->sql, &version));
    assert_int_equal(version, 1);
    assert_int_equal(add_alone(named.db, 1), TERN_OK); // and that one goes on
    tern_db_close(named.db);
    assert_ok(f, tern_schema_migrate(f->db->sql, steps));
    assert_int_equal(tern_db_open(f->path, &db, why),
                     TERN_ERR_UNKNOWN); // it is an older program now
    assert_non_null(strstr(why, "install a newer Tern"));
}

// What refused it keeps nobody away; who changes it keeps away all.
static void who_comes_while_a_schema_changes_waits(void **state)
{
    struct fixture *f = *state;
    char why[256];
    struct tern_db *db = NULL;
    assert_ok(f, tern_sql_use(f->db->sql, TERN_SQL_ALONE));
    assert_int_equal(tern_db_open(f->path, &db, why), TERN_ERR_STATE);
    assert_non_null(strstr(why, "changes the database's schema"));
    assert_ok(f, tern_sql_use(f->db->sql, TERN_SQL_SHARED));
    db = open_at(f->path);
    tern_db_close(db);
    assert_ok(f, tern_sql_use(f->db->sql, TERN_SQL_UNUSED)); // so others may change it
    db = open_at(f->path);
    assert_int_equal(tern_sql_use(db->sql, TERN_SQL_ALONE), TERN_OK);
    tern_db_close(db);
}

static void who_lost_its_connection_meanwhile_is_told(void **state)
{
    struct fixture *f = *state;
    struct named named = open_named(f);
    end_connection(&named);
    assert_int_equal(find(named.db, 1),
                     TERN_ERR_NOT_FOUND); // on a new connection, which shares it again
    assert_int_equal(tern_schema_migrate(f->db->sql, steps), TERN_ERR_STATE);
    end_connection(&named);
    assert_ok(f, tern_schema_migrate(f->db->sql, steps));
    assert_int_equal(find(named.db, 1), TERN_ERR_STATE);
    assert_non_null(strstr(tern_db_error(named.db), "another version of Tern has changed"));
    assert_true(tern_db_is_displaced(named.db));
    tern_db_close(named.db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

static int run_tests_of_a_server(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_commit_whose_reply_is_lost_was_stored),
        TEST(a_commit_that_is_lost_was_not),
        TEST(without_an_answer_an_outcome_is_not_guessed),
        TEST(a_connection_that_ends_is_made_anew),
        TEST(a_transaction_ends_with_its_connection),
        TEST(rows_end_with_their_connection),
        TEST(a_queued_write_that_fails_ends_its_transaction),
        TEST(a_queued_write_that_fails_is_found_by_the_commit),
        TEST(a_queued_write_outlives_a_refused_one),
        TEST(what_is_queued_is_rolled_back),
        TEST(a_change_of_nothing_stores_nothing),
        TEST(what_is_queued_is_lost_with_its_connection),
        TEST(a_queue_whose_reply_is_lost_was_stored),
        TEST(a_queue_that_is_lost_was_not),
        TEST(a_transaction_takes_few_trips),
        TEST(as_much_is_queued_as_there_is),
        TEST(a_value_in_pieces_follows_what_is_queued),
        TEST(two_services_do_not_serve_one_database),
        TEST(who_may_not_write_does_not_serve),
        TEST(tables_of_another_program_are_left_alone),
        TEST(a_service_holds_it_by_each_connection),
        TEST(a_schema_changes_while_nobody_else_has_it_open),
        TEST(who_comes_while_a_schema_changes_waits),
        TEST(who_lost_its_connection_meanwhile_is_told),
        TEST(rows_wait_while_others_are_asked_for),
        TEST(what_is_no_text_is_refused_alone),
        TEST(texts_are_in_the_order_of_their_bytes),
        TEST(a_value_of_another_length_is_damage),
        TEST(a_copy_and_a_restore_are_pg_dumps_business),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_in_a_url_is_refused),
        cmocka_unit_test(a_server_that_is_not_there_is_told),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (test_store_is_postgres() ? run_tests_of_a_server() : 0);
}
