#include "http/request.h"
#include "http/body.h"
#include "http/parser/parser.h"
#include "util/bytes.h"
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// --- Lines of the head

// Checks the lines of a request's head more strictly than the parser libraries do. If a proxy and this listener
// disagreed about the end of a line or head, bytes of one peer would become another client's request (request
// smuggling). So an ambiguous head is refused.

// The position in the head after the last byte. Positions with _CR are directly after a CR.
enum head_place {
    HEAD_BEFORE, // no byte yet, or in empty lines, which RFC 9112 (2.2) allows before the request line
    HEAD_BEFORE_CR,
    HEAD_LINE,
    HEAD_LINE_CR,
    HEAD_LINE_START,
    HEAD_END_CR, // in the empty line that ends the head
    HEAD_ENDED,
};

// All zero before the first byte.
struct head_lines {
    enum head_place place;
    bool in_headers;     // the request line has ended
    bool behind_blank;   // the last byte of the request line was a blank
    unsigned int blanks; // number of blanks in the request line so far
};

static bool is_control(uint8_t byte)
{
    return (byte < ' ' && byte != '\t') || byte == 0x7f;
}

// Requires one blank between method, target and version, and none before or after.
static bool check_request_line(struct head_lines *lines, uint8_t byte)
{
    const bool begins = lines->place != HEAD_LINE;
    const bool is_blank = byte == ' ';
    const bool good = !is_blank || (!begins && !lines->behind_blank && lines->blanks < 2);
    lines->behind_blank = is_blank;
    lines->blanks += is_blank;
    return good && byte != '\t';
}

static bool is_behind_cr(const struct head_lines *lines)
{
    return lines->place == HEAD_BEFORE_CR || lines->place == HEAD_LINE_CR ||
           lines->place == HEAD_END_CR;
}

// Advances over one byte that is neither CR nor LF.
static bool check_text(struct head_lines *lines, uint8_t byte)
{
    const bool folds = lines->place == HEAD_LINE_START && (byte == ' ' || byte == '\t');
    const bool behind_cr = is_behind_cr(lines);
    const bool fits = lines->in_headers || check_request_line(lines, byte);
    lines->place = HEAD_LINE;
    return fits && !folds && !behind_cr && !is_control(byte);
}

static bool check_cr(struct head_lines *lines)
{
    const enum head_place before = lines->place;
    const bool ends_request_line = before == HEAD_LINE && !lines->in_headers;
    lines->place = before == HEAD_BEFORE ? HEAD_BEFORE_CR
                   : before == HEAD_LINE ? HEAD_LINE_CR
                                         : HEAD_END_CR;
    return (before == HEAD_BEFORE || before == HEAD_LINE || before == HEAD_LINE_START) &&
           !(ends_request_line && lines->behind_blank);
}

static bool check_lf(struct head_lines *lines)
{
    const enum head_place before = lines->place;
    const bool good = is_behind_cr(lines);
    lines->in_headers |= before == HEAD_LINE_CR;
    lines->place = before == HEAD_BEFORE_CR ? HEAD_BEFORE
                   : before == HEAD_LINE_CR ? HEAD_LINE_START
                                            : HEAD_ENDED;
    return good;
}

// Checks the next bytes of the stream, up to the end of the head. False: the request is malformed and must be read no
// further. It has a bare CR or LF, a folded line (RFC 9112, 5.2), a control character other than TAB, or a request line
// without exactly one blank between its three parts (RFC 9112, 3).
static bool check_head_lines(struct head_lines *lines, const uint8_t *data, size_t len)
{
    bool good = true;
    for (size_t i = 0; i < len && good && lines->place != HEAD_ENDED; i++) {
        good = data[i] == '\r'   ? check_cr(lines)
               : data[i] == '\n' ? check_lf(lines)
                                 : check_text(lines, data[i]);
    }
    return good;
}

// --- Reader

// The parser stops after the headers, where the request is checked, and after the message. tern_reader_feed() does the
// rest between the stops, so that the code around a push parser is sequential.

