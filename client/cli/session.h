// A session is one client with its state directory, connection, conditions, model, data, trainer and memory. The verbs open it
// from the main thread.
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
    void (*on_first)(void *ctx);                // called once before training begins; may be NULL
    void *ctx;
    bool failed; // the last training has failed; verb_run.c resets it when it has saved `failure`
    struct training_failure failure;
};

// The callback for the client's events, and how the session's requests end.
struct session_listener {
    void (*on_event)(void *ctx, const struct tern_client_event *event);
    void *ctx;
    // nonzero: the process ends, so that nothing is tried again. Whoever sets it cancels the client, too. NULL: never
    const volatile sig_atomic_t *abort;
    bool patient; // retry until the model's manifest was fetched
    bool leaves;  // the program ends after one round
};

struct session {
    const struct tern_client_settings *settings;
    struct tern_client client;
    struct tern_file_store *store;
    struct tern_partial_file *partial; // NULL: the session only reads
    struct tern_curl *curl;            // NULL: the session has no transport
    struct tern_posix_conditions conditions;
    struct tern_model model;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    struct external_trainer external;
    struct watched_trainer watched; // runs `trainer` or `external`
    struct session_listener listener;
    uint32_t scaling; // tag of the federation's scaling that was applied to `data`; 0: none was
    void *arena;
    float *weights;
    void *error_buffer;
    float *velocity;
    float *anchor;
    uint8_t *blob;
    float *local;
    uint8_t helper_key[TERN_P256_PUBLIC_SIZE]; // of secure.helper_key
    char device[TERN_DEVICE_NAME_MAX];
    char why[SESSION_WHY_MAX]; // after an error: what happened, and what to do
};

// Opens a session that may change the state directory: locks the directory, and prepares a connection. *session is all zero
// before.
// TERN_ERR_STATE (another process has locked the directory), TERN_ERR_CONFIG, TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_open(struct session *session,
                                                 const struct tern_client_settings *settings,
                                                 const struct session_listener *listener);

// Opens a session that only reads the state directory, which a running client may have locked. *session is all zero before.
TERN_MUST_USE enum tern_result
tern_session_open_reader(struct session *session, const struct tern_client_settings *settings);

// Opens session->curl in a session that only reads, so that tern_curl_certificates() shows the dates of the last connection.
// Sends nothing. Returns false after an error, e.g. if client.server is not set.
bool tern_session_open_transport(struct session *session);

// Loads the identity; after an error session->why describes it. TERN_ERR_NOT_FOUND (not enrolled), TERN_ERR_CORRUPT,
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_session_identify(struct session *session);

// Builds session->model. If that needs a manifest that is not in the state directory, fetches it, with a few attempts, or until
// one succeeds if session->listener.patient is true. A session that only reads does not fetch. After an error session->why
// describes it.
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_CORRUPT, TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY,
// TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED, TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_build_model(struct session *session);

// Returns whether the built-in trainer can train session->model, which its spec decides.
bool tern_session_model_is_built_in(const struct session *session);

// Builds the model, allocates memory and restores the client. A session of tern_session_open() also opens the data and the
// trainer.
TERN_MUST_USE enum tern_result tern_session_restore(struct session *session);

// Closes everything, also after an error of an open function.
void tern_session_close(struct session *session);

// Writes the failure to the state directory, where `tern-client status` reads it until training works again. NULL: removes
// the file. Ignores errors, since the store reports a directory that cannot be written.
void tern_training_failure_save(const char *state_dir, const struct training_failure *failure);

// Reads the saved failure. Returns false when there is none.
bool tern_training_failure_read(const char *state_dir, struct training_failure *failure);

#define EXPIRY_MAX 256 // bytes of the sentence about expiry dates

// Writes when the certificates of the last verified connection and of this client expire: "the aggregator's certificate expires
// in 12 d, its CA's expires in 300 d, this client's certificate expires in 80 d", without unknown dates. Returns whether one
// has expired or will within two weeks.
bool tern_expiry_describe(const struct tern_curl *curl, uint64_t now_s, char sentence[EXPIRY_MAX]);

// --- The model in the state directory (stored_model.c)

// Opens a session that only reads, and restores the client with its model. *session is all zero before. The caller closes the
// session even after an error, which session->why describes.
// TERN_ERR_NOT_FOUND  the client is not enrolled, or has not downloaded a model yet; other errors of this header
TERN_MUST_USE enum tern_result tern_stored_model_open(struct session *session);

// Returns whether the weights came in one snapshot, so that they are the global model of their version; the replica's id shows
// that. Returns false if a delta has changed the replica, and if memory is short.
bool tern_stored_model_is_global(const struct session *session);

// Reads the federation's scaling of the columns into malloc'ed *bytes, which belongs to the caller, and points *columns to its
// pairs. *bytes is NULL if there is no scaling. After an error session->why describes it.
TERN_MUST_USE enum tern_result tern_stored_model_scaling(struct session *session, uint8_t **bytes,
                                                         struct tern_span *columns);

// Returns the kind of the model: "global", "replica" or "personal" (with values of local tensors that this client has trained).
const char *tern_stored_model_kind(const struct session *session);

#define CONDITIONS_WHY_MAX 384

// Fills *conditions from the settings client.when and budget.metered; the settings must outlive it. TERN_ERR_CONFIG: why names
// the setting and the problem.
TERN_MUST_USE enum tern_result
tern_conditions_from_settings(const struct tern_client_settings *settings,
                              struct tern_posix_conditions *conditions,
                              char why[CONDITIONS_WHY_MAX]);

#endif
