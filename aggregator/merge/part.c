#include "merge/part.h"

#include "hosted/growing.h"
#include "hosted/log.h"
#include "merge/stored_mean.h"
#include "store/nodes.h"
#include "strategies/bounds.h"
#include "util/bytes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Life

enum tern_result tern_part_round_of(struct tern_db *db, const struct tern_db_round *row,
                                    struct tern_part_round *round)
{
    struct tern_db_version version;
    TERN_TRY(tern_rule_read(row, &round->rule));
    TERN_TRY(tern_db_version_get(db, row->base_version, &version));
    round->round = row->round;
    round->base_version = row->base_version;
    memcpy(round->base, version.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

enum tern_result tern_part_begin(struct tern_part *part, const struct tern_model *model,
                                 const struct tern_part_round *round, uint64_t memory)
{
    tern_part_clear(part);
    if (!tern_strategy_is_plain_mean(round->rule.strategy)) {
        return TERN_ERR_STATE;
    }
    part->round = *round;
    tern_exact_mean_begin(&part->mean, model, &round->rule, memory, 0, model->count);
    return TERN_OK;
}

void tern_part_clear(struct tern_part *part)
{
    tern_exact_mean_clear(&part->mean);
    free(part->updates);
    memset(part, 0, sizeof *part);
}

// --- Adding

// Returns part->updates[part->count]; NULL: no memory.
static struct tern_part_update *next_update(struct tern_part *part)
{
    struct tern_part_update *updates = tern_grown(part->updates, part->count, sizeof updates[0]);
    if (updates == NULL) {
        return NULL;
    }
    part->updates = updates;
    return &updates[part->count];
}

static enum tern_result note_update(struct tern_part *part, const struct tern_arrival *arrival)
{
    struct tern_part_update *update = next_update(part);
    if (update == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    part->count++;
    *update = (struct tern_part_update){.client = arrival->client,
                                        .num_examples = arrival->contribution.num_examples,
                                        .local_steps = arrival->contribution.local_steps,
                                        .sum_square = arrival->sum_square};
    memcpy(update->sha256, arrival->sha256, TERN_SHA256_SIZE);
    return TERN_OK;
}

static enum tern_result add(struct tern_part *part, const struct tern_arrival *arrival)
{
    if (part->count == TERN_EXACT_TERMS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(note_update(part, arrival));
    return tern_exact_mean_arrive(&part->mean, arrival);
}

enum tern_result tern_part_add(struct tern_part *part, const struct tern_arrival *arrival,
                               size_t body_len)
{
    if (part->round.round == 0 || arrival->round != part->round.round ||
        arrival->contribution.staleness != 0) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = add(part, arrival);
    part->replaced += body_len;
    if (result != TERN_OK) {
        tern_part_clear(part);
    }
    return result;
}

// --- A part as bytes

#define MAGIC "ternpart"
#define MAGIC_BYTES 8
#define FORM 1
#define HEAD_BYTES                                                                                 \
    (MAGIC_BYTES + 12 + 2 * TERN_SHA256_SIZE + TERN_DB_STRATEGY_MAX + 12 +                         \
     4 * TERN_STRATEGY_PARAMETERS + 8)
#define UPDATE_BYTES (24 + TERN_SHA256_SIZE)
#define GROUP_BYTES 8

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "cells are cut as they lie in memory");

static const char *fault_text(enum tern_part_fault fault)
{
#define TEXT(symbol, text) text,
    static const char *const texts[] = {TERN_PART_FAULTS(TEXT)};
    return texts[fault];
}

// --- The head, which readers compare with that of their round

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    tern_put_le32(at, value);
    return at + 4;
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t len)
{
    memcpy(at, data, len);
    return at + len;
}

// Offsets of the fields that differ between parts or distinguish faults.
enum {
    AT_ROUND = MAGIC_BYTES + 4,
    AT_BASE_VERSION = AT_ROUND + 4,
    AT_MODEL = AT_BASE_VERSION + 4,
    AT_BASE = AT_MODEL + TERN_SHA256_SIZE,
    AT_STRATEGY = AT_BASE + TERN_SHA256_SIZE,
    AT_UPDATES = HEAD_BYTES - 8,
    AT_GROUPS = HEAD_BYTES - 4,
};

static void write_head(const struct tern_model *model, const struct tern_part_round *round,
                       uint32_t updates, uint32_t groups, uint8_t head[HEAD_BYTES])
{
    const struct tern_strategy_rule *rule = &round->rule;
    char name[TERN_DB_STRATEGY_MAX] = "";
    strncpy(name, rule->strategy->name, sizeof name - 1);
    uint8_t *at = put_bytes(head, MAGIC, MAGIC_BYTES);
    at = put32(at, FORM);
    at = put32(at, round->round);
    at = put32(at, round->base_version);
    at = put_bytes(at, model->hash, TERN_SHA256_SIZE);
    at = put_bytes(at, round->base, TERN_SHA256_SIZE);
    at = put_bytes(at, name, sizeof name);
    at = put32(at, tern_float_bits(rule->server_learning_rate));
    at = put32(at, tern_float_bits(rule->learning_rate));
    at = put32(at, TERN_STRATEGY_PARAMETERS);
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        at = put32(at, tern_float_bits(rule->parameters[i]));
    }
    at = put32(at, updates);
    put32(at, groups);
}

// --- Writing

#define CELL_BYTES (1 + TERN_EXACT_BLOCK * sizeof(uint64_t))

struct writer {
    enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
    void *ctx;
    struct tern_sha256 hash;
};

static enum tern_result put(struct writer *writer, const uint8_t *data, size_t len)
{
    tern_sha256_update(&writer->hash, data, len);
    return writer->take(writer->ctx, data, len);
}

static int compare_updates(const void *a, const void *b)
{
    const struct tern_part_update *one = a;
    const struct tern_part_update *other = b;
    return (one->client > other->client) - (one->client < other->client);
}

static enum tern_result write_updates(struct writer *writer, const struct tern_part *part)
{
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        uint8_t bytes[UPDATE_BYTES];
        tern_put_le64(bytes, update->client);
        tern_put_le32(bytes + 8, update->num_examples);
        tern_put_le32(bytes + 12, update->local_steps);
        tern_put_le64(bytes + 16, tern_double_bits(update->sum_square));
        memcpy(bytes + 24, update->sha256, TERN_SHA256_SIZE);
        if (i > 0 && update[-1].client == update->client) {
            return TERN_ERR_CONFLICT;
        }
        TERN_TRY(put(writer, bytes, sizeof bytes));
    }
    return TERN_OK;
}

