// One client of a fleet: its ports, its memory, and the thread that steps it. The main thread opens
// members one after another, starts them, and closes them when they have ended.
#ifndef TERN_FLEET_MEMBER_H
#define TERN_FLEET_MEMBER_H

#include "client.h"
#include "fleet/device.h"
#include "fleet/memory_store.h"
#include "fleet/pool.h"
#include "fleet/progress.h"
#include "fleet/settings.h"
#include "fleet/shares.h"
#include "fleet/virtual_clock.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/system.h"
#include "posix/transport.h"
#include <pthread.h>

// What the round in hand took.
struct tern_member_work {
    uint32_t local_steps;
    double train_seconds; // processor time
    double codec_seconds;
    double device_ms; // by the device's clock
    bool was_late;    // beyond the round's window by that clock
};

struct tern_member {
    uint32_t number; // 1, 2, ...: its name is fleet-0001
    bool evaluator;
    bool busy; // it has a task
    char name[32];
    struct tern_client client;
    struct tern_curl *transport;
    struct tern_memory_store memory; // store = memory
    struct tern_file_store *files;   // store = files
    struct tern_posix_conditions conditions;
    const struct tern_fleet_settings *settings;
    struct tern_device device;
    struct tern_virtual_clock clock;
    struct tern_pool_seat seat;
    struct tern_shares_columns columns; // of its own examples
    struct tern_attacker attacker;      // of the seat's trainer
    struct tern_view test;              // the whole test set
    uint32_t evaluate_every;            // versions, of the evaluator
    uint32_t planned_rounds; // the evaluator measures the last version in any case; 0 = not known
    bool measures;           // the version in hand
    struct tern_client_workspace workspace;
    float *weights;
    void *error_buffer;
    float *velocity; // no memory stands behind it before a codec uses it
    float *anchor;   // likewise, before a task does
    uint8_t *blob;
    float *local;
    struct tern_progress *progress;
    uint32_t last_version; // from which it last trained
    bool arriving;         // joined late or was away, and has not trained since
    uint32_t missed;       // round that it last was absent from
    struct tern_member_work work;
    struct tern_meter before; // what earlier runs sent and received
    pthread_t thread;
    bool started;
};

// What tern_member_open() would refuse of the settings of client `number`, whoever the aggregator
// is. TERN_ERR_CONFIG with `why`
TERN_MUST_USE enum tern_result tern_member_check(const struct tern_fleet_settings *settings,
                                                 uint32_t number, char why[512]);

// Prepares a client and enrols it, unless it joins later or its files say that it is enrolled
// already. *member is zeroed but for number and evaluator. why says what failed and what to do.
// Errors of tern_client_init(), tern_client_identify() and tern_client_enroll()
TERN_MUST_USE enum tern_result tern_member_open(struct tern_member *member,
                                                const struct tern_fleet_settings *settings,
                                                struct tern_progress *progress, char why[512]);

// Takes memory for the model and goes on where the store says. seat.pool, seat.train, columns, test and
// planned_rounds are set before. TERN_ERR_NO_MEMORY, errors of tern_client_restore()
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
