#include "node/agree.h"

#include "hosted/clock.h"
#include "hosted/log.h"
#include "node/terms.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OTHERWISE "other peers, another model, seed, codec or learning rate"
#define MAKE_ALIKE "make ring.peers, model, seed, codec and learning_rate alike at all of them"
#define POLL_MS 100u
#define VISIT_MS 1000u // the hellos wait this long for a connection in its handshake

// One run of tern_ring_agree(). Sets of peers are bits.
struct run {
    struct tern_ring_agreement *agreement;
    const struct tern_ring_hello *mine;
    char *why;
    uint64_t excluded;  // not heard by other peers; they join in the next round
    uint64_t heard;     // their hellos arrived
    uint64_t view;      // of this peer
    uint64_t told;      // their views arrived
    uint64_t otherwise; // their last hello had different settings
    char differs[TERN_RING_MEMBERS_MAX][TERN_RING_TERMS_WHY_MAX]; // the different settings
    uint64_t views[TERN_RING_MEMBERS_MAX];
    uint32_t greeted[TERN_RING_MEMBERS_MAX]; // the connection on which this peer sent its hello
    struct tern_ring_hello hellos[TERN_RING_MEMBERS_MAX];
    uint64_t begun_ms;
    uint64_t began_waiting_ms; // when it began to wait for enough peers
    uint64_t pulse_ms;
    bool has_said_waits;
};

static uint64_t bit(uint32_t peer)
{
    return (uint64_t)1 << peer;
}

static uint32_t count_bits(uint64_t set)
{
    uint32_t count = 0;
    for (; set != 0; set &= set - 1) {
        count++;
    }
    return count;
}

static uint64_t all_peers(const struct run *run)
{
    const uint32_t count = run->agreement->peers->count;
    return count < 64 ? bit(count) - 1 : UINT64_MAX;
}

static bool is_enough(const struct run *run, uint64_t set)
{
    return 2 * count_bits(set) > run->agreement->peers->count;
}

// Returns the connected peers with different settings.
static uint64_t refused(const struct run *run)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const uint32_t serial = tern_ring_mesh_serial(run->agreement->mesh, i);
        set |= serial != 0 && serial == run->agreement->refused[i] ? bit(i) : 0;
    }
    return set;
}

static uint64_t connected(const struct run *run)
{
    uint64_t set = bit(run->agreement->self);
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        set |= tern_ring_mesh_has(run->agreement->mesh, i) ? bit(i) : 0;
    }
    return set & ~refused(run);
}

// Sends a frame to all connected peers.
static void send_to_all(const struct run *run, enum tern_ring_frame_type type, const uint8_t *body,
                        size_t len)
{
    const uint64_t there = connected(run);
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((there & bit(i)) != 0) {
            (void)tern_ring_mesh_send(run->agreement->mesh, i, type, run->agreement->epoch, body,
                                      len, NULL, 0);
        }
    }
}

// Returns the peers that still have the connection on which this peer sent its hello.
static uint64_t still_connected(const struct run *run)
{
    uint64_t set = bit(run->agreement->self);
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const uint32_t serial = tern_ring_mesh_serial(run->agreement->mesh, i);
        set |= serial != 0 && serial == run->greeted[i] ? bit(i) : 0;
    }
    return set;
}

static void drop_silent(const struct run *run, uint32_t peer)
{
    char text[64];
    snprintf(text, sizeof text, "it did not answer in %" PRIu64 " s",
             run->agreement->timeout_ms / 1000);
    tern_ring_mesh_drop(run->agreement->mesh, peer, text);
}

// Whether an awaited peer has been silent for too long.
static bool is_silent(const struct run *run, uint32_t peer, uint64_t now_ms)
{
    const uint64_t heard_ms = tern_ring_mesh_heard(run->agreement->mesh, peer);
    const uint64_t since_ms = heard_ms > run->begun_ms ? heard_ms : run->begun_ms;
    return now_ms > since_ms && now_ms - since_ms > run->agreement->timeout_ms;
}

// Sends a pulse when it is due, for peers that wait for this one.
static void pulse(struct run *run, uint64_t now_ms)
{
    if (now_ms - run->pulse_ms < run->agreement->timeout_ms / 4) {
        return;
    }
    run->pulse_ms = now_ms;
    send_to_all(run, TERN_RING_PULSE, NULL, 0);
}

static bool is_interrupted(const struct run *run)
{
    return run->agreement->abort != NULL && *run->agreement->abort != 0;
}

// --- Hello

static bool report_hello(const struct run *run, uint32_t peer)
{
    uint8_t body[TERN_RING_HELLO_SIZE];
    tern_ring_hello_write(run->mine, body);
    return tern_ring_mesh_send(run->agreement->mesh, peer, TERN_RING_HELLO, run->agreement->epoch,
                               body, sizeof body, NULL, 0);
}

