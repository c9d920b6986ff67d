#include "cli/expiry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_S 86400
#define SOON_S (14 * DAY_S)

struct clause {
    const char *whose;
    uint64_t end_s; // 0 = unknown
};

static void add(const struct clause *clause, uint64_t now_s, char sentence[EXPIRY_MAX])
{
    const size_t len = strlen(sentence);
    char when[32] = "has expired";
    if (clause->end_s > now_s) {
        snprintf(when, sizeof when, "expires in %" PRIu64 " d", (clause->end_s - now_s) / DAY_S);
    }
    snprintf(sentence + len, EXPIRY_MAX - len, "%s%s %s", len > 0 ? ", " : "", clause->whose, when);
}

bool tern_expiry_describe(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX])
{
    const struct tern_curl_ends ends = tern_curl_certificates(curl);
    const struct clause clauses[] = {
        {"the aggregator's certificate", ends.server_s},
        {"its CA's", ends.server_s != 0 ? ends.ca_s : 0},
        {"this client's certificate", ends.client_s},
    };
    bool soon = false;
    sentence[0] = '\0';
    for (size_t i = 0; i < sizeof clauses / sizeof clauses[0]; i++) {
        if (clauses[i].end_s != 0) {
            add(&clauses[i], now_s, sentence);
            soon = soon || clauses[i].end_s < now_s + SOON_S;
        }
    }
    return soon;
}
