#include "exchange/exchange.h"

#include "util/bytes.h"
#include <string.h>

// --- The schedule of blocks

uint32_t tern_ring_exchanged_count(const struct tern_model *model)
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        if (tern_segment_is_skipped(&model->segments[i])) {
            return model->segments[i].offset;
        }
    }
    return model->count;
}

uint32_t tern_ring_block_start(uint32_t count, uint32_t members, uint32_t block)
{
    return (uint32_t)((uint64_t)count * block / members);
}

uint32_t tern_ring_step_count(uint32_t members)
{
    return 2 * (members - 1);
}

bool tern_ring_is_gather_step(uint32_t members, uint32_t step)
{
    return step >= members - 1;
}

// The formula fits both legs: in step s of the gather leg, which is step N - 1 + s of the exchange, member i sends block
// i + 1 - s, and this equals i - (N - 1 + s) modulo N.
uint32_t tern_ring_block_sent(uint32_t members, uint32_t member, uint32_t step)
{
    return (member + 2 * members - step) % members;
}

uint32_t tern_ring_block_received(uint32_t members, uint32_t member, uint32_t step)
{
    return tern_ring_block_sent(members, (member + members - 1) % members, step);
}

uint32_t tern_ring_block_owned(uint32_t members, uint32_t member)
{
    return tern_ring_block_sent(members, member, members - 1);
}

// --- Pieces

static const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32};

// The part of a segment that lies in one block. A block holds one payload per piece, each after its length, so that tensors
// do not share a scale.
struct piece {
    uint32_t segment;
    uint32_t start; // index in the flat vector
    uint32_t count;
};

static const struct tern_codec *codec_of(const struct tern_ring_part *part, uint32_t segment)
{
    return tern_segment_is_coded(&part->model->segments[segment]) ? part->codec : &whole;
}

// Advances *piece to the next piece of a block that ends at `end`; returns false after the last. The first call takes an empty
// piece at the block's start.
static bool next_piece(const struct tern_model *model, uint32_t end, struct piece *piece)
{
    const uint32_t start = piece->start + piece->count;
    if (start >= end) {
        return false;
    }
    uint32_t i = piece->segment;
    while (start - model->segments[i].offset >= model->segments[i].count) {
        i++;
    }
    const uint32_t segment_end = model->segments[i].offset + model->segments[i].count;
    *piece = (struct piece){i, start, (segment_end < end ? segment_end : end) - start};
    return true;
}

static struct piece block_start(const struct tern_ring_part *part, uint32_t block, uint32_t *end)
{
    const uint32_t count = tern_ring_exchanged_count(part->model);
    *end = tern_ring_block_start(count, part->members, block + 1);
    return (struct piece){.start = tern_ring_block_start(count, part->members, block)};
}

bool tern_ring_codec_is_usable(const struct tern_codec *codec)
{
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    return entry != NULL && entry->feedback != TERN_FEEDBACK_MOMENTUM && !entry->follows_leader;
}

size_t tern_ring_block_bound(const struct tern_codec *codec, const struct tern_model *model,
                             uint32_t members)
{
    const struct tern_ring_part part = {.model = model, .codec = codec, .members = members};
    size_t most = 0;
    for (uint32_t block = 0; block < members; block++) {
        uint32_t end = 0;
        size_t bound = 0;
        struct piece piece = block_start(&part, block, &end);
        while (next_piece(model, end, &piece)) {
            bound +=
                TERN_VARINT_MAX + tern_codec_bound(codec_of(&part, piece.segment), piece.count);
        }
        most = bound > most ? bound : most;
    }
    return most;
}

enum tern_result tern_ring_exchange_begin(struct tern_ring_exchange *exchange,
                                          const struct tern_ring_part *part, float *values,
                                          float *sum, uint8_t *const buffers[2])
{
    if (part->members < 2 || part->members > TERN_RING_MEMBERS_MAX ||
        part->member >= part->members || !tern_ring_codec_is_usable(part->codec)) {
        return TERN_ERR_ARGUMENT;
    }
    *exchange = (struct tern_ring_exchange){
        .part = *part,
        .values = values,
        .sum = sum,
        .out = buffers[0],
        .in = buffers[1],
        .in_size = tern_ring_block_bound(part->codec, part->model, part->members),
    };
    return TERN_OK;
}

