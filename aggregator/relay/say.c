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

// An aggregator above that does not answer, or has errors alone, is named at once, and what becomes of devices' updates.
static void say_silent(struct tern_relay *relay, const struct tern_client_event *event)
{
    const bool unreachable = event->result == TERN_ERR_NETWORK || event->result == TERN_ERR_TLS;
    const uint64_t for_s = tern_relay_link_silent(relay, event);
    tern_log(
        TERN_LOG_WARN, unreachable ? "above-unreachable" : "above-trouble",
        "server=%s result=%s status=%d for_s=%" PRIu64 " wait_ms=%u why=%s detail=%s advice=%s",
        TERN_LOG_TEXT(relay->config.server), tern_result_name(event->result), event->status, for_s,
        event->wait_ms, TERN_LOG_TEXT(event->why), TERN_LOG_TEXT(tern_curl_why(relay->curl)),
        TERN_LOG_TEXT("updates of devices are kept, and go up once it answers; until then no "
                      "round opens here but the one that may be open"));
}

static void say_trouble(struct tern_relay *relay, const struct tern_client_event *event)
{
    switch ((int)event->result) {
    case TERN_ERR_NETWORK:
    case TERN_ERR_TLS:
    case TERN_ERR_BUSY:
    case TERN_ERR_HTTP:
        if (relay->abort == 0) { // else it was given up, because the gateway is to end
            say_silent(relay, event);
        }
        break;
    default:
        tern_log(TERN_LOG_WARN, "above-trouble", "server=%s result=%s status=%d wait_ms=%u why=%s",
                 TERN_LOG_TEXT(relay->config.server), tern_result_name(event->result),
                 event->status, event->wait_ms, TERN_LOG_TEXT(event->why));
        break;
    }
}

// What tells that the aggregator above has answered.
static bool is_answer(const struct tern_client_event *event)
{
    switch ((int)event->kind) {
    case TERN_EVENT_ENROLLED:
    case TERN_EVENT_TASK:
    case TERN_EVENT_DOWNLOADED:
    case TERN_EVENT_UPLOADED:
    case TERN_EVENT_WAITING:
    case TERN_EVENT_FINISHED:
        return true;
    default:
        return false;
    }
}

void tern_relay_say(void *ctx, const struct tern_client_event *event)
{
    struct tern_relay *relay = ctx;
    if (is_answer(event)) {
        tern_relay_link_answered(relay);
    }
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
    case TERN_EVENT_FAILURE:
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
    case TERN_EVENT_OTHER_COLUMNS:
        break; // a gateway has no data and no conditions
    }
}
