// The state directory and its database, as the verbs use them. From the main thread.
//
// A function that returns an exit code has printed the reason, unless it returns TERN_EXIT_OK.
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

// Returns the settings, overridden by --state. Ends the program if --state is empty or too long.
const struct tern_aggregator_settings *tern_state_settings(const struct tern_cli *cli);

// Writes the path of a file in the state directory.
void tern_state_path(const struct tern_cli *cli, const char *name, char path[PATH_MAX]);

// Writes `configured`, or if `configured` is "", the path of `name` in the state directory.
void tern_state_file(const struct tern_cli *cli, const char *configured, const char *name,
                     char path[PATH_MAX]);

// Writes the port that clients connect to; "PORT" if the service will choose one. Returns text.
#define TERN_STATE_PORT_MAX 16
const char *tern_state_client_port(const struct tern_cli *cli, char text[TERN_STATE_PORT_MAX]);

// Writes the path of the database file, or the URL in store.url. Ends the program if store.url is no database.
void tern_state_database(const struct tern_cli *cli, char path[PATH_MAX]);
bool tern_state_is_postgres(const struct tern_cli *cli);

// Refuses a URL of an unknown scheme, which would otherwise be taken as a file name. what: precedes the message, e.g.
// "store.url: ". Returns an exit code.
int tern_state_check_scheme(const struct tern_cli *cli, const char *what, const char *name);

// Returns whether the database exists.
bool tern_state_has_federation(const struct tern_cli *cli);

// Returns whether `join` has made the state directory that of a gateway.
bool tern_state_is_gateway(const struct tern_cli *cli);

// Returns whether a service runs on the state directory.
bool tern_state_is_served(const struct tern_cli *cli);

// Returns the process id of the service on the state directory; 0: unknown, as in a container.
long tern_state_service_process(const struct tern_cli *cli);

// Keeps other services and `restore` away until *lock is closed or the process ends. Two services on one database would
// each continue from its own view of the round. Returns an exit code.
int tern_state_lock(const struct tern_cli *cli, int *lock);

// Makes the file of the admin token unless it exists; *made: the file was made. Returns TERN_ERR_IO, with errno, or an error of
// tern_file_write().
TERN_MUST_USE enum tern_result tern_state_make_token(const char *path, bool *made);

// Returns the Unix user of this program as the actor of the audit log's rows, "unix:ann"; after ann's login, as another user:
// "unix:ann (as tern-aggregator)".
struct tern_db_actor tern_state_actor(void);
// Makes tern_state_actor() the actor of the connection. The next functions call this one.
void tern_state_sign(struct tern_db *db);
// Opens the database, unless it was copied. Returns an exit code.
int tern_state_open(const struct tern_cli *cli, struct tern_db **db);
// Like tern_state_open(), but also opens a database that was copied, for verbs that do not change the federation. flags: of
// tern_db_open(). With TERN_DB_OLDER, the verb holds the lock and calls tern_state_upgrade().
int tern_state_open_any(const struct tern_cli *cli, unsigned flags, struct tern_db **db);
// Upgrades an older schema, and holds the database meanwhile. Returns an exit code.
int tern_state_upgrade(const struct tern_cli *cli, struct tern_db *db);
// Refuses a database that was copied, because the federation continues in the copy. what: the end of the message, e.g.
// "; nothing was changed". Returns an exit code.
int tern_state_refuse_copied(const struct tern_cli *cli, struct tern_db *db, const char *what);
// Opens the database in a read transaction, so that the verb sees one moment. Works on a file that cannot be written.
int tern_state_open_reading(const struct tern_cli *cli, struct tern_db **db);

// Prints why an operation of the store failed, closes db and returns an exit code.
int tern_state_fail(const struct tern_cli *cli, struct tern_db *db, enum tern_result result);

// Parses the verb's first argument as a client id; 0: there is no argument. Returns an exit code.
int tern_state_client_argument(const struct tern_cli *cli, uint64_t *id);

// Like tern_state_fail(), for a failure to read the client `id`.
int tern_state_fail_for_client(struct tern_cli *cli, struct tern_db *db, uint64_t id,
                               enum tern_result result);

// Checks the name of a new label or token, which must be no number. what: "label" or "token". size: most bytes with the NUL.
// Returns an exit code.
int tern_state_check_name(const struct tern_cli *cli, const char *what, const char *name,
                          size_t size);

// Parses tags of the command line (rounds/tags.h). Returns an exit code.
int tern_state_tags(struct tern_cli *cli, const char *text, char tags[TERN_DB_TAGS_MAX]);

uint64_t tern_now_ms(void);

#endif
