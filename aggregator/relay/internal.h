// What the files of relay/ share. Not for anybody else.
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
#include <signal.h>
#include <stdatomic.h>

// --- The client's records, with the rounds below that are in them (records.c)

struct relay_records {
    struct tern_store files;
    const struct tern_client *client;
    uint32_t taken;  // rounds below up to this one are in the record that is stored
    uint32_t taking; // likewise, once the update that is being made is stored
};

// The store of a client: `files`, whose record of updates also says what is taken. Sets taken to what it says.
// TERN_ERR_CORRUPT  that record is damaged: what was taken is not known; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_relay_records_open(struct relay_records *records,
                                                       struct tern_store files);
// The database was put back to where `newest` was its newest committed round: rounds behind it are yet to be, whatever
// was taken before. Errors of the store.
TERN_MUST_USE enum tern_result tern_relay_records_bound(struct relay_records *records,
                                                        uint32_t newest);
struct tern_store tern_relay_records_port(struct relay_records *records);

// --- Small files beside those (records.c)

#define RELAY_FILE_MAX 512u

// data: len bytes without padding that is not set. format: says of what. Errors of tern_file_write()
TERN_MUST_USE enum tern_result tern_relay_file_write(const char *folder, const char *name,
                                                     uint32_t format, const void *data, size_t len);
// TERN_ERR_NOT_FOUND  it is not there, of another format, or damaged; *data is then unchanged
TERN_MUST_USE enum tern_result tern_relay_file_read(const char *folder, const char *name,
                                                    uint32_t format, void *data, size_t len);
void tern_relay_file_remove(const char *folder, const char *name);

// --- Rounds of devices (downstream.c)

struct relay_below {
    struct tern_service *service;
    struct tern_db *db; // of the relay's thread
    const struct tern_model *model;
    struct relay_records *records;
    const char *folder;
    const struct tern_client *client; // for its task's window
    float *mean;                      // model->count values
    const float *base;                // of the task in hand; borrowed
    uint8_t base_sha256[TERN_SHA256_SIZE];
    struct tern_train_task task;
    uint32_t known;     // the last round that was looked at, and whether it was the follower's
    bool known_follows; //
    uint32_t told;      // the round that may open for the task in hand; 0 = none yet
};

struct tern_trainer tern_relay_downstream_port(struct relay_below *below);

// What was last said of training, from the file of the folder. TERN_ERR_NOT_FOUND: nothing yet, or it is damaged
TERN_MUST_USE enum tern_result tern_relay_course(const char *folder,
                                                 struct tern_federation_course *course);

// The newest committed round; 0 = none.
TERN_MUST_USE enum tern_result tern_relay_newest(struct tern_db *db, uint32_t *round);

// Devices are told that the federation has finished. TERN_ERR_BUSY: try again
TERN_MUST_USE enum tern_result tern_relay_end_downstream(struct relay_below *below);

// --- All of it

struct tern_relay;

struct tern_relay {
    struct tern_relay_config config;
    char device[TERN_DEVICE_NAME_MAX];
    char session_file[4096];
    struct tern_file_store *store;
    struct tern_partial_file *partial;
    struct tern_curl *curl;
    struct tern_client client;
    struct relay_records records;
    struct relay_below below;
    struct tern_service_upstream above; // of the relay's thread
    float *weights;
    void *error_buffer;
    float *velocity;
    float *local;
    uint8_t *blob;

    pthread_t thread;
    bool running;
    volatile sig_atomic_t abort; // ends a transfer that is under way
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; // under the lock
    bool ended;    // likewise
    char why[512]; // likewise
    void (*on_ended)(void *ctx);
    void *ended_ctx;
};

// --- The client of the aggregator upstream (upstream.c)

// At the start: restores what an earlier process stored of failures.
void tern_relay_link_begin(struct tern_relay *relay);
// Opens records and link of relay->config, and makes the client over them.
TERN_MUST_USE enum tern_result tern_relay_upstream_open(struct tern_relay *relay, char why[512]);
// Allocates memory and loads what is stored.
TERN_MUST_USE enum tern_result tern_relay_upstream_restore(struct tern_relay *relay,
                                                           const struct tern_model *model,
                                                           char why[512]);
void tern_relay_upstream_close(struct tern_relay *relay);

#endif
