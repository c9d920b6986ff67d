// Works only while the conditions allow it. Asked before every piece of work, so that a round is
// interrupted between two of them: the task, the trainer's state and an update that was not sent
// stay where they are, and the same round goes on.
#include "core.h"

static uint32_t paused_ms(const struct tern_client *client)
{
    const uint64_t ms = tern_client_now_ms(client) - client->paused_since_ms;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void say(const struct tern_client *client, enum tern_client_event_kind kind,
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
        say(client, TERN_EVENT_PAUSED, client->config.look_again_ms, why);
    } else if (paused_ms(client) >= TERN_CLIENT_CLOSE_AFTER_MS) {
        transport->close(transport->ctx);
    }
    client->due_ms = tern_client_now_ms(client) + client->config.look_again_ms;
    return TERN_AGAIN;
}

static void resume_work(struct tern_client *client)
{
    client->paused = false;
    client->train_started_ms += paused_ms(client); // a pause is no training time
    say(client, TERN_EVENT_RESUMED, paused_ms(client), NULL);
}

enum tern_result tern_client_allowed(struct tern_client *client)
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
