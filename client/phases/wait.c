// Decides when the client continues: after the time that the aggregator has requested, after a failure and its backoff, or when
// the conditions allow work again.
#include "core.h"

#define WAIT_MIN_MS 100
#define WAIT_MAX_MS 86400000
#define RETRY_AFTER_MAX_S 86400

static void sleep_until(struct tern_client *client, uint32_t ms)
{
    const struct tern_transport *transport = &client->config.ports.transport;
    if (ms >= TERN_CLIENT_CLOSE_AFTER_MS) {
        transport->close(transport->ctx);
    }
    client->due_ms = tern_client_now_ms(client) + ms;
}

uint32_t tern_client_add_jitter(struct tern_client *client, uint32_t ms, uint32_t most)
{
    const uint32_t more = tern_prng_below(&client->jitter, most + 1);
    return ms < UINT32_MAX - more ? ms + more : UINT32_MAX;
}

enum tern_result tern_client_wait(struct tern_client *client, uint32_t ms, const char *why)
{
    if (ms < WAIT_MIN_MS) {
        ms =
            WAIT_MIN_MS; // so that an aggregator that requests no wait does not keep the client busy
    } else if (ms > WAIT_MAX_MS) {
        ms = WAIT_MAX_MS;
    }
    sleep_until(client, ms);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_WAITING,
        .version = client->version,
        .wait_ms = ms,
        .why = why,
    };
    tern_client_emit(client, &event);
    return TERN_AGAIN;
}

// Returns a random time between half of min * 2^failures and all of it, so that clients that failed at the same time do not
// return at the same time.
static uint32_t backoff(struct tern_client *client)
{
    const uint32_t longest = client->config.retry_max_ms;
    uint64_t ms = client->config.retry_min_ms;
    for (uint32_t i = 0; i < client->failures && ms < longest; i++) {
        ms *= 2;
    }
    const uint32_t whole = ms < longest ? (uint32_t)ms : longest;
    return whole - tern_prng_below(&client->jitter, whole / 2 + 1);
}

// Returns the time of Retry-After plus a random time of up to half of it, because all refused clients have received the same
// time.
static uint32_t retry_after_ms(struct tern_client *client)
{
    const uint32_t seconds = client->response.retry_after_s;
    const uint32_t ms = (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * 1000u;
    return tern_client_add_jitter(client, ms, ms / 2);
}

static enum tern_result pause_work(struct tern_client *client, const char *why);

// Handles a request that the client itself has ended (watch.c). That is no failure, so the next attempt needs no backoff.
static enum tern_result end_request(struct tern_client *client)
{
    const struct tern_client_watch watch = client->watch;
    client->watch.stop = TERN_STOP_NONE;
    if (watch.stop == TERN_STOP_CONDITIONS) {
        return pause_work(client, watch.why);
    }
    if (watch.stop == TERN_STOP_CANCEL) {
        return TERN_ERR_CANCELLED;
    }
    const struct tern_client_event event = {
        .kind = TERN_EVENT_BUDGET,
        .result = TERN_ERR_BUDGET,
        .round = client->task.round,
        .wait_ms = client->config.budget_wait_ms,
        .why = watch.why,
        .bytes = tern_budget_cost(watch.total - watch.done, 1),
    };
    client->round_done = true;
    client->due_ms = tern_client_now_ms(client) + client->config.budget_wait_ms;
    tern_client_emit(client, &event);
    return TERN_AGAIN;
}

// Returns whether the program of a client that leaves should run again later, instead of the client trying again after wait_ms.
// An untrusted server stays so.
static bool gives_up(const struct tern_client *client, enum tern_result result, uint32_t wait_ms)
{
    const uint32_t failing_ms = (uint32_t)tern_client_now_ms(client) - client->failing_since_ms;
    return result == TERN_ERR_TLS ||
           (uint64_t)failing_ms + wait_ms > client->config.leaves_patience_s * 1000u;
}

enum tern_result tern_client_retry_later(struct tern_client *client, enum tern_result result,
                                         const char *why)
{
    if (TERN_WATCH && result == TERN_ERR_CANCELLED && client->watch.stop != TERN_STOP_NONE) {
        return end_request(client);
    }
    uint32_t ms = backoff(client);
    if (!TERN_SMALL && client->failures == 0) {
        client->failing_since_ms = (uint32_t)tern_client_now_ms(client);
    }
    if (client->response.retry_after_s > 0) {
        const uint32_t asked = retry_after_ms(client);
        ms = asked > ms ? asked : ms;
    }
    client->failures++;
    sleep_until(client, ms);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_FAILURE,
        .result = result,
        .round = client->task.round,
        .status = client->response.status,
        .wait_ms = ms,
        .why = why,
    };
    tern_client_emit(client, &event);
    if (!TERN_SMALL && client->config.leaves && gives_up(client, result, ms)) {
        client->stopped_by = result;
    }
    return TERN_AGAIN;
}

