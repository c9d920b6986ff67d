// Of several aggregators on one database, one leads and the others wait until it has ended, however it ended. Meanwhile
// they follow it (nodes/follower.h), or stand by and listen to nobody.
#ifndef TERN_CLI_STANDBY_H
#define TERN_CLI_STANDBY_H

#include "cli/state.h"
#include "store/nodes.h"
#include <signal.h>

#define TERN_STANDBY_NODES 128 // that are listed

// Of one that leads: it is dead to the others, which replace it. What it waits for of the database is no silence, and
// its machine's or network's end takes 8 to 10 s to be noticed, too.
#define TERN_STANDBY_SILENT_MS 7000u
// Its service hangs: it looks for work once a second.
#define TERN_STANDBY_IDLE_MS 30000u

struct tern_standby_ports {
    const sigset_t *signals;   // blocked
    bool follows;              // else it stands by
    void (*reload)(void *ctx); // at SIGHUP; NULL: that is refused
    bool (*ends)(void *ctx);   // there is nothing to wait for any more; NULL: there always is
    bool (*lives)(
        void *
            ctx); // of one that follows: whether its threads go on, for systemd; NULL: there are none
    void *ctx;
};

// Whether another one than that node leads by now.
bool tern_standby_is_led(struct tern_db *db, uint32_t self);

// Waits until this program leads, at once where nobody else does, and returns the exit code. Of the signals SIGTERM and
// SIGINT end the waiting: *stopped is true then. So does ports->ends, and then it does not lead. Once it waits, a database
// that cannot be reached is waited for, too.
int tern_standby(struct tern_cli *cli, struct tern_db *db, const struct tern_standby_ports *ports,
                 bool *stopped);

// "NAME (NUMBER) at ADDRESS", for people: the number is one of its own, which its log has, too.
#define TERN_STANDBY_NAME_MAX 160
const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX]);

// "leads", "follows" or "stands by".
const char *tern_standby_role(const struct tern_db_node *node);

// Whether one that leads does not do so: a sentence that names it. What to do about it is TERN_STANDBY_ADVICE.
bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256]);
#define TERN_STANDBY_ADVICE                                                                        \
    "restart it there (systemctl restart tern-aggregator, or kill -9); systemd's WatchdogSec "     \
    "does so by itself"

#endif