static enum tern_result write_groups(struct writer *writer, const struct tern_exact_mean *mean)
{
    for (uint32_t i = 0; i < mean->group_count; i++) {
        uint8_t bytes[GROUP_BYTES];
        tern_put_le32(bytes, mean->groups[i].key.local_steps);
        tern_put_le32(bytes + 4, tern_exact_group_bins(&mean->groups[i]));
        TERN_TRY(put(writer, bytes, sizeof bytes));
    }
    return TERN_OK;
}

// Small magnitudes of both signs become small numbers.
static uint64_t fold_sign(uint64_t cell)
{
    return cell << 1 ^ (0 - (cell >> 63));
}

static uint64_t unfold_sign(uint64_t folded)
{
    return folded >> 1 ^ (0 - (folded & 1));
}

static unsigned width_of(const uint64_t cells[], uint32_t count)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        all |= fold_sign(cells[i]);
    }
    unsigned width = 0;
    while (width < sizeof all && all >> 8 * width != 0) {
        width++;
    }
    return width;
}

static enum tern_result write_cells(void *ctx, const struct tern_exact_group *group, unsigned bin,
                                    const uint64_t *cells, uint32_t count)
{
    (void)group;
    (void)bin;
    uint8_t bytes[CELL_BYTES + sizeof(uint64_t)]; // room for the last 8-byte write
    const unsigned width = cells != NULL ? width_of(cells, count) : 0;
    bytes[0] = (uint8_t)width;
    for (uint32_t i = 0; width > 0 && i < count; i++) {
        const uint64_t folded = fold_sign(cells[i]);
        memcpy(bytes + 1 + (size_t)i * width, &folded, sizeof folded);
    }
    return put(ctx, bytes, 1 + (size_t)count * width);
}

