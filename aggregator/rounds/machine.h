// The round machine: takes an event and the current time, and decides what to do. It holds the open round's members and
// their states, decides when the round closes, and when an idle client returns. aggregator/federation calls it and
// stores the changes; tests call it directly.
//
// Pure: no clock, no randomness except the seed's, no memory except the caller's, so the same events give the same
// answers. Not locked; one thread owns a machine. Times are Unix milliseconds.
#ifndef TERN_MACHINE_H
#define TERN_MACHINE_H

#include "codec/codec.h"
#include "result.h"
#include "rounds/ending.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

enum tern_member_state {
    TERN_MEMBER_INVITED = 0,  // selected, has not checked in yet
    TERN_MEMBER_TASKED = 1,   // has its task
    TERN_MEMBER_REPORTED = 2, // its update counts
    TERN_MEMBER_REPLACED =
        3, // did not report in time; its update still counts while the round is open
};

struct tern_member {
    uint64_t client;
    enum tern_member_state state;
    uint32_t local_steps; // of its task; 0 = no task yet
    uint32_t tries;       // times that it fetched its task since it was invited or replaced
    uint64_t invited_ms;
    uint64_t tasked_ms;   // 0 = not yet
    uint64_t reported_ms; // 0 = not yet
    bool dropped;         // its training failed: it gets no task until the round is extended

    // The rest of its task, which the machine does not read.
    uint8_t base[TERN_SHA256_SIZE]; // replica that it trains from
    uint32_t base_version;
    char codec[TERN_CODEC_SPEC_MAX]; // of its update; "" = the round's
    uint32_t directive;              // for its error buffer: tern_ErrorDirective of tern.proto
    float factor;                    // of the directive
    float decay;                     // fraction of the buffer that the directive left, as reported
    bool is_stored;                  // the store has a row of it
    enum tern_member_state stored;   // the state in that row
};

struct tern_round_policy {
    uint64_t seed;
    uint32_t cohort;           // updates wanted per round, >= 1
    double fraction;           // 0..1 of eligible clients, if that is more than cohort
    uint32_t quorum;           // updates needed at the deadline; 0 = half of the target, rounded up
    double over_selection;     // further clients to invite, as a fraction of the target, >= 0
    uint64_t deadline_ms;      // from a round's opening, and again from each extension
    uint64_t min_interval_ms;  // between two rounds' openings
    bool interval_is_auto;     // not configured; for messages only
    uint64_t come_back_min_ms; // bounds of every time until a client returns
    uint64_t come_back_max_ms;
    uint32_t rounds;                  // to commit; 0 = no end
    struct tern_ending_policy ending; // when to end before the last round
};

struct tern_round_machine {
    struct tern_round_policy policy;

    uint32_t round; // the open round, or the last one; 0 = none yet
    bool open;
    uint32_t committed;        // rounds so far
    struct tern_losses losses; // of committed rounds
    uint32_t target;           // updates that the open round wants
    uint32_t quorum;
    uint32_t initial_quorum; // at the opening; failed trainings lower `quorum`
    uint32_t attempts;       // draws of members: 1 at the opening, and one for each replacement
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint64_t typical_ms;     // smoothed length of the rounds so far; 0 = none yet
    uint64_t last_change_ms; // when a round was last committed or a client last joined

    struct tern_member *members; // ascending by client; caller-owned
    uint32_t member_count;
    uint32_t member_capacity;
    uint32_t reported;       // updates that count in the open round
    bool takes_late_updates; // set by the caller: late updates may count in the open round
};

// Returns how many updates a round with a full cohort needs at its deadline.
uint32_t tern_round_quorum(const struct tern_round_policy *policy);

// Initialises an empty machine over members[0..capacity). As many members as there are clients always suffice.
void tern_round_init(struct tern_round_machine *machine, const struct tern_round_policy *policy,
                     struct tern_member *members, uint32_t capacity);

// Adds the loss of a closed round, which may end the federation.
void tern_round_add_loss(struct tern_round_machine *machine, uint32_t base_version, float loss);

// Whether all rounds are committed, or the losses have ended the federation.
bool tern_round_finished(const struct tern_round_machine *machine);

// Returns the earliest time at which the next round may open.
uint64_t tern_round_earliest_open_ms(const struct tern_round_machine *machine);

// Opens the next round with a cohort drawn from eligible[0..count), ascending ids, which is
// reordered. target and quorum shrink to the cohort when there are fewer clients.
// TERN_ERR_STATE     a round is open or the rounds are done
// TERN_ERR_ARGUMENT  nobody is eligible
// TERN_ERR_NO_SPACE  the cohort is larger than the machine's capacity
TERN_MUST_USE enum tern_result tern_round_open(struct tern_round_machine *machine,
                                               uint64_t *eligible, uint32_t count, uint64_t now);

// After a restart: makes a stored round the open one, without members. The caller passes the stored rounds in ascending
// order, and calls tern_round_close() after each round that has ended, with the time when it ended.
void tern_round_restore(struct tern_round_machine *machine, uint32_t round, uint32_t target,
                        uint32_t quorum, uint32_t attempts, uint64_t opened_ms,
                        uint64_t deadline_ms);

// After a restart: adds a stored member of the open round, in any order.
// TERN_ERR_NO_SPACE, TERN_ERR_CONFLICT  it is there already
TERN_MUST_USE enum tern_result tern_round_restore_member(struct tern_round_machine *machine,
                                                         const struct tern_member *member);

