#include "input.h"

#include "shared/any_codec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 800 }; // bytes that become values; more would only be slower

static uint8_t next_byte(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

uint32_t input_below(struct input *input, uint32_t bound)
{
    uint32_t value = next_byte(input);
    for (uint32_t limit = bound; limit > 256; limit /= 256) {
        value = value << 8 | next_byte(input);
    }
    return value % bound;
}

static uint32_t below(void *arg, uint32_t bound)
{
    struct input *input = arg;
    return input_below(input, bound);
}

struct tern_codec read_codec(struct input *input)
{
    const struct any_source source = {.below = below, .arg = input};
    char spec[ANY_CODEC_SPEC_MAX];
    uint32_t entries = 0;
    while (tern_codec_entry_at(entries) != NULL) {
        entries++;
    }
    return any_codec(tern_codec_entry_at(input_below(input, entries)), &source, spec);
}

// 1 to 16 zeros for bytes from 0xc0 on.
static size_t append_byte(uint8_t byte, float *values)
{
    enum { STRETCHES = 0xc0 };
    if (byte < STRETCHES) {
        values[0] = ldexpf((float)(byte % 9) - 4, byte / 9 % 7 - 3);
        return 1;
    }
    size_t stretch = 1 + (byte & 15u);
    memset(values, 0, stretch * sizeof *values);
    return stretch;
}

size_t read_values(struct input *input, float **values)
{
    bool as_bits = next_byte(input) % 2 == 0;
    size_t len = (size_t)(input->end - input->at);
    len = len < LONGEST ? len : LONGEST;
    *values = malloc(len * 16 * sizeof **values + 1);
    if (as_bits) {
        memcpy(*values, input->at, len / sizeof **values * sizeof **values);
        return len / sizeof **values;
    }
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        count += append_byte(input->at[i], *values + count);
    }
    return count;
}
