// The parser runs until one of two stops: after the headers, where the request is judged, and after
// the message. Everything between belongs to tern_reader_feed(), so that a push parser reads like
// straight code.
#include "http/request_reader.h"
#include "http/body.h"
#include "http/head_lines.h"
#include "http/parser/parser.h"
#include "util/bytes.h"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A refused body up to this size is read and dropped; a reconnect costs the peer about as much.
#define DISCARD_MAX 16384u

enum field {
    FIELD_OTHER,
    FIELD_AUTHORIZATION,
    FIELD_HOST,
    FIELD_COOKIE,
    FIELD_ORIGIN,
    FIELD_RANGE,
    FIELD_EXPECT,
    FIELD_CONTENT_LENGTH,
    FIELD_CONTENT_RANGE,
    FIELD_TRANSFER_ENCODING,
};

// "bytes FIRST-LAST/WHOLE"; all zero when absent.
struct content_range {
    uint64_t first;
    uint64_t last;
    uint64_t whole;
};

struct tern_request_reader {
    struct tern_reader_config config;
    struct tern_parser *parser;
    struct tern_head_lines lines;
    struct tern_http_request request;
    uint64_t content_length;
    struct content_range range;
    uint64_t total; // bytes of the body with those that came before
    struct tern_http_permit permit;
    int status; // 0 until refused
    bool head_done;
    bool keeps_alive;
    bool discards;
    bool expects; // "Expect: 100-continue" and no body byte yet

    // The header being read. Longer names and values than these are none that matter here.
    bool in_value;
    enum field field;
    size_t name_len;
    size_t value_len;
    char name[20];
    char value[40];

    char peer[INET6_ADDRSTRLEN];
    char certificate[TERN_HTTP_NAME_SIZE];
    uint32_t head_len; // bytes taken of the request line and headers
    bool target_done;  // text holds the whole request target
    bool has_length;   // a Content-Length was read
    bool has_coding;   // a Transfer-Encoding was read
    char *authorization;
    char *host;
    char *cookie;
    char *origin;
    struct tern_body body;            // unless it may outlive the connection: then
    struct tern_upload_writer upload; // until it is whole
    uint64_t received;                // bytes of it that came with this request
    size_t text_len;
    char text[]; // request target, then values that are kept as they come; NUL-terminated each
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
        {"host", FIELD_HOST},
        {"cookie", FIELD_COOKIE},
        {"origin", FIELD_ORIGIN},
        {"range", FIELD_RANGE},
        {"expect", FIELD_EXPECT},
        {"content-length", FIELD_CONTENT_LENGTH},
        {"content-range", FIELD_CONTENT_RANGE},
        {"transfer-encoding", FIELD_TRANSFER_ENCODING},
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

// The number that `at` begins with, in digits alone; returns what stands behind it and one `end`, NULL
// where that is not there.
static const char *number_before(const char *at, char end, uint64_t *number)
{
    const char *behind = at != NULL ? tern_get_decimal(at, number) : NULL;
    return behind != NULL && behind != at && *behind == end ? behind + 1 : NULL;
}

// Exactly the bytes that are left of a body (RFC 9110, 14.5): an end or a length that is not known
// would leave open what the body is.
static bool parse_content_range(const char *value, struct content_range *range)
{
    static const char unit[] = "bytes ";
    const bool in_bytes = strncmp(value, unit, sizeof unit - 1) == 0;
    const char *at = in_bytes ? value + sizeof unit - 1 : NULL;
    at = number_before(at, '-', &range->first);
    at = number_before(at, '/', &range->last);
    at = number_before(at, '\0', &range->whole);
    return at != NULL && range->first <= range->last && range->last < range->whole &&
           range->last + 1 == range->whole;
}

// Where a value goes that is kept whole; NULL for the others.
static char **kept_value(struct tern_request_reader *reader)
{
    switch (reader->field) {
    case FIELD_AUTHORIZATION:
        return &reader->authorization;
    case FIELD_HOST:
        return &reader->host;
    case FIELD_COOKIE:
        return &reader->cookie;
    case FIELD_ORIGIN:
        return &reader->origin;
    case FIELD_OTHER:
    case FIELD_RANGE:
    case FIELD_EXPECT:
    case FIELD_CONTENT_LENGTH:
    case FIELD_CONTENT_RANGE:
    case FIELD_TRANSFER_ENCODING:
        break;
    }
    return NULL;
}

// Digits and nothing else: libraries take a sign, a list or nothing at all for a number.
static bool is_length(const char *value)
{
    return *value != '\0' && value[strspn(value, "0123456789")] == '\0';
}

static void end_value(struct tern_request_reader *reader)
{
    switch (reader->field) {
    case FIELD_RANGE:
        reader->request.range_from = range_from(reader->value);
        break;
    case FIELD_EXPECT:
        reader->expects = strcasecmp(reader->value, "100-continue") == 0;
        if (!reader->expects) {
            object(reader, 417);
        }
        break;
    case FIELD_CONTENT_LENGTH:
        if (reader->has_length || reader->has_coding || !is_length(reader->value)) {
            object(reader, 400);
        }
        reader->has_length = true;
        break;
    case FIELD_CONTENT_RANGE:
        if (reader->range.whole != 0 || !parse_content_range(reader->value, &reader->range)) {
            object(reader, 400);
        }
        break;
    case FIELD_TRANSFER_ENCODING: // with a length, the body would have two ends (RFC 9112, 6.3)
        object(reader, reader->has_length ? 400 : 411);
        reader->has_coding = true;
        break;
    case FIELD_OTHER:
    case FIELD_AUTHORIZATION:
    case FIELD_HOST:
    case FIELD_COOKIE:
    case FIELD_ORIGIN:
        break;
    }
}

static void end_header(struct tern_request_reader *reader)
{
    if (!reader->in_value) {
        return;
    }
    reader->in_value = false;
    reader->name_len = 0;
    char **kept = kept_value(reader);
    if (kept != NULL) {
        text_end(reader);
        trim_end(*kept);
        return;
    }
    bool whole = reader->value_len < sizeof reader->value;
    reader->value[whole ? reader->value_len : 0] = '\0';
    trim_end(reader->value);
    end_value(reader);
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
    char **kept = kept_value(reader);
    if (kept == NULL) {
        return;
    }
    if (*kept != NULL) {
        object(reader, 400); // which of the two counts must not be a matter of taste
    }
    *kept = reader->text + reader->text_len;
}

// --- The parser's events

// Debian builds http_parser in its lenient mode, which lets white space into names and targets; a
// proxy before us could understand such a request in another way. llhttp rejects it. Bytes outside of ASCII are
// refused in names and targets, too.
static void refuse_others(struct tern_request_reader *reader, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)at[i];
        if (byte <= ' ' || byte >= 0x7f) {
            object(reader, 400);
        }
    }
}