static void greet(struct run *run)
{
    const uint64_t there = connected(run);
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const uint32_t serial = tern_ring_mesh_serial(run->agreement->mesh, i);
        if ((there & bit(i)) != 0 && serial != run->greeted[i] && report_hello(run, i)) {
            run->greeted[i] = serial;
            run->heard &= ~bit(i);
            run->told &= ~bit(i);
        }
    }
}

enum step { GO_ON, ANEW, DONE, FAILED };

static bool is_alike(const struct run *run, const uint8_t *body)
{
    struct tern_ring_hello hello;
    tern_ring_hello_read(body, &hello);
    return memcmp(hello.agreement, run->mine->agreement, sizeof hello.agreement) == 0;
}

static void name_otherwise(const struct run *run, uint32_t peer)
{
    char text[TERN_RING_PEER_TEXT_MAX];
    snprintf(run->why, TERN_RING_AGREE_WHY_MAX,
             "%s is set otherwise than this peer: %s; " MAKE_ALIKE,
             tern_ring_peer_text(&run->agreement->peers->peers[peer], text), run->differs[peer]);
}

// Notes which of the peer's settings differ, by its terms.
static void compare_terms(struct run *run, uint32_t peer)
{
    char *differs = run->differs[peer];
    tern_ring_terms_compare(run->agreement->terms, tern_ring_mesh_terms(run->agreement->mesh, peer),
                            differs);
    if (differs[0] == '\0') {
        snprintf(differs, TERN_RING_TERMS_WHY_MAX, "it has " OTHERWISE);
    }
}

// Refuses a peer with different settings: sends it this peer's hello once more, and counts it as absent. Ends if too few
// peers can have this peer's settings, so that at most one of two groups of peers continues.
static enum step refuse(struct run *run, uint32_t peer)
{
    struct tern_ring_agreement *agreement = run->agreement;
    tern_ring_mesh_take(agreement->mesh, peer);
    (void)report_hello(run, peer);
    agreement->refused[peer] = tern_ring_mesh_serial(agreement->mesh, peer);
    compare_terms(run, peer);
    run->heard &= ~bit(peer);
    run->otherwise |= bit(peer);
    if (is_enough(run, all_peers(run) & ~refused(run))) {
        char why[TERN_RING_TERMS_WHY_MAX + sizeof MAKE_ALIKE + 2];
        snprintf(why, sizeof why, "%s; " MAKE_ALIKE, run->differs[peer]);
        tern_log(TERN_LOG_WARN, "peer-refused", "name=%s why=%s",
                 TERN_LOG_TEXT(agreement->peers->peers[peer].name), TERN_LOG_TEXT(why));
        return GO_ON;
    }
    name_otherwise(run, peer);
    return FAILED;
}

// Handles a frame behind the hello of this epoch. Keeps a view for later and takes its frame, which would hide the next
// hello: its peer may have gone on to a later epoch, and waits there for this peer.
static void hear_early(struct run *run, uint32_t peer, const struct tern_ring_head *head,
                       const uint8_t *body)
{
    if (head->type == TERN_RING_VIEW && head->epoch == run->agreement->epoch) {
        run->views[peer] = tern_get_le64(body);
        run->told |= bit(peer);
    } else if (head->type != TERN_RING_PULSE) {
        return;
    }
    tern_ring_mesh_take(run->agreement->mesh, peer);
}

// Handles a frame while hellos are collected.
static enum step hear(struct run *run, uint32_t peer)
{
    const uint8_t *body = NULL;
    const struct tern_ring_head *head = tern_ring_mesh_frame(run->agreement->mesh, peer, &body);
    const bool is_refused = (refused(run) & bit(peer)) != 0;
    const bool is_hello = head != NULL && head->type == TERN_RING_HELLO && !is_refused;
    if (is_hello && !is_alike(run, body)) {
        return refuse(run, peer);
    }
    if (is_hello && head->epoch > run->agreement->epoch) {
        run->agreement->epoch = head->epoch;
        run->agreement->has_started = true;
        return ANEW;
    }
    if (head == NULL) {
        return GO_ON;
    }
    if ((run->heard & bit(peer)) != 0) {
        hear_early(run, peer, head, body);
        return GO_ON;
    }
    if (is_hello && head->epoch == run->agreement->epoch) {
        tern_ring_hello_read(body, &run->hellos[peer]);
        run->heard |= bit(peer);
        run->otherwise &= ~bit(peer);
    }
    // Otherwise the frame is a pulse, from an earlier epoch, or from a refused peer.
    tern_ring_mesh_take(run->agreement->mesh, peer);
    return GO_ON;
}

