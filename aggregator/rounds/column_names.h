// Which names of columns most clients of a federation have, from the tags that each tells of its own. Called
// with every client's tag, by a running federation and by verbs that read the store. Pure; one thread.
#ifndef TERN_COLUMN_NAMES_H
#define TERN_COLUMN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define TERN_COLUMN_NAMES_MAX 16 // different tags that are counted; more are never the usual one

// Zeroed: no client.
struct tern_column_names {
    struct {
        uint32_t tag;
        uint32_t clients;
    } of[TERN_COLUMN_NAMES_MAX]; // in the order in which they came
    uint32_t count;
};

// A client's tag was `from` and is `to`; 0 is none.
void tern_column_names_move(struct tern_column_names *names, uint32_t from, uint32_t to);

// The tag of most clients; of as many, the one that came first. 0: no client has told one.
uint32_t tern_column_names_usual(const struct tern_column_names *names);

// Whether a client of this tag has other names, or another order of them, than the usual.
bool tern_column_names_differ(const struct tern_column_names *names, uint32_t tag);

#endif