static void on_target(void *ctx, const char *at, size_t len)
{
    refuse_others(ctx, at, len);
    if (memchr(at, '#', len) != NULL) { // clients never send a fragment (RFC 9112, 3.2)
        object(ctx, 400);
    }
    text_append(ctx, at, len);
}

static void on_name(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    end_target(reader);
    end_header(reader);
    refuse_others(reader, at, len);
    size_t room = sizeof reader->name - reader->name_len;
    memcpy(reader->name + reader->name_len, at, len < room ? len : room);
    reader->name_len += len < room ? len : room;
}

static void on_value(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    if (!reader->in_value) {
        begin_value(reader);
    }
    if (kept_value(reader) != NULL) {
        text_append(reader, at, len);
        return;
    }
    size_t room = sizeof reader->value - reader->value_len;
    memcpy(reader->value + reader->value_len, at, len < room ? len : room);
    reader->value_len += len < room ? len : room;
}

static bool on_body(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    reader->expects = false;
    if (reader->discards) {
        return true;
    }
    const bool appended = reader->upload.upload != NULL
                              ? tern_upload_append(&reader->upload, at, len)
                              : tern_body_append(&reader->body, at, len, (size_t)reader->total);
    if (!appended) {
        object(reader, 503);
        return false;
    }
    reader->received += len;
    reader->request.body_len = (size_t)(reader->range.first + reader->received);
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

// Ends the path where its query begins, and returns the query.
static const char *cut_query(char *path)
{
    char *end = path + strcspn(path, "?");
    if (*end == '\0') {
        return "";
    }
    *end = '\0';
    return end + 1;
}

// No path of ours has an escape or a step upwards, of which two readers make two paths.
static bool is_path(const char *path)
{
    return *path == '/' && strchr(path, '%') == NULL && strstr(path, "/..") == NULL;
}

// The path and query of the target "/a?b". Of what is not in this form, as "http://host/a" and "*",
// nothing is known but that it is malformed.
static void cut_target(struct tern_request_reader *reader)
{
    reader->request.query = cut_query(reader->text);
    if (is_path(reader->text)) {
        reader->request.path = reader->text;
    } else {
        object(reader, 400);
    }
}

// A name or an address, with or without a port, as nginx takes it.
static bool is_host(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_~:[]%";
    return host != NULL && *host != '\0' && *host != '.' && host[strspn(host, allowed)] == '\0' &&
           strstr(host, "..") == NULL;
}

// Whether the headers agree about how much comes.
static bool is_range_right(const struct tern_request_reader *reader)
{
    const struct content_range *range = &reader->range;
    return range->whole == 0 || reader->content_length == range->whole - range->first;
}

static int admit(struct tern_request_reader *reader)
{
    struct tern_http_permit permit = {.body_limit = reader->config.body_bytes};
    if (reader->config.admit != NULL) {
        const int status =
            reader->config.admit(reader->config.ctx, &reader->request, reader->total, &permit);
        if (status != 0) {
            reader->permit.refusal = permit.refusal;
            reader->permit.client = permit.client;
            return status;
        }
    }
    const uint32_t most = reader->config.body_bytes;
    permit.body_limit = permit.body_limit < most ? permit.body_limit : most;
    reader->permit = permit;
    return 0;
}

static int status_of(enum tern_result begun)
{
    return begun == TERN_OK ? 0 : begun == TERN_ERR_STATE ? 416 : 503;
}

// Where the body goes: where what came of it before is, or to a place of its own.
static int make_place(struct tern_request_reader *reader)
{
    const bool kept = reader->permit.owner != 0 && reader->config.uploads != NULL &&
                      tern_body_is_long(reader->config.room, reader->total);
    if (reader->range.whole != 0 && reader->permit.owner == 0) {
        return 400;
    }
    if (!kept && reader->range.first != 0) {
        return 416;
    }
    if (!kept) {
        return tern_body_own(&reader->body, reader->permit.owner) &&
                       tern_body_fits(&reader->body, reader->content_length)
                   ? 0
                   : 503;
    }
    const struct tern_upload_rest rest = {.owner = reader->permit.owner,
                                          .path = reader->request.path,
                                          .from = reader->range.first,
                                          .total = reader->total};
    return status_of(tern_uploads_begin(reader->config.uploads, &rest, &reader->upload));
}

static int judge_status(struct tern_request_reader *reader, const struct tern_parser_head *head)
{
    if (head->unserved) {
        return 405;
    }
    if (reader->status != 0) {
        return reader->status;
    }
    if (head->major != 1) {
        return 505;
    }
    if (!is_host(reader->host)) {
        return 400;
    }
    if (!is_range_right(reader)) {
        return 400;
    }
    reader->total = reader->range.whole != 0 ? reader->range.whole : reader->content_length;
    const int status = admit(reader);
    if (status != 0) {
        return status;
    }
    return reader->total > reader->permit.body_limit ? 413 : make_place(reader);
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
    reader->request.authorization = reader->authorization != NULL ? reader->authorization : "";
    reader->request.host = reader->host != NULL ? reader->host : "";
    reader->request.cookie = reader->cookie != NULL ? reader->cookie : "";
    reader->request.origin = reader->origin != NULL ? reader->origin : "";
    cut_target(reader);
    int status = judge_status(reader, &head);
    if (status == 0) {
        return TERN_OK;
    }
    reader->discards = status != 400 && status != 411 && status != 505 && !head.unserved &&
                       reader->keeps_alive && !reader->expects &&
                       reader->content_length <= DISCARD_MAX;
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
    reader->request.id = config->id;
    reader->request.method = "";
    reader->request.path = "/";
    reader->request.query = "";
    reader->request.authorization = "";
    reader->request.host = "";
    reader->request.cookie = "";
    reader->request.origin = "";
    (void)snprintf(reader->peer, sizeof reader->peer, "%s", config->peer);
    reader->request.peer = reader->peer;
    reader->request.psk_client = config->psk_client;
    (void)snprintf(reader->certificate, sizeof reader->certificate, "%s",
                   config->certificate != NULL ? config->certificate : "");
    reader->request.certificate = reader->certificate;
    reader->request.address = config->address;
    reader->request.of_cache = config->of_cache;
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
        tern_upload_leave(&reader->upload);
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
    if (reader->upload.upload != NULL && !tern_upload_take(&reader->upload, &reader->body)) {
        return refuse(reader, 503);
    }
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
        const size_t before = *used;
        const enum tern_parser_stop stop = run(reader, data + before, len - before, used);
        const bool good = tern_head_lines_take(&reader->lines, data + before, *used - before);
        result = after(reader, good ? stop : TERN_PARSER_MALFORMED);
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

bool tern_reader_has_head(const struct tern_request_reader *reader)
{
    return reader->head_done;
}

uint64_t tern_reader_received(const struct tern_request_reader *reader)
{
    return reader->received;
}

uint64_t tern_reader_client(const struct tern_request_reader *reader)
{
    return reader->permit.client;
}

enum tern_result tern_reader_refusal(const struct tern_request_reader *reader)
{
    return reader->permit.refusal;
}

const struct tern_http_tag *tern_reader_tag(const struct tern_request_reader *reader)
{
    return &reader->permit.tag;
}

bool tern_reader_unfinished(const struct tern_request_reader *reader, uint64_t owner,
                            struct tern_http_unfinished *unfinished)
{
    return reader->config.uploads != NULL &&
           tern_uploads_find(reader->config.uploads, owner, reader->request.path, unfinished);
}

void tern_reader_rest(const struct tern_request_reader *reader)
{
    tern_body_rest(&reader->body);
}
