// The parser runs until one of two stops: after the headers, where the request is judged, and after
// the message. Everything between belongs to tern_reader_feed(), so that a push parser reads like
// straight code.
#include "http/request_reader.h"
#include "http/parser/parser.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A refused body up to this size is read and dropped; a reconnect costs the peer about as much.
#define DISCARD_MAX 16384u

enum field { FIELD_OTHER, FIELD_AUTHORIZATION, FIELD_RANGE, FIELD_EXPECT };

struct tern_request_reader {
    struct tern_reader_config config;
    struct tern_parser *parser;
    struct tern_http_request request;
    uint64_t content_length;
    uint32_t body_limit; // of this request, at most config.body_bytes
    int status;          // 0 until refused
    bool head_done;
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
    struct tern_body body;
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

// --- Text

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

// --- Headers

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
    uint64_t from = 0;
    if (strncasecmp(value, "bytes=", 6) != 0) {
        return 0;
    }
    const char *end = tern_get_decimal(value + 6, &from);
    return strcmp(end, "-") == 0 ? from : 0;
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

// --- The parser's events

// Debian builds http_parser in its lenient mode, which lets white space into names and targets; a
// proxy before us could understand such a request in another way. llhttp lets none in.
static void refuse_blanks(struct tern_request_reader *reader, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)at[i];
        if (byte <= ' ' || byte == 0x7f) {
            object(reader, 400);
        }
    }
}

static void on_target(void *ctx, const char *at, size_t len)
{
    refuse_blanks(ctx, at, len);
    text_append(ctx, at, len);
}

static void on_name(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    if (reader->head_done) {
        return; // a trailer
    }
    end_target(reader);
    end_header(reader);
    refuse_blanks(reader, at, len);
    size_t room = sizeof reader->name - reader->name_len;
    memcpy(reader->name + reader->name_len, at, len < room ? len : room);
    reader->name_len += len < room ? len : room;
}

static void on_value(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    if (reader->head_done) {
        return;
    }
    if (!reader->in_value) {
        begin_value(reader);
    }
    if (reader->field == FIELD_AUTHORIZATION) {
        text_append(reader, at, len);
        return;
    }
    size_t room = sizeof reader->value - reader->value_len;
    memcpy(reader->value + reader->value_len, at, len < room ? len : room);
    reader->value_len += len < room ? len : room;
}

// What the body will have at most: the announced length only ever lowers it.
static size_t body_most(const struct tern_request_reader *reader)
{
    return reader->content_length < reader->body_limit ? (size_t)reader->content_length
                                                       : reader->body_limit;
}

static bool on_body(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    reader->expects = false;
    if (reader->discards) {
        return true;
    }
    if (len > reader->body_limit - reader->body.len) {
        object(reader, 413);
        return false;
    }
    if (!tern_body_append(&reader->body, at, len, body_most(reader))) {
        object(reader, 503);
        return false;
    }
    reader->request.body_len = reader->body.len;
    return true;
}

static const struct tern_parser_events EVENTS = {
    .target = on_target,
    .name = on_name,
    .value = on_value,
    .body = on_body,
};

// --- Judging

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

// The path of "http://host/path", NULL when there is none.
static char *path_behind_host(char *target)
{
    char *host = strstr(target, "://");
    char *end = host != NULL ? host + 3 + strcspn(host + 3, "/?#") : NULL;
    return end != NULL && *end == '/' ? end : NULL;
}

// The path and query of the target "/a?b", of "http://host/a?b", or "*".
static void cut_path(struct tern_request_reader *reader)
{
    char *path = reader->text;
    if (*path != '/' && *path != '*') {
        path = path_behind_host(path);
    }
    reader->request.query = path != NULL ? cut_query(path) : "";
    reader->request.path = path != NULL ? path : "/";
}

