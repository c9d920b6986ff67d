// Several aggregators on one PostgreSQL database. One of them leads; the others stand by, without a listener, until the
// leader has ended. They compare their settings, and share the keys of session tickets.
// Called by `serve`, and by the verbs that describe aggregators; from the main thread unless noted.
#ifndef TERN_CLI_SHARED_DATABASE_H
#define TERN_CLI_SHARED_DATABASE_H

#include "cli/state.h"
#include "http/tickets.h"
#include "result.h"
#include "store/nodes.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

// --- The leader

#define TERN_STANDBY_NODES 128 // most nodes in a list

// A thread that checks the leader once a second. If the leader hangs, the thread ends the leader's sessions, so that
// another node replaces it. The thread's connection is also this node's heartbeat.
struct tern_leader_watch;

struct tern_standby_ports {
    const sigset_t *signals;         // signals to wait for; the caller has blocked them
    void (*reload)(void *ctx);       // called at SIGHUP; NULL: SIGHUP is refused
    bool (*ends)(void *ctx);         // returns whether to stop waiting; NULL: never
    struct tern_leader_watch *watch; // this node's watch of the leader; NULL: none
    void (*beat)(void *ctx); // called every few seconds while it waits, and while the watch runs
    void *ctx;
};

// Finds the node that leads. Returns false if no node leads, or if the database cannot be read.
bool tern_standby_find_leader(struct tern_db *db, struct tern_db_node *leader);

// Waits until this node leads, and returns an exit code. Returns at once if no other node leads. SIGTERM and SIGINT end the
// waiting and set *stopped; ports->ends ends it without leadership. While it waits, it keeps trying a database that cannot
// be reached.
int tern_standby_wait(struct tern_cli *cli, struct tern_db *db,
                      const struct tern_standby_ports *ports, bool *stopped);

// Writes "NAME (NUMBER) at ADDRESS" for people. NUMBER identifies the process. Returns text.
#define TERN_STANDBY_NAME_MAX 160
const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX]);

// Returns "leads" or "stands by".
const char *tern_standby_role(const struct tern_db_node *node);

// Returns whether a leader has hung or sends no heartbeat; writes a sentence that names it. TERN_STANDBY_ADVICE is what to
// do then.
bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256]);
#define TERN_STANDBY_ADVICE                                                                        \
    "restart it there (systemctl restart tern-aggregator, or kill -9); systemd's WatchdogSec "     \
    "does so by itself"

// Starts the thread. database: a URL. node: this aggregator's number in the node table. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_leader_watch_start(const char *database, uint32_t node,
                                                       struct tern_leader_watch **out);

// Stops and frees the watch; NULL is allowed.
void tern_leader_watch_stop(struct tern_leader_watch *watch);

// --- Settings that must be the same on all aggregators

struct tern_setting_difference {
    const char *key;      // "round.cohort"
    bool changes_results; // the setting changes the results of rounds
    char here[TERN_SETTING_TEXT_MAX];
    char there[TERN_SETTING_TEXT_MAX];
};

// Reports each shared setting whose values differ between two texts, in the order of settings.def. The texts come from
// tern_shared_settings_load().
void tern_shared_settings_compare(const char *here, const char *there,
                                  void (*found)(void *ctx,
                                                const struct tern_setting_difference *difference),
                                  void *ctx);

// Returns whether a setting, e.g. "round.cohort", must be the same on all aggregators.
bool tern_shared_settings_have(const char *key);

// Loads the settings that nodes have published, one malloc'ed text each; NULL: none was published. The caller frees them
// with tern_shared_settings_free(). Returns errors of the store.
TERN_MUST_USE enum tern_result tern_shared_settings_load(struct tern_db *db,
                                                         const struct tern_db_node *nodes,
                                                         size_t count, char **texts);
void tern_shared_settings_free(char **texts, size_t count);

// Writes this node's settings to the database, and logs how they differ from those of the other nodes.
void tern_shared_settings_publish(const struct tern_cli *cli, uint32_t node);

// Refuses to start beside a leader whose settings would lead to other results of rounds. Returns an exit code.
int tern_shared_settings_check(const struct tern_cli *cli, struct tern_db *db);

// --- Keys of session tickets

// A client that connects to another aggregator resumes its session without a full handshake. The database holds the keys,
// sealed with the private key of the aggregators' certificate (http/tickets.h). The first aggregator that finds the next
// key due makes it.
struct tern_shared_tickets;

struct tern_shared_tickets_config {
    const char *database;    // URL of the PostgreSQL database
    const char *private_key; // PEM file, read again each time
    const char *file;        // path of this server's ticket keys
};

// Merges the keys in the server's file with those in the database, before the server starts. Logs a failure, which leaves
// the file as it was.
void tern_shared_tickets_merge_file(const struct tern_shared_tickets_config *config);

// Starts a thread with a database connection of its own that merges the keys of the running server once a minute. `keys`
// must outlive the thread. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_shared_tickets_start(const struct tern_shared_tickets_config *config,
                          struct tern_ticket_keys *keys, struct tern_shared_tickets **out);
void tern_shared_tickets_stop(struct tern_shared_tickets *shared); // NULL is allowed

#endif