static enum step hear_all(struct run *run, enum step (*take)(struct run *run, uint32_t peer))
{
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const enum step step = i != run->agreement->self ? take(run, i) : GO_ON;
        if (step != GO_ON) {
            return step;
        }
    }
    return GO_ON;
}

// Returns the peers that this peer still waits for.
static uint64_t awaited(const struct run *run, uint64_t now_ms)
{
    const bool waits_for_all = !run->agreement->has_started || !is_enough(run, connected(run));
    const bool has_time = now_ms - run->began_waiting_ms < run->agreement->start_ms;
    const uint64_t wanted =
        waits_for_all && has_time ? all_peers(run) & ~refused(run) : connected(run);
    return wanted & ~run->heard & ~run->excluded;
}

// Logs once which absent peers this peer waits for, and how long at most.
static void report_waits(struct run *run, uint64_t absent, uint64_t now_ms)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    char names[TERN_LOG_TEXT_MAX] = "";
    size_t len = 0;
    if (absent == 0 || run->has_said_waits) {
        return;
    }
    run->has_said_waits = true;
    for (uint32_t i = 0; i < agreement->peers->count && len < sizeof names; i++) {
        if ((absent & bit(i)) != 0) {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                                    agreement->peers->peers[i].name);
        }
    }
    tern_log(TERN_LOG_INFO, "waits", "for=%s until_s=%" PRIu64, TERN_LOG_TEXT(names),
             (agreement->start_ms - (now_ms - run->began_waiting_ms) + 999) / 1000);
}

static enum step collect_hellos(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    run->begun_ms = tern_monotonic_ms();
    run->heard = bit(agreement->self);
    run->told = 0;
    memset(run->greeted, 0, sizeof run->greeted);
    while (!is_interrupted(run)) {
        greet(run);
        const enum step step = hear_all(run, hear);
        if (step != GO_ON) {
            return step;
        }
        const uint64_t now_ms = tern_monotonic_ms();
        run->heard &= connected(run);
        const uint64_t waits_for = awaited(run, now_ms);
        report_waits(run, waits_for & ~connected(run), now_ms);
        const bool has_visitors =
            tern_ring_mesh_has_visitors(agreement->mesh) && now_ms - run->begun_ms < VISIT_MS;
        if (waits_for == 0 && !has_visitors) {
            return DONE;
        }
        for (uint32_t i = 0; i < agreement->peers->count; i++) {
            if ((waits_for & connected(run) & bit(i)) != 0 && is_silent(run, i, now_ms)) {
                drop_silent(run, i);
            }
        }
        pulse(run, now_ms);
        tern_ring_mesh_poll(agreement->mesh, POLL_MS);
    }
    return FAILED;
}

// --- View

static enum step take_view(struct run *run, uint32_t peer)
{
    const uint8_t *body = NULL;
    const struct tern_ring_head *head = tern_ring_mesh_frame(run->agreement->mesh, peer, &body);
    const uint32_t epoch = run->agreement->epoch;
    if (head != NULL && head->type == TERN_RING_HELLO && !is_alike(run, body)) {
        return GO_ON; // it connected again; the next hellos refuse it
    }
    if (head != NULL && head->type == TERN_RING_HELLO && head->epoch > epoch) {
        run->agreement->epoch = head->epoch;
        return ANEW;
    }
    const bool has_told = (run->told & bit(peer)) != 0;
    if (head == NULL || (has_told && head->type != TERN_RING_PULSE)) {
        return GO_ON; // a frame after the view belongs to the exchange or to the next hellos
    }
    if (head->type == TERN_RING_VIEW && head->epoch == epoch) {
        run->views[peer] = tern_get_le64(body);
        run->told |= bit(peer);
    }
    if (head->type == TERN_RING_HELLO && head->epoch == epoch && (run->view & bit(peer)) == 0) {
        return GO_ON; // too late for this epoch
    }
    tern_ring_mesh_take(run->agreement->mesh, peer);
    return GO_ON;
}

// Whether a view lacks this peer: the others continue without it.
static bool is_left_out(const struct run *run)
{
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((run->view & run->told & bit(i)) != 0 &&
            (run->views[i] & bit(run->agreement->self)) == 0) {
            return true;
        }
    }
    return false;
}

// Compares the views when all have arrived: the members are the peers in all of them.
static enum step compare_views(struct run *run)
{
    uint64_t common = run->view;
    bool alike = true;
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((run->view & bit(i)) != 0 && i != run->agreement->self) {
            alike &= run->views[i] == run->view;
            common &= run->views[i];
        }
    }
    if (alike) {
        return DONE;
    }
    run->excluded |= run->view & ~common;
    run->agreement->epoch++;
    return ANEW;
}

