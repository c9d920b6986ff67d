// Parses a response with one state for each kind of input. Collects lines byte by byte and copies bodies in pieces.
#include "http/message.h"

#include <string.h>

enum state {
    STATE_STATUS_LINE,
    STATE_HEADER,
    STATE_CHUNK_SIZE,
    STATE_CHUNK_END, // the empty line after a chunk
    STATE_TRAILER,
    // In the following states bytes belong to a body.
    STATE_BODY,
    STATE_CHUNK,
    STATE_BODY_TO_END, // the body lasts to the end of the connection
    STATE_DONE,
};

static void expect_status_line(struct tern_http_reader *reader)
{
    reader->state = STATE_STATUS_LINE;
    reader->has_length = false;
    reader->chunked = false;
    reader->left = 0;
    reader->response->status = 0;
    reader->response->retry_after_s = 0;
}

void tern_http_reader_start(struct tern_http_reader *reader, struct tern_response *response)
{
    memset(reader, 0, sizeof *reader);
    reader->response = response;
    response->body_len = 0;
    expect_status_line(reader);
}

// --- Lines

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

// Returns the text after its first word; NULL if the text does not start with `word`, which must be in lower case.
static const char *skip_word(const char *text, const char *word)
{
    while (*word != '\0' && lower(*text) == *word) {
        text++;
        word++;
    }
    return *word == '\0' ? text : NULL;
}

static int digit_of(char c, unsigned base)
{
    const char low = lower(c);
    const int value = low >= '0' && low <= '9' ? low - '0' : low >= 'a' ? low - 'a' + 10 : -1;
    return value < (int)base ? value : -1;
}

// Reads a number, at most SIZE_MAX, and advances *text. Returns false if there is none.
static bool read_number(const char **text, unsigned base, size_t *number)
{
    const char *c = *text;
    *number = 0;
    for (int digit = digit_of(*c, base); digit >= 0; digit = digit_of(*++c, base)) {
        const bool fits = *number <= (SIZE_MAX - (size_t)digit) / base;
        *number = fits ? *number * base + (size_t)digit : SIZE_MAX;
    }
    const bool found = c != *text;
    *text = c;
    return found;
}

static enum tern_result parse_status_line(struct tern_http_reader *reader)
{
    const char *rest = skip_word(reader->line, "http/1.");
    if (rest == NULL || digit_of(rest[0], 10) < 0 || rest[1] != ' ') {
        return TERN_ERR_CORRUPT;
    }
    reader->keep_alive = rest[0] != '0';
    rest += 2;
    const char *code = rest;
    size_t status = 0;
    const bool found = read_number(&rest, 10, &status);
    // 101 switches to another protocol, which the client never requests.
    if (!found || rest - code != 3 || (*rest != ' ' && *rest != '\0') || status < 100 ||
        status == 101 || status > 599) {
        return TERN_ERR_CORRUPT;
    }
    reader->response->status = (int)status;
    reader->state = STATE_HEADER;
    return TERN_AGAIN;
}

static enum tern_result parse_length(struct tern_http_reader *reader, const char *value)
{
    const bool twice = reader->has_length;
    reader->has_length = true;
    return !twice && read_number(&value, 10, &reader->left) && *value == '\0' ? TERN_AGAIN
                                                                              : TERN_ERR_CORRUPT;
}

static enum tern_result parse_encoding(struct tern_http_reader *reader, const char *value)
{
    const char *rest = skip_word(value, "chunked");
    const bool twice = reader->chunked;
    reader->chunked = true;
    return !twice && rest != NULL && *rest == '\0' ? TERN_AGAIN : TERN_ERR_CORRUPT;
}

static enum tern_result parse_connection(struct tern_http_reader *reader, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (skip_word(c, "close") != NULL) {
            reader->keep_alive = false;
        }
    }
    return TERN_AGAIN;
}

static enum tern_result parse_retry_after(struct tern_http_reader *reader, const char *value)
{
    size_t seconds = 0;
    if (!read_number(&value, 10, &seconds) || *value != '\0') {
        seconds = 0; // a date, which is not supported
    }
    reader->response->retry_after_s = seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
    return TERN_AGAIN;
}

