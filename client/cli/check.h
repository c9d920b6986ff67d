// What `tern-client check` finds of its data.
#ifndef TERN_CLIENT_CHECK_H
#define TERN_CLIENT_CHECK_H

#include "cli/client_settings.h"
#include "hosted/findings.h"
#include "tensor/model.h"
#include "wire/wire.h"

#define CHECK_SENTENCE_MAX 640

// Looks at [data] as a client would read it, and at every line of a CSV file. spec: of the
// federation's built-in model, which must fit; NULL: not known. scaling: pairs of the columns that the
// federation's clients scale by; none: not known to this one.
void tern_check_data(const struct tern_client_settings *settings, const char *spec,
                     struct tern_span scaling, struct tern_findings *findings);

#endif
