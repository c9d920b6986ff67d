#include "store/flash_store.h"
#include "util/crc32c.h"

#include <string.h>

#define MAGIC 0x31534654u // "TFS1"
#define CHUNK TERN_FLASH_UNIT_MAX

// The order of the slots on the chip. Records that grow with the model come last, so that a program for a larger model still
// finds the identity and the meter.
static const uint8_t layout[] = {
    TERN_RECORD_IDENTITY, TERN_RECORD_SETTLED, TERN_RECORD_METER,
    TERN_RECORD_REPLICA,  TERN_RECORD_UPLOAD,  TERN_RECORD_MODEL,
    TERN_RECORD_SCALING,  TERN_RECORD_ANCHOR,  TERN_RECORD_SECURE,
};

// The header before each copy of a record, in the device's byte order.
struct header {
    uint32_t magic;
    uint32_t sequence; // number of the copy, from 1
    uint32_t len;      // bytes of data after the header
    uint32_t erased;   // see struct tern_flash_record
    uint32_t checksum; // CRC-32C of the fields above and the data
};

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint32_t header_size(const struct tern_flash *flash)
{
    return round_up(sizeof(struct header), flash->program_size);
}

// Returns the bytes of a copy with `len` bytes of data, at most the region's size.
static uint32_t copy_size(const struct tern_flash *flash, uint32_t len)
{
    return header_size(flash) + round_up(len, flash->program_size);
}

static uint32_t checksum_fields(const struct header *header)
{
    return tern_crc32c(0, header, offsetof(struct header, checksum));
}

// --- Finding copies

// Reads the header at offset `at`. *whole: whether a valid copy starts there and ends at or before `end`.
static enum tern_result read_copy(const struct tern_flash *flash, uint32_t at, uint32_t end,
                                  struct header *header, bool *whole)
{
    uint8_t chunk[CHUNK];
    *whole = false;
    if (end - at < header_size(flash)) {
        return TERN_OK;
    }
    TERN_TRY(flash->read(flash->ctx, at, header, sizeof *header));
    if (header->magic != MAGIC || header->len > end - at ||
        copy_size(flash, header->len) > end - at) {
        return TERN_OK;
    }
    uint32_t checksum = checksum_fields(header);
    at += header_size(flash);
    for (uint32_t left = header->len; left > 0;) {
        const uint32_t n = left < CHUNK ? left : CHUNK;
        TERN_TRY(flash->read(flash->ctx, at, chunk, n));
        checksum = tern_crc32c(checksum, chunk, n);
        at += n;
        left -= n;
    }
    *whole = checksum == header->checksum;
    return TERN_OK;
}

static enum tern_result is_erased(const struct tern_flash *flash, uint32_t at, uint32_t end,
                                  bool *erased)
{
    uint8_t chunk[CHUNK];
    *erased = true;
    while (at < end && *erased) {
        const uint32_t n = end - at < CHUNK ? end - at : CHUNK;
        TERN_TRY(flash->read(flash->ctx, at, chunk, n));
        for (uint32_t i = 0; i < n; i++) {
            *erased = *erased && chunk[i] == 0xff;
        }
        at += n;
    }
    return TERN_OK;
}

static void use_copy(const struct tern_flash *flash, uint32_t at, const struct header *header,
                     struct tern_flash_record *record)
{
    record->data = at + header_size(flash);
    record->len = header->len;
    record->sequence = header->sequence;
    record->erased = header->erased;
    record->next = at + copy_size(flash, header->len);
}

// Searches a slot for copies, and makes the newest one the record's if it is newer than the record's. Tries every unit, because
// the length in a damaged copy is not reliable. If the bytes after the newest copy are not erased, a save was interrupted, and
// the slot counts as full.
static enum tern_result find_newest(const struct tern_flash *flash, uint32_t slot,
                                    struct tern_flash_record *record)
{
    const uint32_t end = slot + record->size;
    const uint32_t before = record->sequence;
    struct header header;
    for (uint32_t at = slot; at < end;) {
        bool whole = false;
        TERN_TRY(read_copy(flash, at, end, &header, &whole));
        if (whole && header.sequence > record->sequence) {
            use_copy(flash, at, &header, record);
            at = record->next;
        } else {
            at += flash->program_size;
        }
    }
    if (record->sequence == before) {
        return TERN_OK;
    }
    bool erased = false;
    TERN_TRY(is_erased(flash, record->next, end, &erased));
    record->slot = slot;
    record->next = erased ? record->next : end;
    return TERN_OK;
}

// --- Saving

// Collects bytes until they fill the units of a chunk, which are then programmed together.
struct writer {
    const struct tern_flash *flash;
    uint32_t at;
    uint32_t fill;
    uint8_t chunk[CHUNK];
};

// Programs the buffered bytes; the remaining bytes of the last unit stay erased.
static enum tern_result flush(struct writer *writer)
{
    const uint32_t n = round_up(writer->fill, writer->flash->program_size);
    if (n == 0) {
        return TERN_OK;
    }
    memset(writer->chunk + writer->fill, 0xff, n - writer->fill);
    TERN_TRY(writer->flash->program(writer->flash->ctx, writer->at, writer->chunk, n));
    writer->at += n;
    writer->fill = 0;
    return TERN_OK;
}

