// Opens the trainer that client.trainer names, a command or a shared object of the user, with the same functions for both.
// Called by the verbs from the main thread.
#ifndef TERN_CLIENT_EXTERNAL_TRAINER_H
#define TERN_CLIENT_EXTERNAL_TRAINER_H

#include "cli/client_settings.h"
#include "external/command_trainer.h"
#include "external/library_trainer.h"

#define EXTERNAL_WHY_MAX (TERN_EXTERNAL_WHY_MAX + 64)

enum external_kind {
    EXTERNAL_NONE = 0, // client.trainer = builtin
    EXTERNAL_COMMAND,
    EXTERNAL_LIBRARY,
};

// An external trainer; all zero before tern_external_open().
struct external_trainer {
    enum external_kind kind;
    struct tern_command_trainer command;
    struct tern_library_trainer library;
};

// Sets *kind from the setting client.trainer. TERN_ERR_CONFIG: the setting has another value; why describes that.
TERN_MUST_USE enum tern_result tern_external_kind_of(const struct tern_client_settings *settings,
                                                     enum external_kind *kind,
                                                     char why[EXTERNAL_WHY_MAX]);

// Opens the trainer; the caller has set external->kind, and not to EXTERNAL_NONE. folder: working directory of a command.
// Settings, model and strings must outlive the trainer. Errors of tern_command_trainer_open() and tern_library_trainer_open();
// why names the setting.
TERN_MUST_USE enum tern_result tern_external_open(struct external_trainer *external,
                                                  const struct tern_client_settings *settings,
                                                  const struct tern_model *model, const char *spec,
                                                  const char *folder, char why[EXTERNAL_WHY_MAX]);

// Returns the trainer port.
struct tern_trainer tern_external_port(struct external_trainer *external);

// Returns the reason of the last failure; "" if there was none.
const char *tern_external_why(const struct external_trainer *external);

// Returns the last output of a command; "" for a library.
const char *tern_external_output(const struct external_trainer *external);

// Returns the metrics that a command has reported, as "name=1.5 other=2"; "" if there are none.
const char *tern_external_metrics(const struct external_trainer *external);

// Stops a command, or unloads a library.
void tern_external_close(struct external_trainer *external);

#endif