// The member of that client, or NULL. Valid until the next call that adds members.
struct tern_member *tern_round_member(const struct tern_round_machine *machine, uint64_t client);

enum tern_checkin_action {
    TERN_CHECKIN_TASK,     // the client gets the open round's task
    TERN_CHECKIN_WAIT,     // the client should check in again after *come_back_ms
    TERN_CHECKIN_FINISHED, // all rounds are done
};

// Notes that a client enrolled, or checked in for the first time: a round that waited for more clients may open.
void tern_round_client_joined(struct tern_round_machine *machine, uint64_t now);

// Decides what a client does that checks in. A member that has not reported gets its task, even if it had it already;
// the caller then calls tern_round_assign_task(). Other clients wait until the next round will probably open. If that time
// is unknown, they wait for a fraction of the time waited so far: half if too few clients have enrolled, a quarter if
// members did not report by the deadline.
enum tern_checkin_action tern_round_checkin(const struct tern_round_machine *machine,
                                            uint64_t client, uint64_t now, uint64_t *come_back_ms);

// Notes that the member fetched its task for the first time. A replaced member counts as tasked again.
void tern_round_assign_task(struct tern_member *member, uint32_t local_steps, uint64_t now);

// Drops a member whose training failed and which the round does not need.
void tern_round_drop_member(struct tern_member *member);

// Takes the task from a member that has not reported, because the open round's task changed.
void tern_round_withdraw_task(struct tern_member *member);

// Judges an update of (client, round) before its content is read:
// TERN_OK                 it may count; the caller calls tern_round_record_report() once it is stored
// TERN_ERR_CONFLICT       this client has reported already: the update is a duplicate or a different one
// TERN_ERR_LATE           the round is closed
// TERN_ERR_UNKNOWN_ROUND  the round has not been opened
// TERN_ERR_NOT_IN_COHORT  the client was not invited
TERN_MUST_USE enum tern_result tern_round_check_update(const struct tern_round_machine *machine,
                                                       uint64_t client, uint32_t round);

void tern_round_record_report(struct tern_round_machine *machine, struct tern_member *member,
                              uint64_t now);

// Adds late updates of earlier rounds to those that count in the open round.
void tern_round_add_late_updates(struct tern_round_machine *machine, uint32_t updates);

enum tern_round_action {
    TERN_ROUND_NOTHING,
    TERN_ROUND_CLOSE,  // enough updates: merge them, then tern_round_close()
    TERN_ROUND_EXTEND, // below quorum at the deadline: call tern_round_extend()
};

enum tern_round_action tern_round_tick(const struct tern_round_machine *machine, uint64_t now);

// Replaces members that have not reported by clients drawn from fresh[0..count), and moves the deadline. fresh:
// ascending ids of clients that are no members; it is reordered. If there are fewer of them than missing members, the
// last missing ones stay members.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_extend(struct tern_round_machine *machine,
                                                 uint64_t *fresh, uint32_t count, uint64_t now);

// Returns whether the client will never report, such as a revoked one.
typedef bool (*tern_member_filter)(const void *ctx, uint64_t client);

// Counts the open round's members that have not reported and never will.
uint32_t tern_round_count_missing(const struct tern_round_machine *machine, tern_member_filter gone,
                                  const void *ctx);

// Replaces the members that tern_round_count_missing() counts, in the same way as tern_round_extend(), but without a change of
// deadline, target and quorum. Without fresh clients nothing changes.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_replace_members(struct tern_round_machine *machine,
                                                          tern_member_filter gone, const void *ctx,
                                                          uint64_t *fresh, uint32_t count,
                                                          uint64_t now);

// Lowers the open round's target to max(updates, quorum). Returns whether the target was higher.
bool tern_round_lower_target(struct tern_round_machine *machine, uint32_t updates);

// Computes target and quorum of an open round without updates again from the policy. clients: number of eligible
// clients.
void tern_round_reset_target(struct tern_round_machine *machine, uint32_t clients);

// Closes the open round after its commit.
void tern_round_close(struct tern_round_machine *machine, uint64_t now);

// Returns the time `ms` after the clock was stepped by `step` ms; 0 ("never") stays 0.
uint64_t tern_time_shifted_ms(uint64_t ms, int64_t step);
// Moves all times, members' too, after the clock was stepped, so that the rest of each interval stays as long.
void tern_round_shift_times(struct tern_round_machine *machine, int64_t step);
// Limits all times to now, and the deadline to the policy's longest from now. Called after a restart, because the clock
// may have been stepped in between.
void tern_round_limit_times(struct tern_round_machine *machine, uint64_t now);

// Returns when the next tick is due if no event comes before; UINT64_MAX = never.
uint64_t tern_round_next_tick(const struct tern_round_machine *machine);

// --- The leader of a scalecom round, who chooses the indices of all members' values (Chen et al., NeurIPS 2020,
// section 3: cyclic local top-k)

// Returns the leader: of the n members at the round's opening, in order of client ids, the one with index round mod n.
// 0 = none. Members that are invited later do not count.
uint64_t tern_round_leader(const struct tern_round_machine *machine);

// Returns when members stop waiting for the leader's update: after a quarter of the round's window.
uint64_t tern_round_leader_deadline_ms(const struct tern_round_machine *machine);

// Returns how long a member that waits for the leader stays away before it checks in again.
uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now);

#endif
