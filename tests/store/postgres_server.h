// Connections to PostgreSQL for tests of its driver: through a server between, which cuts one at a commit, and by a name,
// by which the server is told to end them.
#ifndef TERN_TESTS_STORE_POSTGRES_SERVER_H
#define TERN_TESTS_STORE_POSTGRES_SERVER_H

#include "store/fixture.h"
#include <sys/types.h>

// --- A server between, which cuts the connection once

enum cut { CUT_BEFORE_COMMIT, CUT_BEHIND_COMMIT, CUT_NEVER };

// How often the server has answered.
struct turns {
    _Atomic unsigned count;
};

struct between {
    pid_t process;
    struct turns *turns;
    char path[512]; // of the fixture's database through it
};

struct between start_between(const struct fixture *fixture, enum cut cut);
void stop_between(const struct between *between);

// --- Connections

struct tern_db *open_at(const char *path);
// A client of that token, in a transaction that is open, or in one of its own.
enum tern_result add(struct tern_db *db, uint8_t token);
enum tern_result add_alone(struct tern_db *db, uint8_t token);
enum tern_result find(struct tern_db *db, uint64_t id);

struct named {
    struct tern_db *db;
    char name[32]; // as PostgreSQL knows its connection
};

struct named open_named(const struct fixture *f);
void end_connection(const struct named *named);
// By a connection of its own.
void do_sql(const char *url, const char *sql);

// --- Writes that are queued (postgres_queue.c)

// Returns how many of its tests failed.
int run_queue_tests(void);

#endif
