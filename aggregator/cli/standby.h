// The leader among several aggregators on one database. One aggregator leads; the others wait until it has ended,
// normally or not. Meanwhile each is a follower (nodes/follower.h), or stands by without a listener. Called by `serve`,
// and by the verbs that describe nodes, from the main thread unless noted.
#ifndef TERN_CLI_STANDBY_H
#define TERN_CLI_STANDBY_H

#include "cli/state.h"
#include "result.h"
#include "store/nodes.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define TERN_STANDBY_NODES 128 // most nodes in a list

struct tern_standby_ports {
    const sigset_t *signals;   // blocked
    bool follows;              // this node is a follower; else it stands by
    void (*reload)(void *ctx); // called at SIGHUP; NULL: SIGHUP is refused
    bool (*ends)(void *ctx);   // returns whether to stop waiting; NULL: never
    // Returns whether the threads of a follower run, for systemd; NULL: there are none.
    bool (*lives)(void *ctx);
    void *ctx;
};

// Returns whether a node other than `self` leads.
bool tern_standby_is_led(struct tern_db *db, uint32_t self);

// Waits until this node leads, and returns an exit code. Returns at once where no other node leads. SIGTERM and SIGINT
// end the waiting and set *stopped; ports->ends ends it without leadership. While it waits, it keeps trying a database
// that cannot be reached.
int tern_standby(struct tern_cli *cli, struct tern_db *db, const struct tern_standby_ports *ports,
                 bool *stopped);

// Writes "NAME (NUMBER) at ADDRESS" for people. NUMBER identifies the process; its log has the same number.
#define TERN_STANDBY_NAME_MAX 160
const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX]);

// Returns "leads", "follows" or "stands by".
const char *tern_standby_role(const struct tern_db_node *node);

// Returns whether a leader has hung or sends no heartbeat; writes a sentence that names it. TERN_STANDBY_ADVICE is
// what to do then.
bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256]);
#define TERN_STANDBY_ADVICE                                                                        \
    "restart it there (systemctl restart tern-aggregator, or kill -9); systemd's WatchdogSec "     \
    "does so by itself"

// A thread of a follower that reads the leader's row once a second.
struct tern_leader_watch;

// Starts the thread. database: a URL. node: this aggregator's number in the node table. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_leader_watch_start(const char *database, uint32_t node,
                                                       struct tern_leader_watch **out);

// Returns whether the database answers and another node leads with a recent heartbeat; else why is a sentence. Any
// thread; never waits for the database. watch: a struct tern_leader_watch
bool tern_leader_watch_is_led(void *watch, char why[256]);

// Stops and frees the watch; NULL is allowed.
void tern_leader_watch_stop(struct tern_leader_watch *watch);

#endif
