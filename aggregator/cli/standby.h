// Of several aggregators on one database, one leads and the others stand by: they listen to nobody until the one
// that leads has ended, however it ended.
#ifndef TERN_CLI_STANDBY_H
#define TERN_CLI_STANDBY_H

#include "cli/state.h"
#include "store/store.h"
#include <signal.h>

#define TERN_STANDBY_NODES 16 // that are listed

// Waits until this program leads, at once where nobody else does, and returns the exit code. signals: blocked;
// of these SIGTERM and SIGINT end the waiting: *stopped is true then. Once it stands by, a database that cannot be
// reached is waited for, too.
int tern_standby(struct tern_cli *cli, struct tern_db *db, const sigset_t *signals, bool *stopped);

// "NAME at ADDRESS", for people.
#define TERN_STANDBY_NAME_MAX 160
const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX]);

#endif
