// The round machine: takes an event and the present time, and decides what to do. It holds the members of the open round,
// which of them have their task or have reported, when the round closes and when an idle client should come back.
// aggregator/federation calls it and stores what changed; tests drive it by hand.
//
// Pure: no clock, no randomness but the seed's, no memory but the caller's, so that the same events give the same
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
    TERN_MEMBER_INVITED = 0,  // sampled, has not come yet
    TERN_MEMBER_TASKED = 1,   // has its task
    TERN_MEMBER_REPORTED = 2, // its update counts
    TERN_MEMBER_REPLACED = 3, // did not report in time; welcome while the round is open
};

struct tern_member {
    uint64_t client;
    enum tern_member_state state;
    uint32_t local_steps; // of its task; 0 = no task yet
    uint32_t tries; // times that it was given it since it was invited, or replaced; 0 = not yet
    uint64_t invited_ms;
    uint64_t tasked_ms;   // 0 = not yet
    uint64_t reported_ms; // 0 = not yet
    bool dropped;         // its training failed: no task for it before the round is extended

    // Other contents of its task. The machine carries them and never reads them.
    uint8_t base[TERN_SHA256_SIZE]; // replica that it trains from
    uint32_t base_version;
    char codec[TERN_CODEC_SPEC_MAX]; // of its update; "" = the round's
    uint32_t directive;              // for its error buffer: tern_ErrorDirective of tern.proto
    float factor;                    // of the directive
    float decay;                     // the part of the buffer that this left, as its update reports
    bool is_stored;                  // there is a row of it, in
    enum tern_member_state stored;   // this state
};

struct tern_round_policy {
    uint64_t seed;
    uint32_t cohort;       // updates wanted per round, >= 1
    double fraction;       // 0..1: of those that could be invited, where that is more
    uint32_t quorum;       // updates needed at the deadline; 0 = half of those wanted, rounded up
    double over_selection; // share of further clients invited, >= 0
    uint64_t deadline_ms;  // from a round's opening, and again from each extension
    uint64_t min_interval_ms;  // between two rounds' openings
    bool interval_is_auto;     // not configured; for messages only
    uint64_t come_back_min_ms; // bounds of every come-back time
    uint64_t come_back_max_ms;
    uint32_t rounds;                  // to commit; 0 = no end
    struct tern_ending_policy ending; // before that
};

struct tern_round_machine {
    struct tern_round_policy policy;

    uint32_t round; // the open round, or the last one; 0 = there was none
    bool open;
    uint32_t committed;        // rounds committed so far
    struct tern_losses losses; // of those
    uint32_t target;           // of the open round
    uint32_t quorum;
    uint32_t quorum_first; // before members whose training failed lowered it
    uint32_t attempts;     // draws: 1, and one more each time that members are replaced
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint64_t usual_ms; // smoothed length of the rounds so far; 0 = none yet
    uint64_t moved_ms; // a round was committed, or a client joined

    struct tern_member *members; // ascending by client; caller-owned
    uint32_t member_count;
    uint32_t member_capacity;
    uint32_t reported; // updates that count in the open round
    bool buffers;      // set by the caller: late updates may count in the open round
};

// Updates that a full cohort needs at the deadline.
uint32_t tern_round_quorum(const struct tern_round_policy *policy);

// An empty machine over members[0..capacity). A capacity of the number of clients always suffices.
void tern_round_init(struct tern_round_machine *machine, const struct tern_round_policy *policy,
                     struct tern_member *members, uint32_t capacity);

// Adds what a round that was closed has learnt, which may end the federation.
void tern_round_learnt(struct tern_round_machine *machine, uint32_t base_version, float loss);

// Whether the wanted rounds are done, or the losses have ended the federation.
bool tern_round_finished(const struct tern_round_machine *machine);

// When the next round may open: now or earlier, or the end of min_interval.
uint64_t tern_round_may_open_ms(const struct tern_round_machine *machine);

// Opens the next round with a cohort drawn from eligible[0..count), ascending ids, which is
// reordered. target and quorum shrink to the cohort when there are fewer clients.
// TERN_ERR_STATE     a round is open or the rounds are done
// TERN_ERR_ARGUMENT  nobody is eligible
// TERN_ERR_NO_SPACE  the cohort is larger than the machine's capacity
TERN_MUST_USE enum tern_result tern_round_open(struct tern_round_machine *machine,
                                               uint64_t *eligible, uint32_t count, uint64_t now);

// After a restart: makes a stored round the open one, without members. Rounds come in order; each
// that has ended is followed by tern_round_close() with its time.
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
    TERN_CHECKIN_TASK,     // give it the open round's task
    TERN_CHECKIN_WAIT,     // come back in *come_back_ms
    TERN_CHECKIN_FINISHED, // the federation has done its rounds
};