static int judge_status(struct tern_request_reader *reader, const struct tern_parser_head *head)
{
    if (reader->status != 0) {
        return reader->status;
    }
    if (head->major != 1) {
        return 505;
    }
    if (head->connects) {
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
    if (length == UINT64_MAX) { // its chunks tell
        return 0;
    }
    return length > reader->body_limit ? 413 : tern_body_fits(&reader->body, length) ? 0 : 503;
}

// Decides about the request once its headers are known. A refused one with a short body may stay
// on its connection; not so when the peer waits for "100 Continue", which might send it or not.
static enum tern_result judge(struct tern_request_reader *reader)
{
    const struct tern_parser_head head = tern_parser_head(reader->parser);
    end_target(reader);
    end_header(reader);
    reader->head_done = true;
    reader->request.method = head.method;
    reader->content_length = head.content_length;
    reader->keeps_alive = head.minor >= 1 && head.keeps_alive;
    reader->expects = reader->expects && head.minor >= 1 && reader->content_length > 0;
    cut_path(reader);
    int status = judge_status(reader, &head);
    if (status == 0) {
        return TERN_OK;
    }
    reader->discards = status != 400 && status != 505 && !head.connects && reader->keeps_alive &&
                       !reader->expects && reader->content_length <= DISCARD_MAX;
    return refuse(reader, status);
}

// --- Public

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
    reader->parser = tern_parser_new(&EVENTS, reader);
    if (reader->parser == NULL) {
        free(reader);
        return NULL;
    }
    tern_body_init(&reader->body, config->room);
    return reader;
}

void tern_reader_free(struct tern_request_reader *reader)
{
    if (reader != NULL) {
        tern_parser_free(reader->parser);
        tern_body_free(&reader->body);
        free(reader);
    }
}

// One run of the parser: never past the header limit while the headers last.
static enum tern_parser_stop run(struct tern_request_reader *reader, const uint8_t *data,
                                 size_t len, size_t *used)
{
    bool head = !reader->head_done;
    size_t room = reader->config.header_bytes - reader->head_len;
    size_t part = head && len > room ? room : len;
    size_t taken = 0;
    enum tern_parser_stop stop = tern_parser_run(reader->parser, (const char *)data, part, &taken);
    reader->head_len += head ? (uint32_t)taken : 0;
    *used += taken;
    return stop;
}

static enum tern_result complete(struct tern_request_reader *reader)
{
    reader->request.body = tern_body_view(&reader->body);
    return reader->request.body != NULL || reader->body.len == 0 ? TERN_OK : refuse(reader, 503);
}

static enum tern_result after(struct tern_request_reader *reader, enum tern_parser_stop stop)
{
    switch (stop) {
    case TERN_PARSER_AGAIN:
        return TERN_AGAIN;
    case TERN_PARSER_HEAD: {
        const enum tern_result result = judge(reader);
        return result == TERN_OK ? TERN_AGAIN : result;
    }
    case TERN_PARSER_COMPLETE:
        return complete(reader);
    case TERN_PARSER_UNWANTED: // on_body said why
        reader->discards = false;
        return refuse(reader, reader->status);
    case TERN_PARSER_TOO_LONG:
        reader->discards = false;
        return refuse(reader, 431);
    case TERN_PARSER_MALFORMED:
    default:
        reader->discards = false;
        return refuse(reader, 400);
    }
}

enum tern_result tern_reader_feed(struct tern_request_reader *reader, const uint8_t *data,
                                  size_t len, size_t *used)
{
    enum tern_result result = TERN_AGAIN;
    *used = 0;
    while (result == TERN_AGAIN && *used < len) {
        if (!reader->head_done && reader->head_len == reader->config.header_bytes) {
            return refuse(reader, reader->target_done ? 431 : 414);
        }
        result = after(reader, run(reader, data + *used, len - *used, used));
    }
    return result;
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

void tern_reader_rest(const struct tern_request_reader *reader)
{
    tern_body_rest(&reader->body);
}
