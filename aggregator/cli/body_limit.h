// How long the body of a request may be, as the model needs it. init says it, serve goes by it. From
// the main thread.
#ifndef TERN_CLI_BODY_LIMIT_H
#define TERN_CLI_BODY_LIMIT_H

#include "cli/settings.h"
#include "cli/verbs.h"
#include "codec/codec.h"
#include "tensor/model.h"

// The most bytes that an update of `model` under `codec` takes.
uint64_t tern_cli_update_max(const struct tern_codec *codec, const struct tern_model *model);

// limits.body_bytes, or what the model's updates take under any codec, since a round keeps the one
// that it was opened with. spec: of the model, for the message. Returns an exit code: a setting is
// refused under which updates of codec.codec, which is `codec`, would be.
int tern_cli_body_limit(struct tern_cli *cli, const struct tern_codec *codec,
                        const struct tern_model *model, const char *spec, uint32_t *limit);

#endif
