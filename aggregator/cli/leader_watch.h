// Watches over the aggregator that leads a database which several serve, on a thread and a connection of its own: others
// learn whether somebody leads and answers, and one that hangs is replaced. The same connection is this aggregator's own
// sign of life while its other threads work. Who calls: serve.
#ifndef TERN_CLI_LEADER_WATCH_H
#define TERN_CLI_LEADER_WATCH_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_leader_watch;

// Looks once a second from here on. database: a URL. node: this aggregator's number (tern_db_belong()).
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_leader_watch_start(const char *database, uint32_t node,
                                                       struct tern_leader_watch **out);

// Whether another one leads, and is heard of, by a database that answers. Else why is a sentence. Any thread; never waits
// for the database. watch: a struct tern_leader_watch
bool tern_leader_watch_is_led(void *watch, char why[256]);

void tern_leader_watch_stop(struct tern_leader_watch *watch); // NULL is allowed

#endif
