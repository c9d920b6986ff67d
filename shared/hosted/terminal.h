// What standard output is: how wide, and whether colours are welcome. For hosted programs; reentrant.
#ifndef TERN_TERMINAL_H
#define TERN_TERMINAL_H

#include <stdbool.h>

enum tern_colour {
    TERN_COLOUR_NONE,
    TERN_COLOUR_HEADING,
    TERN_COLOUR_GOOD,
    TERN_COLOUR_WARNING, // to be looked at
    TERN_COLOUR_BAD,
};

// Columns of the terminal that fd is; 0 when it is none: a file or a pipe is as wide as its lines.
unsigned tern_terminal_width(int fd);

// Whether fd is a terminal that takes colours. Not with TERM=dumb, and not where NO_COLOR is set to
// anything (no-color.org).
bool tern_terminal_has_colours(int fd);

// What switches a colour on in a terminal, "" for TERN_COLOUR_NONE, and all of them off.
const char *tern_terminal_colour(enum tern_colour colour);
#define TERN_TERMINAL_PLAIN "\x1b[0m"

#endif
