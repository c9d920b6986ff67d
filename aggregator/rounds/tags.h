// Tags: an operator's labels of a client, such as "line=3,site=a", and selection by them. The command line parses them; the
// federation selects clients by them. Pure; reentrant.
#ifndef TERN_TAGS_H
#define TERN_TAGS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_TAGS_MAX 256    // bytes of one client's tags, with the NUL
#define TERN_TAG_KEY_MAX 33  // bytes of a key, with the NUL
#define TERN_TAG_WHY_MAX 160 // bytes of an error's sentence, with the NUL

// Parses "KEY=VALUE, ..." in any order. Keys and values have letters, digits and . _ -; a key has at most 32 bytes and
// occurs once. tags: sorted by key, "" for none.
// TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tags_parse(const char *text, char tags[TERN_TAGS_MAX],
                                               char why[TERN_TAG_WHY_MAX]);

// Returns the value of a key in parsed tags; NULL = no such key. *len: its bytes.
const char *tern_tags_value(const char *tags, const char *key, size_t *len);

// --- Selection by tags

struct tern_tag_selection {
    char required[TERN_TAGS_MAX];      // select only clients with all of these
    char spread_key[TERN_TAG_KEY_MAX]; // spread draws over this key's values; "" = none
};

// Parses "tags:site", "tags:site=a" or "tags:line=3,site": at most one key has no value.
// TERN_ERR_UNKNOWN  the text does not begin with "tags:"; TERN_ERR_CONFIG  why: a sentence about the error
TERN_MUST_USE enum tern_result tern_tag_selection_parse(const char *text,
                                                        struct tern_tag_selection *wanted,
                                                        char why[TERN_TAG_WHY_MAX]);

bool tern_tags_match(const char *tags, const struct tern_tag_selection *wanted);

// A client in a draw.
struct tern_tagged_client {
    uint64_t id;
    const char *tags;
    // Set by the draw:
    const char *value;
    size_t len;
    uint32_t lot;
    uint32_t value_lot;
    uint32_t place; // rank among the clients with its value
};

// Selects `want` <= count of the clients in lots[0..count), and writes their ids to ids[0..want), ascending. Every value of
// the key gets equally many clients, plus or minus one, if it has enough; the values' lots decide which values get one more.
// Clients without the key count as one more value. A client's lot depends on (seed, round, attempt) and its id alone; a
// value's lot depends on these and the value.
void tern_tags_select_evenly(uint64_t seed, uint32_t round, uint32_t attempt, const char *key,
                             struct tern_tagged_client *lots, uint32_t count, uint64_t *ids,
                             uint32_t want);

#endif
