// Verbs that show rows of the store: a line each for people, or JSON; all of them, or what belongs
// to the client that the command line names. Used from the main thread only.
#ifndef TERN_AGGREGATOR_LISTING_H
#define TERN_AGGREGATOR_LISTING_H

#include "admin/rows.h"
#include "cli/state.h"

struct tern_listing {
    struct tern_cli *cli;
    struct tern_db *db;
    cJSON *json; // what is to be printed: all rows, or the one; NULL: lines for people
    uint64_t now_ms;
    const void *ctx; // the verb's
};

struct tern_listing_verb {
    const char *header; // line above all rows
    // Shows all rows.
    enum tern_result (*all)(struct tern_listing *listing);
    // Shows what there is of one client; NULL: the verb takes no client. NOT_FOUND: there is nothing
    enum tern_result (*one)(struct tern_listing *listing, const struct tern_db_client *client);
    const char *nothing; // "client 7 ...", when there is nothing
};

// Opens the store, shows the rows and returns the exit code.
int tern_list(struct tern_cli *cli, const struct tern_listing_verb *verb, const void *ctx);

// Adds an object to the rows, or makes it the one. NULL is TERN_ERR_NO_MEMORY.
TERN_MUST_USE enum tern_result tern_listing_add(struct tern_listing *listing, cJSON *object);

#endif
