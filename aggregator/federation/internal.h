// What the files of federation/ share. Not for anybody else.
#ifndef TERN_FEDERATION_INTERNAL_H
#define TERN_FEDERATION_INTERNAL_H

#include "federation/federation.h"
#include "federation/job.h"
#include "federation/published.h"
#include "hosted/log.h"
#include "rounds/column_names.h"
#include "rounds/reliability.h"
#include "rounds/speed.h"
#include <string.h>

// --- State

// Of a client's update in the open round.
struct drift {
    double square; // sum of its squared values; once merged, as the mean took it
    float loss;
    uint32_t num_examples;
    uint32_t local_steps;
};

struct client {
    struct tern_db_client row;
    uint8_t stored_replica[TERN_SHA256_SIZE]; // that the store's row has
    bool dirty;   // what the row says of check-ins and updates differs from the store
    bool waiting; // its check-in is held
    bool gone;    // of a member, at the last look: the round need not wait for it
    struct tern_searches searches;
    struct tern_steps_done done; // from which its speed is measured; since the start only
    // Of its replica and of the global model, by enum tern_db_evaluated: the newest version that it has
    // reported an evaluation of, and that it was asked to evaluate again, so that this happens once.
    uint32_t evaluated[TERN_LAST_evaluated + 1];
    uint32_t asked[TERN_LAST_evaluated + 1];
    // Of its schedule: bytes that its round is expected to take, and at the least.
    uint64_t round_bytes;
    uint64_t least_bytes;
    struct drift drift;
    struct tern_error_doubt doubt; // about its error buffer
    uint64_t
        absent_ms; // it should have come by then: rounds do not count on it until it does; 0 = never
    bool has_statistics;      // statistics are stored
    uint32_t unscaled;        // tasks with a scaling that the client answered unscaled
    uint64_t metric_names;    // from SHA-256 of the last set of names, if all were kept; 0 = none
    uint32_t metrics_dropped; // since the start, beyond the limit of names
    uint32_t statistics_refused; // since the start
    uint32_t other_columns;      // times since the start that it named other columns than most
    uint32_t findings_logged;    // bit i: finding i was logged since findings_logged_ms
    uint64_t findings_logged_ms;
    uint32_t refusals;   // of its requests, since its last accepted update
    uint32_t refused;    // of its updates, since the start
    uint32_t failed;     // of its tasks: trainings that it reported as failed, since the start
    uint32_t refused_in; // the draw in which one was last refused for its values, + 1; 0 = none
};

struct clients {
    struct client *list; // by id - 1
    uint32_t count;
    uint32_t revoked; // of those
    uint32_t evaluators;
    uint32_t unreliable;
    uint32_t capacity;
    uint64_t *eligible;         // scratch of `capacity` ids
    struct tern_tags_lot *lots; // likewise
    bool changed;               // one enrolled or was revoked: members may need replacing
    struct tern_column_names column_names; // of clients that are not revoked
};

// Updates since members were last drawn (refusals.c).
struct refused {
    uint32_t draw;
    uint32_t accepted;
    uint32_t updates; // refused for their values
    uint32_t clients; // that sent those
    uint32_t draws;   // before, in a row, without an update but such
};

// What was stored since the round was last published. Of a cohort of thousands, few change in one transaction.
#define UNPUBLISHED_MAX 1024

struct unpublished {
    bool any;
    uint32_t count;                    // of members; above the most: all of them
    uint64_t clients[UNPUBLISHED_MAX]; // theirs
};

// Rows of the error ledger that are kept in memory, as they are stored: each at its client's place, where
// another's may be. A round reads a row several times.
#define LEDGERS_KEPT 1024

// Of the download with the indices that a round's leader chose (share.c).
struct shared_indices {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    bool awaited;     // the leader was, at the last look
    uint32_t refused; // round whose leader's update was refused
};

enum closing_step {
    CLOSING_NOTHING, // a round is open, or none
    CLOSING_DECIDED, // in the present transaction
    CLOSING_MERGING, // that is committed: its updates are merged, or are
};