// --- Encoding

static enum tern_result encode_piece(struct tern_ring_exchange *exchange, uint32_t block,
                                     const struct piece *piece)
{
    const struct tern_ring_part *part = &exchange->part;
    const struct tern_encode_context context = {
        .seed = part->seed,
        .round = part->round,
        .client = part->peer,
        // A segment may lie in several blocks; each needs its own random numbers.
        .segment = block * part->model->segment_count + piece->segment,
    };
    uint8_t *payload = exchange->out + exchange->out_len + TERN_VARINT_MAX;
    size_t len = 0;
    TERN_TRY(tern_codec_encode(codec_of(part, piece->segment), &context,
                               exchange->values + piece->start, piece->count, payload,
                               exchange->in_size - exchange->out_len - TERN_VARINT_MAX, &len));
    uint8_t length[TERN_VARINT_MAX];
    const size_t length_len = tern_put_varint(length, len);
    memcpy(exchange->out + exchange->out_len, length, length_len);
    memmove(exchange->out + exchange->out_len + length_len, payload, len);
    exchange->out_len += length_len + len;
    return TERN_OK;
}

static enum tern_result encode_block(struct tern_ring_exchange *exchange, uint32_t block)
{
    uint32_t end = 0;
    struct piece piece = block_start(&exchange->part, block, &end);
    exchange->out_len = 0;
    while (next_piece(exchange->part.model, end, &piece)) {
        TERN_TRY(encode_piece(exchange, block, &piece));
    }
    return TERN_OK;
}

// --- Decoding

// Adds a block to the flat vector dst, or overwrites dst with it if `decodes`.
static enum tern_result read_block(const struct tern_ring_part *part, uint32_t block,
                                   const uint8_t *src, size_t len, bool decodes, float *dst)
{
    uint32_t end = 0;
    struct piece piece = block_start(part, block, &end);
    while (next_piece(part->model, end, &piece)) {
        uint64_t size = 0;
        const size_t used = tern_get_varint(src, len, &size);
        if (used == 0 || size > len - used) {
            return TERN_ERR_CORRUPT;
        }
        src += used;
        TERN_TRY(decodes ? tern_codec_decode(src, (size_t)size, dst + piece.start, piece.count)
                         : tern_codec_accumulate(src, (size_t)size, 1.0F, dst + piece.start,
                                                 piece.count));
        src += size;
        len -= used + (size_t)size;
    }
    return len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_ring_block_decode(const struct tern_ring_part *part, uint32_t block,
                                        const uint8_t *src, size_t len, float *sum)
{
    return read_block(part, block, src, len, true, sum);
}

enum tern_result tern_ring_exchange_encode(struct tern_ring_exchange *exchange)
{
    const struct tern_ring_part *part = &exchange->part;
    const uint32_t block = tern_ring_block_sent(part->members, part->member, exchange->step);
    if (exchange->step >= part->members) {
        return TERN_OK; // the gather leg forwards the received bytes
    }
    TERN_TRY(encode_block(exchange, block));
    if (tern_ring_is_gather_step(part->members, exchange->step)) {
        return read_block(part, block, exchange->out, exchange->out_len, true, exchange->sum);
    }
    return TERN_OK;
}

enum tern_result tern_ring_exchange_decode(struct tern_ring_exchange *exchange, size_t len)
{
    const struct tern_ring_part *part = &exchange->part;
    const bool gathers = tern_ring_is_gather_step(part->members, exchange->step);
    TERN_TRY(read_block(part, tern_ring_block_received(part->members, part->member, exchange->step),
                        exchange->in, len, gathers, gathers ? exchange->sum : exchange->values));
    if (gathers) {
        uint8_t *taken = exchange->in;
        exchange->in = exchange->out;
        exchange->out = taken;
        exchange->out_len = len;
    }
    exchange->step++;
    return exchange->step < tern_ring_step_count(part->members) ? TERN_AGAIN : TERN_OK;
}
