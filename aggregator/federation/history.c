// The versions so far. Of the model whole weights are stored now and then, as a checkpoint; a start
// makes the newest version from it and the updates since. A large one is written a piece at a time, so
// that others are served between, and the next round is merged once it is whole. Of the updates of
// committed rounds, those of the newest stay, as far as their bytes are allowed, for replays. The others
// are dropped a few at a time, in transactions that have other things to do, and rows after them.
#include "federation/internal.h"
#include "merge/strategy_rule.h"
#include "store/retention.h"
#include "store/room.h"
#include <inttypes.h>

// Versions from one checkpoint to the next, at most: a start merges so many rounds again.
#define CHECKPOINT_VERSIONS 16
// A checkpoint is due, too, when the updates since the last have this part of the weights' and the replica's
// bytes, since merging again would take long: 4 MiB of updates take 0.3 s. Where each round has about as many, it is
// still most of what is written. One of few pages does not wait for so many.
#define CHECKPOINT_SHARE 4
#define CHECKPOINT_UPDATE_BYTES (UINT64_C(4) << 20)
#define CHECKPOINT_SMALL 65536u

// Of a checkpoint, by one transaction: some 40 ms with what moves it from SQLite's log to its place.
#define PIECE_BYTES (UINT64_C(8) << 20)

// Dropping 16 MiB takes some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

// Where the disk is low by this share (tern_disk_is_low()), the service
// drops half of the updates that are kept for replays, drops some downloads and replicas with each version, and stores
// the model as soon as that makes more room than it takes.
#define LOW_SHARE 8

// The rows of so many of the newest rounds stay, whatever else goes: of an update that comes late they tell
// what its task was, and so how fast its client is.
#define LATE_ROUNDS 16

// Bytes of updates after which a checkpoint of `whole` bytes is due.
static uint64_t most_updates(uint64_t whole)
{
    const uint64_t share = whole / CHECKPOINT_SHARE;
    return whole <= CHECKPOINT_SMALL || share > CHECKPOINT_UPDATE_BYTES ? share
                                                                        : CHECKPOINT_UPDATE_BYTES;
}

static enum tern_result look_at_disk(struct tern_federation *federation)
{
    struct tern_db_room room;
    uint64_t empty = 0; // within the database file
    TERN_TRY(tern_db_room(federation->db, &room));
    TERN_TRY(tern_db_free_bytes(federation->db, &empty));
    const bool was_low = federation->disk_is_low;
    federation->disk_room = room.free == UINT64_MAX ? UINT64_MAX : room.free + empty;
    federation->disk_is_low = tern_disk_is_low(federation->disk_room, room.disk, LOW_SHARE);
    if (federation->disk_is_low && !was_low) {
        tern_log(TERN_LOG_WARN, "disk-low", "bytes=%" PRIu64, federation->disk_room);
    }
    return TERN_OK;
}

static enum tern_result is_due(struct tern_federation *federation, bool *due)
{
    const struct tern_merge *merge = &federation->merge;
    const uint64_t whole = (uint64_t)merge->model.count * 2 * sizeof(float);
    struct tern_db_version version;
    struct tern_db_round round = {.received_bytes = 0};
    uint64_t received = 0;
    TERN_TRY(tern_db_version_get(federation->db, merge->checkpoint, &version));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, version.round, &round)));
    TERN_TRY(tern_db_received_bytes(federation->db, &received));
    const uint64_t updates = received - round.received_bytes;
    const bool gives_room = federation->disk_is_low && federation->config.limits.history > 0 &&
                            updates >= whole &&
                            federation->disk_room > whole; // until the last one is dropped
    *due = merge->version > merge->checkpoint &&
           (merge->version >= merge->checkpoint + CHECKPOINT_VERSIONS ||
            updates >= most_updates(whole) || gives_room);
    return TERN_OK;
}

static enum tern_result write_piece(struct tern_federation *federation)
{
    struct tern_merge *merge = &federation->merge;
    uint64_t bytes = 0;
    TERN_TRY(tern_db_step_bytes(federation->db, PIECE_BYTES, &bytes));
    TERN_TRY(tern_merge_checkpoint(merge, federation->db, bytes));
    federation->checkpoint_due = merge->checkpoint != merge->version;
    return TERN_OK;
}