// A round that closes (closing.c). While its job runs, all but the step is the job's.
struct closing {
    enum closing_step step;
    struct tern_job job;
    struct tern_db *reader;                    // the job's view of the store
    struct tern_merge *merge;                  // of the federation
    const struct tern_federation_ports *ports; // likewise
    struct tern_db_round row;
    struct tern_strategy_totals totals;
    struct tern_merge_next next;
    enum tern_result result; // of the job
    uint64_t request;        // what the log was told of it when the round was decided to close
};

// Of the scaling of columns, and of statistics while there is none (statistics.c).
struct scaling {
    uint8_t *body; // Scaling, malloc'ed; NULL: there is none
    size_t len;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t tag;
    uint64_t first_ms; // when the first statistics came; 0 = none have
    bool awaited;      // it was said that rounds wait for more
};

// What the open round, or the next one, is of its epoch (epoch.c); of a strategy without any, zeros.
struct epoch {
    bool is_on;
    uint32_t steps;  // T
    uint32_t step;   // rounds of it before this one; 0: this one is of the full gradient
    uint32_t anchor; // round of that; 0: this one
    float learning_rate;
};

// What those are told who ask often (waits.c).
struct kept {
    struct tern_wait_facts waits;
    struct tern_accuracy evaluated; // of the newest version that was evaluated
    bool evaluated_is_known;        // no evaluation was stored since
    uint64_t renewed_ms;            // 0 = never
};

struct tern_federation {
    struct tern_federation_config config; // tern_federation_configure()
    struct tern_federation_ports ports;
    struct tern_db *db;
    struct tern_db_federation about; // read-only

    struct tern_merge merge;           // version, weights, replica; model and sizes are read-only
    struct closing closing;            // of the open round
    struct tern_published published;   // any thread
    struct tern_reading_room readings; // any thread
    struct tern_federation_counts counts;
    struct tern_federation_counts counted; // those when the present transaction began
    uint64_t ways;                         // searched for by catchups that were forgotten
    uint32_t may_open; // rounds up to this one may, where config.follower is set

    // From here on memory follows from the store. tern_federation_load() forgets all of it, so that
    // nothing outlives the transaction that it was decided in when that is rolled back: what is
    // added here needs no care, what is added above does.
    struct clients clients; // the first of them
    struct tern_catchup *catchup;
    struct tern_round_machine machine;  // members is ours
    struct tern_db_round row;           // of the machine's round
    struct tern_strategy_totals totals; // of the open round's updates
    float last_loss;
    struct tern_steps_course course; // of the committed rounds
    struct tern_rate_course rate;    // of the rounds that opened
    struct epoch epoch;
    struct refused refused;
    struct shared_indices indices; // of the open round
    struct scaling scaling;
    struct unpublished unpublished;
    struct kept kept;
    struct tern_db_ledger ledgers[LEDGERS_KEPT]; // client 0 = none

    bool disk_is_low;       // result of the last check, so that the log reports a change once
    bool room_due;          // loaded: on a low disk, rows are dropped before the next version
    uint64_t disk_room;     // result of the last check: bytes that the database may still take
    bool checkpoint_due;    // of the newest version; a part of it may be stored
    bool prune_due;         // bodies of pruned rounds, or older checkpoints, may be left
    bool moved;             // see tern_federation_moved()
    bool too_few_afford;    // a round that too few budgets allow was told of
    uint64_t look_ms;       // when to look for silent members again
    uint64_t loaded_ms;     // when this was loaded from the store
    uint64_t retry_open_ms; // nobody was eligible: look again then
    bool too_few;           // no round opens, since fewer than min_clients have enrolled
    char damage[256];       // empty = none
};

static inline struct client *client_of(const struct tern_federation *federation, uint64_t id)
{
    const struct clients *clients = &federation->clients;
    return id == 0 || id > clients->count ? NULL : &clients->list[id - 1];
}

// Whether the n-th of its kind is worth a line of the log.
static inline bool is_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

// The hash that a client names; one that names none takes what there is.
static inline bool is_of_our_model(const struct tern_federation *federation, const uint8_t *hash,
                                   size_t size)
{
    return size == 0 || memcmp(hash, federation->about.model_hash, TERN_SHA256_SIZE) == 0;
}

// --- Clients in memory, and who may be drawn for a round (clients.c)

