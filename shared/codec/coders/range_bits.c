#include "codec/coders/range_bits.h"

// The last bytes of a string: the fewest bytes that determine the interval whatever follows them.
struct tern_range_name {
    uint64_t value; // may exceed 2^64, and wraps then
    uint64_t rest;  // most that later bytes can add
    unsigned bytes; // number of bytes of value that are written; the others are zero
};

// Not inline, which would duplicate its loop in both callers.
static __attribute__((noinline)) struct tern_range_name name_of(uint64_t low, uint64_t range)
{
    struct tern_range_name name = {.value = low, .rest = UINT64_MAX >> 8, .bytes = 1};
    name.value = (low + name.rest) & ~name.rest;
    while (name.value - low >= range - name.rest || range <= name.rest) {
        name.bytes++;
        name.rest >>= 8;
        name.value = (low + name.rest) & ~name.rest;
    }
    return name;
}

uint8_t *tern_range_finish(struct tern_range_writer *writer)
{
    struct tern_range_name name = name_of(writer->low, writer->range);
    writer->carry |= name.value < writer->low;
    writer->low = name.value;
    tern_range_store(writer);
    return writer->at + name.bytes;
}

struct tern_range_reader tern_range_read(const uint8_t *src, size_t len)
{
    struct tern_range_reader reader = {.range = UINT64_MAX, .src = src, .len = len, .at = 8};
    reader.code = tern_range_window(&reader, 0);
    return reader;
}

bool tern_range_end(const struct tern_range_reader *reader, size_t *end)
{
    uint64_t low = tern_range_window(reader, reader->at - 8) - reader->code;
    struct tern_range_name name = name_of(low, reader->range);
    *end = reader->at - 8 + name.bytes;
    // The first interval ends below the largest number. If the code started inside, it has stayed inside, and the difference
    // below is right; it wraps for a code below the value.
    bool inside = tern_range_window(reader, 0) < UINT64_MAX;
    return inside && reader->code - (name.value - low) <= name.rest;
}
