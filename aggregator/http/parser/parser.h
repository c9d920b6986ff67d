// A push parser for one HTTP/1.x request, whichever library there is: llhttp, or http_parser, which
// it succeeded. One of llhttp.c and http_parser.c is compiled, as CMake found; nothing else knows.
// It stops twice, behind the head and behind the whole message, so that its owner can judge
// between. Not thread-safe; one owner at a time.
#ifndef TERN_HTTP_PARSER_H
#define TERN_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where the pieces of a request go, in the stream's order; ctx is the parser's. A piece is borrowed
// for the call, and may be any part of the whole.
struct tern_parser_events {
    void (*target)(void *ctx, const char *at, size_t len);
    void (*name)(void *ctx, const char *at, size_t len);
    void (*value)(void *ctx, const char *at, size_t len); // also when it is empty
    bool (*body)(void *ctx, const char *at, size_t len);  // false: no more of it is wanted
};

enum tern_parser_stop {
    TERN_PARSER_AGAIN,     // all bytes are used and the request goes on
    TERN_PARSER_HEAD,      // the head is whole: tern_parser_head()
    TERN_PARSER_COMPLETE,  // the request is
    TERN_PARSER_UNWANTED,  // body() said false
    TERN_PARSER_TOO_LONG,  // a head that the library does not take
    TERN_PARSER_MALFORMED, // it cannot go on behind this
};

struct tern_parser_head {
    const char *method; // static
    bool unserved;      // CONNECT or TRACE, which no resource answers
    uint8_t major;
    uint8_t minor;
    bool keeps_alive;        // as version and Connection say
    uint64_t content_length; // 0: none
};

struct tern_parser;

// events must outlive the parser. NULL when memory is short.
struct tern_parser *tern_parser_new(const struct tern_parser_events *events, void *ctx);
void tern_parser_free(struct tern_parser *parser);

// Takes bytes up to the next stop; *used of them. At TERN_PARSER_HEAD at least one byte of the head
// is left for the next call, so that a message that ends there ends in a call of its own. len > 0.
enum tern_parser_stop tern_parser_run(struct tern_parser *parser, const char *data, size_t len,
                                      size_t *used);

// After TERN_PARSER_HEAD, before the next run.
struct tern_parser_head tern_parser_head(const struct tern_parser *parser);

#endif