enum tern_result
tern_part_write(struct tern_part *part,
                enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len), void *ctx)
{
    struct writer writer = {.take = take, .ctx = ctx};
    uint8_t head[HEAD_BYTES];
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256_init(&writer.hash);
    tern_exact_mean_sort(&part->mean);
    if (part->count > 0) {
        qsort(part->updates, part->count, sizeof part->updates[0], compare_updates);
    }
    write_head(part->mean.model, &part->round, part->count, part->mean.group_count, head);
    TERN_TRY(put(&writer, head, sizeof head));
    TERN_TRY(write_updates(&writer, part));
    TERN_TRY(write_groups(&writer, &part->mean));
    TERN_TRY(tern_exact_mean_show(&part->mean, write_cells, &writer));
    tern_sha256_final(&writer.hash, digest);
    return take(ctx, digest, sizeof digest);
}

// --- Reading

// The largest magnitude that a group's cells can have.
struct limits {
    uint64_t most[TERN_EXACT_BINS];
};

struct reader {
    const struct tern_part_source *source;
    const uint8_t *data;
    size_t left; // bytes of `data` that were not read yet
    struct tern_sha256 hash;
    struct tern_part *part;
    enum tern_part_fault fault;
    struct limits *limits; // of each group; malloc'ed
};

static enum tern_result fail(struct reader *reader, enum tern_part_fault fault)
{
    reader->fault = fault;
    return TERN_ERR_CORRUPT;
}

// Reads the next bytes without hashing them.
static enum tern_result get_plain(struct reader *reader, uint8_t *dst, size_t len)
{
    while (len > 0) {
        if (reader->left == 0) {
            TERN_TRY(reader->source->next(reader->source->ctx, &reader->data, &reader->left));
        }
        const size_t n = reader->left < len ? reader->left : len;
        if (n == 0) {
            return fail(reader, TERN_PART_CUT);
        }
        memcpy(dst, reader->data, n);
        reader->data += n;
        reader->left -= n;
        dst += n;
        len -= n;
    }
    return TERN_OK;
}

static enum tern_result get(struct reader *reader, uint8_t *dst, size_t len)
{
    TERN_TRY(get_plain(reader, dst, len));
    tern_sha256_update(&reader->hash, dst, len);
    return TERN_OK;
}

static enum tern_result read_head(struct reader *reader, uint32_t most, uint32_t *updates,
                                  uint32_t *groups)
{
    static const struct {
        size_t from;
        size_t end;
        enum tern_part_fault fault;
    } fields[] = {
        {0, AT_ROUND, TERN_PART_FORM},          {AT_ROUND, AT_BASE_VERSION, TERN_PART_ROUND},
        {AT_MODEL, AT_BASE, TERN_PART_MODEL},   {AT_BASE_VERSION, AT_MODEL, TERN_PART_BASE},
        {AT_BASE, AT_STRATEGY, TERN_PART_BASE}, {AT_STRATEGY, AT_UPDATES, TERN_PART_STRATEGY}};
    const struct tern_part *part = reader->part;
    uint8_t expected[HEAD_BYTES];
    uint8_t head[HEAD_BYTES];
    write_head(part->mean.model, &part->round, 0, 0, expected);
    TERN_TRY(get(reader, head, sizeof head));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const size_t len = fields[i].end - fields[i].from;
        if (memcmp(head + fields[i].from, expected + fields[i].from, len) != 0) {
            return fail(reader, fields[i].fault);
        }
    }
    *updates = tern_get_le32(head + AT_UPDATES);
    *groups = tern_get_le32(head + AT_GROUPS);
    return *updates > 0 && *updates <= most ? TERN_OK : fail(reader, TERN_PART_UPDATES);
}