TERN_MUST_USE enum tern_result tern_clients_remember(struct tern_federation *federation,
                                                     const struct tern_db_client *row);
TERN_MUST_USE enum tern_result tern_clients_load(struct tern_federation *federation);
TERN_MUST_USE enum tern_result tern_clients_load_evaluations(struct tern_federation *federation);
// Writes what memory knows of a client; on an error that is not newer than the store any more.
TERN_MUST_USE enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id);
// Whether it may ever be drawn: not an evaluator, not revoked, of the tags that are wanted.
bool tern_clients_trains(const struct tern_federation *federation, const struct client *client);
// Those that have come, or have just enrolled.
uint32_t tern_clients_trainers(const struct tern_federation *federation, uint64_t now);
// Of those, whose statistics are not stored; and all whose are.
uint32_t tern_clients_untold(const struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_told(const struct tern_federation *federation);
// Of a client that was asked to come: the time that it may be late.
uint64_t tern_clients_patience_ms(const struct tern_federation *federation);
bool tern_clients_may_train(const struct tern_federation *federation, const struct client *client,
                            uint64_t now);
// It has checked in, or sent an update.
void tern_clients_seen(struct client *client, uint64_t now);
// The clock was moved, by which it was last seen at `ms`. Whether it ever came stays known.
void tern_clients_move_seen(struct client *client, uint64_t ms);
// Whether it has come since it enrolled, or enrolled just now.
bool tern_clients_came(const struct tern_federation *federation, const struct client *client,
                       uint64_t now);
// Whether the columns of the client's table differ from most clients' columns in names or order.
bool tern_clients_differ(const struct tern_federation *federation, const struct client *client);
// Whether it should have come by now.
bool tern_clients_is_absent(const struct client *client, uint64_t now);
// Each fills clients.eligible, ascending: with all that may be drawn; with those that rounds count on, which are
// all where too few are reliable; with those of them that are not absent; with the unreliable ones that are not.
uint32_t tern_clients_drawable(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_eligible(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_present(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_unreliable(struct tern_federation *federation, uint64_t now);

// --- Which clients report the tasks that they take (reliability.c)

// How fast the open round's members report. Uses clients.eligible.
void tern_reliability_pace(struct tern_federation *federation, struct tern_pace *pace);
// Whether another member should be asked in place of one that rounds count on: it has had its task for long, or
// its tries.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now);
// A client let a task pass; it reported one, which it had since then.
TERN_MUST_USE enum tern_result tern_reliability_missed(struct tern_federation *federation,
                                                       uint64_t client);
TERN_MUST_USE enum tern_result tern_reliability_reported(struct tern_federation *federation,
                                                         uint64_t client, uint64_t tasked_ms,
                                                         uint64_t now);
// Its training of that round failed, as it reports; or its update of that round was refused for its values. Of the open
// round it is dropped.
TERN_MUST_USE enum tern_result tern_reliability_failed(struct tern_federation *federation,
                                                       uint64_t client, uint32_t round,
                                                       tern_TrainingFailure failure);
TERN_MUST_USE enum tern_result tern_reliability_drop(struct tern_federation *federation,
                                                     uint64_t client, uint32_t round,
                                                     tern_TrainingFailure failure);
// Whether a member has reported that its training of the open round failed.
bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member);
// A member is given its task again. What came to nothing so often counts as missed, and others may be asked.
TERN_MUST_USE enum tern_result tern_reliability_tries(struct tern_federation *federation,
                                                      struct tern_member *member);
// Whether a member has had its tries, and the round, which may end without it, does not count on it any more.
bool tern_reliability_is_given_up(const struct tern_federation *federation,
                                  const struct tern_member *member);
// The round is extended, or closes: of each of its members that should have reported by now.
TERN_MUST_USE enum tern_result tern_reliability_round_ends(struct tern_federation *federation,
                                                           uint64_t now);

// --- Members in the store (members.c)

TERN_MUST_USE enum tern_result tern_members_store(struct tern_federation *federation,
                                                  struct tern_member *member);
TERN_MUST_USE enum tern_result tern_members_store_all(struct tern_federation *federation);
// Those of the open round.
TERN_MUST_USE enum tern_result tern_members_load(struct tern_federation *federation);

// --- Rounds, and what is open of them, after a restart (restore.c)

TERN_MUST_USE enum tern_result tern_restore_rounds(struct tern_federation *federation,
                                                   uint64_t now);

// --- Closing a round (closing.c)

TERN_MUST_USE enum tern_result tern_closing_init(struct tern_federation *federation, char why[256]);
void tern_closing_free(struct tern_federation *federation);
// Waits for a merge that runs, and drops what it made.
void tern_closing_forget(struct tern_federation *federation);
// The open round has its updates: from now on tern_federation_is_merging(). Its merge begins once the
// transaction is committed.
void tern_closing_decide(struct tern_federation *federation);
void tern_closing_begin(struct tern_federation *federation);
// Whether there is something to store, or a failure to tell; and doing so.
bool tern_closing_is_made(const struct tern_federation *federation);
TERN_MUST_USE enum tern_result tern_closing_commit(struct tern_federation *federation,
                                                   uint64_t now);

// --- Following (follow.c)

// Whether the next round may open, for all that config.follower says.
bool tern_follow_may_open(const struct tern_federation *federation);

// --- Opening a round (advance.c)

// Of the machine's round, which has just been opened: its row, stored with its members.
TERN_MUST_USE enum tern_result tern_advance_opened(struct tern_federation *federation,
                                                   uint64_t now);

// --- Retention (history.c)

// A version was made: begins to store it as the checkpoint where that is due.
TERN_MUST_USE enum tern_result tern_history_checkpoint(struct tern_federation *federation);
// A version is to be stored, in the same transaction: on a disk that is low, downloads and replicas give way.
TERN_MUST_USE enum tern_result tern_history_make_room(struct tern_federation *federation);
// Goes on with the checkpoint, as far as no request waits long for.
TERN_MUST_USE enum tern_result tern_history_go_on(struct tern_federation *federation);
// A round was committed: decides which rounds' updates are not kept any more.
TERN_MUST_USE enum tern_result tern_history_decide(struct tern_federation *federation);
// Drops some of them, as many as no request waits long for.
TERN_MUST_USE enum tern_result tern_history_drop(struct tern_federation *federation);

// --- The strategy (strategy.c)

// Whether the configured strategy can merge what the limits let in, for a model of `count` values.
bool tern_strategy_check_config(const struct tern_federation_config *config, uint32_t count,
                                char why[256]);
// The largest cohort of which the strategy merges updates of `count` values with its memory.
uint32_t tern_strategy_cohort_max(const struct tern_federation_config *config, uint32_t count);
// Writes it into the row of the round that opens, which has its learning rate, and begins to count.
// previous: the name of the last round's strategy, or "".
void tern_strategy_open(struct tern_federation *federation, const char *previous);

// Logs that the round closes with fewer updates than its strategy needs for what it is for.
void tern_strategy_note_few(const struct tern_federation *federation);

// --- Epochs (epoch.c)

// Whether the settings are such as a strategy of epochs needs.
bool tern_epoch_check_config(const struct tern_federation_config *config, char why[256]);
// What the next round is, from the last one; that it begins an epoch in any case; what the open one is, which was loaded.
void tern_epoch_plan(struct tern_federation *federation);
void tern_epoch_begin(struct tern_federation *federation);
void tern_epoch_load(struct tern_federation *federation);
// Whether a client may ever take part; and in the round that is open or planned.
bool tern_epoch_can(const struct tern_federation *federation, const struct tern_db_client *client);
bool tern_epoch_admits(const struct tern_federation *federation,
                       const struct tern_db_client *client);
// The client said what it holds; its update of the open round was accepted.
TERN_MUST_USE enum tern_result tern_epoch_hold(struct tern_federation *federation, uint64_t id,
                                               uint32_t anchor, bool step);
TERN_MUST_USE enum tern_result tern_epoch_reported(struct tern_federation *federation, uint64_t id);
// Of the open round: what a task says of it, the codec of its updates, what to do with error buffers.
void tern_epoch_fill(const struct tern_federation *federation, tern_Task *task);
const struct tern_codec *tern_epoch_codec(const struct tern_federation *federation);
const struct tern_error_settings *tern_epoch_error(const struct tern_federation *federation);

// --- Byte budgets (budgets.c)

// Whether policy or selection look at the clients' byte budgets.
bool tern_budgets_matter(const struct tern_federation *federation);
// Rounds that are yet to come before budgets are renewed, and the share of them that a client takes
// part in whose bytes allow it: from what all who may be drawn have left, and from their measured
// rounds. All of that is stored; but a round that is open over a restart, and was opened by
// round.fraction, counts as wanting no more updates than it invited clients.
struct to_go {
    double rounds;
    double share;
};
struct to_go tern_budgets_to_go(const struct tern_federation *federation, uint64_t now);
struct tern_budget tern_budgets_of(const struct client *client, const struct to_go *to_go);
// A check-in tells the client's conditions, before it counts as seen then; it was told that its
// update is accepted.
void tern_budgets_told(struct client *client, const tern_CheckinRequest *message, uint64_t now);
void tern_budgets_spend(struct client *client);

// --- Who is drawn (choose.c)

// Leaves those of clients.eligible[0..count) there, ascending, whom the configured selection lets
// into this draw; returns how many. wanted: by the round; it needs `updates` of them.
uint32_t tern_choose_eligible(struct tern_federation *federation, uint32_t count, uint32_t round,
                              uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now);

// --- How much a member trains (assign.c)

// Decides the member's local steps and codec the first time it gets its task, and stores both with
// the reason; a repeated task is the same, and counts as another try.
TERN_MUST_USE enum tern_result tern_assign_steps(struct tern_federation *federation,
                                                 struct tern_member *member, struct client *client,
                                                 uint64_t now);
// What the stored decisions say of each client's bytes.
TERN_MUST_USE enum tern_result tern_assign_load(struct tern_federation *federation);

// --- Updates that are too large beside the others (scaled.c)

// The round was merged: counts those that were scaled down, for their clients and in federation->row,
// and logs a client's 1st, 2nd, 4th, 8th, ...
TERN_MUST_USE enum tern_result tern_scaled_note(struct tern_federation *federation);

// --- What clients found of their bases (held_out.c)

// An update of this member was accepted, and tells it.
TERN_MUST_USE enum tern_result tern_held_out_take(struct tern_federation *federation,
                                                  uint64_t client, const struct tern_member *member,
                                                  const tern_Evaluation *evaluation);
// Most metric names that are kept of one client, over all versions; the number of its worst class is
// one of them.
#define TERN_CLIENT_METRICS 64

// The metrics of an evaluation of an evaluator, `found`, which is stored.
TERN_MUST_USE enum tern_result tern_evaluation_metrics_take(struct tern_federation *federation,
                                                            const struct tern_db_evaluation *found,
                                                            const tern_Evaluation *evaluation);

// --- What rounds came to (drift.c)

// A round was committed, now or before the restart: the policies go on from it.
void tern_drift_follow(struct tern_federation *federation, const struct tern_db_round *row);
// How far the open round's updates are apart: one was accepted; all are merged, which fills
// local_steps, median_loss and variance of federation->row; after a restart.
void tern_drift_note(struct client *client, const tern_Update *message, double sum_square);
TERN_MUST_USE enum tern_result tern_drift_measure(struct tern_federation *federation,
                                                  const struct tern_strategy_report *report);
TERN_MUST_USE enum tern_result tern_drift_load(struct tern_federation *federation);

// --- Refused requests (refusals.c)

// sentence: NULL = the result's.
void tern_refuse(struct tern_refusal *refusal, enum tern_result result, const char *sentence);
// Tells a client whose check-in or update was refused when to ask again.
void tern_refusals_ask_later(struct client *client, struct tern_refusal *refusal);
// Whether an update was refused for the size of its values, however well-formed the rest.
bool tern_refusals_are_of_values(enum tern_result result);
// Reports why an update does not count, and counts it. Logs a client's first one and then each time
// that it has twice as many.
void tern_refusals_refuse(struct tern_federation *federation, const struct tern_incoming *update,
                          enum tern_result result, struct tern_refusal *refusal);
// Members are drawn anew: the round was committed, or is extended. Logs that every update was
// refused for its values, after draws enough in a row and then at twice as many.
void tern_refusals_draw_ended(struct tern_federation *federation, bool committed);
// What the operator should do about those, or NULL.
const char *tern_refusals_advice(const struct tern_federation *federation);

// --- Indices that a round's leader chose (share.c)

// Whether the open round's clients share indices: its base is the newest version then.
bool tern_share_is_on(const struct tern_federation *federation);
// Whether this client's task waits for the leader's update.
bool tern_share_waits(const struct tern_federation *federation, uint64_t id, uint64_t now);
// Looks whether the leader is still awaited; once it is not, those who were held are asked again.
void tern_share_watch(struct tern_federation *federation, uint64_t now);
// An update was accepted, or refused: before its member counts as reported.
void tern_share_publish(struct tern_federation *federation, const struct tern_incoming *update,
                        uint64_t now);
void tern_share_refused(struct tern_federation *federation, uint64_t id);
// The indices of the open round, once it was loaded from the store.
TERN_MUST_USE enum tern_result tern_share_load(struct tern_federation *federation);
// Names them in a task of the open round.
void tern_share_add(struct tern_federation *federation, uint64_t id, tern_Task *task);
// Puts the indices back into an update that came without. Any thread.
// TERN_ERR_STATE  its round shares no indices; TERN_ERR_CORRUPT, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_share_join(struct tern_federation *federation,
                                               struct tern_incoming *update);
// Whether an update that could not be joined any more is the one that is stored.
TERN_MUST_USE enum tern_result tern_share_same(struct tern_federation *federation,
                                               const struct tern_incoming *update, bool *same);

// --- Statistics of columns (statistics.c)

TERN_MUST_USE enum tern_result tern_statistics_load(struct tern_federation *federation);
// Before the first round opens: makes the scaling, once there are statistics enough, and says whether
// rounds need not wait for one any more.
TERN_MUST_USE enum tern_result tern_statistics_settle(struct tern_federation *federation,
                                                      uint64_t now, bool *settled);
// Whether the first round still waits for one.
bool tern_statistics_are_due(const struct tern_federation *federation);
// What a client is to do about them before it may have a task. True: nothing else goes into its reply.
bool tern_statistics_ask(struct tern_federation *federation, struct client *client,
                         struct tern_next *next);
// Whether it came so often without what it was told to do that rounds do without it.
bool tern_statistics_lacks(const struct client *client);
// The scaling by its name, one reference more. NOT_FOUND; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_statistics_blob(const struct tern_federation *federation,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_blob **blob);

// --- What those are told who ask often (waits.c)

// Fills in trainers, wait, needs_help and evaluated.
void tern_waits_facts(struct tern_federation *federation, uint64_t now,
                      struct tern_federation_facts *facts);

// --- Updates (intake.c): what is common to those of the open round and late ones

// Whether the content may count as the member's, in the open round.
TERN_MUST_USE enum tern_result tern_update_check(const struct tern_federation *federation,
                                                 const struct tern_incoming *update,
                                                 const struct tern_member *member);
// Stores a checked update and counts it in the open round. merged: that round, when the update was
// made for another one; else 0.
TERN_MUST_USE enum tern_result tern_update_take(struct tern_federation *federation,
                                                const struct tern_incoming *update,
                                                const struct tern_member *member, uint32_t merged,
                                                uint64_t now);
// What an update's own round says of it, as a member of that round.
TERN_MUST_USE enum tern_result tern_update_member(struct tern_federation *federation,
                                                  const struct tern_db_round *own,
                                                  const struct tern_db_assignment *row,
                                                  struct tern_member *member);
// An update that was accepted comes again, or is asked after: its client is back on the replica that it trained from.
// Its row need not say so: that is written a second later than the update is accepted, and there may have been a crash.
TERN_MUST_USE enum tern_result tern_update_again(struct tern_federation *federation,
                                                 uint64_t client, uint32_t round);
// How fast the client trained for an update.
void tern_update_speed(struct client *client, const tern_Update *message);
// An update whose round has closed and that is not stored (late.c).
TERN_MUST_USE enum tern_result tern_update_late(struct tern_federation *federation,
                                                const struct tern_incoming *update, uint64_t now,
                                                struct tern_refusal *refusal);

#endif
