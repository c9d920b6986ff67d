// The lines of a request's head, read more strictly than the parsers' libraries do. Where a proxy
// and a listener disagree about where a line or a head ends, a stranger's bytes become another
// client's request; so what anybody could read in a second way is refused. Not thread-safe.
#ifndef TERN_HTTP_HEAD_LINES_H
#define TERN_HTTP_HEAD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_head_place {
    TERN_HEAD_BEFORE, // nothing yet, or empty lines, which RFC 9112 (2.2) lets come first
    TERN_HEAD_BEFORE_CR,
    TERN_HEAD_LINE,
    TERN_HEAD_LINE_CR,
    TERN_HEAD_LINE_START,
    TERN_HEAD_END_CR,
    TERN_HEAD_ENDED,
};

// All zero before the first byte.
struct tern_head_lines {
    enum tern_head_place place;
    bool in_headers;     // the request line has ended
    bool behind_blank;   // within the request line
    unsigned int blanks; // of the request line
};

// Takes the next bytes of the stream; those behind the head are not looked at. False: a bare CR or
// LF, a folded line (RFC 9112, 5.2), a control character other than TAB, or a request line without exactly one blank
// between its three parts (RFC 9112, 3). Then the request is malformed and no more of it may be given.
bool tern_head_lines_take(struct tern_head_lines *lines, const uint8_t *data, size_t len);

#endif
