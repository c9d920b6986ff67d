#include "cli/watch.h"

#include "cli/state.h"
#include "hosted/interrupts.h"
#include "hosted/terminal.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MS 2000
#define HOME "\x1b[H"
#define CLEAR_BELOW "\x1b[J"

static int redraw(struct tern_cli *cli, const struct tern_watched *watched)
{
    fputs(HOME CLEAR_BELOW, stdout);
    const int code = watched->print(cli, watched->ctx);
    fputs("\nEvery two seconds; Ctrl-C ends it.\n", stdout);
    return code;
}

static int add_line(struct tern_cli *cli, const struct tern_watched *watched,
                    char before[TERN_WATCH_LINE_MAX])
{
    char line[TERN_WATCH_LINE_MAX];
    char when[TERN_TEXT];
    watched->line(watched->ctx, line);
    if (strcmp(line, before) == 0) {
        return TERN_EXIT_OK;
    }
    memcpy(before, line, sizeof line);
    if (cli->json) {
        return watched->print(cli, watched->ctx);
    }
    printf("%s  %s\n", tern_text_time(tern_now_ms(), when), line);
    return TERN_EXIT_OK;
}

int tern_watch(struct tern_cli *cli, const struct tern_watched *watched)
{
    const bool draws = !cli->json && tern_terminal_width(STDOUT_FILENO) > 0;
    char before[TERN_WATCH_LINE_MAX] = "";
    int code = TERN_EXIT_OK;
    tern_interrupts_catch();
    while (!tern_interrupted && code == TERN_EXIT_OK) {
        code = watched->load(cli, watched->ctx);
        if (code == TERN_EXIT_OK) {
            code = draws ? redraw(cli, watched) : add_line(cli, watched, before);
        }
        if (fflush(stdout) != 0) {
            return TERN_EXIT_FAILED; // nobody reads it any more
        }
        if (code == TERN_EXIT_OK) {
            tern_interrupts_sleep(INTERVAL_MS);
        }
    }
    return code;
}
