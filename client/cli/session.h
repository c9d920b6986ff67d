// Opens one client with everything it needs: state directory, connection, conditions, model, data, trainer and memory. Called
// by the verbs from the main thread.
#ifndef TERN_CLIENT_SESSION_H
#define TERN_CLIENT_SESSION_H

#include "cli/client_settings.h"
#include "cli/external_trainer.h"
#include "client.h"
#include "data/source.h"
#include "hosted/host.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/partial_file.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "trainer/trainer.h"

#define SESSION_WHY_MAX 512
#define TRAINING_WHY_MAX (EXTERNAL_WHY_MAX + 256) // bytes of the reason why training failed

// A failure of local training, for the log and for a file of the state directory.
struct training_failure {
    uint32_t round;
    enum tern_result result;
    uint64_t time_s; // since 1970
    char why[TRAINING_WHY_MAX];
    const char *hint; // advice; "" for none. Not read from the file, where the reason includes it
};

// Runs another trainer and records its failures.
struct watched_trainer {
    struct tern_trainer inner;
    const struct tern_builtin_trainer *builtin; // the inner trainer; NULL: it is external
    const struct external_trainer *external;    // the inner trainer; NULL: it is built in
    void (*on_first)(void *ctx);                // called before the first training; may be NULL
    void *ctx;
    bool failed; // set at a failure; verb_run.c resets it
    struct training_failure failure;
};

// The callback for the client's events, and the flag that ends its requests.
struct session_listener {
    void (*on_event)(void *ctx, const struct tern_client_event *event);
    void *ctx;
    const volatile sig_atomic_t *abort;
    bool patient; // the start waits for a connection
};

struct session {
    const struct tern_client_settings *settings;
    struct tern_client client;
    struct tern_file_store *store;
    struct tern_partial_file *partial; // NULL: a reader
    struct tern_curl *curl;            // NULL: a reader
    struct tern_posix_conditions conditions;
    struct tern_model model;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    struct external_trainer external;
    struct watched_trainer watched; // wraps `trainer` or `external`
    struct session_listener listener;
    uint32_t scaling; // tag of the federation's scaling that the data has; 0: none
    void *arena;
    float *weights;
    void *error_buffer;
    float *velocity;
    float *anchor;
    uint8_t *blob;
    float *local;
    char device[TERN_DEVICE_NAME_MAX];
    char why[SESSION_WHY_MAX]; // describes the last error and what to do
};

// Locks the state directory and prepares a connection. *session is zeroed.
// TERN_ERR_STATE (in use by another process), TERN_ERR_CONFIG, TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_open(struct session *session,
                                                 const struct tern_client_settings *settings,
                                                 const struct session_listener *listener);

// Opens the state directory for reading while a client may be running.
TERN_MUST_USE enum tern_result
tern_session_open_reader(struct session *session, const struct tern_client_settings *settings);

// Loads a reader's record of the last connection into session->curl. Sends nothing. Returns false on an error, e.g.
// when client.server is not set.
bool tern_session_open_transport(struct session *session);

// Loads the identity. TERN_ERR_NOT_FOUND (not enrolled), TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_session_identify(struct session *session);

// Builds session->model. Fetches a manifest that is not in the state directory if the session has a connection:
// a few times, or until it succeeds when session->listener.patient. On an error session->why describes it.
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_CORRUPT, TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY,
// TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED, TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_build_model(struct session *session);

// Whether the built-in trainer can train session->model, by its spec. Rules for the tensors of a built-in model do
// not change that.
bool tern_session_model_is_built_in(const struct session *session);

// Builds the model, allocates memory and restores the client. If the session may train (tern_session_open()), also opens
// the data and the trainer.
TERN_MUST_USE enum tern_result tern_session_restore(struct session *session);

void tern_session_close(struct session *session);

// Writes the failure to the state directory, where `tern-client status` reads it until training works again. NULL: removes
// the file. Ignores errors, since the store reports a directory that cannot be written.
void tern_training_failure_save(const char *state_dir, const struct training_failure *failure);

// Reads the saved failure. Returns false when there is none.
bool tern_training_failure_read(const char *state_dir, struct training_failure *failure);

#define EXPIRY_MAX 256 // bytes of a sentence

// Describes when the certificates of the last verified connection and the client's own expire.
// Writes "the aggregator's certificate expires in 12 d, its CA's expires in 300 d, this client's certificate expires
// in 80 d" and omits unknown dates. Returns whether one expires within two weeks or has expired.
bool tern_expiry_describe(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX]);

// --- The model that a device holds (held_model.c)

// Opens the state directory for reading while a client may be running, and restores its model. *session is zeroed; the
// caller closes it even after an error, which session->why describes.
// TERN_ERR_NOT_FOUND  the client is not enrolled, or holds no model yet; errors of session.h
TERN_MUST_USE enum tern_result tern_stored_model_open(struct session *session);

// Whether the weights were downloaded whole, so that they are the global model of their version; the replica's id shows
// that. Returns false for every replica that a delta has changed, and when memory is short.
bool tern_stored_model_is_global(const struct session *session);

// Reads the federation's scaling of the columns into *bytes, which is malloc'ed and belongs to the caller; NULL: the
// columns stay as data.source reads them. On an error session->why describes it.
TERN_MUST_USE enum tern_result tern_stored_model_scaling(struct session *session, uint8_t **bytes,
                                                         struct tern_span *columns);

// "global", "replica" or "personal".
const char *tern_stored_model_kind(const struct session *session);

#define CONDITIONS_WHY_MAX 384

// Fills *conditions from client.when and budget.metered; it borrows the settings' root. TERN_ERR_CONFIG: why names the setting and its error.
TERN_MUST_USE enum tern_result
tern_conditions_from_settings(const struct tern_client_settings *settings,
                              struct tern_posix_conditions *conditions,
                              char why[CONDITIONS_WHY_MAX]);

#endif
