// The trainer that client.trainer names, when it is one of the user's: which, from the settings,
// and one set of calls for both kinds. From the main thread.
#ifndef TERN_CLIENT_EXTERNAL_H
#define TERN_CLIENT_EXTERNAL_H

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

// Opens the trainer of a kind that is not EXTERNAL_NONE. A command works in `folder`. The strings
// and the model are borrowed. Errors of the two open functions, with `why`, which names the
// setting.
TERN_MUST_USE enum tern_result tern_external_open(struct external_trainer *external,
                                                  const struct tern_client_settings *settings,
                                                  const struct tern_model *model, const char *spec,
                                                  const char *folder, char why[EXTERNAL_WHY_MAX]);

struct tern_trainer tern_external_port(struct external_trainer *external);

// Stops a command while the client may not work, and lets it go on.
void tern_external_pause(struct external_trainer *external, bool paused);

// Of the last failure: a sentence; "" when there is none.
const char *tern_external_why(const struct external_trainer *external);

// What a command wrote last; "" for a library.
const char *tern_external_output(const struct external_trainer *external);

// "name=1.5 other=2", "" for none.
const char *tern_external_metrics(const struct external_trainer *external);

// Processor seconds of this process and of a command that runs: what client.when = idle leaves out.
double tern_external_cpu_seconds(void);

void tern_external_close(struct external_trainer *external);

#endif
