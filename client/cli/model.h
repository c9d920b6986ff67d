// The model that the identity of a session names: one that this program builds from its spec, or
// one that comes with a manifest, which is fetched once and kept beside the identity.
#ifndef TERN_CLIENT_MODEL_H
#define TERN_CLIENT_MODEL_H

#include "cli/session.h"

// Whether the spec alone gives the model of this hash (tern_client_config.builds_model).
bool tern_session_builds_spec(void *ctx, const char *spec, const uint8_t *hash);

// Builds session->model. A manifest that is not in the state directory is fetched, if the session
// has a connection, again and again while session->listener.patient, else a few times.
// On an error session->why says what is wrong.
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_CORRUPT, TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY,
// TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED, TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_build_model(struct session *session);

// Whether the built-in trainer can train session->model, as far as its spec says: rules for the
// tensors of a built-in model change nothing about that.
bool tern_session_model_is_built_in(const struct session *session);

#endif