static enum step exchange_views(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    uint8_t body[TERN_RING_VIEW_SIZE];
    run->view = run->heard & ~run->excluded;
    run->told = (run->told & run->heard) | bit(agreement->self);
    run->views[agreement->self] = run->view;
    run->begun_ms = tern_monotonic_ms();
    tern_put_le64(body, run->view);
    send_to_all(run, TERN_RING_VIEW, body, sizeof body);
    while (!is_interrupted(run)) {
        const enum step step = hear_all(run, take_view);
        if (step != GO_ON) {
            return step;
        }
        const uint64_t missing = run->view & ~run->told;
        const bool left_out = is_left_out(run);
        if (missing == 0 && !left_out) {
            return compare_views(run);
        }
        const uint64_t now_ms = tern_monotonic_ms();
        for (uint32_t i = 0; i < agreement->peers->count; i++) {
            if ((missing & bit(i)) == 0) {
                continue;
            }
            if (!left_out && is_silent(run, i, now_ms)) {
                drop_silent(run, i);
            }
        }
        if ((run->view & ~still_connected(run)) != 0) { // a connection was lost meanwhile
            run->agreement->epoch++;
            return ANEW;
        }
        pulse(run, now_ms);
        tern_ring_mesh_poll(agreement->mesh, POLL_MS);
    }
    return FAILED;
}

// --- Hellos and views together

// Writes why too few peers are present after the wait.
static enum tern_result name_missing(const struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    const char *separator = " ";
    size_t len = (size_t)snprintf(run->why, TERN_RING_AGREE_WHY_MAX,
                                  "only %u of %u peers are there, and more than half are needed: "
                                  "start the others, then this one again; not there:",
                                  count_bits(run->heard), agreement->peers->count);
    for (uint32_t i = 0; i < agreement->peers->count; i++) {
        char text[TERN_RING_PEER_TEXT_MAX];
        const char *reason = (run->otherwise & bit(i)) != 0
                                 ? run->differs[i]
                                 : tern_ring_mesh_why(agreement->mesh, i);
        if ((run->otherwise & bit(i)) != 0 && !is_enough(run, all_peers(run) & ~run->otherwise)) {
            name_otherwise(run, i);
            return TERN_ERR_CONFIG;
        }
        if ((run->heard & bit(i)) == 0 && len < TERN_RING_AGREE_WHY_MAX) {
            len +=
                (size_t)snprintf(run->why + len, TERN_RING_AGREE_WHY_MAX - len, "%s%s%s%s",
                                 separator, tern_ring_peer_text(&agreement->peers->peers[i], text),
                                 reason[0] != '\0' ? ": " : "", reason);
            separator = "; ";
        }
    }
    return TERN_ERR_BUSY;
}

// Begins again, while there is time, if the views were too different, as when peers join and leave at once.
static bool begins_anew(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    if (run->excluded == 0 || tern_monotonic_ms() - run->began_waiting_ms > agreement->start_ms) {
        return false;
    }
    run->excluded = 0;
    run->agreement->epoch++;
    tern_ring_mesh_poll(agreement->mesh, POLL_MS);
    return true;
}

static void fill_members(const struct run *run, struct tern_ring_members *members)
{
    members->count = 0;
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((run->view & bit(i)) == 0) {
            continue;
        }
        const bool is_self = i == run->agreement->self;
        members->position = is_self ? members->count : members->position;
        members->peers[members->count] = i;
        members->serials[i] = run->greeted[i];
        members->hellos[members->count] = is_self ? *run->mine : run->hellos[i];
        members->count++;
    }
}

enum tern_result tern_ring_agree(struct tern_ring_agreement *agreement,
                                 const struct tern_ring_hello *mine,
                                 struct tern_ring_members *members,
                                 char why[TERN_RING_AGREE_WHY_MAX])
{
    struct run run = {.agreement = agreement, .mine = mine, .why = why};
    run.began_waiting_ms = tern_monotonic_ms();
    for (;;) {
        enum step step = collect_hellos(&run);
        if (step == DONE && !is_enough(&run, run.heard & ~run.excluded)) {
            if (begins_anew(&run)) {
                continue;
            }
            return name_missing(&run);
        }
        step = step == DONE ? exchange_views(&run) : step;
        if (step == DONE) {
            fill_members(&run, members);
            agreement->has_started = true;
            return TERN_OK;
        }
        if (step == FAILED) {
            return is_interrupted(&run) ? TERN_ERR_STATE : TERN_ERR_CONFIG;
        }
    }
}
