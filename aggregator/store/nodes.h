// Aggregators that serve one database: what those that follow hand to the one that leads, and what that answers. Of
// databases that several may serve; with a file there is one aggregator, and all of this is TERN_ERR_STATE.
//
// Rows of `relayed` are written by the node that has the client's connection, by one connection in ascending order of
// their numbers. The leader deletes a row in the transaction in which it decides, and writes the answer there: neither
// is ever there without the other's being gone. Thread rule and errors: as store.h.
#ifndef TERN_STORE_NODES_H
#define TERN_STORE_NODES_H

#include "store/store.h"

#define TERN_DB_PATH_MAX 160

// A kind beside those of requests: the body is bytes that were counted (tern_db_meter_pack()).
#define TERN_DB_RELAYED_METER 255u

struct tern_db_relayed {
#define COLUMN TERN_MEMBER
#include "store/tables/relayed.def"
};

struct tern_db_answer {
#define COLUMN TERN_MEMBER
#include "store/tables/answers.def"
};

struct tern_db_node_settings {
#define COLUMN TERN_MEMBER
#include "store/tables/node_settings.def"
};

// --- Who is there, and what they tell each other

// Who serves a database that several may serve: one leads, the others follow or stand by.
struct tern_db_node {
    char name[TERN_DB_NODE_MAX];
    char address[48]; // empty: it came by a socket of the database's own machine
    bool leads;
    bool follows;      // it takes requests for the one that leads
    uint64_t since_ms; // it is connected
    uint32_t number;   // tern_db_belong(); 0 = none
    // How long the server has waited for all connections of that number, and for the one by which it leads or waits;
    // 0 while one is being served, and where it cannot be told.
    uint64_t silent_ms;
    uint64_t idle_ms;
};
// Up to `most` of them, the leader first; none of a database in a file.
TERN_MUST_USE enum tern_result tern_db_nodes(struct tern_db *db, struct tern_db_node *nodes,
                                             size_t most, size_t *count);

#define TERN_DB_NODE_NUMBER_MAX 0x1fffffffu // of the numbers of nodes, which begin at 1

// From here on who looks at the nodes sees that the one which waits by this connection for tern_db_hold() follows, or that
// it does not.
TERN_MUST_USE enum tern_result tern_db_follow(struct tern_db *db, bool follows);
// From here on the connection is one of that node, also after it was connected anew: the node counts as there for as
// long as it has one, and as alive while one of them asks for something.
TERN_MUST_USE enum tern_result tern_db_belong(struct tern_db *db, uint32_t node);
// Likewise, and the connection hears what others tell. It is a connection for that alone: the disk is not waited for
// what it writes.
TERN_MUST_USE enum tern_result tern_db_attend(struct tern_db *db, uint32_t node);
// Within a transaction: what the node goes by, a text; that of nodes which are not there any more is dropped.
TERN_MUST_USE enum tern_result tern_db_node_settings_put(struct tern_db *db, uint32_t node,
                                                         const char *text);
// Likewise what it has put, malloc'ed, the caller's. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_node_settings_get(struct tern_db *db, uint32_t node,
                                                         char **text);
// Ends the connection by which that node leads, as if it had lost it, where it leads and has been silent for so long;
// what it had not committed is undone. Outside of transactions.
// TERN_ERR_IO  also: PostgreSQL lets only the same role do that
TERN_MUST_USE enum tern_result tern_db_end_leader(struct tern_db *db, uint32_t node,
                                                  uint64_t silent_ms, bool *ended);
// Within a transaction: those who attend hear it once that is committed. Below 64 bytes, not empty.
TERN_MUST_USE enum tern_result tern_db_tell(struct tern_db *db, const char *message);
// Waits until something was told, `wake` can be read, or so many ms are over, and gives what was told, in order;
// "" where something may have been missed. Outside of transactions.
TERN_MUST_USE enum tern_result tern_db_await(struct tern_db *db, int wake, uint32_t ms,
                                             void (*hear)(void *ctx, const char *message),
                                             void *ctx);

// --- Requests

// A transaction for what stands here and nothing else: it does not wait for other writers, and is no change that they
// look for. Ended by tern_db_commit() or tern_db_rollback(). durable: it waits for the disk; else its commit may be lost
// when the server crashes within a moment, but not once a later one that waited is there: of what was only handed over,
// nothing is acknowledged before the leader's transaction that decides it.
TERN_MUST_USE enum tern_result tern_db_begin_apart(struct tern_db *db, bool durable);

TERN_MUST_USE enum tern_result tern_db_relay(struct tern_db *db, struct tern_db_relayed *row);
// The first node after that one which has rows; 0: there is none.
TERN_MUST_USE enum tern_result tern_db_relaying(struct tern_db *db, uint64_t after, uint64_t *node);
// Rows of a node behind a number, ascending, `most` at most: struct tern_db_relayed.
struct tern_db_rows *tern_db_relayed(struct tern_db *db, uint64_t node, uint64_t after,
                                     uint32_t most);
// Never waits for another one that is about to drop it, which may hang. *dropped: it was there, and is not being dropped
TERN_MUST_USE enum tern_result tern_db_relayed_drop(struct tern_db *db, uint64_t node,
                                                    uint64_t number, bool *dropped);

// --- Answers

TERN_MUST_USE enum tern_result tern_db_answer_put(struct tern_db *db, struct tern_db_answer *row);
// All of a node, which are gone with that: struct tern_db_answer. Outside of transactions, by a connection that attends;
// to be read to the end. After a crash of the server the newest may be there again.
struct tern_db_rows *tern_db_answers_take(struct tern_db *db, uint64_t node);
// Drops those of nodes that are not there any more.
TERN_MUST_USE enum tern_result tern_db_answers_sweep(struct tern_db *db);

// --- Bytes that were counted

#define TERN_DB_METER_PACKED 88u // bytes of one row

void tern_db_meter_pack(const struct tern_db_meter *row, uint8_t bytes[TERN_DB_METER_PACKED]);
// TERN_ERR_CORRUPT
TERN_MUST_USE enum tern_result tern_db_meter_unpack(const uint8_t bytes[TERN_DB_METER_PACKED],
                                                    struct tern_db_meter *row);

#endif
