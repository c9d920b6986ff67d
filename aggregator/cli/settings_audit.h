// Records in the audit log which settings of a service have changed, at its start and at SIGHUP. serve.c calls this
// from its main thread, while the service runs, so that it uses a database connection of its own.
#ifndef TERN_CLI_SETTINGS_AUDIT_H
#define TERN_CLI_SETTINGS_AUDIT_H

#include "cli/state.h"

// Records the settings in force that have changed. Logs a failure, since the settings are in force. before: the settings before
// SIGHUP, whose live ones are compared. NULL: the service has started: each setting is compared with its last row in the audit
// log, or with its default if there is no row, and admin.token with its last row. If several aggregators share the database,
// a start compares the shared settings only, because the others differ from node to node.
void tern_settings_audit(const struct tern_cli *cli, const struct tern_aggregator_settings *before);

#endif