static bool is_plausible(const struct tern_part *part, const struct tern_part_update *update)
{
    const double norm = tern_strategy_norm_max(&part->round.rule);
    return (part->count == 0 || update->client > part->updates[part->count - 1].client) &&
           update->num_examples > 0 && update->local_steps > 0 && update->sum_square >= 0.0 &&
           update->sum_square <= norm * norm;
}

static enum tern_result read_updates(struct reader *reader, uint32_t count)
{
    struct tern_part *part = reader->part;
    while (part->count < count) {
        uint8_t bytes[UPDATE_BYTES];
        struct tern_part_update *update = next_update(part);
        if (update == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        TERN_TRY(get(reader, bytes, sizeof bytes));
        update->client = tern_get_le64(bytes);
        update->num_examples = tern_get_le32(bytes + 8);
        update->local_steps = tern_get_le32(bytes + 12);
        update->sum_square = tern_bits_double(tern_get_le64(bytes + 16));
        memcpy(update->sha256, bytes + 24, TERN_SHA256_SIZE);
        if (!is_plausible(part, update)) {
            return fail(reader, TERN_PART_UPDATES);
        }
        part->count++;
    }
    return TERN_OK;
}

static struct tern_exact_key key_of(const struct tern_part *part,
                                    const struct tern_part_update *update)
{
    const struct tern_contribution contribution = {.num_examples = update->num_examples,
                                                   .local_steps = update->local_steps};
    return tern_exact_key_of(&part->round.rule, &contribution);
}

// Returns the number of updates in the group, and sets the largest magnitude of their sum at one coordinate: a value is at
// most the update's norm, and rounding a product to float32 adds at most 2^-24 of it, or the smallest float32. An update
// adds less than 2^39 to a bin.
static uint32_t weigh_group(const struct tern_part *part, struct tern_exact_key key,
                            struct limits *limits)
{
    uint32_t updates = 0;
    double most = 0.0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        const struct tern_exact_key own = key_of(part, update);
        if (tern_exact_key_compare(&own, &key) == 0) {
            updates++;
            most += (double)update->num_examples * sqrt(update->sum_square);
        }
    }
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        const double sum = most * (1.0 + 0x1p-20) / tern_exact_bin_unit(bin) + updates + 1.0;
        const double full = ldexp(updates, 39);
        limits->most[bin] = (uint64_t)(sum < full ? sum : full);
    }
    return updates;
}

static enum tern_result make_group(struct reader *reader)
{
    struct tern_exact_mean *mean = &reader->part->mean;
    uint8_t bytes[GROUP_BYTES];
    TERN_TRY(get(reader, bytes, sizeof bytes));
    const struct tern_exact_key key = {.local_steps = tern_get_le32(bytes)};
    const uint32_t bins = tern_get_le32(bytes + 4);
    const bool follows = mean->group_count == 0 ||
                         tern_exact_key_compare(&mean->groups[mean->group_count - 1].key, &key) < 0;
    if (!follows || bins >> TERN_EXACT_BINS != 0) {
        return fail(reader, TERN_PART_GROUPS);
    }
    const enum tern_result made = tern_exact_mean_make_group(mean, key, bins);
    return made != TERN_ERR_NO_SPACE ? made : fail(reader, TERN_PART_MEMORY);
}