static enum tern_result put(struct writer *writer, const uint8_t *src, size_t len)
{
    while (len > 0) {
        const size_t room = CHUNK - writer->fill;
        const size_t n = len < room ? len : room;
        memcpy(writer->chunk + writer->fill, src, n);
        writer->fill += (uint32_t)n;
        src += n;
        len -= n;
        if (writer->fill == CHUNK) {
            TERN_TRY(flush(writer));
        }
    }
    return TERN_OK;
}

// Programs a copy at `at`, the header last, and verifies it.
static enum tern_result write_copy(const struct tern_flash *flash, uint32_t at,
                                   struct header *header, const struct tern_store_part *parts,
                                   size_t part_count)
{
    struct writer writer = {.flash = flash, .at = at + header_size(flash)};
    header->checksum = checksum_fields(header);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].len > 0) {
            header->checksum = tern_crc32c(header->checksum, parts[i].data, parts[i].len);
            TERN_TRY(put(&writer, parts[i].data, parts[i].len));
        }
    }
    TERN_TRY(flush(&writer));
    const uint32_t end = writer.at;
    writer.at = at;
    TERN_TRY(put(&writer, (const uint8_t *)header, sizeof *header));
    TERN_TRY(flush(&writer));
    struct header found;
    bool whole = false;
    TERN_TRY(read_copy(flash, at, end, &found, &whole));
    return whole && found.checksum == header->checksum ? TERN_OK : TERN_ERR_IO;
}

static enum tern_result erase_slot(const struct tern_flash *flash, uint32_t slot, uint32_t size)
{
    for (uint32_t at = slot; at < slot + size; at += flash->block_size) {
        TERN_TRY(flash->erase(flash->ctx, at));
    }
    return TERN_OK;
}

static enum tern_result save_to(const struct tern_flash *flash, struct tern_flash_record *record,
                                uint32_t len, const struct tern_store_part *parts,
                                size_t part_count)
{
    const uint32_t copy = copy_size(flash, len);
    const bool fits = record->slot + record->size - record->next >= copy;
    const uint32_t other =
        record->slot == record->start ? record->start + record->size : record->start;
    const uint32_t slot = fits ? record->slot : other;
    const uint32_t at = fits ? record->next : other;
    struct header header = {.magic = MAGIC, .sequence = record->sequence + 1, .len = len};
    header.erased = record->erased + (fits ? 0 : 1);
    // If this save fails, the slot counts as full, because it may contain some bytes of the copy.
    record->next = record->slot + record->size;
    if (!fits) {
        TERN_TRY(erase_slot(flash, other, record->size));
    }
    TERN_TRY(write_copy(flash, at, &header, parts, part_count));
    record->slot = slot;
    use_copy(flash, at, &header, record);
    return TERN_OK;
}

static enum tern_result save(void *ctx, enum tern_record which, const struct tern_store_part *parts,
                             size_t part_count)
{
    struct tern_flash_store *store = ctx;
    struct tern_flash_record *record = &store->records[which];
    size_t len = 0;
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].len > record->size - len) {
            return TERN_ERR_NO_SPACE;
        }
        len += parts[i].len;
    }
    if (copy_size(store->flash, (uint32_t)len) > record->size) {
        return TERN_ERR_NO_SPACE;
    }
    return save_to(store->flash, record, (uint32_t)len, parts, part_count);
}

// --- Loading

static enum tern_result load(void *ctx, enum tern_record which, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct tern_flash_store *store = ctx;
    const struct tern_flash_record *record = &store->records[which];
    if (record->sequence == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *record_len = record->len;
    if (offset > record->len || len > record->len - offset) {
        return TERN_ERR_CORRUPT;
    }
    if (len == 0) {
        return TERN_OK;
    }
    return store->flash->read(store->flash->ctx, record->data + (uint32_t)offset, dst, len);
}

enum tern_result tern_flash_store_open(struct tern_flash_store *store,
                                       const struct tern_flash *flash,
                                       const uint32_t sizes[TERN_RECORD_COUNT])
{
    uint32_t start = 0;
    const uint32_t unit = flash->program_size;
    if (unit == 0 || unit > TERN_FLASH_UNIT_MAX || (unit & (unit - 1)) != 0) {
        return TERN_ERR_ARGUMENT;
    }
    store->flash = flash;
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        struct tern_flash_record *record = &store->records[layout[i]];
        const uint32_t most = sizes[layout[i]];
        const uint32_t left = flash->size - start;
        const uint32_t size = most == 0 ? 0 : round_up(copy_size(flash, most), flash->block_size);
        if (most > left / 2 || size > left / 2) {
            return TERN_ERR_NO_SPACE;
        }
        // Without a valid copy the first slot counts as full.
        *record = (struct tern_flash_record){start, size, start, start + size, 0, 0, 0, 0};
        TERN_TRY(find_newest(flash, start, record));
        TERN_TRY(find_newest(flash, start + size, record));
        start += 2 * size;
    }
    return TERN_OK;
}

uint32_t tern_flash_store_wear(const struct tern_flash_store *store)
{
    uint32_t most = 0;
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        const uint32_t erased = store->records[i].erased;
        most = erased > most ? erased : most;
    }
    return (most + 1) / 2; // the two slots are erased in turn
}

struct tern_store tern_flash_store_port(struct tern_flash_store *store)
{
    return (struct tern_store){.ctx = store, .save = save, .load = load};
}
