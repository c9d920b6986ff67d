// The round machine keeps the open round's members and their states. It takes an event and the current time, and
// decides when the round closes, what a check-in gets, and when an idle client returns. aggregator/federation calls the
// machine and stores the changes; tests call it directly.
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
    TERN_MEMBER_TASKED = 1,   // has fetched its task
    TERN_MEMBER_REPORTED = 2, // has sent an update that counts
    TERN_MEMBER_REPLACED =
        // Did not report in time and was replaced; an update still counts while the round is open.
    3,
};

struct tern_member {
    uint64_t client;
    enum tern_member_state state;
    uint32_t local_steps; // local steps of the member's task; 0 = no task yet
    uint32_t tries;       // how often the member has fetched its task since it was invited
    uint64_t invited_ms;
    uint64_t tasked_ms;   // 0 = not yet
    uint64_t reported_ms; // 0 = not yet
    bool dropped; // the member's training failed: it gets no task until the round is extended

    // The other parts of the member's task, which the machine does not read.
    uint8_t base[TERN_SHA256_SIZE]; // id of the replica from which the member trains
    uint32_t base_version;
    char codec[TERN_CODEC_SPEC_MAX]; // codec of the member's update; "" = the round's codec
    // Directive for the member's error buffer: tern_ErrorDirective of tern.proto.
    uint32_t directive;
    float factor;                  // factor of the directive
    float decay;                   // reported fraction of the error buffer that the directive left
    bool is_stored;                // the store has a row of this member
    enum tern_member_state stored; // the state in the member's stored row
};

struct tern_round_policy {
    uint64_t seed;
    uint32_t cohort; // updates wanted per round, >= 1
    // 0 to 1: cohort as a fraction of the selectable clients, if that is more than `cohort`.
    double fraction;
    uint32_t quorum;          // updates needed at the deadline; 0 = half of the target, rounded up
    uint32_t quorum_least;    // fewest updates of a secure round (secure.min_clients); 0 = no limit
    double over_selection;    // further clients to invite, as a fraction of the target, >= 0
    uint64_t deadline_ms;     // time from a round's opening or extension to its deadline
    uint64_t min_interval_ms; // least time between the openings of two rounds
    bool interval_is_auto;    // min_interval_ms was not configured; for messages only
    uint64_t come_back_min_ms;        // the least time until an idle client checks in
    uint64_t come_back_max_ms;        // the longest time until an idle client checks in
    uint32_t rounds;                  // number of rounds to commit; 0 = no end
    struct tern_ending_policy ending; // when to end the federation before the last round
};

struct tern_round_machine {
    struct tern_round_policy policy;

    uint32_t round; // number of the open or the last round; 0 = no round has opened
    bool open;
    uint32_t committed;        // number of rounds committed so far
    struct tern_losses losses; // losses of the committed rounds
    uint32_t target;           // updates that the open round wants
    uint32_t quorum;
    uint32_t initial_quorum; // the quorum when the round opened; failed trainings lower `quorum`
    // Number of selections of members: 1 at the opening, and one more for each replacement.
    uint32_t attempts;
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint64_t typical_ms;     // smoothed length of the committed rounds; 0 = no round yet
    uint64_t last_change_ms; // when a round was last committed or a client last joined

    struct tern_member *members; // in ascending order of `client`; owned by the caller
    uint32_t member_count;
    uint32_t member_capacity;
    uint32_t reported;       // updates that count in the open round
    bool takes_late_updates; // set by the caller: late updates may count in the open round
};

// Returns how many updates a round with a full cohort needs at its deadline.
uint32_t tern_round_quorum(const struct tern_round_policy *policy);

// Initialises an empty machine, which uses members[0..capacity). A capacity of the number of clients always suffices.
void tern_round_init(struct tern_round_machine *machine, const struct tern_round_policy *policy,
                     struct tern_member *members, uint32_t capacity);

// Adds the loss of a closed round, which may end the federation.
void tern_round_add_loss(struct tern_round_machine *machine, uint32_t base_version, float loss);

// Whether all rounds are committed, or the losses have ended the federation.
bool tern_round_finished(const struct tern_round_machine *machine);

// Returns the earliest time at which the next round may open.
uint64_t tern_round_earliest_open_ms(const struct tern_round_machine *machine);

// Opens the next round with a cohort drawn from eligible[0..count): client ids in ascending order, which the call
// reorders. Target and quorum shrink to the cohort when there are fewer clients.
// TERN_ERR_STATE     a round is open, or all rounds are committed
// TERN_ERR_ARGUMENT  no client is eligible
// TERN_ERR_NO_SPACE  the cohort is larger than the machine's capacity
TERN_MUST_USE enum tern_result tern_round_open(struct tern_round_machine *machine,
                                               uint64_t *eligible, uint32_t count, uint64_t now);

// Makes a stored round the open round, without members, after a restart. The caller passes the stored rounds in
// ascending order, and calls tern_round_close() after each round that has ended, with the time when it ended.
void tern_round_restore(struct tern_round_machine *machine, uint32_t round, uint32_t target,
                        uint32_t quorum, uint32_t attempts, uint64_t opened_ms,
                        uint64_t deadline_ms);

// Adds a member to the open round, in any order: a stored member after a restart, or a further client.
// TERN_ERR_NO_SPACE
// TERN_ERR_CONFLICT  the client is a member already
TERN_MUST_USE enum tern_result tern_round_restore_member(struct tern_round_machine *machine,
                                                         const struct tern_member *member);

// Returns the member with this client id, or NULL. Valid until the next call that adds members.
struct tern_member *tern_round_member(const struct tern_round_machine *machine, uint64_t client);