// Makes a group for each number of local steps among the updates, and no other.
static enum tern_result make_groups(struct reader *reader, uint32_t groups)
{
    const struct tern_part *part = reader->part;
    uint32_t updates = 0;
    if (groups > part->count) {
        return fail(reader, TERN_PART_GROUPS);
    }
    reader->limits = malloc((groups + 1) * sizeof reader->limits[0]);
    if (reader->limits == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < groups; i++) {
        TERN_TRY(make_group(reader));
        const uint32_t of_group = weigh_group(part, part->mean.groups[i].key, &reader->limits[i]);
        if (of_group == 0) {
            return fail(reader, TERN_PART_GROUPS);
        }
        updates += of_group;
    }
    return updates == part->count ? TERN_OK : fail(reader, TERN_PART_GROUPS);
}

static enum tern_result read_cells(void *ctx, const struct tern_exact_group *group, unsigned bin,
                                   uint64_t *cells, uint32_t count)
{
    struct reader *reader = ctx;
    uint8_t bytes[CELL_BYTES + sizeof(uint64_t)]; // room for the last 8-byte read
    const uint64_t most = reader->limits[group - reader->part->mean.groups].most[bin];
    TERN_TRY(get(reader, bytes, 1));
    const unsigned width = bytes[0];
    if (width > sizeof cells[0]) {
        return fail(reader, TERN_PART_FORM);
    }
    TERN_TRY(get(reader, bytes + 1, (size_t)count * width));
    const uint64_t mask = width == 0 ? 0 : UINT64_MAX >> (64 - 8 * width);
    bool exceeds = false;
    for (uint32_t i = 0; width > 0 && i < count; i++) {
        uint64_t folded;
        memcpy(&folded, bytes + 1 + (size_t)i * width, sizeof folded);
        folded &= mask;
        exceeds = exceeds || (folded >> 1) + (folded & 1) > most;
        cells[i] = unfold_sign(folded);
    }
    return exceeds ? fail(reader, TERN_PART_SUMS) : TERN_OK;
}

static enum tern_result read_end(struct reader *reader)
{
    uint8_t digest[TERN_SHA256_SIZE];
    uint8_t expected[TERN_SHA256_SIZE];
    tern_sha256_final(&reader->hash, expected);
    TERN_TRY(get_plain(reader, digest, sizeof digest));
    if (memcmp(digest, expected, sizeof digest) != 0) {
        return fail(reader, TERN_PART_HASH);
    }
    if (reader->left == 0) {
        TERN_TRY(reader->source->next(reader->source->ctx, &reader->data, &reader->left));
    }
    return reader->left == 0 ? TERN_OK : fail(reader, TERN_PART_LONG);
}

static enum tern_result read_all(struct reader *reader, uint32_t most)
{
    struct tern_part *part = reader->part;
    uint32_t updates = 0;
    uint32_t groups = 0;
    TERN_TRY(read_head(reader, most, &updates, &groups));
    TERN_TRY(read_updates(reader, updates));
    TERN_TRY(make_groups(reader, groups));
    TERN_TRY(tern_exact_mean_fill(&part->mean, read_cells, reader));
    part->mean.updates = part->count;
    return read_end(reader);
}

enum tern_result tern_part_read(struct tern_part *part, const struct tern_model *model,
                                const struct tern_part_round *round, uint64_t memory, uint32_t most,
                                const struct tern_part_source *source, enum tern_part_fault *fault)
{
    struct reader reader = {.source = source, .part = part};
    TERN_TRY(tern_part_begin(part, model, round, memory));
    tern_sha256_init(&reader.hash);
    const enum tern_result result = read_all(&reader, most);
    free(reader.limits);
    *fault = reader.fault;
    if (result != TERN_OK) {
        tern_part_clear(part);
    }
    return reader.fault != TERN_PART_NONE ? TERN_OK : result;
}

// --- Delivery

static enum tern_result count_bytes(void *ctx, const uint8_t *data, size_t len)
{
    uint64_t *bytes = ctx;
    (void)data;
    *bytes += len;
    return TERN_OK;
}

