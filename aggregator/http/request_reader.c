// http_parser runs until one of two pauses: after the headers, where the request is judged, and
// after the message. Everything between belongs to tern_reader_feed(), so that a push parser reads
// like straight code.
#include "http/request_reader.h"
#include <ctype.h>
#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A refused body up to this size is read and dropped; a reconnect costs the peer about as much.
#define DISCARD_MAX 16384u

// First size of a body buffer. A peer must send bytes to make it larger, whatever it announces.
#define BODY_FIRST 4096u

enum field { FIELD_OTHER, FIELD_AUTHORIZATION, FIELD_RANGE, FIELD_EXPECT };

struct tern_request_reader {
    struct tern_reader_config config;
    http_parser parser;
    struct tern_http_request request;
    uint64_t content_length;
    uint32_t body_limit; // of this request, at most config.body_bytes
    int status;          // 0 until refused
    bool head_done;
    bool complete;
    bool keeps_alive;
    bool discards;
    bool expects; // "Expect: 100-continue" and no body byte yet

    // The header being read. Longer names and values than these are none that matter here.
    bool in_value;
    enum field field;
    size_t name_len;
    size_t value_len;
    char name[16];
    char value[40];

    uint32_t head_len; // bytes taken of the request line and headers
    bool target_done;  // text holds the whole request target
    char *authorization;
    uint8_t *body;
    size_t body_size;
    size_t text_len;
    char text[]; // request target, then Authorization; both NUL-terminated
};

// The first reason to refuse stands; but what is malformed is that before anything else, because
// the connection cannot go on behind it.
static void object(struct tern_request_reader *reader, int status)
{
    if (reader->status == 0 || status == 400) {
        reader->status = status;
    }
}

// --- Text ------------------------------------------------------------------------------------

// Never overflows: target and value are parts of the head, whose length is checked first, and the
// head has more bytes around them than the two NULs.
static void text_append(struct tern_request_reader *reader, const char *at, size_t len)
{
    memcpy(reader->text + reader->text_len, at, len);
    reader->text_len += len;
}

static void text_end(struct tern_request_reader *reader)
{
    reader->text[reader->text_len++] = '\0';
}

static void trim_end(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t')) {
        text[--len] = '\0';
    }
}

// --- Headers ---------------------------------------------------------------------------------

static enum field field_of(const struct tern_request_reader *reader)
{
    static const struct {
        const char *name;
        enum field field;
    } known[] = {
        {"authorization", FIELD_AUTHORIZATION},
        {"range", FIELD_RANGE},
        {"expect", FIELD_EXPECT},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (reader->name_len == strlen(known[i].name) &&
            strncasecmp(reader->name, known[i].name, reader->name_len) == 0) {
            return known[i].field;
        }
    }
    return FIELD_OTHER;
}

// Only "bytes=N-" is taken. Any other range is ignored, which RFC 9110 14.2 allows: the whole body
// is a right answer to it.
static uint64_t range_from(const char *value)
{
    if (strncasecmp(value, "bytes=", 6) != 0 || !isdigit((unsigned char)value[6])) {
        return 0;
    }
    uint64_t from = 0;
    const char *at = value + 6;
    for (; isdigit((unsigned char)*at); at++) {
        if (from > (UINT64_MAX - 9) / 10) {
            return 0;
        }
        from = from * 10 + (uint64_t)(*at - '0');
    }
    return strcmp(at, "-") == 0 ? from : 0;
}

static void end_header(struct tern_request_reader *reader)
{
    if (!reader->in_value) {
        return;
    }
    reader->in_value = false;
    reader->name_len = 0;
    if (reader->field == FIELD_AUTHORIZATION) {
        text_end(reader);
        trim_end(reader->authorization);
        reader->request.authorization = reader->authorization;
        return;
    }
    bool whole = reader->value_len < sizeof reader->value;
    reader->value[whole ? reader->value_len : 0] = '\0';
    trim_end(reader->value);
    if (reader->field == FIELD_RANGE) {
        reader->request.range_from = range_from(reader->value);
    } else if (reader->field == FIELD_EXPECT) {
        reader->expects = strcasecmp(reader->value, "100-continue") == 0;
        if (!reader->expects) {
            object(reader, 417);
        }
    }
}

static void end_target(struct tern_request_reader *reader)
{
    if (!reader->target_done) {
        reader->target_done = true;
        text_end(reader);
    }
}

static void begin_value(struct tern_request_reader *reader)
{
    reader->in_value = true;
    reader->field = field_of(reader);
    reader->value_len = 0;
    if (reader->field != FIELD_AUTHORIZATION) {
        return;
    }
    if (reader->authorization != NULL) {
        object(reader, 400); // two credentials: which one counts must not be a matter of taste
    }
    reader->authorization = reader->text + reader->text_len;
}

// --- http_parser's callbacks -----------------------------------------------------------------