// A refused body up to this size is read and discarded, which costs the peer about as much as a new connection.
#define DISCARD_MAX 16384u

// The value of a header that has not arrived; recognised by its address.
static const char ABSENT[] = "";

// A header that the reader uses.
struct header {
    const char *name;
    // Offset in struct tern_http_request of a value that is stored, if `evaluate` is NULL.
    size_t offset;
    // Evaluates a short value in reader->value; NULL = the value is stored.
    void (*evaluate)(struct tern_request_reader *reader);
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
    struct head_lines lines;
    struct tern_http_request request;
    uint64_t content_length;
    struct content_range range;
    uint64_t total; // bytes of the complete body, including bytes of earlier requests
    struct tern_http_permit permit;
    struct tern_reader_state state;

    // The header being read. A name that does not fit is unknown; a value that does not fit counts as empty.
    bool in_value;
    const struct header *header; // NULL = the reader ignores this header
    size_t name_len;
    size_t value_len;
    char name[64];
    char value[40];

    char peer[INET6_ADDRSTRLEN];
    char certificate[TERN_HTTP_NAME_SIZE];
    uint32_t head_len;           // bytes of the request line and headers so far
    bool target_done;            // `text` contains the complete request target
    bool has_length;             // a Content-Length was read
    bool has_coding;             // a Transfer-Encoding was read
    struct tern_arrival arrival; // body of the request
    size_t text_len;
    char text[]; // request target, then values that are stored; each ends with NUL
};

// Records the status of a refusal. The first status counts, but 400 replaces any other status, since the end of a
// malformed request is unknown.
static void set_refusal(struct tern_request_reader *reader, int status)
{
    if (reader->state.status == 0 || status == 400) {
        reader->state.status = status;
    }
}

// --- Text

// Appends to reader->text, which cannot overflow: target and values are parts of the head, whose length is limited, and
// each value is stored with a NUL in place of its separators in the head.
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

// Accepts "bytes=N-" only. Ignores any other range, as RFC 9110 (14.2) allows: the complete body is a correct answer.
static void evaluate_range(struct tern_request_reader *reader)
{
    uint64_t from = 0;
    const bool in_bytes = strncasecmp(reader->value, "bytes=", 6) == 0;
    const bool good = in_bytes && strcmp(tern_get_decimal(reader->value + 6, &from), "-") == 0;
    reader->request.range_from = good ? from : 0;
}

static void evaluate_expect(struct tern_request_reader *reader)
{
    reader->state.expects_continue = strcasecmp(reader->value, "100-continue") == 0;
    if (!reader->state.expects_continue) {
        set_refusal(reader, 417);
    }
}

// Accepts digits only, while the parser libraries also accept a sign, a list or an empty text as a number.
static void evaluate_content_length(struct tern_request_reader *reader)
{
    const char *value = reader->value;
    const bool is_number = *value != '\0' && value[strspn(value, "0123456789")] == '\0';
    if (reader->has_length || reader->has_coding || !is_number) {
        set_refusal(reader, 400);
    }
    reader->has_length = true;
}

// Refuses every transfer coding: with a coding and a length, the body's end would be ambiguous (RFC 9112, 6.3).
static void evaluate_transfer_encoding(struct tern_request_reader *reader)
{
    set_refusal(reader, reader->has_length ? 400 : 411);
    reader->has_coding = true;
}

// Reads a decimal number that is followed by `end`. Returns the text after `end`; NULL if the text has another form.
static const char *number_before(const char *at, char end, uint64_t *number)
{
    const char *behind = at != NULL ? tern_get_decimal(at, number) : NULL;
    return behind != NULL && behind != at && *behind == end ? behind + 1 : NULL;
}

// Accepts a range up to the end of a body of known length (RFC 9110, 14.5); other forms leave the complete body's
// length unknown.
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

static void evaluate_content_range(struct tern_request_reader *reader)
{
    if (reader->range.whole != 0 || !parse_content_range(reader->value, &reader->range)) {
        set_refusal(reader, 400);
    }
}

