// State and functions that the files of relay/ share. No other folder includes this header.
#ifndef TERN_RELAY_INTERNAL_H
#define TERN_RELAY_INTERNAL_H

#include "client.h"
#include "hosted/host.h"
#include "posix/file_store.h"
#include "posix/partial_file.h"
#include "posix/transport.h"
#include "relay/relay.h"
#include "store/store.h"
#include <pthread.h>
#include <stdatomic.h>

// --- The client's records, and the downstream rounds in them (records.c)

struct relay_records {
    struct tern_store files;
    const struct tern_client *client;
    // Number of the newest downstream round whose mean is in the stored record.
    uint32_t included;
    uint32_t pending_included; // the value of `included` once the update in progress is stored
};

// Opens the store of a client: `files`, whose record of updates ends with the number of the newest included downstream
// round. Sets `included`.
// TERN_ERR_CORRUPT  the record is damaged, so that the included rounds are unknown; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_relay_records_open(struct relay_records *records,
                                                       struct tern_store files);
// Lowers `included` to `newest`, the newest committed round, after the database may have been restored from a backup.
// Errors of the store.
TERN_MUST_USE enum tern_result tern_relay_records_limit(struct relay_records *records,
                                                        uint32_t newest);
struct tern_store tern_relay_records_port(struct relay_records *records);

// --- Small files beside the records (records.c)

#define RELAY_FILE_MAX 512u

// Writes a file. data: len bytes, whose padding is set. format: identifies the content. Errors of tern_file_write()
TERN_MUST_USE enum tern_result tern_relay_file_write(const char *folder, const char *name,
                                                     uint32_t format, const void *data, size_t len);
// Reads a file.
// TERN_ERR_NOT_FOUND  the file is missing, damaged or of another format; *data is then unchanged
TERN_MUST_USE enum tern_result tern_relay_file_read(const char *folder, const char *name,
                                                    uint32_t format, void *data, size_t len);

// --- Rounds of devices (downstream.c)

struct relay_downstream {
    struct tern_service *service;
    struct tern_db *db; // connection of the relay's thread
    const struct tern_model *model;
    struct relay_records *records;
    const char *folder;
    const struct tern_client *client; // the upstream client, whose task has the time for devices
    float *mean;                      // model->count values
    const float *base;                // weights of the present upstream task; borrowed
    uint8_t base_sha256[TERN_SHA256_SIZE];
    struct tern_train_task task;
    uint32_t examined;         // number of the round that was examined last
    bool examined_is_upstream; // whether the examined round brought the upstream model
    uint32_t undone_round;     // struct tern_upstream_training
    // Number of the round that may open for the present task; 0 = no round yet.
    uint32_t allowed_round;
};

struct tern_trainer tern_relay_downstream_port(struct relay_downstream *down);

// Reads the training parameters of the last upstream task from the folder.
// TERN_ERR_NOT_FOUND  the folder has none, or the file is damaged
TERN_MUST_USE enum tern_result tern_relay_read_training(const char *folder,
                                                        struct tern_upstream_training *course);

// Sets *round to the number of the newest committed round; 0 = no round.
TERN_MUST_USE enum tern_result tern_relay_newest_round(struct tern_db *db, uint32_t *round);

// Ends the downstream federation, so that its devices' check-ins are answered that it has finished. TERN_ERR_BUSY: try
// again
TERN_MUST_USE enum tern_result tern_relay_end_downstream(struct relay_downstream *down);

// --- The gateway

struct tern_relay {
    struct tern_relay_config config;
    char device[TERN_DEVICE_NAME_MAX];
    char session_file[4096];
    struct tern_file_store *store;
    struct tern_partial_file *partial;
    struct tern_curl *curl;
    struct tern_client client;
    struct relay_records records;
    struct relay_downstream down;
    struct tern_service_upstream upstream; // used by the relay's thread only
    float *weights;
    void *error_buffer;
    float *velocity;
    float *local;
    uint8_t *blob;

    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; // under the lock
    bool ended;    // under the lock
    char why[512]; // under the lock
    void (*on_stopped)(void *ctx);
    void *ended_ctx;
};

#endif
