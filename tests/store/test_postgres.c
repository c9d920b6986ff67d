// What only PostgreSQL has: connections that are lost, also when a commit is on its way, services that keep each
// other away, and URLs.
#include "store/nodes.h"
#include "store/postgres_server.h"
#include "store/run_sql.h"
#include "store/tables.h"
#include "tests/postgres/place.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- Commits

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
    assert_int_equal(tern_db_create(path, &federation, NULL, 10, NULL, why), TERN_ERR_CONFLICT);
    assert_non_null(strstr(why, "another program"));
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_ERR_NOT_FOUND);
}

#define MAKERS 4

struct maker {
    pthread_t thread;
    pthread_barrier_t *start;
    const char *path;
    enum tern_result result;
    char why[256];
};

static void *make(void *arg)
{
    struct maker *maker = arg;
    const struct tern_db_federation federation = {.model_spec = "softmax:4-2"};
    pthread_barrier_wait(maker->start);
    maker->result = tern_db_create(maker->path, &federation, NULL, 10, NULL, maker->why);
    return NULL;
}

static void one_of_several_programs_makes_it(void **state)
{
    struct fixture *f = *state;
    struct maker makers[MAKERS];
    pthread_barrier_t start;
    char path[512];
    int made = 0;
    test_store_place(f->folder, "several", path, sizeof path);
    pthread_barrier_init(&start, NULL, MAKERS);
    for (int i = 0; i < MAKERS; i++) {
        makers[i] = (struct maker){.start = &start, .path = path};
        assert_int_equal(pthread_create(&makers[i].thread, NULL, make, &makers[i]), 0);
    }
    for (int i = 0; i < MAKERS; i++) {
        pthread_join(makers[i].thread, NULL);
        made += makers[i].result == TERN_OK;
        if (makers[i].result != TERN_OK) {
            assert_int_equal(makers[i].result, TERN_ERR_CONFLICT);
            assert_non_null(strstr(makers[i].why, "the schema has a federation already"));
        }
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(made, 1);
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
    assert_int_equal(tern_db_open(url, 0, &db, why), expected);
    assert_null(db);
    if (strstr(why, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, says);
    }
}

static void a_password_in_a_url_is_refused(void **state)
{
    (void)state;
    refused("postgresql://tern:secret@localhost/tern", TERN_ERR_CONFIG, "has a password");
    refused("postgres:///tern?password=secret", TERN_ERR_CONFIG, "has a password");
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
    assert_int_equal(tern_db_open(f->path, 0, &db, why),
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
    assert_int_equal(tern_db_open(f->path, 0, &db, why), TERN_ERR_STATE);
    assert_non_null(strstr(why, "is changing the database's schema"));
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

// Pauses of the store between two attempts.
static unsigned pauses;
int __real_nanosleep(const struct timespec *request, struct timespec *remaining);
int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining);

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining)
{
    pauses++;
    return __real_nanosleep(request, remaining);
}

// It refuses its clients until it knows.
static void who_led_knows_at_once_that_another_one_leads(void **state)
{
    struct fixture *f = *state;
    struct named leads = open_named(f);
    struct tern_db *next = open_at(f->path);
    assert_ok(f, tern_db_join_node(leads.db, 7));
    assert_ok(f, tern_db_hold(leads.db));
    end_connection(&leads);
    assert_ok(f, tern_db_join_node(next, 8));
    assert_ok(f, tern_db_hold(next));
    pauses = 0;
    assert_int_equal(tern_db_begin(leads.db), TERN_ERR_STATE);
    assert_true(tern_db_is_displaced(leads.db));
    assert_in_range(pauses, 0, 1); // it could be about to end
    tern_db_close(next);
    tern_db_close(leads.db);
}

// A session that the server still has of the connection that was lost is waited for.
static void who_led_waits_for_its_own_session(void **state)
{
    struct fixture *f = *state;
    struct named leads = open_named(f);
    struct tern_db *own = open_at(f->path);
    assert_ok(f, tern_db_join_node(leads.db, 7));
    assert_ok(f, tern_db_hold(leads.db));
    end_connection(&leads);
    assert_ok(f, tern_db_join_node(own, 7));
    assert_ok(f, tern_db_hold(own));
    pauses = 0;
    assert_int_equal(tern_db_begin(leads.db), TERN_ERR_STATE);
    assert_in_range(pauses, 2, UINT32_MAX);
    tern_db_close(own);
    tern_db_close(leads.db);
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
        TEST(two_services_do_not_serve_one_database),
        TEST(who_may_not_write_does_not_serve),
        TEST(tables_of_another_program_are_left_alone),
        TEST(one_of_several_programs_makes_it),
        TEST(a_service_holds_it_by_each_connection),
        TEST(who_led_knows_at_once_that_another_one_leads),
        TEST(who_led_waits_for_its_own_session),
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
    return failed + (test_store_is_postgres() ? run_tests_of_a_server() + run_queue_tests() : 0);
}
