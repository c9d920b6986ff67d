// The schema of the aggregator's database as a list of steps. Step i brings a file of version i
// (PRAGMA user_version) to version i + 1; an empty file has version 0. Steps that were released are
// never changed, only new ones appended; tests/store opens a file of every old version. Plain data.
#ifndef TERN_STORE_MIGRATIONS_H
#define TERN_STORE_MIGRATIONS_H

extern const char *const tern_db_migrations[]; // SQL, one or more statements each
extern const int tern_db_migration_count;      // = the newest version

#endif
