// Reads the model that a device holds. Called by the verbs status, export, predict and compare from the main thread.
#ifndef TERN_CLIENT_HELD_MODEL_H
#define TERN_CLIENT_HELD_MODEL_H

#include "cli/session.h"

// Opens the state directory for reading while a client may be running, and restores its model. *session is zeroed; the
// caller closes it even after an error, which session->why describes.
// TERN_ERR_NOT_FOUND  the client is not enrolled, or holds no model yet; errors of session.h
TERN_MUST_USE enum tern_result tern_held_open(struct session *session);

// Whether the weights were downloaded whole, so that they are the global model of their version; the replica's id shows
// that. Returns false for every replica that a delta has changed, and when memory is short.
bool tern_held_is_global(const struct session *session);

// Reads the federation's scaling of the columns into *bytes, which is malloc'ed and belongs to the caller; NULL: the
// columns stay as data.source reads them. On an error session->why describes it.
TERN_MUST_USE enum tern_result tern_held_scaling(struct session *session, uint8_t **bytes,
                                                 struct tern_span *columns);

// "global", "replica" or "personal".
const char *tern_held_name(const struct session *session);

#endif
