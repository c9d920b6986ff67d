#include "codec/kernels/paths.h"

#include <string.h>

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

enum { TERN_WORD = sizeof(uint64_t), RUN_CODE = TERN_TERNARY_LIMIT - 2 };

static inline uint64_t load_word(const uint8_t *src)
{
    uint64_t word;
    __builtin_memcpy(&word, src, sizeof word);
    return word;
}

static inline void store_word(uint8_t *dst, uint64_t word)
{
    __builtin_memcpy(dst, &word, sizeof word);
}

// Subtracting 1 from a zero byte sets its top bit. Other bytes get a set top bit only if a lower byte is 0, or lose it by the
// mask ~word.
static inline int has_zero_byte(uint64_t word)
{
    return ((word - EACH_BYTE(0x01)) & ~word & EACH_BYTE(0x80)) != 0;
}

// Bytes from 243 have the top bit set, and at least 0x73 in the other seven bits.
static inline int has_run_byte(uint64_t word)
{
    uint64_t carry = (word & EACH_BYTE(0x7f)) + EACH_BYTE(0x80 - 0x73);
    return (word & carry & EACH_BYTE(0x80)) != 0;
}

// The state of the encoder. run: length of the run that the last written byte stands for; 0 if the byte is no run, 1 if it is a
// single zero byte (121).
struct run_writer {
    uint8_t *out;
    size_t written;
    size_t run;
};

// Has no branches, because zeros come at random in data that takes this path.
static inline void write_byte(struct run_writer *w, uint8_t byte)
{
    size_t zero = 0 - (size_t)(byte == TERN_TERNARY_ZERO);
    size_t open = 0 - (size_t)(w->run < TERN_RUN_MAX);
    w->run = ((w->run & open) + 1) & zero;
    w->written += w->run <= 1;
    w->out[w->written - 1] = w->run <= 1 ? byte : (uint8_t)(RUN_CODE + w->run);
}

// Adds `len` zeros to the open run, if there is one.
static void write_zeros(struct run_writer *w, size_t len)
{
    size_t total = len + w->run;
    w->written -= w->run > 0;
    memset(w->out + w->written, RUN_CODE + TERN_RUN_MAX, total / TERN_RUN_MAX);
    w->written += total / TERN_RUN_MAX;
    w->run = total % TERN_RUN_MAX;
    if (w->run == 0) {
        w->run = TERN_RUN_MAX;
        return;
    }
    w->out[w->written++] = w->run > 1 ? (uint8_t)(RUN_CODE + w->run) : TERN_TERNARY_ZERO;
}

// Returns the number of leading bytes that are whole words of zeros.
static size_t zero_words(const uint8_t *bytes, size_t len)
{
    size_t zeros = 0;
    while (len - zeros >= TERN_WORD && load_word(bytes + zeros) == EACH_BYTE(TERN_TERNARY_ZERO)) {
        zeros += TERN_WORD;
    }
    return zeros;
}

// Works in place: writing never overtakes reading, because no code is longer than its run.
size_t tern_portable_run_encode(uint8_t *bytes, size_t len)
{
    struct run_writer w = {.out = bytes};
    size_t i = 0;
    while (len - i >= TERN_WORD) {
        uint64_t word = load_word(bytes + i);
        uint64_t difference = word ^ EACH_BYTE(TERN_TERNARY_ZERO);
        if (difference == 0) {
            size_t zeros = zero_words(bytes + i, len - i);
            write_zeros(&w, zeros);
            i += zeros;
            continue;
        }
        if (!has_zero_byte(difference)) {
            store_word(bytes + w.written, word);
            w.written += TERN_WORD;
            w.run = 0;
            i += TERN_WORD;
            continue;
        }
        for (size_t end = i + TERN_WORD; i < end; i++) {
            write_byte(&w, bytes[i]);
        }
    }
    for (; i < len; i++) {
        write_byte(&w, bytes[i]);
    }
    return w.written;
}

// Adds the facts of at most 4096 bytes: 14 * 4096 fits the 16-bit sums.
static void add_facts(const uint8_t *coded, size_t len, struct tern_run_facts *facts)
{
    uint16_t extra = 0;
    uint16_t runs = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t beyond =
            (uint8_t)((coded[i] > RUN_CODE + 1 ? coded[i] : RUN_CODE + 1) - RUN_CODE - 1);
        extra = (uint16_t)(extra + beyond);
        runs = (uint16_t)(runs + (beyond > 0));
    }
    facts->expanded += len + extra;
    facts->runs += runs;
}

struct tern_run_facts tern_portable_run_facts(const uint8_t *coded, size_t len)
{
    enum { STEP = 4096 };
    struct tern_run_facts facts = {0, 0};
    for (size_t first = 0; first < len; first += STEP) {
        size_t rest = len - first;
        add_facts(coded + first, rest < STEP ? rest : STEP, &facts);
    }
    return facts;
}

// Expands one byte and returns the length. Always stores the longest run, without a branch: the next byte overwrites the excess,
// and the block has room for the last one.
static inline size_t expand_byte(uint8_t byte, uint8_t *out)
{
    store_word(out, EACH_BYTE(TERN_TERNARY_ZERO));
    store_word(out + TERN_WORD, EACH_BYTE(TERN_TERNARY_ZERO));
    out[0] = byte < TERN_TERNARY_LIMIT ? byte : TERN_TERNARY_ZERO;
    return tern_run_length(byte);
}

size_t tern_portable_run_expand(const uint8_t *coded, size_t len,
                                uint8_t block[TERN_TERNARY_BLOCK_ROOM], size_t *expanded)
{
    size_t i = 0;
    size_t o = 0;
    while (i < len && o < TERN_TERNARY_BLOCK) {
        if (len - i >= TERN_WORD && !has_run_byte(load_word(coded + i))) {
            store_word(block + o, load_word(coded + i));
            i += TERN_WORD;
            o += TERN_WORD;
            continue;
        }
        size_t end = len - i < TERN_WORD ? len : i + TERN_WORD;
        while (i < end) {
            o += expand_byte(coded[i++], block + o);
        }
    }
    *expanded = o;
    return i;
}
