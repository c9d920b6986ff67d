// Showing something anew until somebody ends it: a screen that is redrawn on a terminal; elsewhere a line, or
// a JSON object, whenever there is something new.
#ifndef TERN_WATCH_H
#define TERN_WATCH_H

#include "hosted/cli.h"

#define TERN_WATCH_LINE_MAX 512

struct tern_watched {
    int (*load)(struct tern_cli *cli,
                void *ctx); // an exit code; a failure is explained, and ends it
    int (*print)(struct tern_cli *cli,
                 const void *ctx); // likewise; to standard output, as text or JSON
    // What is new when it differs from before: times that pass are not in it.
    void (*line)(const void *ctx, char text[TERN_WATCH_LINE_MAX]);
    void *ctx;
};

// Ends with TERN_EXIT_OK on SIGINT and SIGTERM.
int tern_watch(struct tern_cli *cli, const struct tern_watched *watched);

#endif
