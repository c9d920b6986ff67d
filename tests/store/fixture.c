#include "store/fixture.h"

#include "tests/postgres/place.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tern_db_federation fixture_federation(void)
{
    struct tern_db_federation federation = {
        .model_spec = "softmax:4-2", .seed = 0xfedcba9876543210u, .created_ms = 1700000000000u};
    memset(federation.model_hash, 0xab, sizeof federation.model_hash);
    return federation;
}

static void open_database(struct fixture *fixture)
{
    char why[256] = "";
    enum tern_result result = tern_db_open(fixture->path, 0, &fixture->db, why);
    if (result != TERN_OK) {
        fail_msg("open: %s: %s", tern_result_name(result), why);
    }
}

int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    const char *base = getenv("TMPDIR");
    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "%s/tern-store-XXXXXX",
             base != NULL && strlen(base) < 80 ? base : "/tmp");
    assert_non_null(mkdtemp(fixture->folder));
    test_store_place(fixture->folder, "tern.db", fixture->path, sizeof fixture->path);
    struct tern_db_federation federation = fixture_federation();
    char why[256] = "";
    const enum tern_result made = tern_db_create(fixture->path, &federation, NULL, 0, NULL, why);
    if (made != TERN_OK) {
        fail_msg("create: %s: %s", tern_result_name(made), why);
    }
    open_database(fixture);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    tern_db_close(fixture->db);
    DIR *folder = opendir(fixture->folder);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        unlink(fixture_file(fixture, entry->d_name));
    }
    closedir(folder);
    rmdir(fixture->folder);
    free(fixture);
    return 0;
}

void fixture_reopen(struct fixture *fixture)
{
    tern_db_close(fixture->db);
    fixture->db = NULL;
    open_database(fixture);
}

const char *fixture_file(const struct fixture *fixture, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    return path;
}

const char *fixture_place(const struct fixture *fixture, const char *name)
{
    static char path[512];
    test_store_place(fixture->folder, name, path, sizeof path);
    return path;
}

void fixture_assert_ok(const struct fixture *fixture, enum tern_result result, const char *file,
                       int line)
{
    if (result != TERN_OK) {
        print_error("%s:%d: %s: %s\n", file, line, tern_result_name(result),
                    tern_db_error(fixture->db));
        fail();
    }
}

uint64_t fixture_client(struct fixture *fixture, uint8_t token)
{
    struct tern_db_client client = {.name = "a client", .platform = "linux-test"};
    memset(client.token_hash, token, sizeof client.token_hash);
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_client_add(fixture->db, &client));
    assert_ok(fixture, tern_db_commit(fixture->db));
    return client.id;
}

void fixture_refused(struct fixture *fixture, enum tern_result result)
{
    assert_int_equal(result, TERN_OK);
    assert_int_equal(tern_db_commit(fixture->db), TERN_ERR_IO);
    assert_true(tern_db_error(fixture->db)[0] != '\0');
}

void fixture_assignment(struct fixture *fixture, const struct tern_db_assignment *assignment)
{
    struct tern_db_assignment before;
    const enum tern_result found =
        tern_db_assignment_get(fixture->db, assignment->round, assignment->client, &before);
    assert_ok(fixture, tern_db_may_miss(found));
    assert_ok(fixture, tern_db_assignment_put(fixture->db, assignment,
                                              found == TERN_OK ? &before.state : NULL));
}

void fixture_round(struct fixture *fixture, uint32_t round)
{
    struct tern_db_round row = {.round = round, .state = TERN_ROUND_OPEN, .target = 3, .quorum = 2};
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_round_put(fixture->db, &row));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

struct tern_db_update fixture_update(uint32_t round, uint64_t client, uint8_t *body, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        body[i] = (uint8_t)(i * 31 + round * 7 + client * 3);
    }
    struct tern_db_update update = {.round = round,
                                    .client = client,
                                    .sequence = round,
                                    .body = body,
                                    .body_len = len,
                                    .received_ms = 1000 + round};
    tern_sha256(body, len, update.sha256);
    return update;
}
