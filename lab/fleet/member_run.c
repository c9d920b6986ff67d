// What a member's thread does: steps its client until the federation is finished, and does to it
// what happens to its device, which joins late, misses rounds, or takes its own time.
#include "fleet/figure.h"
#include "fleet/member.h"
#include "hosted/log.h"
#include <stdio.h>
#include <time.h>

#define GRACE_MS 500
#define LOOK_MS 20 // how often one that is not there looks whether its time has come

static void sleep_ms(uint32_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// --- One step, and what it took

static enum tern_result measured_step(struct tern_member *member)
{
    const enum tern_client_phase phase = tern_client_phase(&member->client);
    const double start = processor_seconds();
    const enum tern_result result = tern_client_step(&member->client);
    const double took = processor_seconds() - start;
    if (phase == TERN_PHASE_TRAIN) {
        member->work.train_seconds += took;
    } else if (phase == TERN_PHASE_DOWNLOAD || phase == TERN_PHASE_ENCODE) {
        member->work.codec_seconds += took;
    }
    if (phase == TERN_PHASE_ENCODE) {
        tern_progress_encoded(member->progress, took);
    }
    return result;
}

// The device's clock moves on before the core looks at it.
static enum tern_result step(struct tern_member *member)
{
    if (tern_client_phase(&member->client) != TERN_PHASE_TRAIN) {
        return measured_step(member);
    }
    if (member->client.training) {
        tern_virtual_clock_step(&member->clock);
    } else {
        tern_virtual_clock_begin(&member->clock);
    }
    const enum tern_result result = measured_step(member);
    if (tern_client_phase(&member->client) != TERN_PHASE_TRAIN) {
        tern_virtual_clock_end(&member->clock);
    }
    return result;
}

// --- Not being there

// Enrols when its version has come, if it is one that joins later.
static enum tern_result join(struct tern_member *member)
{
    char why[512];
    if (member->device.joins == 0) {
        return TERN_OK;
    }
    while (!tern_progress_has_version(member->progress, member->device.joins)) {
        sleep_ms(LOOK_MS);
    }
    const enum tern_result result = tern_member_enroll(member, why);
    if (result != TERN_OK) {
        tern_log(TERN_LOG_WARN, "not-enrolled", "why=%s", TERN_LOG_TEXT(why));
        return result;
    }
    member->arriving = true;
    return tern_client_restore(&member->client, &member->workspace);
}

// A round that was given more time, because too many had missed it, finds it there.
static bool misses_its_round(const struct tern_member *member)
{
    const uint32_t round = member->client.task.round;
    return tern_client_phase(&member->client) == TERN_PHASE_DOWNLOAD && !member->evaluator &&
           (tern_device_is_away(&member->device, round) ||
            (round != member->missed && tern_device_misses(&member->device, round)));
}

static void wait_until_past(const struct tern_member *member, uint32_t round, uint64_t at_most_ms)
{
    const struct tern_clock *clock = &member->clock.real;
    const uint64_t since = clock->monotonic_ms(clock->ctx);
    while (!tern_progress_is_past(member->progress, round) &&
           clock->monotonic_ms(clock->ctx) - since < at_most_ms) {
        sleep_ms(LOOK_MS);
    }
}

// It has a task and loses its power: what it had saved is what it goes on with, rounds later.
static enum tern_result miss_round(struct tern_member *member)
{
    const uint32_t round = member->client.task.round;
    const bool away = tern_device_is_away(&member->device, round);
    const uint64_t window = (uint64_t)member->client.task.window_ms + GRACE_MS;
    TERN_TRY(tern_client_end(&member->client));
    wait_until_past(member, round, away ? UINT64_MAX : window);
    member->missed = round;
    member->arriving = member->arriving || away;
    return tern_client_restore(&member->client, &member->workspace);
}

// By its own clock the window had passed before it was done: its update comes after the round, as
// it would from the device.
static bool is_late(const struct tern_member *member)
{
    const struct tern_client *client = &member->client;
    return member->clock.speed > 0 && tern_client_phase(client) == TERN_PHASE_UPLOAD &&
           client->task.window_ms > 0 && client->train_ms > client->task.window_ms &&
           !member->work.was_late;
}

// A round that is still open well after its deadline was given more time.
static void be_late(struct tern_member *member)
{
    member->work.was_late = true;
    const tern_Task *task = &member->client.task;
    wait_until_past(member, task->round, (uint64_t)task->window_ms + GRACE_MS);
}

static enum tern_result arrive(struct tern_member *member)
{
    struct tern_evaluate_result found;
    struct tern_pool_seat seat = {.pool = member->seat.pool, .test = member->test};
    const struct tern_trainer port = tern_pool_port(&seat);
    const struct tern_client *client = &member->client;
    TERN_TRY(
        port.evaluate(port.ctx, tern_client_weights(client), client->work.model->count, &found));
    const uint32_t newest = client->task.round - 1;
    const struct tern_arrival arrival = {
        .client = member->number,
        .version = newest,
        .missed = newest - member->last_version,
        .down = tern_meter_total(tern_client_meter_round(client), TERN_DOWN),
        .accuracy = tern_figure_value(&found),
    };
    tern_progress_arrival(member->progress, &arrival);
    member->arriving = false;
    return TERN_OK;
}

static enum tern_result live(struct tern_member *member)
{
    if (misses_its_round(member)) {
        return miss_round(member);
    }
    if (is_late(member)) {
        be_late(member);
    }
    if (member->arriving && tern_client_phase(&member->client) == TERN_PHASE_TRAIN) {
        return arrive(member);
    }
    return TERN_OK;
}

// --- All of it

// One that has spent its month's bytes would ask again in hours.
static bool is_done(struct tern_member *member)
{
    return tern_client_phase(&member->client) == TERN_PHASE_FINISHED ||
           tern_progress_is_stopped(member->progress) ||
           (member->device.budget > 0 && tern_client_next_ms(&member->client) > 0 &&
            tern_progress_is_past(member->progress, UINT32_MAX));
}

// One whose training failed, or whose update was not made, has no use for its worker: others wait
// for it, and it may be long until its next task.
static void give_up_worker(struct tern_member *member)
{
    const enum tern_client_phase phase = tern_client_phase(&member->client);
    if (phase != TERN_PHASE_TRAIN && phase != TERN_PHASE_ENCODE) {
        tern_pool_release(&member->seat);
    }
}

static void wait_for_client(const struct tern_member *member)
{
    const uint32_t ms = tern_client_next_ms(&member->client);
    sleep_ms(member->device.budget > 0 && ms > LOOK_MS ? LOOK_MS : ms);
}

void *tern_member_main(void *argument)
{
    struct tern_member *member = argument;
    char why[256] = "";
    enum tern_result result = join(member);
    while (result == TERN_OK && !is_done(member)) {
        result = step(member);
        give_up_worker(member);
        if (result == TERN_AGAIN) {
            wait_for_client(member);
            result = TERN_OK;
        } else if (result == TERN_OK) {
            result = live(member);
        }
    }
    tern_pool_release(&member->seat);
    if (result != TERN_OK) {
        snprintf(why, sizeof why, "%s stopped: %s (%s)", member->name, tern_result_sentence(result),
                 tern_result_name(result));
    }
    tern_progress_end(member->progress, result, why);
    return NULL;
}
