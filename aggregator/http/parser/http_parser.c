// http_parser 2.9, for Debian 12.
#include <http_parser.h>
#include <stdbool.h>

typedef http_parser inner_parser;

struct progress {
    bool complete;
};

#define METHOD_NAME(method) http_method_str((enum http_method)(method))
#define KEEPS_ALIVE http_should_keep_alive
#define HAS_LENGTH F_CONTENTLENGTH

#include "http/parser/common.h"

static int on_headers_complete(inner_parser *inner)
{
    struct tern_parser *parser = inner->data;
    parser->head_done = true;
    http_parser_pause(inner, 1);
    return 0;
}

static int on_body(inner_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    return parser->events->body(parser->ctx, at, len) ? 0 : 1;
}

static int on_message_complete(inner_parser *inner)
{
    struct tern_parser *parser = inner->data;
    parser->progress.complete = true;
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

static void init(inner_parser *inner)
{
    http_parser_init(inner, HTTP_REQUEST);
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
    if (parser->progress.complete) {
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
        parser->parser.upgrade = 0; // no upgrade to another protocol
    }
    return stop;
}