struct delivery {
    struct tern_db *db;
    struct tern_db_part row; // of the piece that is being filled
    size_t size;             // bytes of a full piece
    size_t used;             // bytes of the present piece
    uint8_t *first;          // piece 0, which is written last
    uint8_t *next;           // any other piece
};

// A database in a file has no separate transactions.
static enum tern_result begin_piece(struct tern_db *db)
{
    return tern_db_is_url(tern_db_path(db)) ? tern_db_begin_apart(db, false) : tern_db_begin(db);
}

static enum tern_result write_piece(struct delivery *delivery, bool anew)
{
    struct tern_db *db = delivery->db;
    TERN_TRY(begin_piece(db));
    enum tern_result result =
        anew ? tern_db_part_drop(db, delivery->row.round, delivery->row.node) : TERN_OK;
    if (result == TERN_OK) {
        result = tern_db_part_put(db, &delivery->row);
    }
    return tern_db_conclude(db, result);
}

// Completes the piece that is being filled.
static enum tern_result end_piece(struct delivery *delivery)
{
    struct tern_db_part *row = &delivery->row;
    if (row->piece > 0) {
        row->body = (struct tern_blob_column){delivery->next, delivery->used};
        TERN_TRY(write_piece(delivery, row->piece == 1));
    }
    row->piece++;
    delivery->used = 0;
    return TERN_OK;
}

static enum tern_result fill_pieces(void *ctx, const uint8_t *data, size_t len)
{
    struct delivery *delivery = ctx;
    while (len > 0) {
        TERN_TRY(delivery->used == delivery->size ? end_piece(delivery) : TERN_OK);
        uint8_t *piece = delivery->row.piece == 0 ? delivery->first : delivery->next;
        const size_t left = delivery->size - delivery->used;
        const size_t n = len < left ? len : left;
        memcpy(piece + delivery->used, data, n);
        delivery->used += n;
        data += n;
        len -= n;
    }
    return TERN_OK;
}

static enum tern_result deliver_pieces(struct tern_part *part, struct delivery *delivery)
{
    struct tern_db_part *row = &delivery->row;
    TERN_TRY(tern_part_write(part, fill_pieces, delivery));
    const size_t first = row->piece == 0 ? delivery->used : delivery->size;
    TERN_TRY(end_piece(delivery));
    row->pieces = row->piece;
    row->piece = 0;
    row->body = (struct tern_blob_column){delivery->first, first};
    return write_piece(delivery, row->pieces == 1);
}

enum tern_result tern_part_store(struct tern_part *part, struct tern_db *db, const char *node)
{
    struct delivery delivery = {.db = db,
                                .row = {.round = part->round.round, .updates = part->count},
                                .size = TERN_DB_PIECE_BYTES};
    uint64_t bytes = 0;
    TERN_TRY(part->count > 0 ? tern_part_write(part, count_bytes, &bytes) : TERN_ERR_STATE);
    snprintf(delivery.row.node, sizeof delivery.row.node, "%s", node);
    delivery.size = bytes < delivery.size ? (size_t)bytes : delivery.size;
    delivery.first = malloc(delivery.size);
    delivery.next = malloc(delivery.size);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (delivery.first != NULL && delivery.next != NULL) {
        result = deliver_pieces(part, &delivery);
    }
    free(delivery.first);
    free(delivery.next);
    return result;
}

// Whether the leader reads fewer bytes with the part than without it.
static enum tern_result is_worth(struct tern_part *part, bool *worth)
{
    uint64_t bytes = 0;
    *worth = false;
    if (part->count > 0) {
        TERN_TRY(tern_part_write(part, count_bytes, &bytes));
        *worth = bytes <= part->replaced;
    }
    return TERN_OK;
}

enum tern_result tern_part_deliver(struct tern_part *part, struct tern_db *db, const char *node,
                                   bool *delivered)
{
    TERN_TRY(is_worth(part, delivered));
    return *delivered ? tern_part_store(part, db, node) : TERN_OK;
}

// --- The close of a round