enum tern_result tern_history_checkpoint(struct tern_federation *federation)
{
    bool due = false;
    TERN_TRY(is_due(federation, &due));
    return due ? write_piece(federation) : TERN_OK;
}

enum tern_result tern_history_make_room(struct tern_federation *federation)
{
    uint64_t bytes = 0;
    TERN_TRY(look_at_disk(federation));
    TERN_TRY(tern_db_step_bytes(federation->db, DROP_BYTES, &bytes));
    return federation->disk_is_low ? tern_catchup_give_way(federation->catchup, bytes) : TERN_OK;
}

enum tern_result tern_history_go_on(struct tern_federation *federation)
{
    if (!federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(write_piece(federation));
    return federation->checkpoint_due ? TERN_OK : tern_history_decide(federation);
}

// Bytes of the updates that had come when the newest version was made.
static enum tern_result received_bytes(struct tern_federation *federation, uint64_t *received)
{
    struct tern_db_version version;
    struct tern_db_round round = {.received_bytes = 0};
    TERN_TRY(tern_db_version_get(federation->db, federation->merge.version, &version));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, version.round, &round)));
    *received = round.received_bytes;
    return TERN_OK;
}

// Limits the bytes of kept updates, given the bytes received until now; 0 = no limit.
static enum tern_result most_kept(struct tern_federation *federation, uint64_t received,
                                  uint64_t *most)
{
    struct tern_db_round pruned = {.received_bytes = 0};
    uint32_t last = 0;
    *most = federation->config.limits.history;
    TERN_TRY(look_at_disk(federation));
    if (*most == 0 || !federation->disk_is_low) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, 0, &last));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, last, &pruned)));
    const uint64_t half = (received - pruned.received_bytes) / 2;
    if (half < *most && half > 0) {
        *most = half;
    }
    return TERN_OK;
}

enum tern_result tern_history_decide(struct tern_federation *federation)
{
    uint64_t most = 0;
    uint64_t received = 0;
    uint32_t last = 0;
    federation->prune_due = true; // rows of what a verb has pruned, if nothing else
    TERN_TRY(received_bytes(federation, &received));
    TERN_TRY(most_kept(federation, received, &most));
    if (most == 0 || received <= most) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, received - most, &last));
    if (federation->config.follower != 0 && last >= federation->machine.round) {
        last = federation->machine.round - 1; // what goes up is made of the newest round's updates
    }
    return tern_db_prune(federation->db, last);
}

// Of older rounds no update counts any more. By the newest round's row: the sums of one that is not
// open may know no strategy.
static uint32_t late_rounds(const struct tern_federation *federation)
{
    struct tern_strategy_rule rule;
    const bool late =
        tern_rule_read(&federation->row, &rule) == TERN_OK && rule.strategy->takes_late;
    const uint32_t counts = late ? (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX] + 1 : 0;
    return counts > LATE_ROUNDS ? counts : LATE_ROUNDS;
}

// Once after a start, and after a transaction that failed, which may be because the disk is full: the next version may
// have no room before something gave way.
static enum tern_result look_again(struct tern_federation *federation)
{
    if (!federation->room_due || tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    federation->room_due = false;
    TERN_TRY(tern_history_make_room(federation));
    if (!federation->disk_is_low) {
        return TERN_OK;
    }
    TERN_TRY(tern_history_checkpoint(federation));
    return federation->checkpoint_due ? TERN_OK : tern_history_decide(federation);
}

enum tern_result tern_history_drop(struct tern_federation *federation)
{
    bool more = false;
    if (!federation->prune_due || federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(look_again(federation));
    if (federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_checkpoint_drop_some(federation->db, &more));
    if (more) {
        return TERN_OK;
    }
    uint64_t bytes = 0;
    TERN_TRY(tern_db_step_bytes(federation->db, DROP_BYTES, &bytes));
    return tern_db_prune_some(federation->db, bytes, late_rounds(federation),
                              &federation->prune_due);
}
