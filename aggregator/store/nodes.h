// Leader election between the aggregators that serve one database: one leads, the others stand by. They also compare their
// settings. Only a server has this; with a database in a file it is TERN_ERR_STATE. Called by cli/. Thread rule and errors:
// as store.h.
#ifndef TERN_STORE_NODES_H
#define TERN_STORE_NODES_H

#include "store/store.h"

struct tern_db_node_settings {
#define COLUMN TERN_MEMBER
#include "store/tables/node_settings.def"
};

// An aggregator that serves the database.
struct tern_db_node {
    char name[TERN_DB_NODE_MAX];
    char address[48]; // empty: it is connected by a socket of the database's machine
    bool leads;
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

// Makes the connection one of the node's, also after a reconnection. A node exists while it has a connection, and is alive
// while one of them sends statements.
TERN_MUST_USE enum tern_result tern_db_join_node(struct tern_db *db, uint32_t node);
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

#endif