// Debian builds http_parser in its lenient mode, which lets white space into names and targets; a
// proxy before us could understand such a request in another way.
static void refuse_blanks(struct tern_request_reader *reader, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)at[i];
        if (byte <= ' ' || byte == 0x7f) {
            object(reader, 400);
        }
    }
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    refuse_blanks(parser->data, at, len);
    text_append(parser->data, at, len);
    return 0;
}

static int on_header_field(http_parser *parser, const char *at, size_t len)
{
    struct tern_request_reader *reader = parser->data;
    if (reader->head_done) {
        return 0; // a trailer
    }
    end_target(reader);
    end_header(reader);
    refuse_blanks(reader, at, len);
    size_t room = sizeof reader->name - reader->name_len;
    memcpy(reader->name + reader->name_len, at, len < room ? len : room);
    reader->name_len += len < room ? len : room;
    return 0;
}

static int on_header_value(http_parser *parser, const char *at, size_t len)
{
    struct tern_request_reader *reader = parser->data;
    if (reader->head_done) {
        return 0;
    }
    if (!reader->in_value) {
        begin_value(reader);
    }
    if (reader->field == FIELD_AUTHORIZATION) {
        text_append(reader, at, len);
        return 0;
    }
    size_t room = sizeof reader->value - reader->value_len;
    memcpy(reader->value + reader->value_len, at, len < room ? len : room);
    reader->value_len += len < room ? len : room;
    return 0;
}

static int on_headers_complete(http_parser *parser)
{
    struct tern_request_reader *reader = parser->data;
    end_target(reader);
    end_header(reader);
    reader->head_done = true;
    http_parser_pause(parser, 1);
    return 0;
}

// Makes room for need bytes. The announced length only ever lowers what is taken.
static bool grow_body(struct tern_request_reader *reader, size_t need)
{
    if (need <= reader->body_size) {
        return true;
    }
    size_t size = reader->body_size == 0 ? BODY_FIRST : reader->body_size * 2;
    size = size < need ? need : size;
    if (reader->content_length >= need && size > reader->content_length) {
        size = (size_t)reader->content_length;
    }
    uint8_t *body = realloc(reader->body, size);
    if (body == NULL) {
        return false;
    }
    reader->body = body;
    reader->body_size = size;
    return true;
}

static int on_body(http_parser *parser, const char *at, size_t len)
{
    struct tern_request_reader *reader = parser->data;
    reader->expects = false;
    if (reader->discards) {
        return 0;
    }
    size_t have = reader->request.body_len;
    if (len > reader->body_limit - have) {
        object(reader, 413);
        return 1;
    }
    if (!grow_body(reader, have + len)) {
        object(reader, 503);
        return 1;
    }
    memcpy(reader->body + have, at, len);
    reader->request.body = reader->body;
    reader->request.body_len = have + len;
    return 0;
}

static int on_message_complete(http_parser *parser)
{
    struct tern_request_reader *reader = parser->data;
    reader->complete = true;
    http_parser_pause(parser, 1);
    return 0;
}

static const http_parser_settings SETTINGS = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

// --- Judging ---------------------------------------------------------------------------------

static enum tern_result result_of(int status)
{
    switch (status) {
    case 400:
        return TERN_ERR_CORRUPT;
    case 413:
    case 414:
    case 431:
        return TERN_ERR_TOO_LARGE;
    case 503:
        return TERN_ERR_BUSY;
    default:
        return TERN_ERR_HTTP;
    }
}

static enum tern_result refuse(struct tern_request_reader *reader, int status)
{
    reader->status = status;
    return result_of(status);
}

// Ends the path where its query begins and returns that, without a fragment.
static const char *cut_query(char *path)
{
    char *end = path + strcspn(path, "?#");
    const bool has_query = *end == '?';
    *end = '\0';
    if (!has_query) {
        return "";
    }
    end[1 + strcspn(end + 1, "#")] = '\0';
    return end + 1;
}

// The path and query of the target "/a?b", of "http://host/a?b", or "*".
static void cut_path(struct tern_request_reader *reader)
{
    char *path = reader->text;
    struct http_parser_url url;
    http_parser_url_init(&url);
    if (*path != '/' && *path != '*') {
        bool parsed = http_parser_parse_url(path, strlen(path), 0, &url) == 0;
        bool found = parsed && (url.field_set & (1u << UF_PATH)) != 0;
        path = found ? path + url.field_data[UF_PATH].off : NULL;
    }
    reader->request.query = path != NULL ? cut_query(path) : "";
    reader->request.path = path != NULL ? path : "/";
}

static uint64_t announced_length(const http_parser *parser)
{
    if ((parser->flags & F_CHUNKED) != 0) {
        return UINT64_MAX;
    }
    return (parser->flags & F_CONTENTLENGTH) != 0 ? parser->content_length : 0;
}

