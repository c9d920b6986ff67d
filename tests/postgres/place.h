// Where a test's database is: a file of its folder or, where TERN_TEST_STORE has the URL of a database of
// PostgreSQL, a schema there (run_tests.py).
#ifndef TERN_TEST_POSTGRES_PLACE_H
#define TERN_TEST_POSTGRES_PLACE_H

#include <stdbool.h>
#include <stddef.h>

bool test_store_is_postgres(void);

// The path of a database that is not there yet, for tern_db_create(). Ends the program where it cannot be had.
void test_store_place(const char *folder, const char *name, char *path, size_t size);

#endif
