// Tags are an operator's labels of a client, such as "line=3,site=a". The command line parses tags; the federation
// selects clients by them. Pure; reentrant.
#ifndef TERN_TAGS_H
#define TERN_TAGS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_TAGS_MAX 256    // bytes of one client's tags, with the NUL
#define TERN_TAG_KEY_MAX 33  // bytes of a key, with the NUL
#define TERN_TAG_WHY_MAX 160 // bytes of an error's sentence, with the NUL

// Parses tags, written "KEY=VALUE, ..." in any order. Keys and values have letters, digits and . _ -; a key has at most
// 32 bytes and occurs once. tags: the result, sorted by key, "" for none.
// TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tags_parse(const char *text, char tags[TERN_TAGS_MAX],
                                               char why[TERN_TAG_WHY_MAX]);

// Returns the value of the key in parsed tags; NULL = no such key. *len: bytes of the value.
const char *tern_tags_value(const char *tags, const char *key, size_t *len);

// --- Selection by tags

struct tern_tag_selection {
    char required[TERN_TAGS_MAX]; // tags that selected clients must have
    // Clients are selected evenly over the values of this key; "" = no such key.
    char spread_key[TERN_TAG_KEY_MAX];
};

// Parses a selection by tags: "tags:site", "tags:site=a" or "tags:line=3,site"; at most one key has no value.
// TERN_ERR_UNKNOWN  the text does not begin with "tags:"; TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tag_selection_parse(const char *text,
                                                        struct tern_tag_selection *wanted,
                                                        char why[TERN_TAG_WHY_MAX]);

bool tern_tags_match(const char *tags, const struct tern_tag_selection *wanted);

// A client among those from which tern_tags_select_evenly() selects.
struct tern_tagged_client {
    uint64_t id;
    const char *tags;
    // Set by tern_tags_select_evenly():
    const char *value;
    size_t len;
    uint32_t random;
    uint32_t value_random;
    uint32_t rank; // rank among the clients with the same value
};

// Selects `want` <= count of clients[0..count), and writes their ids to ids[0..want), ascending. Every value of the key
// gets equally many clients, plus or minus one, if it has enough; random numbers of the values decide which values get
// one more. Clients without the key count as one more value. A client's random number depends on (seed, round, attempt)
// and its id alone; a value's number depends on these three and the value.
void tern_tags_select_evenly(uint64_t seed, uint32_t round, uint32_t attempt, const char *key,
                             struct tern_tagged_client *clients, uint32_t count, uint64_t *ids,
                             uint32_t want);

#endif