static int compare_deferred(const void *a, const void *b)
{
    const struct tern_deferred *one = a;
    const struct tern_deferred *other = b;
    return (one->client > other->client) - (one->client < other->client);
}

void tern_gather_begin(struct tern_gather *gather, struct tern_merge *merge, struct tern_db *db,
                       const struct tern_db_round *row)
{
    memset(gather, 0, sizeof *gather);
    gather->merge = merge;
    gather->db = db;
    gather->round.round = row->round;
    gather->round.base_version = row->base_version;
    gather->round.rule = merge->arrived.rule;
    memcpy(gather->round.base, merge->replica_id, TERN_SHA256_SIZE);
    if (merge->deferred_count > 0) {
        qsort(merge->deferred, merge->deferred_count, sizeof merge->deferred[0], compare_deferred);
    }
}

uint32_t tern_gather_missing(const struct tern_gather *gather)
{
    const struct tern_merge *merge = gather->merge;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < merge->deferred_count; i++) {
        missing += !merge->deferred[i].is_in;
    }
    return missing;
}

// The sums already contain the update.
static void note_norm(const struct tern_gather *gather, struct tern_deferred *deferred,
                      double sum_square)
{
    gather->merge->bounds.list[deferred->at].sum_square = sum_square;
    deferred->is_in = true;
}

// --- The bytes of a part

struct pieces {
    struct tern_db *db;
    const struct tern_db_part *part;
    uint32_t next;
    uint8_t *bytes; // of one piece
    size_t len;
};

static enum tern_result copy_piece(void *ctx, const struct tern_db_part *piece)
{
    struct pieces *pieces = ctx;
    pieces->len = piece->body.len < TERN_DB_PIECE_BYTES ? piece->body.len : TERN_DB_PIECE_BYTES;
    if (pieces->len > 0) {
        memcpy(pieces->bytes, piece->body.data, pieces->len);
    }
    return TERN_OK;
}

// A missing piece cuts the part, which the reader detects.
static enum tern_result next_piece(void *ctx, const uint8_t **data, size_t *len)
{
    struct pieces *pieces = ctx;
    const struct tern_db_part *part = pieces->part;
    pieces->len = 0;
    if (pieces->next < part->pieces) {
        TERN_TRY(tern_db_may_miss(tern_db_part_show(pieces->db, part->round, part->node,
                                                    pieces->next, copy_piece, pieces)));
        pieces->next++;
    }
    *data = pieces->bytes;
    *len = pieces->len;
    return TERN_OK;
}

static enum tern_result read_delivered(const struct tern_gather *gather,
                                       const struct tern_db_part *row, struct tern_part *part,
                                       enum tern_part_fault *fault)
{
    const struct tern_merge *merge = gather->merge;
    struct pieces pieces = {.db = gather->db, .part = row, .bytes = malloc(TERN_DB_PIECE_BYTES)};
    const struct tern_part_source source = {&pieces, next_piece};
    if (pieces.bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = tern_part_read(part, &merge->model, &gather->round,
                                                   merge->arrived.memory - merge->arrived.used,
                                                   merge->deferred_count, &source, fault);
    free(pieces.bytes);
    return result;
}

// --- Updates of a part

static struct tern_deferred *find_deferred(const struct tern_merge *merge, uint64_t client)
{
    const struct tern_deferred wanted = {.client = client};
    return bsearch(&wanted, merge->deferred, merge->deferred_count, sizeof wanted,
                   compare_deferred);
}

// Checks that each update was accepted as the part has it, and is in no other part.
static enum tern_part_fault check_updates(const struct tern_merge *merge,
                                          const struct tern_part *part)
{
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        const struct tern_deferred *deferred = find_deferred(merge, update->client);
        if (deferred == NULL || deferred->num_examples != update->num_examples ||
            deferred->local_steps != update->local_steps ||
            (deferred->sum_square >= 0.0 && deferred->sum_square != update->sum_square) ||
            memcmp(deferred->sha256, update->sha256, TERN_SHA256_SIZE) != 0) {
            return TERN_PART_OTHER_UPDATE;
        }
        if (deferred->is_in) {
            return TERN_PART_TWICE;
        }
    }
    return TERN_PART_NONE;
}

