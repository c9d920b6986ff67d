#include "admin/above.h"

#include "views/texts.h"
#include <stdio.h>

const char *tern_above_sentence(const struct tern_service_above *above, uint64_t now_ms,
                                char text[TERN_ABOVE_MAX])
{
    char duration[TERN_TEXT];
    const uint64_t ms = now_ms > above->silent_ms ? now_ms - above->silent_ms : 0;
    tern_text_duration(ms, duration);
    if (above->status != 0) {
        snprintf(text, TERN_ABOVE_MAX,
                 "the aggregator above has answered nothing but errors for %.40s (HTTP %d: %s)",
                 duration, above->status, above->why);
    } else {
        snprintf(text, TERN_ABOVE_MAX, "the aggregator above has not been reached for %.40s (%s)",
                 duration, above->why);
    }
    return text;
}

#define MEANWHILE                                                                                  \
    "updates of its devices are kept on this disk and go up once it answers; until then no round " \
    "opens here but the one that may be open. "

const char *tern_above_advice(const struct tern_service_above *above)
{
    if (above->error == TERN_ERR_TLS) {
        return MEANWHILE "relay.ca must be the CA of its certificate, and relay.server a name that "
                         "the certificate has; and is it valid today?";
    }
    return above->status != 0 ? MEANWHILE "Its own status and log say what is wrong there"
                              : MEANWHILE "Does it run, is relay.server its address, does the link "
                                          "work? event=above-unreachable in the log tells each try";
}

void tern_above_put_before(const struct tern_service_above *above, uint64_t now_ms,
                           struct tern_waiting *waiting)
{
    char text[TERN_ABOVE_MAX];
    if (above->silent_ms == 0) {
        return;
    }
    tern_waiting_put_before(waiting, tern_above_sentence(above, now_ms, text));
    tern_waiting_advise(waiting, "%s", tern_above_advice(above));
    waiting->needs_help = waiting->needs_help || above->error == TERN_ERR_TLS;
}