enum tern_result tern_client_drop_task(struct tern_client *client, enum tern_result result,
                                       const char *why)
{
    client->phase = TERN_PHASE_CHECKIN;
    client->training = false;
    client->download_received = 0;
    return tern_client_retry_later(client, result, why);
}

static tern_TrainingFailure training_failure_of(enum tern_result result)
{
    if (result == TERN_ERR_NON_FINITE || result == TERN_ERR_NORM_LIMIT) {
        return tern_TrainingFailure_FAILURE_NOT_FINITE;
    }
    return result == TERN_ERR_NOT_FOUND ? tern_TrainingFailure_FAILURE_NO_DATA
                                        : tern_TrainingFailure_FAILURE_TRAINER;
}

enum tern_result tern_client_fail_task(struct tern_client *client, enum tern_result result,
                                       const char *why)
{
    client->failed_round = client->task.round;
    client->failure = training_failure_of(result);
    return tern_client_drop_task(client, result, why);
}

// --- Conditions

// Conditions are checked before each piece of work. So a pause loses nothing: the task, the trainer's state and the pending
// update remain, and the client continues the same round.

static uint32_t paused_ms(const struct tern_client *client)
{
    const uint64_t ms = tern_client_now_ms(client) - client->paused_since_ms;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void report_pause(const struct tern_client *client, enum tern_client_event_kind kind,
                         uint32_t wait_ms, const char *why)
{
    struct tern_client_event event = {
        .kind = kind,
        .version = client->version,
        .wait_ms = wait_ms,
        .why = why,
    };
    if (client->pending.len > 0) {
        event.round = client->pending.round;
        event.sequence = client->pending.sequence;
    } else if (client->phase != TERN_PHASE_CHECKIN) {
        event.round = client->task.round;
    }
    tern_client_emit(client, &event);
}

static enum tern_result pause_work(struct tern_client *client, const char *why)
{
    const struct tern_transport *transport = &client->config.ports.transport;
    if (!client->paused) {
        client->paused = true;
        client->paused_since_ms = tern_client_now_ms(client);
        report_pause(client, TERN_EVENT_PAUSED, client->config.look_again_ms, why);
    } else if (paused_ms(client) >= TERN_CLIENT_CLOSE_AFTER_MS) {
        transport->close(transport->ctx);
    }
    client->due_ms = tern_client_now_ms(client) + client->config.look_again_ms;
    return TERN_AGAIN;
}

static void resume_work(struct tern_client *client)
{
    client->paused = false;
    client->train_started_ms += paused_ms(client); // training time does not include pauses
    report_pause(client, TERN_EVENT_RESUMED, paused_ms(client), NULL);
}

enum tern_result tern_client_check_conditions(struct tern_client *client)
{
    const struct tern_condition_port *port = &client->config.ports.conditions;
    const char *why = TERN_WHY("the conditions do not allow work now");
    if (port->may_work != NULL && !port->may_work(port->ctx, &client->conditions, &why)) {
        return pause_work(client, why);
    }
    if (client->paused) {
        resume_work(client);
    }
    return TERN_OK;
}
