// The model that a device holds, for the verbs that use it. From the main thread.
#ifndef TERN_CLIENT_HELD_MODEL_H
#define TERN_CLIENT_HELD_MODEL_H

#include "cli/session.h"

// Opens the state directory for looking at, beside a client that may be running, and restores what it
// holds. On an error session->why says what is wrong. *session is zeroed, and to be closed in any case.
// TERN_ERR_NOT_FOUND  it is not enrolled, or holds no model yet; errors of the functions of session.h
TERN_MUST_USE enum tern_result tern_held_open(struct session *session);

// Whether the weights that are held came whole, and so are the global model of their version itself, which
// their id tells. false for a replica, also for one that deltas happened to lead there bit for bit, and
// where memory is short.
bool tern_held_is_global(const struct session *session);

// What the device scales its columns by: *bytes, malloc'ed and the caller's, has the columns; NULL: they are as
// data.source reads them. On an error session->why says what is wrong.
TERN_MUST_USE enum tern_result tern_held_scaling(struct session *session, uint8_t **bytes,
                                                 struct tern_span *columns);

// "global" or "replica".
const char *tern_held_name(const struct session *session);

#endif
