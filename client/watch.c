// Checks, while a request is in progress, whether it may go on: a program can cancel it from another thread, conditions can
// change, and a budget can be used up. Called by the transport (tern_request.watch) in the client's thread; only
// tern_client_cancel() is called from elsewhere.
#include "core.h"

// Conditions and budgets are checked after this many bytes of a body. Together with what a transport has buffered, a body ends
// within 64 KB.
#define CHECK_BYTES 16384

void tern_client_cancel(struct tern_client *client)
{
    __atomic_store_n(&client->watch.cancelled, 1, __ATOMIC_RELEASE);
}

bool tern_watch_is_cancelled(const struct tern_client *client)
{
    return TERN_WATCH && __atomic_load_n(&client->watch.cancelled, __ATOMIC_ACQUIRE) != 0;
}

bool tern_watch_take_cancel(struct tern_client *client)
{
    return TERN_WATCH && __atomic_exchange_n(&client->watch.cancelled, 0, __ATOMIC_ACQ_REL) != 0;
}

static void report_progress(struct tern_client *client)
{
    struct tern_client_watch *watch = &client->watch;
    const uint64_t now_ms = tern_client_now_ms(client);
    const bool whole = watch->done == watch->total && watch->total > CHECK_BYTES;
    const size_t before = client->request.range_from;
    if (!whole && now_ms - watch->reported_ms < TERN_CLIENT_PROGRESS_MS) {
        return;
    }
    watch->reported_ms = now_ms;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_PROGRESS,
        .round = client->task.round,
        .version = client->version,
        .direction = watch->direction,
        .bytes = before + watch->done,
        .bytes_total = watch->total > 0 ? before + watch->total : 0,
    };
    tern_client_emit(client, &event);
}

static bool stop(struct tern_client *client, enum tern_client_stop reason, const char *why)
{
    client->watch.stop = reason;
    client->watch.why = why;
    return false;
}

// Returns whether conditions and budgets let the rest of the body move.
static bool check_rest(struct tern_client *client)
{
    const struct tern_condition_port *port = &client->config.ports.conditions;
    const char *why = TERN_WHY("the conditions do not allow work now");
    bool (*const asked)(void *ctx, struct tern_conditions *now, const char **why) =
        port->may_go_on != NULL ? port->may_go_on : port->may_work;
    if (asked != NULL && !asked(port->ctx, &client->conditions, &why)) {
        return stop(client, TERN_STOP_CONDITIONS, why);
    }
    tern_budget_collect(client);
    return tern_budget_left(client) > 0 ||
           stop(client, TERN_STOP_BUDGET,
                TERN_WHY("the byte budget was used up during the transfer"));
}

static bool watch_request(void *ctx, enum tern_direction direction, uint64_t done, uint64_t total)
{
    struct tern_client *client = ctx;
    struct tern_client_watch *watch = &client->watch;
    if (tern_watch_is_cancelled(client)) {
        return stop(client, TERN_STOP_CANCEL, NULL);
    }
    if (direction != watch->direction) {
        watch->direction = direction;
        watch->done = watch->checked = 0;
    }
    if (done == watch->done) {
        return true;
    }
    watch->done = done;
    watch->total = total;
    report_progress(client);
    // Outside a round the program decides. The last bytes cost less than a second attempt.
    if (client->phase == TERN_PHASE_NEW || done - watch->checked < CHECK_BYTES || done == total) {
        return true;
    }
    watch->checked = done;
    return check_rest(client);
}

void tern_watch_start(struct tern_client *client)
{
    if (TERN_WATCH) {
        client->watch.stop = TERN_STOP_NONE;
        client->watch.done = client->watch.checked = 0;
        client->watch.reported_ms = tern_client_now_ms(client);
        client->request.watch = watch_request;
        client->request.watch_ctx = client;
    }
}
