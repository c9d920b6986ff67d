// What bench-lgc is told, as KEY=VALUE words. One thread.
#ifndef TERN_LAB_LGC_OPTIONS_H
#define TERN_LAB_LGC_OPTIONS_H

#include "lgc/group.h"
#include "lgc/world.h"

struct tern_lgc_options {
    struct tern_lgc_world_settings world;
    struct tern_lgc_settings lgc;
    struct tern_codec codec; // where `rival`
    bool rival;              // a codec of Tern's in the place of LGC
    uint32_t evaluate_every; // rounds
    uint32_t late;           // round in which the last client joins; 0: it is there from the start
    uint32_t lose;           // the leader's update is lost in every so manieth round; 0: never
};

// Reads the words; what they do not name has its default. False, with a sentence on stderr, where a key is unknown,
// a value malformed or outside its range.
bool tern_lgc_options_read(char **words, int count, struct tern_lgc_options *options);

// Every key with its meaning and default.
void tern_lgc_options_print(void);

#endif
