// One client of a fleet: its ports, its memory, and the thread that steps it. The main thread opens
// members one after another, starts them, and closes them when they have ended.
#ifndef TERN_FLEET_MEMBER_H
#define TERN_FLEET_MEMBER_H

#include "client.h"
#include "fleet/memory_store.h"
#include "fleet/pool.h"
#include "fleet/progress.h"
#include "fleet/settings.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/system.h"
#include "posix/transport.h"
#include <pthread.h>

struct tern_member {
    uint32_t number; // 1, 2, ...: its name is fleet-0001
    bool evaluator;
    char name[32];
    struct tern_client client;
    struct tern_curl *transport;
    struct tern_memory_store memory; // store = memory
    struct tern_file_store *files;   // store = files
    struct tern_posix_conditions conditions;
    struct tern_pool_seat seat;
    float *weights;
    enum tern_error_storage error_storage;
    void *error_buffer;
    float *velocity; // no memory stands behind it before a codec uses it
    uint8_t *blob;
    struct tern_progress *progress;
    uint32_t base_version;    // that the task in hand, or the update left over, trains from
    struct tern_meter before; // what earlier runs sent and received
    pthread_t thread;
    bool started;
};

// Prepares a client and enrols it, unless its files say that it is enrolled already. *member is
// zeroed but for number and evaluator. why says what failed and what to do.
// Errors of tern_client_init(), tern_client_identify() and tern_client_enroll()
TERN_MUST_USE enum tern_result tern_member_open(struct tern_member *member,
                                                const struct tern_fleet_settings *settings,
                                                struct tern_progress *progress, char why[512]);

// Takes memory for the model and goes on where the store says. seat.pool, train and test are set
// before. TERN_ERR_NO_MEMORY, errors of tern_client_restore()
TERN_MUST_USE enum tern_result tern_member_restore(struct tern_member *member,
                                                   const struct tern_model *model, char why[512]);

// Steps the restored client in a thread of its own until the federation is finished or the client
// fails (progress tells). TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_member_start(struct tern_member *member, char why[512]);

// What the client has sent or received since tern_member_open(), once its thread has ended.
struct tern_bytes tern_member_bytes(const struct tern_member *member,
                                    enum tern_direction direction);

// Waits for the thread, if any, and frees everything.
void tern_member_join(struct tern_member *member);
void tern_member_close(struct tern_member *member);

#endif