static const struct {
    const char *name;
    enum tern_result (*parse)(struct tern_http_reader *reader, const char *value);
} HEADERS[] = {
    {"content-length:", parse_length},
    {"transfer-encoding:", parse_encoding},
    {"connection:", parse_connection},
    {"retry-after:", parse_retry_after},
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum tern_result parse_header(struct tern_http_reader *reader)
{
    const char *colon = strchr(reader->line, ':');
    if (colon == reader->line || is_blank(reader->line[0]) ||
        (colon == NULL && reader->stored == reader->line_len) ||
        (colon != NULL && is_blank(colon[-1]))) {
        return TERN_ERR_CORRUPT; // no name, or the continuation of the line before
    }
    for (size_t i = 0; i < sizeof HEADERS / sizeof HEADERS[0]; i++) {
        const char *value = skip_word(reader->line, HEADERS[i].name);
        if (value != NULL && reader->stored < reader->line_len) {
            return TERN_ERR_CORRUPT; // longer than TERN_HTTP_LINE_MAX
        }
        if (value != NULL) {
            value += strspn(value, " \t");
            return HEADERS[i].parse(reader, value);
        }
    }
    return TERN_AGAIN;
}

static enum tern_result expect_body(struct tern_http_reader *reader, enum state state)
{
    reader->state = (uint8_t)state;
    const struct tern_response *response = reader->response;
    if (reader->left > response->body_size - response->body_len) {
        return TERN_ERR_TOO_LARGE;
    }
    return TERN_AGAIN;
}

static enum tern_result end_head(struct tern_http_reader *reader)
{
    const int status = reader->response->status;
    if (reader->chunked && reader->has_length) {
        return TERN_ERR_CORRUPT;
    }
    if (status < 200) {
        expect_status_line(
            reader); // an interim response such as 100 Continue: the final one follows
        return TERN_AGAIN;
    }
    if (status == 204 || status == 304 ||
        (reader->has_length && reader->left == 0 && !reader->chunked)) {
        reader->state = STATE_DONE;
        return TERN_OK;
    }
    if (reader->chunked) {
        reader->state = STATE_CHUNK_SIZE;
        return TERN_AGAIN;
    }
    reader->keep_alive = reader->keep_alive && reader->has_length;
    return expect_body(reader, reader->has_length ? STATE_BODY : STATE_BODY_TO_END);
}

static enum tern_result parse_chunk_size(struct tern_http_reader *reader)
{
    const char *rest = reader->line;
    if (!read_number(&rest, 16, &reader->left)) {
        return TERN_ERR_CORRUPT;
    }
    rest += strspn(rest, " \t");
    if (*rest != '\0' && *rest != ';') {
        return TERN_ERR_CORRUPT;
    }
    if (reader->left == 0) {
        reader->state = STATE_TRAILER;
        return TERN_AGAIN;
    }
    return expect_body(reader, STATE_CHUNK);
}

// Handles a complete line, without its line end.
static enum tern_result handle_line(struct tern_http_reader *reader)
{
    const bool empty = reader->line_len == 0;
    switch ((enum state)reader->state) {
    case STATE_STATUS_LINE:
        return parse_status_line(reader);
    case STATE_HEADER:
        return empty ? end_head(reader) : parse_header(reader);
    case STATE_CHUNK_SIZE:
        return parse_chunk_size(reader);
    case STATE_CHUNK_END:
        reader->state = STATE_CHUNK_SIZE;
        return empty ? TERN_AGAIN : TERN_ERR_CORRUPT;
    case STATE_TRAILER:
        reader->state = empty ? STATE_DONE : STATE_TRAILER;
        return empty ? TERN_OK : TERN_AGAIN;
    case STATE_BODY:
    case STATE_CHUNK:
    case STATE_BODY_TO_END:
    case STATE_DONE:
    default:
        return TERN_ERR_CORRUPT;
    }
}

static void end_line(struct tern_http_reader *reader)
{
    if (reader->stored == reader->line_len) {
        while (reader->stored > 0 && is_blank(reader->line[reader->stored - 1])) {
            reader->line_len = --reader->stored;
        }
    }
    reader->line[reader->stored] = '\0';
}

// Handles one byte of a line. A carriage return must precede a line feed, which the next byte shows.
static enum tern_result handle_line_byte(struct tern_http_reader *reader, char byte)
{
    if (reader->line_bytes++ == TERN_HTTP_LINES_MAX) {
        return TERN_ERR_CORRUPT;
    }
    if (byte == '\n') {
        end_line(reader);
        const enum tern_result result = handle_line(reader);
        reader->after_cr = false;
        reader->line_len = 0;
        reader->stored = 0;
        return result;
    }
    if (reader->after_cr || ((unsigned char)byte < ' ' && byte != '\t' && byte != '\r')) {
        return TERN_ERR_CORRUPT;
    }
    if (byte == '\r') {
        reader->after_cr = true;
        return TERN_AGAIN;
    }
    reader->line_len++;
    if (reader->stored < TERN_HTTP_LINE_MAX) {
        reader->line[reader->stored++] = byte;
    }
    return TERN_AGAIN;
}

// --- Bodies

// Returns how many of len bytes belong to the body or chunk; all of them if it has no length.
static enum tern_result copy_body(struct tern_http_reader *reader, const uint8_t *src, size_t len,
                                  size_t *taken)
{
    struct tern_response *response = reader->response;
    const bool to_end = reader->state == STATE_BODY_TO_END;
    const size_t part = to_end || len < reader->left ? len : reader->left;
    if (part > response->body_size - response->body_len) {
        return TERN_ERR_TOO_LARGE;
    }
    memcpy(response->body + response->body_len, src, part);
    response->body_len += part;
    *taken = part;
    if (to_end) {
        return TERN_AGAIN;
    }
    reader->left -= part;
    if (reader->left > 0) {
        return TERN_AGAIN;
    }
    const bool chunk = reader->state == STATE_CHUNK;
    reader->state = chunk ? STATE_CHUNK_END : STATE_DONE;
    return chunk ? TERN_AGAIN : TERN_OK;
}

enum tern_result tern_http_reader_feed(struct tern_http_reader *reader, const uint8_t *src,
                                       size_t len, size_t *used)
{
    enum tern_result result = reader->state == STATE_DONE ? TERN_OK : TERN_AGAIN;
    size_t at = 0;
    reader->started = reader->started || len > 0;
    while (result == TERN_AGAIN && at < len) {
        size_t taken = 1;
        if (reader->state >= STATE_BODY) {
            result = copy_body(reader, src + at, len - at, &taken);
        } else {
            result = handle_line_byte(reader, (char)src[at]);
        }
        at += taken;
    }
    *used = at;
    return result;
}

enum tern_result tern_http_reader_end(struct tern_http_reader *reader)
{
    if (reader->state != STATE_BODY_TO_END) {
        return TERN_ERR_NETWORK;
    }
    reader->state = STATE_DONE;
    return TERN_OK;
}
