// llhttp 9, for Debian 13.
#include "http/parser/parser.h"
#include <llhttp.h>
#include <stdlib.h>

// Bytes of chunk sizes and trailers in runs without a byte of body, as in http_parser.
#define BARREN_MAX (80u * 1024u)

struct tern_parser {
    llhttp_t parser;
    const struct tern_parser_events *events;
    void *ctx;
    bool head_done;
    bool fruitful; // this run had a byte of body
    bool held;     // the head's last byte was told to be unused, and will come again
    size_t barren;
};

static int on_url(llhttp_t *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->target(parser->ctx, at, len);
    return HPE_OK;
}

static int on_header_field(llhttp_t *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->name(parser->ctx, at, len);
    return HPE_OK;
}

static int on_header_value(llhttp_t *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->value(parser->ctx, at, len);
    return HPE_OK;
}

static int on_headers_complete(llhttp_t *inner)
{
    struct tern_parser *parser = inner->data;
    parser->head_done = true;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->fruitful = true;
    return parser->events->body(parser->ctx, at, len) ? HPE_OK : HPE_USER;
}

static int on_message_complete(llhttp_t *inner)
{
    (void)inner;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

struct tern_parser *tern_parser_new(const struct tern_parser_events *events, void *ctx)
{
    struct tern_parser *parser = calloc(1, sizeof *parser);
    if (parser != NULL) {
        parser->events = events;
        parser->ctx = ctx;
        llhttp_init(&parser->parser, HTTP_REQUEST, &SETTINGS);
        llhttp_set_lenient_version(&parser->parser,
                                   1); // which one is wrong is answered by a status
        parser->parser.data = parser;
    }
    return parser;
}

void tern_parser_free(struct tern_parser *parser)
{
    free(parser);
}

static enum tern_parser_stop stop_at_pause(struct tern_parser *parser, bool had_head, size_t *used)
{
    llhttp_resume(&parser->parser);
    if (had_head) {
        return TERN_PARSER_COMPLETE;
    }
    parser->parser.upgrade = 0; // other protocols are never spoken
    parser->held = true;
    *used -= 1;
    return TERN_PARSER_HEAD;
}

enum tern_parser_stop tern_parser_run(struct tern_parser *parser, const char *data, size_t len,
                                      size_t *used)
{
    const bool had_head = parser->head_done;
    const size_t held = parser->held ? 1 : 0;
    parser->held = false;
    parser->fruitful = false;
    const llhttp_errno_t error = llhttp_execute(&parser->parser, data + held, len - held);
    *used = error == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&parser->parser) - data);
    switch ((int)error) {
    case HPE_OK:
        parser->barren = parser->fruitful || !had_head ? 0 : parser->barren + len;
        return parser->barren <= BARREN_MAX ? TERN_PARSER_AGAIN : TERN_PARSER_TOO_LONG;
    case HPE_PAUSED:
        return stop_at_pause(parser, had_head, used);
    case HPE_USER:
        return TERN_PARSER_UNWANTED;
    default:
        return TERN_PARSER_MALFORMED;
    }
}

static uint64_t announced_length(const llhttp_t *inner)
{
    if ((inner->flags & F_CHUNKED) != 0) {
        return UINT64_MAX;
    }
    return (inner->flags & F_CONTENT_LENGTH) != 0 ? inner->content_length : 0;
}

struct tern_parser_head tern_parser_head(const struct tern_parser *parser)
{
    const llhttp_t *inner = &parser->parser;
    return (struct tern_parser_head){
        .method = llhttp_method_name((llhttp_method_t)inner->method),
        .connects = inner->method == HTTP_CONNECT,
        .major = inner->http_major,
        .minor = inner->http_minor,
        .keeps_alive = llhttp_should_keep_alive(inner) != 0,
        .content_length = announced_length(inner),
    };
}
