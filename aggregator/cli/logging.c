#include "cli/logging.h"

#include <stdio.h>
#include <string.h>

static bool parse_requests(const char *text, enum tern_logged_requests *requests)
{
    static const char *const names[] = {[TERN_LOG_NO_REQUESTS] = "none",
                                        [TERN_LOG_REFUSED_REQUESTS] = "refused",
                                        [TERN_LOG_ALL_REQUESTS] = "all"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *requests = (enum tern_logged_requests)i;
            return true;
        }
    }
    return false;
}

static enum tern_result refuse(const char *key, const char *text, const char *allowed,
                               char why[256])
{
    snprintf(why, 256, "log.%s = %s; allowed: %s", key, text, allowed);
    return TERN_ERR_CONFIG;
}

enum tern_result tern_cli_read_logging(const struct tern_aggregator_settings *settings,
                                       struct tern_cli_logging *logging, char why[256])
{
    if (!tern_log_level_parse(settings->log_level, &logging->level)) {
        return refuse("level", settings->log_level, "error, warn, info, debug", why);
    }
    if (!tern_log_format_parse(settings->log_format, &logging->format)) {
        return refuse("format", settings->log_format, "text, json", why);
    }
    if (!parse_requests(settings->log_requests, &logging->requests.requests)) {
        return refuse("requests", settings->log_requests, "none, refused, all", why);
    }
    logging->requests.requests_per_minute = settings->log_requests_per_minute;
    return TERN_OK;
}

void tern_cli_take_logging(const struct tern_cli_logging *logging)
{
    tern_log_set_level(logging->level);
    tern_log_set_format(logging->format);
}