static const struct header HEADERS[] = {
    {"authorization", offsetof(struct tern_http_request, authorization), NULL},
    {"host", offsetof(struct tern_http_request, host), NULL},
    {"cookie", offsetof(struct tern_http_request, cookie), NULL},
    {"origin", offsetof(struct tern_http_request, origin), NULL},
    {"range", 0, evaluate_range},
    {"expect", 0, evaluate_expect},
    {"content-length", 0, evaluate_content_length},
    {"content-range", 0, evaluate_content_range},
    {"transfer-encoding", 0, evaluate_transfer_encoding},
};

// The headers whose names the config has.
static const struct header USER = {"", offsetof(struct tern_http_request, user), NULL};
static const struct header GROUPS = {"", offsetof(struct tern_http_request, groups), NULL};

// Whether the present header has this name; NULL is no name.
static bool is_named(const struct tern_request_reader *reader, const char *name)
{
    return name != NULL && reader->name_len == strlen(name) &&
           strncasecmp(reader->name, name, reader->name_len) == 0;
}

static const struct header *find_header(const struct tern_request_reader *reader)
{
    for (size_t i = 0; i < sizeof HEADERS / sizeof *HEADERS; i++) {
        if (is_named(reader, HEADERS[i].name)) {
            return &HEADERS[i];
        }
    }
    if (is_named(reader, reader->config.user_header)) {
        return &USER;
    }
    return is_named(reader, reader->config.groups_header) ? &GROUPS : NULL;
}

// Returns where the request stores the value of the present header; NULL if the value is not stored.
static const char **stored_value(struct tern_request_reader *reader)
{
    const struct header *header = reader->header;
    return header != NULL && header->evaluate == NULL
               ? (const char **)(void *)((char *)&reader->request + header->offset)
               : NULL;
}

static void end_header(struct tern_request_reader *reader)
{
    if (!reader->in_value) {
        return;
    }
    reader->in_value = false;
    reader->name_len = 0;
    const char **stored = stored_value(reader);
    if (stored != NULL) {
        text_end(reader);
        trim_end(reader->text + (*stored - reader->text));
    } else if (reader->header != NULL) {
        bool whole = reader->value_len < sizeof reader->value;
        reader->value[whole ? reader->value_len : 0] = '\0';
        trim_end(reader->value);
        reader->header->evaluate(reader);
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
    reader->header = find_header(reader);
    reader->value_len = 0;
    const char **stored = stored_value(reader);
    if (stored == NULL) {
        return;
    }
    if (*stored != ABSENT) {
        set_refusal(
            reader,
            400); // the header occurs twice: a proxy before us could have used the other value
    }
    *stored = reader->text + reader->text_len;
}

// --- The parser's events

// Refuses white space and bytes outside of ASCII in names and targets, which a proxy before us could interpret
// differently. Debian builds http_parser in its lenient mode, which accepts white space; llhttp rejects it.
static void check_ascii(struct tern_request_reader *reader, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)at[i];
        if (byte <= ' ' || byte >= 0x7f) {
            set_refusal(reader, 400);
        }
    }
}

static void on_target(void *ctx, const char *at, size_t len)
{
    check_ascii(ctx, at, len);
    if (memchr(at, '#', len) != NULL) { // clients never send a fragment (RFC 9112, 3.2)
        set_refusal(ctx, 400);
    }
    text_append(ctx, at, len);
}

