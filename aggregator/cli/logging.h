// The section [log] of the settings.
#ifndef TERN_CLI_LOGGING_H
#define TERN_CLI_LOGGING_H

#include "cli/settings.h"
#include "hosted/log.h"
#include "service/service.h"

struct tern_cli_logging {
    enum tern_log_level level;
    enum tern_log_format format;
    struct tern_service_logging requests;
};

// TERN_ERR_CONFIG: a word is not known; why says which and what is allowed
TERN_MUST_USE enum tern_result
tern_cli_read_logging(const struct tern_aggregator_settings *settings,
                      struct tern_cli_logging *logging, char why[256]);

// Lines are from now on of this level and format.
void tern_cli_take_logging(const struct tern_cli_logging *logging);

#endif
