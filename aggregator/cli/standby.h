// Of several aggregators on one database, one leads and the others wait until it has ended, however it ended. Meanwhile
// they follow it (nodes/follow.h), or stand by and listen to nobody.
#ifndef TERN_CLI_STANDBY_H
#define TERN_CLI_STANDBY_H

#include "cli/state.h"
#include "store/nodes.h"
#include <signal.h>

#define TERN_STANDBY_NODES 16 // that are listed

struct tern_standby_ports {
    const sigset_t *signals;   // blocked
    bool follows;              // else it stands by
    void (*reload)(void *ctx); // at SIGHUP; NULL: that is refused
    void *ctx;
};

// Whether another one leads by now.
bool tern_standby_is_led(struct tern_db *db);

// Waits until this program leads, at once where nobody else does, and returns the exit code. Of the signals SIGTERM and
// SIGINT end the waiting: *stopped is true then. Once it waits, a database that cannot be reached is waited for, too.
int tern_standby(struct tern_cli *cli, struct tern_db *db, const struct tern_standby_ports *ports,
                 bool *stopped);

// "NAME at ADDRESS", for people.
#define TERN_STANDBY_NAME_MAX 160
const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX]);

// "leads", "follows" or "stands by".
const char *tern_standby_role(const struct tern_db_node *node);

#endif
