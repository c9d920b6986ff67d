// Tags: an operator's labels of a client, as "line=3,site=a", and selection by them. The command line parses them, the
// federation selects clients by them. Pure; reentrant.
#ifndef TERN_TAGS_H
#define TERN_TAGS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_TAGS_MAX 256    // bytes of all tags of a client, with the NUL
#define TERN_TAG_KEY_MAX 33  // bytes of a key, with the NUL
#define TERN_TAG_WHY_MAX 160 // bytes of an error's sentence, with the NUL

// Reads "KEY=VALUE, ...", in any order; keys and values are letters, digits and . _ -, a key of 32 bytes
// at most, each key once. tags: in the order of their keys, "" for none.
// TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tags_parse(const char *text, char tags[TERN_TAGS_MAX],
                                               char why[TERN_TAG_WHY_MAX]);

// The value of a key in tags that were read; NULL: there is none. *len: its bytes.
const char *tern_tags_value(const char *tags, const char *key, size_t *len);

// --- Selection by tags

struct tern_tags_wanted {
    char with[TERN_TAGS_MAX];      // only clients that have all of these
    char spread[TERN_TAG_KEY_MAX]; // draws are spread over the values of this one; "" = of none
};

// Reads "tags:site", "tags:site=a" or "tags:line=3,site": one key at the most stands without a value.
// TERN_ERR_UNKNOWN  it does not begin with "tags:"; TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tags_wanted_parse(const char *text,
                                                      struct tern_tags_wanted *wanted,
                                                      char why[TERN_TAG_WHY_MAX]);

bool tern_tags_fit(const char *tags, const struct tern_tags_wanted *wanted);

// A client in a draw.
struct tern_tags_lot {
    uint64_t id;
    const char *tags;
    const char *value; // set by the draw, as what follows
    size_t len;
    uint32_t lot;
    uint32_t value_lot;
    uint32_t place; // in the draw of its value's clients
};

// Selects `want` of the clients of lots[0..count), and writes their ids to ids[0..want), ascending. Every value of the key
// gets the same number of clients, or one more or less, as far as it has enough clients; lots of the values decide
// which get one more. Clients without the key share a value of their own. want <= count. A client's lot depends on
// (seed, round, attempt) and its id alone; a value's lot, on these and the value.
void tern_tags_spread(uint64_t seed, uint32_t round, uint32_t attempt, const char *key,
                      struct tern_tags_lot *lots, uint32_t count, uint64_t *ids, uint32_t want);

#endif
