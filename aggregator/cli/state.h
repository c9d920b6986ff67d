// What the verbs share: the state directory, its database, and texts for people and for scripts.
// Used from the main thread only.
#ifndef TERN_AGGREGATOR_STATE_H
#define TERN_AGGREGATOR_STATE_H

#include "admin/rows.h"
#include "cli/settings.h"
#include "hosted/cli.h"
#include "hosted/terminal.h"
#include "store/store.h"
#include "views/texts.h"
#include <cjson/cJSON.h>
#include <limits.h>

// The option that every verb has.
#define TERN_OPTION_STATE                                                                          \
    {                                                                                              \
        "state", "DIR", "state directory (federation.state)"                                       \
    }

// The settings, --state taken in. The verb must have TERN_OPTION_STATE. Ends the program with
// TERN_EXIT_USAGE when --state is empty or too long.
const struct tern_aggregator_settings *tern_state_settings(const struct tern_cli *cli);

// The path of a file in the state directory.
void tern_state_path(const struct tern_cli *cli, const char *name, char path[PATH_MAX]);

// The configured file, or where that is "" the one in the state directory.
void tern_state_file(const struct tern_cli *cli, const char *configured, const char *name,
                     char path[PATH_MAX]);

// The database: its file in the state directory, or the URL in store.url.
void tern_state_database(const struct tern_cli *cli, char path[PATH_MAX]);
bool tern_state_is_postgres(const struct tern_cli *cli);

// Refuses a URL of a scheme that there is not, which would be taken for a file's path. what: is said before it, e.g.
// "store.url: ", or "". Returns the exit code.
int tern_state_check_scheme(const struct tern_cli *cli, const char *what, const char *name);

// Whether a service runs on the state directory.
bool tern_state_is_served(const struct tern_cli *cli);

// The process that runs it, as the kernel lists it; 0 = not found: a container may not see it.
long tern_state_server(const struct tern_cli *cli);

// Keeps other services and `restore` away until *lock is closed, or the process ends, however that
// happens. Returns the exit code.
int tern_state_lock(const struct tern_cli *cli, int *lock);

// Makes the admin token's file when there is nothing at the path; *made says whether. errno tells
// more. TERN_ERR_IO and what tern_file_write() returns
TERN_MUST_USE enum tern_result tern_state_make_token(const char *path, bool *made);

// Opens the database, unless it was copied, and returns the exit code.
int tern_state_open(const struct tern_cli *cli, struct tern_db **db);
// Likewise, one that was copied, too: for verbs that change nothing of what goes on.
int tern_state_open_copied(const struct tern_cli *cli, struct tern_db **db);
// Likewise, one of an older schema, too, which tern_state_upgrade() brings up to date: for who has the lock.
int tern_state_open_older(const struct tern_cli *cli, struct tern_db **db);
// Holds the database and brings its schema up to date, where that is older.
int tern_state_upgrade(const struct tern_cli *cli, struct tern_db *db);
// Refuses a database that was copied, as it goes on in the copy. The exit code; what: what was not done, or ""
int tern_state_refuse_copied(const struct tern_cli *cli, struct tern_db *db, const char *what);
// As tern_state_open(), for a verb that only reads: it sees one moment, whatever a running service commits, and also
// opens what cannot be written (TERN_DB_READING).
int tern_state_open_reading(const struct tern_cli *cli, struct tern_db **db);
// Opens the same databases without a transaction: SQLite copies a database only outside of one.
int tern_state_open_for_backup(const struct tern_cli *cli, struct tern_db **db);

// Tells why an operation of the store failed, closes db and returns the exit code.
int tern_state_fail(const struct tern_cli *cli, struct tern_db *db, enum tern_result result);

// Takes the client id that is the verb's first argument, 0 when there is none, and returns the exit
// code.
int tern_state_client(const struct tern_cli *cli, uint64_t *id);

// Tells why a client could not be had, "there is no client" for TERN_ERR_NOT_FOUND; closes db and
// returns the exit code.
int tern_state_client_fail(struct tern_cli *cli, struct tern_db *db, uint64_t id,
                           enum tern_result result);

// Reads tags of the command line (rounds/tags.h); what is wrong with them is explained.
int tern_state_tags(struct tern_cli *cli, const char *text, char tags[TERN_DB_TAGS_MAX]);

uint64_t tern_now_ms(void);

#endif
