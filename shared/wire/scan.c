#include "wire/scan.h"
#include "util/utf8.h"
#include <pb_common.h>
#include <pb_decode.h>

struct scan {
    struct tern_span *container;
};

static bool scan_message(struct scan *scan, pb_istream_t *stream, const pb_msgdesc_t *fields,
                         void *message);

// Takes a length-delimited field out of the stream. A stream made by pb_istream_from_buffer() keeps
// its position in `state`, which is how the bytes are borrowed instead of copied.
static bool take_span(pb_istream_t *stream, struct tern_span *span)
{
    uint32_t len;
    if (!pb_decode_varint32(stream, &len) || len > stream->bytes_left) {
        return false;
    }
    span->data = stream->state;
    span->len = len;
    return pb_read(stream, NULL, len);
}

// Scans a field that both ends know. Messages nest three deep at most: the depth is that of the
// schema, so no input can make it deeper.
static bool scan_known(struct scan *scan, pb_istream_t *stream, pb_wire_type_t wire_type,
                       const pb_field_iter_t *field)
{
    bool is_callback = PB_ATYPE(field->type) == PB_ATYPE_CALLBACK;
    bool is_text = PB_LTYPE(field->type) == PB_LTYPE_STRING;
    if (!is_callback && !is_text && !PB_LTYPE_IS_SUBMSG(field->type)) {
        return pb_skip_field(stream, wire_type);
    }
    struct tern_span span;
    if (wire_type != PB_WT_STRING || !take_span(stream, &span)) {
        return false;
    }
    if (is_callback) {
        *scan->container = span;
        return true;
    }
    if (is_text) {
        return tern_utf8_is_text((const char *)span.data, span.len);
    }
    pb_istream_t inner = pb_istream_from_buffer(span.data, span.len);
    return scan_message(scan, &inner, field->submsg_desc, field->pData);
}

// Notes that a field was seen; false when it may stand once and was seen before. Tags of known
// fields are below 32 (tern.proto).
static bool note_once(uint32_t *seen, const pb_field_iter_t *field)
{
    uint32_t bit = UINT32_C(1) << field->tag;
    if (PB_HTYPE(field->type) == PB_HTYPE_REPEATED) {
        return true;
    }
    bool first = (*seen & bit) == 0;
    *seen |= bit;
    return first;
}

static bool scan_field(struct scan *scan, pb_istream_t *stream, pb_field_iter_t *iter,
                       uint32_t *seen)
{
    pb_wire_type_t wire_type;
    uint32_t tag;
    bool eof;
    if (!pb_decode_tag(stream, &wire_type, &tag, &eof) || tag == 0) {
        return false;
    }
    if (!pb_field_iter_find(iter, tag)) {
        return pb_skip_field(stream, wire_type);
    }
    return note_once(seen, iter) && scan_known(scan, stream, wire_type, iter);
}

static bool scan_message(struct scan *scan, pb_istream_t *stream, const pb_msgdesc_t *fields,
                         void *message)
{
    pb_field_iter_t iter;
    uint32_t seen = 0;
    if (!pb_field_iter_begin(&iter, fields, message)) {
        return stream->bytes_left == 0;
    }
    while (stream->bytes_left > 0) {
        if (!scan_field(scan, stream, &iter, &seen)) {
            return false;
        }
    }
    return true;
}

enum tern_result tern_wire_scan(const uint8_t *src, size_t src_len, const pb_msgdesc_t *fields,
                                void *message, struct tern_span *container)
{
    struct tern_span none = {NULL, 0};
    struct scan scan = {container == NULL ? &none : container};
    *scan.container = none;
    pb_istream_t stream = pb_istream_from_buffer(src, src_len);
    return scan_message(&scan, &stream, fields, message) ? TERN_OK : TERN_ERR_CORRUPT;
}
