// What aggregators that serve one database exchange: leader election, notices, and the requests and answers between
// followers and the leader. Only a server has this; with a database in a file it is TERN_ERR_STATE. nodes/ is the user.
//
// The node that has the client's connection writes rows of `relayed`, by one connection and in ascending order of their
// numbers. The leader deletes a row in the transaction that decides it and writes the answer there, so that there is
// always either the row or its answer. Thread rule and errors: as store.h.
#ifndef TERN_STORE_NODES_H
#define TERN_STORE_NODES_H

#include "store/store.h"

#define TERN_DB_PATH_MAX 160

// A kind that is no request: the body has metered bytes (tern_db_meter_pack()).
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

// --- Leader election and notices

// An aggregator that serves the database: one leads, the others follow or stand by.
struct tern_db_node {
    char name[TERN_DB_NODE_MAX];
    char address[48]; // empty: it is connected by a socket of the database's machine
    bool leads;
    bool follows;      // it takes requests for the leader
    uint64_t since_ms; // of its connection
    uint32_t number;   // tern_db_join_node(); 0 = none
    // How long all connections of the number have been silent, and the one by which it leads or waits; 0: the server is
    // serving one, or does not report it
    uint64_t silent_ms;
    uint64_t idle_ms;
};
// Lists up to `most` nodes, the leader first; none for a database in a file.
TERN_MUST_USE enum tern_result tern_db_nodes(struct tern_db *db, struct tern_db_node *nodes,
                                             size_t most, size_t *count);

#define TERN_DB_NODE_NUMBER_MAX 0x1fffffffu // largest number of a node; the smallest is 1

// Publishes in the list of nodes whether the aggregator that waits by this connection for tern_db_hold() is a follower.
TERN_MUST_USE enum tern_result tern_db_set_follower(struct tern_db *db, bool follows);
// Makes the connection one of the node's, also after a reconnection. A node exists while it has a connection, and is alive
// while one of them sends statements.
TERN_MUST_USE enum tern_result tern_db_join_node(struct tern_db *db, uint32_t node);
// The same, and the connection receives notices. Use it for notices alone: its writes do not wait for the disk.
TERN_MUST_USE enum tern_result tern_db_subscribe(struct tern_db *db, uint32_t node);
// Within a transaction: stores the settings of the node as a text, and drops those of nodes that are gone.
TERN_MUST_USE enum tern_result tern_db_node_settings_put(struct tern_db *db, uint32_t node,
                                                         const char *text);
// Reads the settings of the node. The caller frees *text. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_node_settings_get(struct tern_db *db, uint32_t node,
                                                         char **text);
// Ends the connection by which the node leads, if it leads and was silent for silent_ms. Its open transaction is rolled
// back. Outside of transactions.
// TERN_ERR_IO  also: PostgreSQL allows this to the same role only
TERN_MUST_USE enum tern_result tern_db_end_leader(struct tern_db *db, uint32_t node,
                                                  uint64_t silent_ms, bool *ended);
// Within a transaction: notifies all subscribers once it is committed. message: below 64 bytes, not empty
TERN_MUST_USE enum tern_result tern_db_notify(struct tern_db *db, const char *message);
// Waits for notices until one came, `wake` is readable, or ms are over, and passes them to hear in order. "": notices may
// have been missed. Outside of transactions.
TERN_MUST_USE enum tern_result tern_db_wait_notices(struct tern_db *db, int wake, uint32_t ms,
                                                    void (*hear)(void *ctx, const char *message),
                                                    void *ctx);

// --- Requests

// Begins a transaction for requests and answers only. It does not wait for other writers, and does not count as a change for
// them. End it by tern_db_commit() or tern_db_rollback(). durable: the commit waits for the disk. Otherwise a crash of the
// server may undo the commit until a later durable one; nothing that was only handed over is acknowledged before the
// leader's transaction that decides it.
TERN_MUST_USE enum tern_result tern_db_begin_apart(struct tern_db *db, bool durable);

TERN_MUST_USE enum tern_result tern_db_relay(struct tern_db *db, struct tern_db_relayed *row);
// Finds the first node above `after` that has rows; 0: there is none.
TERN_MUST_USE enum tern_result tern_db_relaying(struct tern_db *db, uint64_t after, uint64_t *node);
// Lists up to `most` rows (struct tern_db_relayed) of a node above the number `after`, ascending.
struct tern_db_rows *tern_db_relayed(struct tern_db *db, uint64_t node, uint64_t after,
                                     uint32_t most);
// Drops a row. Never waits for a connection that is dropping the same row, which may hang. *dropped: this call drops it
TERN_MUST_USE enum tern_result tern_db_relayed_drop(struct tern_db *db, uint64_t node,
                                                    uint64_t number, bool *dropped);

// --- Answers

TERN_MUST_USE enum tern_result tern_db_answer_put(struct tern_db *db, struct tern_db_answer *row);
// Reads and deletes all answers of a node (struct tern_db_answer). Outside of transactions, by a connection of
// tern_db_subscribe(), and read to the end. After a crash of the server the newest ones may reappear.
struct tern_db_rows *tern_db_answers_take(struct tern_db *db, uint64_t node);
// Drops answers for nodes that do not exist any more.
TERN_MUST_USE enum tern_result tern_db_answers_sweep(struct tern_db *db);

// --- Metered bytes

#define TERN_DB_METER_PACKED 88u // bytes of one row

void tern_db_meter_pack(const struct tern_db_meter *row, uint8_t bytes[TERN_DB_METER_PACKED]);
// TERN_ERR_CORRUPT
TERN_MUST_USE enum tern_result tern_db_meter_unpack(const uint8_t bytes[TERN_DB_METER_PACKED],
                                                    struct tern_db_meter *row);

#endif
