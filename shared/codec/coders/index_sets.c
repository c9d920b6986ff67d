#include "codec/coders/index_sets.h"

#include "util/bytes.h"
#include <string.h>

enum { PARAMETER_MAX = 31 };

// --- Writing

// With parameter 0 the gaps take at most `count` bits, and the writer never chooses a worse parameter.
size_t tern_index_set_bound(size_t count)
{
    return TERN_VARINT_MAX + 1 + count / 8 + 1;
}

// Returns the most bits that the gaps of such a set can take.
static uint64_t most_bits(size_t count, size_t members, unsigned parameter)
{
    return (uint64_t)members * (parameter + 1) + ((count - members) >> parameter);
}

// Returns the smallest parameter with the least most_bits(), which first fall and then rise with the parameter.
static unsigned parameter_for(size_t count, size_t members)
{
    unsigned parameter = 0;
    while (parameter < PARAMETER_MAX &&
           most_bits(count, members, parameter + 1) < most_bits(count, members, parameter)) {
        parameter++;
    }
    return parameter;
}

struct tern_index_writer tern_index_set_begin(uint8_t *dst, size_t count, size_t members)
{
    struct tern_index_writer writer = {.parameter = parameter_for(count, members)};
    writer.dst = dst + tern_put_varint(dst, members);
    *writer.dst++ = (uint8_t)writer.parameter;
    return writer;
}

// Writes a field of at most 32 bits.
static void put_bits(struct tern_index_writer *writer, uint64_t value, unsigned bits)
{
    writer->held |= value << writer->bits;
    writer->bits += bits;
    for (; writer->bits >= 8; writer->bits -= 8, writer->held >>= 8) {
        *writer->dst++ = (uint8_t)writer->held;
    }
}

void tern_index_set_add(struct tern_index_writer *writer, size_t index)
{
    enum { AT_ONCE = 31 };
    size_t gap = index - writer->next;
    size_t quotient = gap >> writer->parameter;
    for (; quotient > AT_ONCE; quotient -= AT_ONCE) {
        put_bits(writer, 0, AT_ONCE);
    }
    put_bits(writer, 1ull << quotient, (unsigned)quotient + 1);
    put_bits(writer, gap & ((1ull << writer->parameter) - 1), writer->parameter);
    writer->next = index + 1;
}

uint8_t *tern_index_set_end(struct tern_index_writer *writer)
{
    if (writer->bits > 0) {
        *writer->dst++ = (uint8_t)writer->held;
    }
    return writer->dst;
}

// --- Reading

bool tern_index_set_open(const uint8_t *src, size_t len, size_t value_bytes, size_t count,
                         struct tern_index_set *set)
{
    uint64_t members = 0;
    size_t head = tern_get_varint(src, len, &members);
    // The byte of the parameter must follow.
    if (head == 0 || head == len || members == 0 || members > count || src[head] > PARAMETER_MAX) {
        return false;
    }
    size_t rest = len - head - 1;
    if (value_bytes > 0 && members > rest / value_bytes) {
        return false;
    }
    *set = (struct tern_index_set){
        .members = (size_t)members,
        .count = count,
        .parameter = src[head],
        .gaps = src + head + 1,
        .gaps_len = rest - (size_t)members * value_bytes,
    };
    set->values = set->gaps + set->gaps_len;
    return true;
}

enum tern_result tern_index_set_check(const struct tern_index_set *set)
{
    struct tern_index_reader reader = {.set = set};
    for (size_t i = 0; i < set->members; i++) {
        if (tern_index_next(&reader) == TERN_NO_INDEX) {
            return TERN_ERR_CORRUPT;
        }
    }
    // Bits past the end read as 0, so the number of bits must be compared.
    if (reader.bit / 8 + (reader.bit % 8 != 0) != set->gaps_len) {
        return TERN_ERR_CORRUPT;
    }
    return reader.bit % 8 == 0 || set->gaps[reader.bit / 8] >> reader.bit % 8 == 0
               ? TERN_OK
               : TERN_ERR_CORRUPT;
}
