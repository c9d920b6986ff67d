// The record in which a gateway keeps error buffer, pending update and the newest round below that is in them, as any bytes
// that a disk may give back. The first two bytes of the input are a length and an offset to read at, the next four a round of
// the database.
#include "relay/internal.h"
#include "util/bytes.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 6u

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// What the record asks of the client.
enum tern_client_phase tern_client_phase(const struct tern_client *client)
{
    (void)client;
    return TERN_PHASE_ENCODE;
}

// --- A disk

struct disk {
    uint8_t *bytes;
    size_t len;
};

static enum tern_result load(void *ctx, enum tern_record record, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct disk *disk = ctx;
    require(record == TERN_RECORD_UPLOAD);
    if (offset > disk->len || len > disk->len - offset) {
        return TERN_ERR_CORRUPT;
    }
    if (len > 0) {
        memcpy(dst, disk->bytes + offset, len);
    }
    *record_len = disk->len;
    return TERN_OK;
}

static enum tern_result save(void *ctx, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    struct disk *disk = ctx;
    size_t len = 0;
    require(record == TERN_RECORD_UPLOAD);
    for (size_t i = 0; i < part_count; i++) {
        len += parts[i].len;
    }
    uint8_t *bytes = malloc(len + 1);
    size_t at = 0;
    require(bytes != NULL);
    for (size_t i = 0; i < part_count; i++) {
        memcpy(bytes + at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    free(disk->bytes);
    *disk = (struct disk){bytes, len};
    return TERN_OK;
}

// --- What a start does, and an encoding

static void read_at(struct relay_records *records, size_t len, size_t offset)
{
    const struct tern_store port = tern_relay_records_port(records);
    const struct disk *disk = records->files.ctx;
    uint8_t dst[256];
    size_t record_len = 0;
    const size_t shown = disk->len - 8; // behind the client's own bytes the gateway's stand
    const enum tern_result result =
        port.load(port.ctx, TERN_RECORD_UPLOAD, offset, dst, len, &record_len);
    require((result == TERN_OK) == (offset + len <= shown));
    require(result != TERN_OK || record_len == shown);
    require(result != TERN_OK || len == 0 || memcmp(dst, disk->bytes + offset, len) == 0);
}

static void encode(struct relay_records *records, const uint8_t *data, size_t size)
{
    const struct tern_store port = tern_relay_records_port(records);
    const struct tern_store_part part = {data, size};
    struct relay_records again = {.included = 0};
    records->pending_included = records->included + 1;
    require(port.save(port.ctx, TERN_RECORD_UPLOAD, &part, 1) == TERN_OK);
    require(records->included == records->pending_included);
    require(tern_relay_records_open(&again, records->files) == TERN_OK);
    require(again.included == records->included);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct disk disk = {NULL, 0};
    struct relay_records records = {.included = 7};
    if (size < HEAD) {
        return 0;
    }
    const uint32_t newest = tern_get_le32(data + 2);
    disk.len = size - HEAD;
    disk.bytes = malloc(disk.len + 1);
    require(disk.bytes != NULL);
    memcpy(disk.bytes, data + HEAD, disk.len);
    const struct tern_store files = {.ctx = &disk, .save = save, .load = load};
    const enum tern_result result = tern_relay_records_open(&records, files);
    require(result == TERN_OK || result == TERN_ERR_CORRUPT);
    if (result == TERN_OK) {
        read_at(&records, data[0], data[1]);
        require(tern_relay_records_limit(&records, newest) == TERN_OK);
        require(records.included <= newest);
        encode(&records, data, size);
    } else {
        require(records.included == 0);
    }
    free(disk.bytes);
    return 0;
}
