#include "cli/event_file.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_MAX 256 // bytes; tags are short

// Numbers of fields in TensorFlow's event.proto and summary.proto.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };

// --- Records: length, checksum of the length, data, checksum of the data

static uint32_t masked_crc(const uint8_t *data, size_t len)
{
    const uint32_t crc = tern_crc32c(0, data, len);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void write_record(struct tern_event_file *file, const uint8_t *data, size_t len)
{
    uint8_t head[12];
    uint8_t tail[4];
    tern_put_le64(head, len);
    tern_put_le32(head + 8, masked_crc(head, 8));
    tern_put_le32(tail, masked_crc(data, len));
    if (fwrite(head, sizeof head, 1, file->stream) != 1 ||
        fwrite(data, len, 1, file->stream) != 1 ||
        fwrite(tail, sizeof tail, 1, file->stream) != 1) {
        file->result = TERN_ERR_NO_MEMORY;
    }
}

// --- Messages

static bool put_string(pb_ostream_t *out, uint32_t field, const char *text)
{
    return pb_encode_tag(out, PB_WT_STRING, field) &&
           pb_encode_string(out, (const pb_byte_t *)text, strlen(text));
}

static bool put_double(pb_ostream_t *out, uint32_t field, double value)
{
    return pb_encode_tag(out, PB_WT_64BIT, field) && pb_encode_fixed64(out, &value);
}

static bool put_float(pb_ostream_t *out, uint32_t field, float value)
{
    return pb_encode_tag(out, PB_WT_32BIT, field) && pb_encode_fixed32(out, &value);
}

static bool put_summary(pb_ostream_t *out, const char *tag, double value)
{
    pb_byte_t bytes[EVENT_MAX];
    pb_ostream_t inner = pb_ostream_from_buffer(bytes, sizeof bytes);
    pb_byte_t around[EVENT_MAX];
    pb_ostream_t summary = pb_ostream_from_buffer(around, sizeof around);
    return put_string(&inner, VALUE_TAG, tag) &&
           put_float(&inner, VALUE_SIMPLE_VALUE, (float)value) &&
           pb_encode_tag(&summary, PB_WT_STRING, SUMMARY_VALUE) &&
           pb_encode_string(&summary, bytes, inner.bytes_written) &&
           pb_encode_tag(out, PB_WT_STRING, EVENT_SUMMARY) &&
           pb_encode_string(out, around, summary.bytes_written);
}

void tern_event_file_begin(struct tern_event_file *file, uint64_t wall_ms)
{
    pb_byte_t event[EVENT_MAX];
    pb_ostream_t out = pb_ostream_from_buffer(event, sizeof event);
    *file = (struct tern_event_file){.result = TERN_OK};
    file->stream = open_memstream(&file->bytes, &file->len);
    if (file->stream == NULL || !put_double(&out, EVENT_WALL_TIME, (double)wall_ms / 1e3) ||
        !put_string(&out, EVENT_FILE_VERSION, "brain.Event:2")) {
        file->result = TERN_ERR_NO_MEMORY;
        return;
    }
    write_record(file, event, out.bytes_written);
}

void tern_event_file_add(struct tern_event_file *file, uint64_t wall_ms, uint32_t step,
                         const char *tag, double value)
{
    pb_byte_t event[EVENT_MAX];
    pb_ostream_t out = pb_ostream_from_buffer(event, sizeof event);
    if (file->result != TERN_OK) {
        return;
    }
    if (!put_double(&out, EVENT_WALL_TIME, (double)wall_ms / 1e3) ||
        !pb_encode_tag(&out, PB_WT_VARINT, EVENT_STEP) || !pb_encode_varint(&out, step) ||
        !put_summary(&out, tag, value)) {
        file->result = TERN_ERR_TOO_LARGE;
        return;
    }
    write_record(file, event, out.bytes_written);
}

// What all of it was, with the bytes still held.
static enum tern_result close_stream(struct tern_event_file *file)
{
    const bool closed = file->stream == NULL || fclose(file->stream) == 0;
    file->stream = NULL;
    return closed ? file->result : TERN_ERR_NO_MEMORY;
}

void tern_event_file_drop(struct tern_event_file *file)
{
    (void)close_stream(file);
    free(file->bytes);
    file->bytes = NULL;
}

enum tern_result tern_event_file_write(struct tern_event_file *file, const char *path)
{
    TERN_TRY(close_stream(file));
    return tern_file_write(path, file->bytes, file->len, 0644);
}
