// Numbers the different labels or groups of a table in order of arrival. Reentrant.
#ifndef TERN_NAME_SET_H
#define TERN_NAME_SET_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_name_set {
    char **names; // [count], in order of arrival
    uint32_t count;
    uint32_t max;
    uint32_t room;   // names that fit into the memory; there are twice as many slots
    uint32_t *slots; // hash table of name indices plus one; 0: free
};

// max: most names, up to 2^30.
void tern_name_set_init(struct tern_name_set *set, uint32_t max);
void tern_name_set_free(struct tern_name_set *set);

// Finds the name's number; adds a new name where `add` is set.
// TERN_ERR_NOT_FOUND (add not set), TERN_ERR_TOO_LARGE (full), TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_name_set_find(struct tern_name_set *set, const char *name,
                                                  bool add, uint32_t *number);

// Reads a label that is a class number: a whole number below max without leading zeros.
bool tern_name_is_class(const char *name, uint32_t max, uint32_t *value);

#endif
