// A round whose updates several nodes have summed, for tests of parts: a model with tensors of every rule, updates of
// every codec in a store, and what a leader makes of them. One at a time.
#ifndef TERN_TESTS_PART_ROUND_H
#define TERN_TESTS_PART_ROUND_H

#include "store/fixture.h"

#include "merge/merge.h"
#include "merge/part.h"

#define UPDATES 30
#define HALF (UPDATES / 2)
#define ROUND 1
#define BODY_MAX 16384

struct update {
    struct tern_arrival arrival;
    uint8_t body[BODY_MAX];
    size_t len;
};

extern struct update updates[UPDATES];
extern struct tern_db_federation about;
extern struct tern_db_round round_row;
extern struct tern_strategy_totals totals;
extern struct tern_reading_room readings;
extern struct tern_model model;

// cmocka's; *state is a struct fixture, which fixture_teardown() ends. The round is fedavg's.
int part_round_setup(void **state);

struct tern_strategy_rule rule_of(const char *name, float norm_bound);
// A round of the strategy, whose row goes through the store.
void open_round(struct fixture *fixture, const struct tern_strategy_rule *rule);

// --- The close

void begin_merge(struct tern_merge *merge);
// Merges what the merge has, or what is stored, and ends it.
void close_round(struct fixture *fixture, struct tern_merge *merge,
                 uint8_t sha256[TERN_SHA256_SIZE]);
// What one machine makes of it: from what is stored, as a replay does.
void expect_model(struct fixture *fixture, uint8_t sha256[TERN_SHA256_SIZE]);
// As a thread that received the update would hand it on, with a reading or without.
struct tern_arrival arrive(uint32_t u, bool read);

// --- Parts

void begin_part(struct fixture *fixture, struct tern_part *part, uint64_t memory);
void add_to_part(struct tern_part *part, uint32_t u, bool read);
void store_part(struct fixture *fixture, struct tern_part *part, const char *node);
void drop_parts(struct fixture *fixture);
// A part of the first half.
void make_half(struct fixture *fixture, struct tern_part *part);

#endif
