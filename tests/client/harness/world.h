// Everything around one client, by hand: an aggregator that really decodes updates and keeps its
// own replica, a store whose power can be cut at any write, a clock that only moves when told, and
// a trainer whose changes are dyadic, so that sums are exact and conservation is an equation.
#ifndef TERN_TEST_WORLD_H
#define TERN_TEST_WORLD_H

#include "client.h"
#include "wire/wire.h"

#define WORLD_VALUES 608 // a segment of 600 and a fused one of 8
#define WORLD_ROUNDS 64
#define WORLD_BLOB 16384
#define WORLD_EVENTS 512
#define WORLD_PIECE 100

// --- Aggregator

// What happens to the first PUT that arrives for a round.
enum fault {
    FAULT_NONE,
    FAULT_LOSE_REQUEST,   // cut before it is complete
    FAULT_LOSE_REPLY,     // applied, but the answer is lost
    FAULT_LATE,           // the round was committed without it
    FAULT_REJECT,         // 422 norm-limit, Retry-After as refused_wait_s
    FAULT_BUSY,           // 503, Retry-After 30
    FAULT_UNAUTHORIZED,   // 401
    FAULT_PROXY_PAGE,     // 410 with a page that is not an Error
    FAULT_BAD_REPLY,      // applied, but the answer's body is damaged
    FAULT_CONFLICT,       // 409
    FAULT_LATE_LOST_REPLY // late, and the answer is lost once
};

struct fake_download {
    uint8_t blob[WORLD_BLOB];
    size_t len;
    uint8_t sha256[TERN_SHA256_SIZE];
};

struct fake_accepted {
    uint32_t round;
    uint32_t sequence;
    uint8_t sha256[TERN_SHA256_SIZE];
};

// What came of an update whose connection was cut.
struct fake_unfinished {
    char path[TERN_PATH_MAX];
    uint8_t data[WORLD_BLOB];
    size_t len; // 0: nothing
};

struct fake_server {
    const struct tern_model *model;
    uint64_t seed;
    uint32_t target; // rounds to do
    uint32_t version;
    uint8_t replica[TERN_SHA256_SIZE];
    float weights[WORLD_VALUES];
    float applied[WORLD_VALUES];                  // sum of all accepted updates, decoded
    struct fake_download downloads[WORLD_ROUNDS]; // [v]: from version v to v + 1
    uint8_t replica_of[WORLD_ROUNDS + 1][TERN_SHA256_SIZE];
    struct fake_accepted accepted[WORLD_ROUNDS * 4];
    size_t accepted_count;
    size_t puts; // PUT requests that arrived whole
    struct fake_unfinished unfinished;
    size_t cut_upload_at; // bytes of the next PUT's body that arrive, if it has more; 0: all
    size_t upload_bytes;  // of bodies of PUT that arrived
    size_t asked;         // how much of an update there is
    int asked_status;     // 0: as it should be

    // The script.
    enum fault faults[WORLD_ROUNDS + 1]; // by round
    const char *codec;
    // by round; decay and error_limit are 0.5, step_ahead 0.25
    tern_ErrorDirective directives[WORLD_ROUNDS + 1];
    bool next_in_reply; // the update's answer brings the next task
    bool snapshots;     // catch up by snapshot
    bool inlines;       // downloads come with the answer to a check-in, if it has room
    bool evaluate;
    bool asks;              // tasks to train ask for an evaluation before
    tern_Gradient gradient; // of tasks to train; reduced: anchor is the round before
    bool no_task;
    bool final_model; // the end comes with the global model itself, which has `remainder` more
    float remainder;  // of its first value, which no delta brings
    uint8_t final_replica[TERN_SHA256_SIZE]; // that it makes
    bool final_lies;                         // the hash is not of it
    uint32_t come_back_ms;
    int checkin_status; // 0: as it should be
    uint32_t refused_wait_s;
    uint32_t window_ms;
    uint32_t local_steps;
    struct fake_download snapshot;
    struct fake_download manifest;   // len > 0: the model comes with it
    struct fake_download indices;    // len > 0: the indices that the tasks name
    tern_StatisticsState statistics; // of answers without a task
    bool other_column_names;         // of all answers to check-ins
    struct fake_download scaling;    // len > 0: that clients must have before a task
    bool strips;                     // the last update came without its indices
    // Changes each instruction before it is sent; NULL: nothing changes.
    void (*adapt)(struct fake_server *server, tern_CheckinReply *reply);
    // Takes an accepted masked update, which then counts only by fake_server_commit().
    void (*take_masked)(struct fake_server *server, uint32_t round, struct tern_span packed);

    // What it was told.
    tern_CheckinRequest last_checkin;
    tern_Update last_update;
    uint8_t told[256]; // statistics
    size_t told_len;
    size_t told_times;
    int told_status; // 0: as it should be
    size_t checkins;
    tern_Evaluation evaluations[WORLD_ROUNDS];
    size_t evaluation_count;
};

void fake_server_init(struct fake_server *server, const struct tern_model *model);

// Commits a round with this change (the aggregator's weights move by it).
void fake_server_commit(struct fake_server *server, const float *change);

// From now on tasks name the indices that a leader with these values chooses.
void fake_server_lead(struct fake_server *server, const float *values);

// Answers a request. Returns false when the answer is lost on the way.
bool fake_server_answer(struct fake_server *server, const struct tern_request *request,
                        uint8_t *reply, size_t reply_size, size_t *reply_len, int *status,
                        uint32_t *retry_after);

