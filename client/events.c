// Emits the client's events, returns the names of events and phases, and reads the clock.
#include "core.h"

const char *tern_client_event_name(enum tern_client_event_kind kind)
{
    static const char *const names[] = {
#define EVENT_NAME(symbol, name) name,
        TERN_CLIENT_EVENT_LIST(EVENT_NAME)
#undef EVENT_NAME
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char *tern_client_phase_name(enum tern_client_phase phase)
{
    static const char *const names[] = {
        [TERN_PHASE_NEW] = "new",           [TERN_PHASE_CHECKIN] = "checkin",
        [TERN_PHASE_DOWNLOAD] = "download", [TERN_PHASE_TRAIN] = "train",
        [TERN_PHASE_ENCODE] = "encode",     [TERN_PHASE_UPLOAD] = "upload",
        [TERN_PHASE_EVALUATE] = "evaluate", [TERN_PHASE_STATISTICS] = "statistics",
        [TERN_PHASE_FINISHED] = "finished", [TERN_PHASE_STOPPED] = "stopped",
    };
    return (size_t)phase < sizeof names / sizeof names[0] ? names[phase] : "unknown";
}

void tern_client_emit(const struct tern_client *client, const struct tern_client_event *event)
{
    if (client->config.on_event != NULL) {
        client->config.on_event(client->config.ctx, event);
    }
}

uint64_t tern_client_now_ms(const struct tern_client *client)
{
    const struct tern_clock *clock = &client->config.ports.clock;
    return clock->monotonic_ms(clock->ctx);
}
