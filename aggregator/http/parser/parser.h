// A push parser for one HTTP/1.x request, on top of llhttp or its predecessor http_parser; CMake compiles llhttp.c or
// http_parser.c for the library that it finds. The parser stops after the head and after the message, so that the request
// reader can check the head. Not thread-safe; one owner at a time.
#ifndef TERN_HTTP_PARSER_H
#define TERN_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Callbacks that receive the parts of a request in order. Each may be called several times, with consecutive pieces
// that are valid during the call.
struct tern_parser_events {
    void (*target)(void *ctx, const char *at, size_t len);
    void (*name)(void *ctx, const char *at, size_t len);
    void (*value)(void *ctx, const char *at, size_t len); // called for an empty value, too
    bool (*body)(void *ctx, const char *at, size_t len);  // false: stop, with TERN_PARSER_UNWANTED
};

enum tern_parser_stop {
    TERN_PARSER_AGAIN,     // all bytes are used; the request is incomplete
    TERN_PARSER_HEAD,      // the head is complete, see tern_parser_head()
    TERN_PARSER_COMPLETE,  // the request is complete
    TERN_PARSER_UNWANTED,  // body() returned false
    TERN_PARSER_TOO_LONG,  // the head exceeds the library's limit
    TERN_PARSER_MALFORMED, // not HTTP; the parser must not be used further
};

struct tern_parser_head {
    const char *method; // static
    bool unserved;      // CONNECT or TRACE, which no path supports
    uint8_t major;      // HTTP version
    uint8_t minor;
    bool keeps_alive;        // by the version and the header Connection
    uint64_t content_length; // 0: the request has no body
};

struct tern_parser;

// events must outlive the parser. NULL when memory is short.
struct tern_parser *tern_parser_new(const struct tern_parser_events *events, void *ctx);
void tern_parser_free(struct tern_parser *parser);

// Parses bytes up to the next stop. *used: how many were parsed. At TERN_PARSER_HEAD at least the head's last byte is left
// for the next call, so that a message without a body also completes in a later call. len > 0.
enum tern_parser_stop tern_parser_run(struct tern_parser *parser, const char *data, size_t len,
                                      size_t *used);

// Returns the head. Call this function after TERN_PARSER_HEAD, before the next run.
struct tern_parser_head tern_parser_head(const struct tern_parser *parser);

#endif
