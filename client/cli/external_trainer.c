#include "cli/external_trainer.h"

#include <stdio.h>
#include <string.h>

#define GRACE_MS 5000

enum tern_result tern_external_kind_of(const struct tern_client_settings *settings,
                                       enum external_kind *kind, char why[EXTERNAL_WHY_MAX])
{
    static const char *const names[] = {"builtin", "command", "library"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(settings->client_trainer, names[i]) == 0) {
            *kind = (enum external_kind)i;
            return TERN_OK;
        }
    }
    snprintf(why, EXTERNAL_WHY_MAX,
             "client.trainer is \"%s\"; it must be builtin, command or library",
             settings->client_trainer);
    return TERN_ERR_CONFIG;
}

static enum tern_result open_kind(struct external_trainer *external,
                                  const struct tern_client_settings *settings,
                                  const struct tern_model *model, const char *spec,
                                  const char *folder, char *why)
{
    if (external->kind == EXTERNAL_COMMAND) {
        const struct tern_command_config config = {.command = settings->client_trainer_command,
                                                   .folder = folder,
                                                   .model = model,
                                                   .time_ms = settings->client_trainer_timeout,
                                                   .grace_ms = GRACE_MS,
                                                   .persistent =
                                                       settings->client_trainer_persistent};
        return tern_command_trainer_open(&external->command, &config, why);
    }
    const struct tern_library_config config = {.path = settings->client_trainer_library,
                                               .options = settings->client_trainer_options,
                                               .spec = spec,
                                               .model = model};
    return config.path[0] != '\0'
               ? tern_library_trainer_open(&external->library, &config, why)
               : tern_external_fail(why, TERN_ERR_CONFIG,
                                    "client.trainer_library is not set: name a shared object");
}

enum tern_result tern_external_open(struct external_trainer *external,
                                    const struct tern_client_settings *settings,
                                    const struct tern_model *model, const char *spec,
                                    const char *folder, char why[EXTERNAL_WHY_MAX])
{
    char reason[TERN_EXTERNAL_WHY_MAX] = "";
    const enum tern_result result = open_kind(external, settings, model, spec, folder, reason);
    if (result != TERN_OK) {
        snprintf(why, EXTERNAL_WHY_MAX, "client.trainer_%s: %s",
                 external->kind == EXTERNAL_COMMAND ? "command" : "library", reason);
    }
    return result;
}

struct tern_trainer tern_external_port(struct external_trainer *external)
{
    return external->kind == EXTERNAL_COMMAND ? tern_command_trainer_port(&external->command)
                                              : tern_library_trainer_port(&external->library);
}

const char *tern_external_why(const struct external_trainer *external)
{
    switch (external->kind) {
    case EXTERNAL_COMMAND:
        return external->command.why;
    case EXTERNAL_LIBRARY:
        return external->library.why;
    case EXTERNAL_NONE:
        break;
    }
    return "";
}

const char *tern_external_output(const struct external_trainer *external)
{
    return external->kind == EXTERNAL_COMMAND ? tern_child_tail(&external->command.child) : "";
}

const char *tern_external_metrics(const struct external_trainer *external)
{
    return external->kind == EXTERNAL_COMMAND ? external->command.metrics : "";
}

void tern_external_close(struct external_trainer *external)
{
    if (external->kind == EXTERNAL_COMMAND) {
        tern_command_trainer_close(&external->command);
    } else if (external->kind == EXTERNAL_LIBRARY) {
        tern_library_trainer_close(&external->library);
    }
    external->kind = EXTERNAL_NONE;
}
