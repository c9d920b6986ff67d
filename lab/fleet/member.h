// One client of a fleet: its ports, its memory, and the thread that steps it. The main thread opens the members one
// by one, starts them, and closes them after their threads have ended.
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

// Costs of the current round.
struct tern_member_work {
    uint32_t local_steps;
    double train_seconds; // processor time
    double codec_seconds;
    double device_ms; // on the device's clock
    bool was_late;    // training exceeded the round's window on that clock
};

struct tern_member {
    uint32_t number; // from 1; client 1 is named fleet-0001
    bool evaluator;
    bool busy; // has a task
    char name[32];
    struct tern_client client;
    struct tern_curl *transport;
    struct tern_memory_store memory; // used if fleet.store = memory
    struct tern_file_store *files;   // used if fleet.store = files
    struct tern_posix_conditions conditions;
    const struct tern_fleet_settings *settings;
    struct tern_device device;
    struct tern_virtual_clock clock;
    uint8_t helper_key[TERN_P256_PUBLIC_SIZE]; // of secure.helper_key
    struct tern_pool_seat seat;
    struct tern_shares_columns columns; // columns of its own examples
    struct tern_attacker attacker;      // wraps the seat's trainer
    struct tern_view test;              // the whole test set
    uint32_t evaluate_every; // interval in versions between the evaluator's full measurements
    uint32_t planned_rounds; // the evaluator always measures the last one; 0: unknown
    bool measures;           // the current version is measured on all test examples
    struct tern_client_workspace workspace;
    float *weights;
    void *error_buffer;
    float *velocity; // untouched, so without physical memory, until a codec uses it
    float *anchor;   // untouched until a task uses it
    uint8_t *blob;
    float *local;
    struct tern_progress *progress;
    uint32_t last_version; // version that it last trained from
    bool arriving;         // joined late or was away, and has not trained since
    uint32_t missed;       // last round that it missed
    struct tern_member_work work;
    struct tern_meter before; // counts of earlier runs
    pthread_t thread;
    bool started;
};

// Checks the settings of client `number` as tern_member_open() does, without an aggregator. TERN_ERR_CONFIG with
// `why`
TERN_MUST_USE enum tern_result tern_member_check(const struct tern_fleet_settings *settings,
                                                 uint32_t number, char why[512]);

// Prepares a client, and enrols it unless it joins later or its files hold an identity. *member is zeroed except for
// number and evaluator. why: reason and what to do. Errors of tern_client_init(), tern_client_identify() and
// tern_client_enroll()
TERN_MUST_USE enum tern_result tern_member_open(struct tern_member *member,
                                                const struct tern_fleet_settings *settings,
                                                struct tern_progress *progress, char why[512]);

// Allocates the model's memory and restores the stored state. The caller sets seat.pool, seat.train, columns, test
// and planned_rounds before. TERN_ERR_NO_MEMORY, errors of tern_client_restore()
TERN_MUST_USE enum tern_result tern_member_restore(struct tern_member *member,
                                                   const struct tern_model *model, char why[512]);

// Starts a thread that steps the restored client until the federation finishes or the client fails, which `progress`
// reports. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_member_start(struct tern_member *member, char why[512]);

// Returns the bytes that the client has sent or received since tern_member_open(), after its thread has ended.
struct tern_bytes tern_member_bytes(const struct tern_member *member,
                                    enum tern_direction direction);

// Joins the thread, if any, and frees everything.
void tern_member_join(struct tern_member *member);
void tern_member_close(struct tern_member *member);

#endif
