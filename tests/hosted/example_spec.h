// A setting that is a spec string, for example_settings.def: "steady", or "waves" with two keys.
#ifndef TERN_EXAMPLE_SPEC_H
#define TERN_EXAMPLE_SPEC_H

#include "hosted/settings.h"

struct example_waves {
    double height;
    uint32_t count;
};

static const struct tern_spec_parameter example_keys[] = {
    {.key = "height",
     .meaning = "how high",
     .range = "0.001 to 10",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct example_waves, height),
     .least = 1000,
     .most = 10 * TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 2},
    {.key = "count",
     .meaning = "how many; 0 = no end",
     .range = "0, or 2 to 9",
     .kind = TERN_SPEC_WHOLE,
     .offset = offsetof(struct example_waves, count),
     .least = 2,
     .most = 9,
     .or_zero = true},
    {.key = NULL},
};

static inline bool example_entry(size_t index, struct tern_spec_entry *entry)
{
    static const struct tern_spec_entry entries[] = {{"steady", example_keys, 0},
                                                     {"waves", example_keys, TERN_SPEC_ALL}};
    if (index < 2) {
        *entry = entries[index];
    }
    return index < 2;
}

static const struct tern_spec_list example_list = {.what = "course", .at = example_entry};

static inline enum tern_result example_check(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct example_waves waves;
    size_t index;
    return tern_spec_read(&example_list, text, &waves, &index, why);
}

static const struct tern_setting_spec example_spec = {.list = &example_list,
                                                      .check = example_check};

#endif
