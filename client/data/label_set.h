// The texts that a table's label column may hold; a text's number is its class. Hosted; reentrant.
#ifndef TERN_LABEL_SET_H
#define TERN_LABEL_SET_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_label_set {
    char **names; // [count], in order of arrival
    uint32_t count;
    uint32_t max;
    uint32_t *slots; // a hash table of name + 1; 0 = free
    uint32_t slot_count;
};

// max: names that it may hold. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_label_set_init(struct tern_label_set *set, uint32_t max);
void tern_label_set_free(struct tern_label_set *set);

// The name's number, adding it when `add` is set and it is new.
// TERN_ERR_NOT_FOUND (add not set), TERN_ERR_TOO_LARGE (full), TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_label_set_find(struct tern_label_set *set, const char *name,
                                                   bool add, uint32_t *number);

// Reads a label that is itself the class: a whole number below max without leading zeros.
bool tern_label_is_class(const char *name, uint32_t max, uint32_t *value);

#endif
