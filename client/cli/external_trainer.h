// Opens the user's trainer that client.trainer names, a command or a shared object, and offers one interface to both
// kinds. Called by session.c and verb_train_check.c from the main thread.
#ifndef TERN_CLIENT_EXTERNAL_TRAINER_H
#define TERN_CLIENT_EXTERNAL_TRAINER_H

#include "cli/client_settings.h"
#include "external/command_trainer.h"
#include "external/library_trainer.h"

#define EXTERNAL_WHY_MAX (TERN_EXTERNAL_WHY_MAX + 64)

enum external_kind {
    EXTERNAL_NONE = 0, // the built-in trainers
    EXTERNAL_COMMAND,
    EXTERNAL_LIBRARY,
};

// Zeroed by the caller.
struct external_trainer {
    enum external_kind kind;
    struct tern_command_trainer command;
    struct tern_library_trainer library;
};

// Reads client.trainer. TERN_ERR_CONFIG with `why`
TERN_MUST_USE enum tern_result tern_external_kind_of(const struct tern_client_settings *settings,
                                                     enum external_kind *kind,
                                                     char why[EXTERNAL_WHY_MAX]);

// Opens a trainer whose kind is not EXTERNAL_NONE. A command works in `folder`. The strings and the model are borrowed.
// Returns the errors of tern_command_trainer_open() and tern_library_trainer_open(); `why` names the setting.
TERN_MUST_USE enum tern_result tern_external_open(struct external_trainer *external,
                                                  const struct tern_client_settings *settings,
                                                  const struct tern_model *model, const char *spec,
                                                  const char *folder, char why[EXTERNAL_WHY_MAX]);

struct tern_trainer tern_external_port(struct external_trainer *external);

// Describes the last failure; "" when there is none.
const char *tern_external_why(const struct external_trainer *external);

// The end of a command's output; "" for a library.
const char *tern_external_output(const struct external_trainer *external);

// The metrics that a command reported, "name=1.5 other=2"; "" for none.
const char *tern_external_metrics(const struct external_trainer *external);

void tern_external_close(struct external_trainer *external);

#endif