static void on_name(void *ctx, const char *at, size_t len)
{
    struct tern_request_reader *reader = ctx;
    end_target(reader);
    end_header(reader);
    check_ascii(reader, at, len);
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
    if (stored_value(reader) != NULL) {
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
    reader->state.expects_continue = false;
    if (reader->state.discards) {
        return true;
    }
    if (!tern_arrival_append(&reader->arrival, at, len, reader->total)) {
        set_refusal(reader, 503);
        return false;
    }
    reader->state.received += len;
    reader->request.body_len = (size_t)(reader->range.first + reader->state.received);
    return true;
}

static const struct tern_parser_events EVENTS = {
    .target = on_target,
    .name = on_name,
    .value = on_value,
    .body = on_body,
};

// --- Checks of the head

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
    reader->state.status = status;
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

// Rejects escapes and "..", which a proxy before us could resolve to another path. No path of the aggregator has
// either.
static bool is_path(const char *path)
{
    return *path == '/' && strchr(path, '%') == NULL && strstr(path, "/..") == NULL;
}

// Splits the target "/a?b" into path and query. Refuses other forms, such as "http://host/a" and "*".
static void cut_target(struct tern_request_reader *reader)
{
    reader->request.query = cut_query(reader->text);
    if (is_path(reader->text)) {
        reader->request.path = reader->text;
    } else {
        set_refusal(reader, 400);
    }
}

// Accepts a name or an address, with or without a port, by the same rule as nginx.
static bool is_host(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_~:[]%";
    return host != NULL && *host != '\0' && *host != '.' && host[strspn(host, allowed)] == '\0' &&
           strstr(host, "..") == NULL;
}

// Whether Content-Length and Content-Range agree.
static bool lengths_agree(const struct tern_request_reader *reader)
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
            reader->state.refusal = permit.refusal;
            reader->state.sentence = permit.sentence;
            reader->state.client = permit.client;
            return status;
        }
    }
    const uint32_t most = reader->config.body_bytes;
    permit.body_limit = permit.body_limit < most ? permit.body_limit : most;
    reader->permit = permit;
    reader->state.refusal = permit.refusal;
    reader->state.client = permit.client;
    reader->state.tag = permit.tag;
    return 0;
}

// Returns 0 or the status of a refusal.
static int begin_body(struct tern_request_reader *reader)
{
    const struct tern_upload_part part = {.owner = reader->permit.owner,
                                          .path = reader->request.path,
                                          .from = reader->range.first,
                                          .total = reader->total};
    const bool has_range = reader->range.whole != 0;
    return has_range && part.owner == 0 ? 400 : tern_arrival_begin(&reader->arrival, &part);
}

static int check_head(struct tern_request_reader *reader, const struct tern_parser_head *head)
{
    if (head->unserved) {
        return 405;
    }
    if (reader->state.status != 0) {
        return reader->state.status;
    }
    if (head->major != 1) {
        return 505;
    }
    if (!is_host(reader->request.host) || !lengths_agree(reader)) {
        return 400;
    }
    reader->total = reader->range.whole != 0 ? reader->range.whole : reader->content_length;
    const int status = admit(reader);
    if (status != 0) {
        return status;
    }
    return reader->total > reader->permit.body_limit ? 413 : begin_body(reader);
}

// Admits or refuses the request once its headers are complete. The connection of a refused request with a short body
// stays open, unless the peer waits for "100 Continue", since it is unknown whether such a peer sends the body.
static enum tern_result end_head(struct tern_request_reader *reader)
{
    const struct tern_parser_head head = tern_parser_head(reader->parser);
    end_target(reader);
    end_header(reader);
    if (reader->request.user == ABSENT) {
        reader->request.user = NULL;
    }
    reader->state.has_head = true;
    reader->request.method = head.method;
    reader->content_length = head.content_length;
    reader->state.keeps_alive = head.minor >= 1 && head.keeps_alive;
    reader->state.expects_continue =
        reader->state.expects_continue && head.minor >= 1 && reader->content_length > 0;
    cut_target(reader);
    int status = check_head(reader, &head);
    if (status == 0) {
        return TERN_OK;
    }
    reader->state.discards = status != 400 && status != 411 && status != 505 && !head.unserved &&
                             reader->state.keeps_alive && !reader->state.expects_continue &&
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
    (void)snprintf(reader->peer, sizeof reader->peer, "%s", config->peer);
    (void)snprintf(reader->certificate, sizeof reader->certificate, "%s",
                   config->certificate != NULL ? config->certificate : "");
    reader->request = (struct tern_http_request){.id = config->id,
                                                 .method = "",
                                                 .path = "/",
                                                 .query = "",
                                                 .authorization = ABSENT,
                                                 .host = ABSENT,
                                                 .cookie = ABSENT,
                                                 .origin = ABSENT,
                                                 .user = ABSENT,
                                                 .groups = ABSENT,
                                                 .peer = reader->peer,
                                                 .address = config->address,
                                                 .peer_is_cache = config->peer_is_cache,
                                                 .psk_client = config->psk_client,
                                                 .certificate = reader->certificate};
    reader->parser = tern_parser_new(&EVENTS, reader);
    if (reader->parser == NULL) {
        free(reader);
        return NULL;
    }
    tern_arrival_init(&reader->arrival, config->quota, config->uploads);
    return reader;
}

