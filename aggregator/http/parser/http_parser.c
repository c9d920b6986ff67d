// http_parser 2.9, for Debian 12.
#include "http/parser/parser.h"
#include <http_parser.h>
#include <stdlib.h>

struct tern_parser {
    http_parser parser;
    const struct tern_parser_events *events;
    void *ctx;
    bool head_done;
    bool complete;
};

static int on_url(http_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->target(parser->ctx, at, len);
    return 0;
}

static int on_header_field(http_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->name(parser->ctx, at, len);
    return 0;
}

static int on_header_value(http_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->value(parser->ctx, at, len);
    return 0;
}

static int on_headers_complete(http_parser *inner)
{
    struct tern_parser *parser = inner->data;
    parser->head_done = true;
    http_parser_pause(inner, 1);
    return 0;
}

static int on_body(http_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    return parser->events->body(parser->ctx, at, len) ? 0 : 1;
}

static int on_message_complete(http_parser *inner)
{
    struct tern_parser *parser = inner->data;
    parser->complete = true;
    http_parser_pause(inner, 1);
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

struct tern_parser *tern_parser_new(const struct tern_parser_events *events, void *ctx)
{
    struct tern_parser *parser = calloc(1, sizeof *parser);
    if (parser != NULL) {
        parser->events = events;
        parser->ctx = ctx;
        http_parser_init(&parser->parser, HTTP_REQUEST);
        parser->parser.data = parser;
    }
    return parser;
}

void tern_parser_free(struct tern_parser *parser)
{
    free(parser);
}

static enum tern_parser_stop stop_of(struct tern_parser *parser, bool had_head)
{
    switch ((int)HTTP_PARSER_ERRNO(&parser->parser)) {
    case HPE_OK:
    case HPE_PAUSED:
        break;
    case HPE_CB_body:
        return TERN_PARSER_UNWANTED;
    case HPE_HEADER_OVERFLOW:
        return TERN_PARSER_TOO_LONG;
    default:
        return TERN_PARSER_MALFORMED;
    }
    http_parser_pause(&parser->parser, 0);
    if (parser->complete) {
        return TERN_PARSER_COMPLETE;
    }
    return parser->head_done && !had_head ? TERN_PARSER_HEAD : TERN_PARSER_AGAIN;
}

enum tern_parser_stop tern_parser_run(struct tern_parser *parser, const char *data, size_t len,
                                      size_t *used)
{
    const bool had_head = parser->head_done;
    *used = http_parser_execute(&parser->parser, &SETTINGS, data, len);
    enum tern_parser_stop stop = stop_of(parser, had_head);
    if (stop == TERN_PARSER_HEAD) {
        parser->parser.upgrade = 0; // other protocols are never spoken
    }
    return stop;
}

static uint64_t announced_length(const http_parser *inner)
{
    if ((inner->flags & F_CHUNKED) != 0) {
        return UINT64_MAX;
    }
    return (inner->flags & F_CONTENTLENGTH) != 0 ? inner->content_length : 0;
}

struct tern_parser_head tern_parser_head(const struct tern_parser *parser)
{
    const http_parser *inner = &parser->parser;
    return (struct tern_parser_head){
        .method = http_method_str((enum http_method)inner->method),
        .connects = inner->method == HTTP_CONNECT,
        .major = (uint8_t)inner->http_major,
        .minor = (uint8_t)inner->http_minor,
        .keeps_alive = http_should_keep_alive(inner) != 0,
        .content_length = announced_length(inner),
    };
}
