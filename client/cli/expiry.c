#include "cli/expiry.h"

#include <inttypes.h>
#include <stdio.h>

#define DAY_S 86400
#define SOON_S (14 * DAY_S)

static void say_when(uint64_t end_s, uint64_t now_s, char when[32])
{
    if (end_s <= now_s) {
        snprintf(when, 32, "has expired");
    } else {
        snprintf(when, 32, "expires in %" PRIu64 " d", (end_s - now_s) / DAY_S);
    }
}

bool tern_expiry_say(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX])
{
    char server[32];
    char ca[32];
    uint64_t server_s = 0;
    uint64_t ca_s = 0;
    tern_curl_certificates(curl, &server_s, &ca_s);
    sentence[0] = '\0';
    if (server_s == 0) {
        return false;
    }
    say_when(server_s, now_s, server);
    say_when(ca_s, now_s, ca);
    const bool has_ca = ca_s != 0; // one that vouches for itself has none
    snprintf(sentence, EXPIRY_MAX, "the aggregator's certificate %s%s%s", server,
             has_ca ? ", its CA's " : "", has_ca ? ca : "");
    const uint64_t first_s = has_ca && ca_s < server_s ? ca_s : server_s;
    return first_s < now_s + SOON_S;
}
