// Whether the aggregator above answers. While it does not, a file of the folder says since when and why, so that
// anybody may look; the service, which operators ask, is told of either.
#include "relay/internal.h"

#include "hosted/clock.h"
#include "hosted/log.h"
#include "util/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINK_FILE "silent"
#define LINK 0x314c5247u // "GRL1"

struct link_file {
    uint64_t silent_ms;
    uint32_t error;
    int32_t status;
    char why[sizeof((struct tern_service_above *)NULL)->why];
};

void tern_relay_link_look(const char *folder, struct tern_service_above *above)
{
    struct link_file file;
    *above = (struct tern_service_above){.is_known = true};
    if (tern_relay_file_read(folder, LINK_FILE, LINK, &file, sizeof file) == TERN_OK) {
        above->silent_ms = file.silent_ms;
        above->error = (enum tern_result)file.error;
        above->status = file.status;
        memcpy(above->why, file.why, sizeof above->why);
    }
}

// Nothing depends on it: a file that cannot be written leaves `status` without this line.
static void keep(const struct tern_relay *relay)
{
    const struct tern_service_above *above = &relay->above;
    struct link_file file;
    memset(&file, 0, sizeof file); // also what lies behind the NUL
    file.error = (uint32_t)above->error;
    file.status = above->status;
    file.silent_ms = above->silent_ms;
    snprintf(file.why, sizeof file.why, "%s", above->why);
    (void)!tern_relay_file_write(relay->config.folder, LINK_FILE, LINK, &file, sizeof file);
}

void tern_relay_link_begin(struct tern_relay *relay)
{
    tern_relay_link_look(relay->config.folder, &relay->above);
    tern_service_set_above(relay->below.service, &relay->above);
}

void tern_relay_link_answered(struct tern_relay *relay)
{
    struct tern_service_above *above = &relay->above;
    const uint64_t silent_ms = above->silent_ms;
    if (relay->below.service == NULL) {
        return; // it is only joining
    }
    *above = (struct tern_service_above){.is_known = true, .answered_ms = tern_unix_ms()};
    tern_service_set_above(relay->below.service, above);
    if (silent_ms != 0) {
        tern_relay_file_remove(relay->config.folder, LINK_FILE);
        tern_log(TERN_LOG_INFO, "above-answers", "server=%s after_s=%" PRIu64,
                 TERN_LOG_TEXT(relay->config.server),
                 above->answered_ms > silent_ms ? (above->answered_ms - silent_ms) / 1000 : 0);
    }
}

uint64_t tern_relay_link_silent(struct tern_relay *relay, const struct tern_client_event *event)
{
    struct tern_service_above *above = &relay->above;
    const bool answered = event->result != TERN_ERR_NETWORK && event->result != TERN_ERR_TLS;
    const char *detail = tern_curl_why(relay->curl);
    const struct tern_service_above before = *above;
    const uint64_t now = tern_unix_ms();
    if (relay->below.service == NULL) {
        return 0;
    }
    above->silent_ms = before.silent_ms != 0 ? before.silent_ms : now;
    above->error = event->result;
    above->status = answered ? event->status : 0;
    snprintf(above->why, sizeof above->why, "%s",
             !answered && detail[0] != '\0' ? detail
             : event->why != NULL           ? event->why
                                            : tern_result_sentence(event->result));
    tern_utf8_show(above->why, strlen(above->why));
    if (before.silent_ms == 0 || before.error != above->error || before.status != above->status ||
        strcmp(before.why, above->why) != 0) {
        keep(relay);
    }
    tern_service_set_above(relay->below.service, above);
    return now > above->silent_ms ? (now - above->silent_ms) / 1000 : 0;
}
