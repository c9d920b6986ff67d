// A group of four clients of a small model, whose gradients are alike: each draws the weights towards a target of which
// nine tenths are common to all.
#ifndef TERN_TEST_SMALL_GROUP_H
#define TERN_TEST_SMALL_GROUP_H

#include "lgc/group.h"

enum { SMALL_CLIENTS = 4, SMALL_EXACT = 5, SMALL_TRAINING = 40, SMALL_ROUNDS = 90 };

struct small_group {
    struct tern_model model;
    struct tern_lgc_settings settings;
    struct tern_lgc_group group;
    float *weights;
    uint32_t round; // the last one that was played
};

// Settings that small_open() may be given after a change.
struct tern_lgc_settings small_settings(enum tern_lgc_form form);

// Opens it with all clients there but the last `late` ones.
void small_open(struct small_group *small, const struct tern_lgc_settings *settings, uint32_t late);
void small_close(struct small_group *small);

// Plays rounds up to `round`.
void small_play(struct small_group *small, uint32_t round);

#endif
