#include "hosted/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned tern_terminal_width(int fd)
{
    struct winsize size;
    if (!isatty(fd)) {
        return 0;
    }
    // A terminal on a serial line often does not tell its size.
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool tern_terminal_has_colours(int fd)
{
    const char *refused = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    return (refused == NULL || refused[0] == '\0') && kind != NULL && strcmp(kind, "dumb") != 0 &&
           isatty(fd);
}

const char *tern_terminal_colour(enum tern_colour colour)
{
    switch (colour) {
    case TERN_COLOUR_HEADING:
        return "\x1b[1m";
    case TERN_COLOUR_GOOD:
        return "\x1b[32m";
    case TERN_COLOUR_WARNING:
        return "\x1b[33m";
    case TERN_COLOUR_BAD:
        return "\x1b[31m";
    case TERN_COLOUR_NONE:
    default:
        return "";
    }
}
