// The tables of the database, and how one of an older version is brought up to date. Only store/
// includes this, and the test of migrations.
#ifndef TERN_STORE_SCHEMA_H
#define TERN_STORE_SCHEMA_H

#include "store/sql_table.h"

// In the order in which they refer to each other.
#define TERN_SCHEMA_COUNTED(name) +1
#define TERN_SCHEMA_TABLES (0 TERN_TABLES(TERN_SCHEMA_COUNTED))
extern const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES];

// Makes all tables of a new database, of the newest version.
TERN_MUST_USE enum tern_result tern_schema_create(struct tern_sql *sql);
// The same in two steps: the tables, without a row; and, once they have those of another database, what follows from
// rows, and the version.
TERN_MUST_USE enum tern_result tern_schema_create_tables(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_schema_complete(struct tern_sql *sql);

// What each version that was released takes to become the next one, as SQL: [0] makes version 2 of
// version 1; NULL ends the list. Append only: once a version is released, the tables of schema.c
// may change only together with a step here.
extern const char *const tern_schema_steps[];

// TERN_ERR_UNKNOWN  the database is newer than the last of these steps leads to
TERN_MUST_USE enum tern_result tern_schema_known(struct tern_sql *sql, const char *const *steps);
// TERN_ERR_STATE  it is older than that: somebody has to bring it up to date; TERN_ERR_UNKNOWN  as above
TERN_MUST_USE enum tern_result tern_schema_current(struct tern_sql *sql, const char *const *steps);
// Brings the database up to date, all steps in one transaction, while nobody else has it open. The caller holds it.
// TERN_ERR_STATE  others have it open, who are named
TERN_MUST_USE enum tern_result tern_schema_migrate(struct tern_sql *sql, const char *const *steps);

#endif