// A client has enrolled, or come for the first time: what waited for more of them may go on.
void tern_round_joined(struct tern_round_machine *machine, uint64_t now);

// A client asks for work. A member that has not reported gets its task, again if it had it already;
// the caller then calls tern_round_tasked(). Others come back when the next round is likely to open.
// Where nothing indicates that, they come back after a share of the time that the wait has lasted: half of it where too
// few clients have enrolled, a quarter where members of a round do not come by its deadline.
enum tern_checkin_action tern_round_checkin(const struct tern_round_machine *machine,
                                            uint64_t client, uint64_t now, uint64_t *come_back_ms);

// The member has its task now, for its first try. A replaced member is a member again.
void tern_round_tasked(struct tern_member *member, uint32_t local_steps, uint64_t now);

// Its training failed, and the round can do without it.
void tern_round_drop(struct tern_member *member);

// The open round's task is another one: a member that has not reported has none yet.
void tern_round_untasked(struct tern_member *member);

// What an update under (client, round) is, before its content is looked at:
// TERN_OK                 it may count; the caller calls tern_round_reported() once it is stored
// TERN_ERR_CONFLICT       this client has reported already: a duplicate, or other bytes
// TERN_ERR_LATE           that round is closed
// TERN_ERR_UNKNOWN_ROUND  that round has not been opened
// TERN_ERR_NOT_IN_COHORT  the client was not invited
TERN_MUST_USE enum tern_result tern_round_update(const struct tern_round_machine *machine,
                                                 uint64_t client, uint32_t round);

void tern_round_reported(struct tern_round_machine *machine, struct tern_member *member,
                         uint64_t now);

// Counts `updates` of earlier rounds in the open one.
void tern_round_buffered(struct tern_round_machine *machine, uint32_t updates);

enum tern_round_action {
    TERN_ROUND_NOTHING,
    TERN_ROUND_CLOSE,  // enough updates are in: merge them, then tern_round_close()
    TERN_ROUND_EXTEND, // below quorum at the deadline: call tern_round_extend()
};

enum tern_round_action tern_round_tick(const struct tern_round_machine *machine, uint64_t now);

// Replaces members that have not reported by clients drawn from fresh[0..count) (ascending,
// reordered; clients that are members already must not be among them) and moves the deadline. With
// fewer fresh clients than missing members, the last missing ones keep their invitation.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_extend(struct tern_round_machine *machine,
                                                 uint64_t *fresh, uint32_t count, uint64_t now);

// Whether a client is one that will never report, such as a revoked one.
typedef bool (*tern_member_gone)(const void *ctx, uint64_t client);

// Members of the open round that have not reported and never will.
uint32_t tern_round_gone(const struct tern_round_machine *machine, tern_member_gone gone,
                         const void *ctx);

// Replaces those members at once by clients drawn from fresh, as tern_round_extend() does; the
// deadline, the target and the quorum stay. With nobody fresh nothing changes.
// TERN_ERR_NO_SPACE  the members do not fit; nothing changed
TERN_MUST_USE enum tern_result tern_round_replace(struct tern_round_machine *machine,
                                                  tern_member_gone gone, const void *ctx,
                                                  uint64_t *fresh, uint32_t count, uint64_t now);

// The open round wants no more than so many updates from now on, or as many as its quorum where that is
// more. Returns whether it wanted more before.
bool tern_round_want(struct tern_round_machine *machine, uint32_t updates);

// The open round, without updates, wants and needs what the policy says, of so many clients that could come.
void tern_round_want_anew(struct tern_round_machine *machine, uint32_t clients);

// The open round was committed.
void tern_round_close(struct tern_round_machine *machine, uint64_t now);

// The clock was stepped by `step` ms: moves every time, those of members too, so that what is left of each interval
// stays.
// Returns a time moved by such a step; 0 stays 0, "never".
uint64_t tern_round_moved_ms(uint64_t ms, int64_t step);
void tern_round_set_clock(struct tern_round_machine *machine, int64_t step);
// After a restart, before which it may have been set: nothing was in the future, and no deadline is
// further away than a round may take.
void tern_round_bound_clock(struct tern_round_machine *machine, uint64_t now);

// When the machine wants the next tick, without further events; UINT64_MAX = never.
uint64_t tern_round_next_tick(const struct tern_round_machine *machine);

// --- The leader of a round of scalecom, whose clients send values at the indices that it chose (Chen et al., NeurIPS 2020,
// section 3: cyclic local top-k)

// The leader: number `round` mod n, counted from 0, of the n members that the open round was opened with, in client order.
// Members that were invited later change nothing. 0: nobody.
uint64_t tern_round_leader(const struct tern_round_machine *machine);

// When the others stop waiting for the leader's update: after a quarter of the round's window.
uint64_t tern_round_leader_until_ms(const struct tern_round_machine *machine);

// How long a waiting client stays away at a time.
uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now);

#endif
