// The record with the error buffer and the pending update ends with a trailer: the number of the newest downstream
// round whose mean is in them. One write changes all three, so that a kill cannot separate them.
#include "relay/internal.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAILER 0x314b5247u // "GRK1"
#define TRAILER_SIZE 8u

static enum tern_result save(void *ctx, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    struct relay_records *records = ctx;
    const struct tern_store *files = &records->files;
    struct tern_store_part with_trailer[8];
    uint8_t trailer[TRAILER_SIZE];
    if (record != TERN_RECORD_UPLOAD) {
        return files->save(files->ctx, record, parts, part_count);
    }
    if (part_count >= sizeof with_trailer / sizeof with_trailer[0]) {
        return TERN_ERR_ARGUMENT;
    }
    const bool encodes = tern_client_phase(records->client) == TERN_PHASE_ENCODE;
    const uint32_t included = encodes ? records->pending_included : records->included;
    tern_put_le32(trailer, TRAILER);
    tern_put_le32(trailer + 4, included);
    memcpy(with_trailer, parts, part_count * sizeof *parts);
    with_trailer[part_count] = (struct tern_store_part){trailer, sizeof trailer};
    TERN_TRY(files->save(files->ctx, record, with_trailer, part_count + 1));
    records->included = included;
    return TERN_OK;
}

static enum tern_result load(void *ctx, enum tern_record record, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    struct relay_records *records = ctx;
    const struct tern_store *files = &records->files;
    TERN_TRY(files->load(files->ctx, record, offset, dst, len, record_len));
    if (record != TERN_RECORD_UPLOAD) {
        return TERN_OK;
    }
    if (*record_len < TRAILER_SIZE || offset + len > *record_len - TRAILER_SIZE) {
        return TERN_ERR_CORRUPT;
    }
    *record_len -= TRAILER_SIZE;
    return TERN_OK;
}

enum tern_result tern_relay_records_open(struct relay_records *records, struct tern_store files)
{
    uint8_t trailer[TRAILER_SIZE];
    size_t len = 0;
    records->files = files;
    records->included = 0;
    const enum tern_result found = files.load(files.ctx, TERN_RECORD_UPLOAD, 0, NULL, 0, &len);
    if (found == TERN_ERR_NOT_FOUND) {
        return TERN_OK;
    }
    TERN_TRY(found);
    if (len < TRAILER_SIZE) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(
        files.load(files.ctx, TERN_RECORD_UPLOAD, len - TRAILER_SIZE, trailer, TRAILER_SIZE, &len));
    if (tern_get_le32(trailer) != TRAILER) {
        return TERN_ERR_CORRUPT;
    }
    records->included = tern_get_le32(trailer + 4);
    return TERN_OK;
}

static enum tern_result write_trailer(struct relay_records *records, uint32_t included)
{
    const struct tern_store *files = &records->files;
    size_t len = 0;
    TERN_TRY(files->load(files->ctx, TERN_RECORD_UPLOAD, 0, NULL, 0, &len));
    uint8_t *record = malloc(len);
    if (record == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = files->load(files->ctx, TERN_RECORD_UPLOAD, 0, record, len, &len);
    if (result == TERN_OK) {
        tern_put_le32(record + len - TRAILER_SIZE + 4, included);
        const struct tern_store_part part = {record, len};
        result = files->save(files->ctx, TERN_RECORD_UPLOAD, &part, 1);
    }
    free(record);
    return result;
}

enum tern_result tern_relay_records_limit(struct relay_records *records, uint32_t newest)
{
    if (records->included <= newest) {
        return TERN_OK;
    }
    TERN_TRY(write_trailer(records, newest));
    records->included = newest;
    return TERN_OK;
}

struct tern_store tern_relay_records_port(struct relay_records *records)
{
    return (struct tern_store){.ctx = records, .save = save, .load = load};
}

// --- Small files beside the records
//
// A number for the format, the bytes of a struct as they are in this machine's memory, and a checksum.

#define HEAD 4u
#define TAIL 4u

static void path_of(const char *folder, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

enum tern_result tern_relay_file_write(const char *folder, const char *name, uint32_t format,
                                       const void *data, size_t len)
{
    char path[PATH_MAX];
    uint8_t file[RELAY_FILE_MAX];
    if (len > sizeof file - HEAD - TAIL) {
        return TERN_ERR_ARGUMENT;
    }
    tern_put_le32(file, format);
    memcpy(file + HEAD, data, len);
    tern_put_le32(file + HEAD + len, tern_crc32c(0, file, HEAD + len));
    path_of(folder, name, path);
    return tern_file_write(path, file, HEAD + len + TAIL, 0600);
}

enum tern_result tern_relay_file_read(const char *folder, const char *name, uint32_t format,
                                      void *data, size_t len)
{
    char path[PATH_MAX];
    uint8_t *file = NULL;
    size_t file_len = 0;
    path_of(folder, name, path);
    TERN_TRY(tern_file_read_regular(path, RELAY_FILE_MAX, &file, &file_len));
    const bool whole = file_len == HEAD + len + TAIL && tern_get_le32(file) == format &&
                       tern_get_le32(file + HEAD + len) == tern_crc32c(0, file, HEAD + len);
    if (whole) {
        memcpy(data, file + HEAD, len);
    }
    free(file);
    return whole ? TERN_OK : TERN_ERR_NOT_FOUND;
}
