// A fresh database in a folder of its own, for every test of the store. cmocka's setup and teardown
// functions; *state is a struct fixture.
#ifndef TERN_TESTS_STORE_FIXTURE_H
#define TERN_TESTS_STORE_FIXTURE_H

#include "store/store.h"
#include "tests/asserts.h"

struct fixture {
    char folder[128];
    char path[256]; // of the database
    struct tern_db *db;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);

// Closes and opens the database again.
void fixture_reopen(struct fixture *fixture);

// A path in the fixture's folder. The text is valid until the next call.
const char *fixture_file(const struct fixture *fixture, const char *name);

// Returns the place of another database, which does not exist yet.
const char *fixture_place(const struct fixture *fixture, const char *name);

// What tern_db_create() is given.
struct tern_db_federation fixture_federation(void);

// Adds a client whose token hash is filled with `token`, in its own transaction; returns its id.
uint64_t fixture_client(struct fixture *fixture, uint8_t token);

// Opens round `round`, in its own transaction.
void fixture_round(struct fixture *fixture, uint32_t round);
// Ends a transaction: the write with this result waits, and the commit refuses it.
void fixture_refused(struct fixture *fixture, enum tern_result result);
// Within a transaction: puts it, whatever is there.
void fixture_assignment(struct fixture *fixture, const struct tern_db_assignment *assignment);

// An update whose body is `len` bytes that depend on round and client, with its hash. body must
// hold len bytes and outlive the update.
struct tern_db_update fixture_update(uint32_t round, uint64_t client, uint8_t *body, size_t len);

// Asserts that `result` is TERN_OK, telling the database's error otherwise.
#define assert_ok(fixture, result) fixture_assert_ok(fixture, result, __FILE__, __LINE__)
void fixture_assert_ok(const struct fixture *fixture, enum tern_result result, const char *file,
                       int line);

#endif