bool fake_server_accepted(const struct fake_server *server, uint32_t round, uint32_t sequence);

// Replaces the download from version v by this container, keeping its other fields.
void fake_server_redo_download(struct fake_server *server, uint32_t v, tern_Download *message,
                               struct tern_span container);

// --- The whole world

struct fake_record {
    uint8_t *data;
    size_t len;
    bool saved;
    bool damaged;
};

struct fake_store {
    struct fake_record records[TERN_RECORD_COUNT];
    size_t writes;  // since init
    size_t cut_at;  // this write (1, 2, ...) fails; 0 = never
    bool cut_after; // ... after it was stored, not before
    bool full;      // every save returns TERN_ERR_NO_SPACE
    // The record that is saved in pieces (world_save_at_once(): none):
    struct fake_record draft;
    enum tern_record draft_of;
    size_t draft_front;
    size_t drafts;    // begun
    size_t full_from; // bytes of it from which on there is no room; 0 = there is
    // Conservation: what was encoded and saved, less what a directive took away on purpose.
    float encoded[WORLD_VALUES];
    float saved_buffer[WORLD_VALUES];
    size_t changes_saved; // trainings whose change a record holds
};

struct fake_partial {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint8_t data[WORLD_BLOB];
    size_t have;
    bool there;
    bool full;     // there is room for nothing
    size_t opened; // downloads of which nothing was there
    uint8_t *viewed;
};

struct world {
    struct tern_model model;
    struct fake_server server;
    struct fake_store store;
    struct fake_partial partial; // used after world_keep_partials()
    struct tern_client client;
    struct tern_column_port columns;
    struct tern_client_config config;
    float weights[WORLD_VALUES];
    float error_buffer[WORLD_VALUES];
    enum tern_error_storage error_storage;
    float velocity[WORLD_VALUES];
    float local[WORLD_VALUES];
    float anchor[2 * WORLD_VALUES];
    bool no_velocity;
    bool no_anchor;
    uint8_t blob[WORLD_BLOB];
    size_t blob_size;

    bool power_off;
    uint64_t now_ms;
    uint64_t unix_seconds;
    uint32_t entropy;
    bool may_work;

    // Transport.
    bool down;              // nothing gets through
    size_t exchanges;       // attempts
    size_t exchanges_off;   // attempts after the power was cut: must stay 0
    size_t cut_exchange_at; // power cut when this exchange was answered; 0 = never
    size_t cut_download_at; // the next download's body is cut after this many bytes; SIZE_MAX: not
    bool ignore_range;
    bool report_again; // every exchange first returns TERN_AGAIN
    bool again_said;
    struct tern_request again_request;
    size_t last_range;
    uint32_t last_timeout_ms;
    struct tern_meter uncollected;
    uint64_t wire_per_exchange; // besides bodies
    uint64_t wire_per_close;

    // Requests ask tern_request.watch() before every WORLD_PIECE bytes of a body, counted in `watches`.
    size_t watches;
    size_t cancel_at;   // this call (1, 2, ...) cancels the client; 0: none
    size_t forbid_at;   // this call takes the conditions away
    size_t watch_scale; // the client sees bodies as so many times longer; 0: as they are

    // A hook that may damage any answer before the client sees it.
    void (*damage)(struct world *world, const struct tern_request *request,
                   struct tern_response *response);
    uint32_t damage_seed;

    // Trainer.
    float change[WORLD_VALUES]; // of the last training
    float trained[WORLD_VALUES];
    float start[WORLD_VALUES]; // of the last training
    bool ignores_ahead;        // the trainer copies the replica by itself
    uint32_t steps_left;
    struct tern_train_task train_task;
    size_t trainings;
    bool train_diverges;
    bool inexact; // a codec decodes to values that are not dyadic: sums are only near
    enum tern_result evaluates_as; // what its evaluations end with
    size_t evaluations;

    struct tern_client_event events[WORLD_EVENTS];
    size_t event_count;
};

// A fresh world with a client that is not enrolled yet.
void world_init(struct world *world);
// Behind world_init(): the model comes with its manifest, and its first version by snapshot.
void world_bring_model(struct world *world, const struct tern_model *made);
void world_free(struct world *world);

// The store keeps a partial download.
void world_keep_partials(struct world *world);

// Starts the client as a process would: its memory is wiped; it identifies or enrols, and restores.
enum tern_result world_boot(struct world *world);

// Steps, moving the clock while the client waits, until an event of this kind, an error, a power
// cut, or `limit` steps. Returns the last result; *event (may be NULL) is that event.
enum tern_result world_run_until(struct world *world, enum tern_client_event_kind kind,
                                 struct tern_client_event *event);

// Asserts: sum of encoded changes = applied + pending (unless applied) + error buffer, exactly.
void world_check_conservation(struct world *world);

// The same where codec or storage round: each value is off by at most `room`.
void world_check_conservation_within(struct world *world, double room);

// What the error buffer holds, in whatever storage; zero where it has no value.
void world_buffer(const struct world *world, float values[WORLD_VALUES]);

// Asserts that the client's replica is the aggregator's, bit for bit.
void world_check_replica(struct world *world);

size_t world_count_events(const struct world *world, enum tern_client_event_kind kind);

// The store takes records as a whole alone, as one without files does.
void world_save_at_once(struct world *world);

// Flips a byte of a record, as its checksum would find it.
void world_damage_record(struct world *world, enum tern_record record);

#endif