void tern_reader_free(struct tern_request_reader *reader)
{
    if (reader != NULL) {
        if (reader->permit.context != NULL) {
            reader->config.on_dropped(reader->config.dropped_ctx, reader->permit.context);
        }
        tern_parser_free(reader->parser);
        tern_arrival_free(&reader->arrival);
        free(reader);
    }
}

// Runs the parser once. Before the head's end it passes at most the bytes up to the header limit.
static enum tern_parser_stop run(struct tern_request_reader *reader, const uint8_t *data,
                                 size_t len, size_t *used)
{
    bool head = !reader->state.has_head;
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
    size_t len = 0;
    reader->request.body = tern_arrival_end(&reader->arrival, &len);
    return reader->request.body != NULL || len == 0 ? TERN_OK : refuse(reader, 503);
}

static enum tern_result continue_after(struct tern_request_reader *reader,
                                       enum tern_parser_stop stop)
{
    switch (stop) {
    case TERN_PARSER_AGAIN:
        return TERN_AGAIN;
    case TERN_PARSER_HEAD: {
        const enum tern_result result = end_head(reader);
        return result == TERN_OK ? TERN_AGAIN : result;
    }
    case TERN_PARSER_COMPLETE:
        return complete(reader);
    case TERN_PARSER_UNWANTED: // on_body has set the status
        reader->state.discards = false;
        return refuse(reader, reader->state.status);
    case TERN_PARSER_TOO_LONG:
        reader->state.discards = false;
        return refuse(reader, 431);
    case TERN_PARSER_MALFORMED:
    default:
        reader->state.discards = false;
        return refuse(reader, 400);
    }
}

enum tern_result tern_reader_feed(struct tern_request_reader *reader, const uint8_t *data,
                                  size_t len, size_t *used)
{
    enum tern_result result = TERN_AGAIN;
    *used = 0;
    while (result == TERN_AGAIN && *used < len) {
        if (!reader->state.has_head && reader->head_len == reader->config.header_bytes) {
            return refuse(reader, reader->target_done ? 431 : 414);
        }
        const size_t before = *used;
        const enum tern_parser_stop stop = run(reader, data + before, len - before, used);
        const bool good = check_head_lines(&reader->lines, data + before, *used - before);
        result = continue_after(reader, good ? stop : TERN_PARSER_MALFORMED);
    }
    return result;
}

const struct tern_reader_state *tern_reader_state(const struct tern_request_reader *reader)
{
    return &reader->state;
}

const struct tern_http_request *tern_reader_request(const struct tern_request_reader *reader)
{
    return &reader->request;
}

void *tern_reader_context(struct tern_request_reader *reader)
{
    void *context = reader->permit.context;
    reader->permit.context = NULL;
    return context;
}

bool tern_reader_unfinished(const struct tern_request_reader *reader, uint64_t owner,
                            struct tern_http_unfinished *unfinished)
{
    return reader->config.uploads != NULL &&
           tern_uploads_find(reader->config.uploads, owner, reader->request.path, unfinished);
}

void tern_reader_evict_body(const struct tern_request_reader *reader)
{
    tern_body_evict(&reader->arrival.body);
}