static enum tern_result join(const struct tern_gather *gather, struct tern_part *part)
{
    TERN_TRY(tern_exact_mean_join(&gather->merge->arrived, &part->mean));
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tern_part_update *update = &part->updates[i];
        note_norm(gather, find_deferred(gather->merge, update->client), update->sum_square);
    }
    return TERN_OK;
}

static void refuse(const struct tern_db_part *row, const char *why)
{
    tern_log(TERN_LOG_WARN, "part-refused", "round=%u node=%s updates=%u reason=%s", row->round,
             TERN_LOG_TEXT(row->node), row->updates, TERN_LOG_TEXT(why));
}

static void take_part(const struct tern_gather *gather, const struct tern_db_part *row)
{
    struct tern_part part = {.count = 0};
    enum tern_part_fault fault = TERN_PART_NONE;
    const enum tern_result read = read_delivered(gather, row, &part, &fault);
    if (read == TERN_OK && fault == TERN_PART_NONE) {
        fault = check_updates(gather->merge, &part);
    }
    if (read != TERN_OK) {
        refuse(row, tern_result_name(read));
    } else if (fault != TERN_PART_NONE) {
        refuse(row, fault_text(fault));
    } else if (join(gather, &part) != TERN_OK) {
        tern_merge_stop(gather->merge);
    } else {
        tern_log(TERN_LOG_INFO, "part", "round=%u node=%s updates=%u", row->round,
                 TERN_LOG_TEXT(row->node), part.count);
    }
    tern_part_clear(&part);
}

static bool is_new(struct tern_gather *gather, const char *node)
{
    for (uint32_t i = 0; i < gather->seen_count; i++) {
        if (strcmp(gather->seen[i], node) == 0) {
            return false;
        }
    }
    const bool has_room = gather->seen_count < TERN_GATHER_NODES;
    if (has_room) {
        memcpy(gather->seen[gather->seen_count++], node, TERN_DB_NODE_MAX);
    }
    return has_room;
}

void tern_gather_parts(struct tern_gather *gather)
{
    struct tern_db_part rows[TERN_GATHER_NODES];
    size_t count = 0;
    if (tern_gather_missing(gather) == 0 || tern_db_parts(gather->db, gather->round.round, rows,
                                                          TERN_GATHER_NODES, &count) != TERN_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_new(gather, rows[i].node)) {
            take_part(gather, &rows[i]);
        }
    }
}

// --- Updates without a part

struct storing {
    const struct tern_gather *gather;
    struct tern_deferred *deferred;
};

static enum tern_result add_stored(void *ctx, const struct tern_db_update *update)
{
    const struct storing *storing = ctx;
    const struct tern_gather *gather = storing->gather;
    struct tern_contribution contribution;
    struct tern_codec_info info;
    struct tern_span container;
    TERN_TRY(tern_stored_read(update, &contribution, &container));
    TERN_TRY(tern_exact_mean_add(&gather->merge->arrived, &contribution, container.data,
                                 container.len, NULL, &info));
    note_norm(gather, storing->deferred, info.sum_square);
    return TERN_OK;
}

void tern_gather_rest(struct tern_gather *gather)
{
    struct tern_merge *merge = gather->merge;
    for (uint32_t i = 0; i < merge->deferred_count; i++) {
        struct tern_deferred *deferred = &merge->deferred[i];
        struct storing storing = {gather, deferred};
        if (!deferred->is_in &&
            tern_db_update_show(gather->db, gather->round.round, deferred->client, add_stored,
                                &storing) != TERN_OK) {
            tern_merge_stop(merge);
            return;
        }
    }
}
