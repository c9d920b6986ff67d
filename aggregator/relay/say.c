// What the client above tells, in the log of the gateway: of that link, which is metered.
#include "relay/above.h"

#include "hosted/log.h"
#include <inttypes.h>

static void say_uploaded(const struct tern_client_event *event)
{
    if (event->result == TERN_OK) {
        tern_log(TERN_LOG_INFO, "above-took",
                 "round=%u sequence=%u bytes=%" PRIu64 " round_bytes=%" PRIu64 " answer=%s",
                 event->round, event->sequence, event->bytes, event->round_bytes,
                 event->duplicate ? "duplicate" : "accepted");
        return;
    }
    tern_log(
        TERN_LOG_WARN, "above-gave-back",
        "round=%u sequence=%u result=%s advice=\"it is in the gateway's error buffer, and goes "
        "with a later update\"",
        event->round, event->sequence, tern_result_name(event->result));
}

// A link that is down is named at once, and what is done about it.
static void say_trouble(const struct tern_relay *relay, const struct tern_client_event *event)
{
    const bool unreachable = event->result == TERN_ERR_NETWORK || event->result == TERN_ERR_TLS;
    tern_log(TERN_LOG_WARN, unreachable ? "above-unreachable" : "above-trouble",
             "server=%s result=%s status=%d wait_ms=%u why=%s detail=%s",
             TERN_LOG_TEXT(relay->config.server), tern_result_name(event->result), event->status,
             event->wait_ms, TERN_LOG_TEXT(event->why), TERN_LOG_TEXT(tern_curl_why(relay->curl)));
}

void tern_relay_say(void *ctx, const struct tern_client_event *event)
{
    const struct tern_relay *relay = ctx;
    switch (event->kind) {
    case TERN_EVENT_ENROLLED:
        tern_log(TERN_LOG_DEBUG, "above-enrolled", "client=%" PRIu64, event->client_id);
        break;
    case TERN_EVENT_STARTED_OVER:
        tern_log(TERN_LOG_WARN, "above-started-over", "result=%s why=%s",
                 tern_result_name(event->result), TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_TASK:
        tern_log(TERN_LOG_INFO, "above-task",
                 "round=%u version=%u local_steps=%u download=%" PRIu64, event->round,
                 event->version, event->local_steps, event->bytes);
        break;
    case TERN_EVENT_TRAINED:
        tern_log(TERN_LOG_INFO, "above-learnt", "round=%u examples=%u loss=%.4f", event->round,
                 event->num_examples, (double)event->loss);
        break;
    case TERN_EVENT_ENCODED:
        tern_log(TERN_LOG_DEBUG, "above-encoded", "round=%u sequence=%u bytes=%" PRIu64,
                 event->round, event->sequence, event->bytes);
        break;
    case TERN_EVENT_UPLOADED:
        say_uploaded(event);
        break;
    case TERN_EVENT_TROUBLE:
        say_trouble(relay, event);
        break;
    case TERN_EVENT_BUDGET:
        tern_log(TERN_LOG_WARN, "above-budget",
                 "wait_ms=%u bytes=%" PRIu64 " left=%" PRIu64 " why=%s", event->wait_ms,
                 event->bytes, event->budget_left, TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_FINISHED:
        tern_log(TERN_LOG_INFO, "above-finished", "version=%u", event->version);
        break;
    case TERN_EVENT_WAITING:
        tern_log(TERN_LOG_DEBUG, "above-waits", "wait_ms=%u why=%s", event->wait_ms,
                 TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_DOWNLOADED:
    case TERN_EVENT_EVALUATED:
    case TERN_EVENT_PAUSED:
    case TERN_EVENT_RESUMED:
    case TERN_EVENT_STATISTICS:
    case TERN_EVENT_SCALED:
        break; // a gateway has no data and no conditions
    }
}