static int judge_status(struct tern_request_reader *reader)
{
    if (reader->status != 0) {
        return reader->status;
    }
    if (reader->parser.http_major != 1) {
        return 505;
    }
    if (reader->parser.method == HTTP_CONNECT) {
        return 405;
    }
    uint64_t length = reader->content_length;
    if (reader->config.admit != NULL) {
        uint32_t limit = reader->config.body_bytes;
        int status = reader->config.admit(reader->config.ctx, &reader->request, length, &limit);
        reader->body_limit = limit < reader->body_limit ? limit : reader->body_limit;
        if (status != 0) {
            return status;
        }
    }
    return length != UINT64_MAX && length > reader->body_limit ? 413 : 0;
}

// Decides about the request once its headers are known. A refused one with a short body may stay
// on its connection; not so when the peer waits for "100 Continue", which might send it or not.
static enum tern_result judge(struct tern_request_reader *reader)
{
    http_parser *parser = &reader->parser;
    parser->upgrade = 0; // other protocols are never spoken; the request is answered as it stands
    reader->request.method = http_method_str((enum http_method)parser->method);
    reader->content_length = announced_length(parser);
    reader->keeps_alive = parser->http_minor >= 1 && http_should_keep_alive(parser) != 0;
    reader->expects = reader->expects && parser->http_minor >= 1 && reader->content_length > 0;
    cut_path(reader);
    int status = judge_status(reader);
    if (status == 0) {
        return TERN_OK;
    }
    reader->discards = status != 400 && status != 505 && parser->method != HTTP_CONNECT &&
                       reader->keeps_alive && !reader->expects &&
                       reader->content_length <= DISCARD_MAX;
    return refuse(reader, status);
}

static int status_of_error(const struct tern_request_reader *reader)
{
    switch ((int)HTTP_PARSER_ERRNO(&reader->parser)) {
    case HPE_CB_body: // on_body said why
        return reader->status;
    case HPE_HEADER_OVERFLOW: // trailers, or a limit above the parser's own
        return 431;
    default:
        return 400;
    }
}

// --- Public ----------------------------------------------------------------------------------

struct tern_request_reader *tern_reader_new(const struct tern_reader_config *config)
{
    struct tern_request_reader *reader =
        calloc(1, sizeof *reader + (size_t)config->header_bytes + 2);
    if (reader == NULL) {
        return NULL;
    }
    reader->config = *config;
    reader->body_limit = config->body_bytes;
    reader->request.method = "";
    reader->request.path = "";
    reader->request.query = "";
    reader->request.authorization = "";
    reader->request.peer = config->peer;
    reader->request.psk_client = config->psk_client;
    reader->request.address = config->address;
    http_parser_init(&reader->parser, HTTP_REQUEST);
    reader->parser.data = reader;
    return reader;
}

void tern_reader_free(struct tern_request_reader *reader)
{
    if (reader != NULL) {
        free(reader->body);
        free(reader);
    }
}

// One run of the parser: never past the header limit while the headers last.
static size_t run(struct tern_request_reader *reader, const uint8_t *data, size_t len)
{
    bool head = !reader->head_done;
    size_t room = reader->config.header_bytes - reader->head_len;
    size_t part = head && len > room ? room : len;
    size_t used = http_parser_execute(&reader->parser, &SETTINGS, (const char *)data, part);
    if (head) {
        reader->head_len += (uint32_t)used;
    }
    return used;
}

enum tern_result tern_reader_feed(struct tern_request_reader *reader, const uint8_t *data,
                                  size_t len, size_t *used)
{
    *used = 0;
    while (*used < len) {
        if (!reader->head_done && reader->head_len == reader->config.header_bytes) {
            return refuse(reader, reader->target_done ? 431 : 414);
        }
        bool head = !reader->head_done;
        *used += run(reader, data + *used, len - *used);
        enum http_errno error = HTTP_PARSER_ERRNO(&reader->parser);
        if (error != HPE_OK && error != HPE_PAUSED) {
            int status = status_of_error(reader);
            reader->discards = false;
            return refuse(reader, status);
        }
        http_parser_pause(&reader->parser, 0);
        if (reader->complete) {
            return TERN_OK;
        }
        if (head && reader->head_done) {
            TERN_TRY(judge(reader));
        }
    }
    return TERN_AGAIN;
}

int tern_reader_status(const struct tern_request_reader *reader)
{
    return reader->status;
}

bool tern_reader_reusable(const struct tern_request_reader *reader)
{
    return reader->discards;
}

bool tern_reader_waits(const struct tern_request_reader *reader)
{
    return reader->head_done && reader->expects && reader->status == 0;
}

bool tern_reader_keeps_alive(const struct tern_request_reader *reader)
{
    return reader->keeps_alive;
}

const struct tern_http_request *tern_reader_request(const struct tern_request_reader *reader)
{
    return &reader->request;
}
