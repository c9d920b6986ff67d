// The code of the parser that is the same with both libraries. llhttp.c or http_parser.c first defines the following,
// then includes this file:
//   inner_parser             the library's parser
//   struct progress          state between two runs of the library
//   METHOD_NAME KEEPS_ALIVE  functions of the library
//   HAS_LENGTH               the library's flag of a Content-Length
#ifndef TERN_HTTP_PARSER_COMMON_H
#define TERN_HTTP_PARSER_COMMON_H

#include "http/parser/parser.h"
#include <stdlib.h>

struct tern_parser {
    inner_parser parser;
    const struct tern_parser_events *events;
    void *ctx;
    bool head_done;
    struct progress progress;
};

static int on_url(inner_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->target(parser->ctx, at, len);
    return 0;
}

static int on_header_field(inner_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->name(parser->ctx, at, len);
    return 0;
}

static int on_header_value(inner_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    parser->events->value(parser->ctx, at, len);
    return 0;
}

static void init(inner_parser *inner);

struct tern_parser *tern_parser_new(const struct tern_parser_events *events, void *ctx)
{
    struct tern_parser *parser = calloc(1, sizeof *parser);
    if (parser != NULL) {
        parser->events = events;
        parser->ctx = ctx;
        init(&parser->parser);
        parser->parser.data = parser;
    }
    return parser;
}

void tern_parser_free(struct tern_parser *parser)
{
    free(parser);
}

struct tern_parser_head tern_parser_head(const struct tern_parser *parser)
{
    const inner_parser *inner = &parser->parser;
    return (struct tern_parser_head){
        .method = METHOD_NAME(inner->method),
        .unserved = inner->method == HTTP_CONNECT || inner->method == HTTP_TRACE,
        .major = (uint8_t)inner->http_major,
        .minor = (uint8_t)inner->http_minor,
        .keeps_alive = KEEPS_ALIVE(inner) != 0,
        .content_length = (inner->flags & HAS_LENGTH) != 0 ? inner->content_length : 0,
    };
}

#endif
