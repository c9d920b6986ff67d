// Determines which column names most clients of a federation have, from a tag (a hash) of each client's names. Called
// with every client's tag, by a running federation and by verbs that read the store. Pure; one thread.
#ifndef TERN_COLUMN_NAMES_H
#define TERN_COLUMN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

// Number of different tags that are counted; further tags are never the most common one.
#define TERN_COLUMN_NAMES_MAX 16

// Counts of clients by tag. All zeros: no client.
struct tern_column_names {
    struct {
        uint32_t tag;
        uint32_t clients;
    } entries[TERN_COLUMN_NAMES_MAX]; // in the order in which the tags first arrived
    uint32_t count;
};

// Changes one client's tag from `from` to `to`; 0 = no tag.
void tern_column_names_replace(struct tern_column_names *names, uint32_t from, uint32_t to);

// Returns the tag of most clients; in a tie, the tag that arrived first. 0: no client has reported a tag.
uint32_t tern_column_names_most_common(const struct tern_column_names *names);

// Whether a client with this tag has other column names, or another order, than most clients.
bool tern_column_names_differ(const struct tern_column_names *names, uint32_t tag);

#endif
