// One client of this process with everything it needs: state directory, connection, data, trainer
// and memory. From the main thread.
#ifndef TERN_CLIENT_SESSION_H
#define TERN_CLIENT_SESSION_H

#include "cli/client_settings.h"
#include "cli/external.h"
#include "cli/training_trouble.h"
#include "client.h"
#include "data/source.h"
#include "hosted/device_name.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/partial_file.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "trainer/trainer.h"

#define SESSION_WHY_MAX 512

// Who listens to the client's events, and what ends its requests.
struct session_listener {
    void (*on_event)(void *ctx, const struct tern_client_event *event);
    void *ctx;
    const volatile sig_atomic_t *abort;
    bool patient; // a start without a connection waits for one
};

struct session {
    const struct tern_client_settings *settings;
    struct tern_client client;
    struct tern_file_store *store;
    struct tern_partial_file *partial; // NULL: without a connection
    struct tern_curl *curl;            // NULL: without a connection
    struct tern_posix_conditions conditions;
    struct tern_model model;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    struct external_trainer external;
    struct watched_trainer watched; // either of them
    struct session_listener listener;
    uint32_t scaling; // tag of the one that the data has; 0: it is as it was read
    void *arena;
    float *weights;
    void *error_buffer;
    float *velocity;
    float *anchor;
    uint8_t *blob;
    float *local;
    char device[TERN_DEVICE_NAME_MAX];
    char why[SESSION_WHY_MAX]; // after an error: what is wrong and what to do
};

// Locks the state directory and prepares a connection. *session is zeroed.
// TERN_ERR_STATE (in use by another process), TERN_ERR_CONFIG, TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_session_open(struct session *session,
                                                 const struct tern_client_settings *settings,
                                                 const struct session_listener *listener);

// Opens the state directory for looking at, beside a client that may be running.
TERN_MUST_USE enum tern_result
tern_session_open_reader(struct session *session, const struct tern_client_settings *settings);

// For a reader: what is kept of the last connection (session->curl). Nothing is sent. False: nothing can
// be known, e.g. since client.server is not set.
bool tern_session_read_link(struct session *session);

// Loads the identity. TERN_ERR_NOT_FOUND (not enrolled), TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_session_identify(struct session *session);

// Opens the data, builds model and trainer, takes memory and restores the client.
TERN_MUST_USE enum tern_result tern_session_restore(struct session *session);

// Takes only the memory that restoring needs; there is no trainer.
TERN_MUST_USE enum tern_result tern_session_restore_reader(struct session *session);

void tern_session_close(struct session *session);

#endif
