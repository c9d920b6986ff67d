#include "cli/progress.h"

#include "hosted/clock.h"
#include "hosted/log.h"
#include "hosted/terminal.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define INTERVAL_MS 100
#define NOTED_WAIT_MS 1000 // shorter ones are those of an exchange

void tern_client_progress_start(struct progress *progress)
{
    *progress = (struct progress){.shown = tern_terminal_width(STDERR_FILENO) > 0};
}

void tern_client_progress_on_event(struct progress *progress, const struct tern_client_event *event)
{
    if (event->kind == TERN_EVENT_TASK && event->round != 0) {
        progress->round = event->round;
        progress->local_steps = event->local_steps;
        progress->steps = 0;
    }
}

static void write_work(const struct progress *progress, char text[PROGRESS_TEXT_MAX])
{
    static const char *const work[] = {
        [TERN_PHASE_DOWNLOAD] = "downloading the model",
        [TERN_PHASE_TRAIN] = "training",
        [TERN_PHASE_ENCODE] = "compressing the update",
        [TERN_PHASE_UPLOAD] = "sending the update",
    };
    if (progress->phase == TERN_PHASE_TRAIN && progress->steps > 0) {
        snprintf(text, PROGRESS_TEXT_MAX,
                 "round %" PRIu32 ": training, step %" PRIu32 " of %" PRIu32, progress->round,
                 progress->steps, progress->local_steps);
    } else {
        snprintf(text, PROGRESS_TEXT_MAX, "round %" PRIu32 ": %s", progress->round,
                 work[progress->phase]);
    }
}

void tern_client_progress_text(const struct progress *progress, uint32_t wait_ms, uint64_t rounds,
                               char text[PROGRESS_TEXT_MAX])
{
    const char *doing = progress->phase == TERN_PHASE_EVALUATE ? "evaluating" : "checking in";
    if (wait_ms >= NOTED_WAIT_MS) {
        snprintf(text, PROGRESS_TEXT_MAX, "waiting, %" PRIu32 " s to go; rounds done: %" PRIu64,
                 wait_ms / 1000, rounds);
    } else if (progress->phase >= TERN_PHASE_DOWNLOAD && progress->phase <= TERN_PHASE_UPLOAD) {
        write_work(progress, text);
    } else {
        snprintf(text, PROGRESS_TEXT_MAX, "%s; rounds done: %" PRIu64, doing, rounds);
    }
}

void tern_client_progress_step(struct progress *progress, const struct tern_client *client,
                               enum tern_result result)
{
    char text[PROGRESS_TEXT_MAX];
    if (!progress->shown) {
        return;
    }
    const enum tern_client_phase phase = tern_client_phase(client);
    const bool stepped = phase == TERN_PHASE_TRAIN && progress->phase == phase &&
                         progress->steps < progress->local_steps;
    const uint64_t now_ms = tern_monotonic_ms();
    progress->steps += result == TERN_OK && stepped;
    if (phase == progress->phase && now_ms < progress->shown_ms + INTERVAL_MS) {
        return; // steps may be far shorter, and a serial line is slow
    }
    progress->shown_ms = now_ms;
    progress->phase = phase;
    tern_client_progress_text(progress, result == TERN_AGAIN ? tern_client_next_ms(client) : 0,
                              tern_client_budget(client)->rounds, text);
    tern_log_progress(text);
}

void tern_client_progress_end(struct progress *progress)
{
    if (progress->shown) {
        tern_log_progress("");
    }
}