enum tern_checkin_action {
    TERN_CHECKIN_TASK,     // the client gets the open round's task
    TERN_CHECKIN_WAIT,     // the client should check in again after *come_back_ms
    TERN_CHECKIN_FINISHED, // all rounds are committed, or the losses have ended the federation
};

// Records that a client enrolled or checked in for the first time: a round that waited for more clients may open.
void tern_round_client_joined(struct tern_round_machine *machine, uint64_t now);

// Decides what a client that checks in does. A member that has not reported gets its task, even a second time; the
// caller then calls tern_round_assign_task(). Other clients wait until the next round will probably open. If that time
// is unknown, they wait for a fraction of the time waited so far: half if too few clients have enrolled, a quarter if
// members did not report by the deadline.
enum tern_checkin_action tern_round_checkin(const struct tern_round_machine *machine,
                                            uint64_t client, uint64_t now, uint64_t *come_back_ms);

// Records that the member fetched its task for the first time. A replaced member that fetches its task counts as
// tasked.
void tern_round_assign_task(struct tern_member *member, uint32_t local_steps, uint64_t now);

// Drops a member whose training failed and whose update the round does not need.
void tern_round_drop_member(struct tern_member *member);

// Takes the task from a member that has not reported, because the open round's task changed.
void tern_round_withdraw_task(struct tern_member *member);

// Decides whether an update of (client, round) may count, before its content is read:
// TERN_OK                 it may count; the caller calls tern_round_record_report() once the update is stored
// TERN_ERR_CONFLICT       this client has reported already: the update is a duplicate or a different update
// TERN_ERR_LATE           the round is closed
// TERN_ERR_UNKNOWN_ROUND  the round has not been opened
// TERN_ERR_NOT_IN_COHORT  the client was not invited, or has no task
TERN_MUST_USE enum tern_result tern_round_check_update(const struct tern_round_machine *machine,
                                                       uint64_t client, uint32_t round);

void tern_round_record_report(struct tern_round_machine *machine, struct tern_member *member,
                              uint64_t now);

// Adds the number of late updates, made for earlier rounds, to the updates that count in the open round.
void tern_round_add_late_updates(struct tern_round_machine *machine, uint32_t updates);

enum tern_round_action {
    TERN_ROUND_NOTHING,
    TERN_ROUND_CLOSE,  // there are enough updates: merge them, then call tern_round_close()
    TERN_ROUND_EXTEND, // the round is below its quorum at the deadline: call tern_round_extend()
};

enum tern_round_action tern_round_tick(const struct tern_round_machine *machine, uint64_t now);

// Replaces members that have not reported by clients drawn from candidates[0..count), and moves the deadline. candidates: ids of
// clients that are no members, in ascending order, which the call reorders. If there are fewer clients than missing
// members, the last missing members stay.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_extend(struct tern_round_machine *machine,
                                                 uint64_t *candidates, uint32_t count,
                                                 uint64_t now);

// Returns whether to count or replace the client's member, such as a revoked client's.
typedef bool (*tern_member_filter)(const void *ctx, uint64_t client);

// Counts the open round's members that have not reported and for whose client filter() holds. filter NULL: all members
// that have not reported.
uint32_t tern_round_count_missing(const struct tern_round_machine *machine,
                                  tern_member_filter filter, const void *ctx);

// Replaces the members that tern_round_count_missing() counts, as tern_round_extend() does, but without a change of
// deadline, target and quorum. Without new clients nothing changes.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_replace_members(struct tern_round_machine *machine,
                                                          tern_member_filter filter,
                                                          const void *ctx, uint64_t *candidates,
                                                          uint32_t count, uint64_t now);

// Lowers the open round's target to max(updates, quorum). Returns whether the target was higher.
bool tern_round_lower_target(struct tern_round_machine *machine, uint32_t updates);

// Sets target and quorum of an open round that has no update, from the policy. clients: number of clients that can take
// part.
void tern_round_reset_target(struct tern_round_machine *machine, uint32_t clients);

// Closes the open round after its commit.
void tern_round_close(struct tern_round_machine *machine, uint64_t now);

// Ends the open round without a commit.
void tern_round_abandon(struct tern_round_machine *machine, uint64_t now);

// Returns the time `ms` shifted by `step` ms, after the clock was stepped; 0 ("never") stays 0.
uint64_t tern_time_shifted_ms(uint64_t ms, int64_t step);
// Shifts all times of the machine and its members after the clock was stepped, so that the rest of each interval stays
// as long.
void tern_round_shift_times(struct tern_round_machine *machine, int64_t step);
// Limits all times to `now`, and the deadline to the policy's longest deadline from `now`. Called after a restart,
// because the clock may have been stepped while the service was down.
void tern_round_limit_times(struct tern_round_machine *machine, uint64_t now);

// Returns when tern_round_tick() is due if no event comes before; UINT64_MAX = never.
uint64_t tern_round_next_tick(const struct tern_round_machine *machine);

// --- The leader of a scalecom round, who chooses the indices of all members' values (Chen et al., NeurIPS 2020,
// section 3: cyclic local top-k)

// Returns the leader's client id: of the n members at the round's opening, in the order of client ids, the member with
// index round mod n. 0 = no leader. Members that are invited later do not count.
uint64_t tern_round_leader(const struct tern_round_machine *machine);

// Returns when members stop waiting for the leader's update: after a quarter of the round's window.
uint64_t tern_round_leader_deadline_ms(const struct tern_round_machine *machine);

// Returns the time until the next check-in of a member that waits for the leader's update.
uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now);

#endif
