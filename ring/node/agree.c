#include "node/agree.h"

#include "hosted/log.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include "util/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SOME_DIFFER "the list of peers, model, seed, codec or learning rate differs"
#define SET_ALIKE                                                                                  \
    "set ring.peers, model, seed, codec and learning_rate to the same values on all peers"
#define POLL_MS 100u
#define HANDSHAKE_WAIT_MS 1000u // longest wait for a peer whose connection is in its handshake
#define EXCLUDED_MOST 8u        // epochs before excluded peers have another chance
#define SHOWN_MAX 96            // bytes of a value in a message

// --- Settings as text

size_t tern_ring_terms_add(char text[TERN_RING_TERMS_MAX + 1], size_t len, const char *name,
                           const char *value)
{
    const size_t room = TERN_RING_TERMS_MAX + 1 - len;
    const int wanted = snprintf(text + len, room, "%s %s\n", name, value);
    if (wanted < 0 || (size_t)wanted >= room) {
        text[len] = '\0';
        return len;
    }
    return len + (size_t)wanted;
}

// Returns the value of a setting in the text, and its length; NULL if the text lacks the setting.
static const char *find_value(const char *text, const char *name, size_t name_len, size_t *len)
{
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        const size_t line_len = strcspn(line, "\n");
        if (line_len > name_len && strncmp(line, name, name_len) == 0 && line[name_len] == ' ') {
            *len = line_len - name_len - 1;
            return line + name_len + 1;
        }
        line += line_len;
    }
    return NULL;
}

// Shortens a value for a message: cuts a long list of peers, leaves out the model's hash.
static void shorten(const char *name, const char *value, size_t len, char text[SHOWN_MAX + 4])
{
    const bool is_model = strcmp(name, "model") == 0;
    const size_t shown = is_model ? strcspn(value, " \n") : len;
    const size_t kept = shown <= SHOWN_MAX ? shown : SHOWN_MAX;
    memcpy(text, value, kept);
    text[kept] = '\0';
    tern_utf8_show(text, kept);
    if (kept < shown) {
        strcat(text, "...");
    }
}

void tern_ring_terms_compare(const char *mine, const char *theirs,
                             char why[TERN_RING_TERMS_WHY_MAX])
{
    size_t at = 0;
    why[0] = '\0';
    for (const char *line = mine; *line != '\0'; line += *line == '\n') {
        const size_t name_len = strcspn(line, " \n");
        char name[32];
        char here[SHOWN_MAX + 4];
        char there[SHOWN_MAX + 4];
        size_t own_len = 0;
        size_t other_len = 0;
        snprintf(name, sizeof name, "%.*s", (int)(name_len < 31 ? name_len : 31), line);
        const char *own = find_value(mine, line, name_len, &own_len);
        const char *other = find_value(theirs, line, name_len, &other_len);
        if (own != NULL && other != NULL &&
            (own_len != other_len || memcmp(own, other, own_len) != 0)) {
            shorten(name, own, own_len, here);
            shorten(name, other, other_len, there);
            const int more = snprintf(why + at, TERN_RING_TERMS_WHY_MAX - at,
                                      "%sring.%s is %s there and %s here", at > 0 ? "; " : "", name,
                                      there, here);
            at += more > 0 ? (size_t)more : 0;
            if (at >= TERN_RING_TERMS_WHY_MAX) {
                return;
            }
        }
        line += strcspn(line, "\n");
    }
}

// --- One run

// One run of tern_ring_agree(). A set of peers has one bit for each.
struct run {
    struct tern_ring_agreement *agreement;
    const struct tern_ring_hello *mine;
    char *why;
    uint64_t excluded;        // peers that another member did not hear
    uint64_t hellos_received; // peers whose hello of this epoch arrived
    uint64_t view;            // this peer's view
    uint64_t views_received;  // peers whose view arrived
    uint64_t unlike;          // peers whose last hello had different settings
    char differs[TERN_RING_MEMBERS_MAX][TERN_RING_TERMS_WHY_MAX]; // [peer] the settings that differ
    uint64_t views[TERN_RING_MEMBERS_MAX];
    uint32_t hello_serials[TERN_RING_MEMBERS_MAX]; // [peer] the connection that carried our hello
    struct tern_ring_hello hellos[TERN_RING_MEMBERS_MAX];
    uint64_t phase_start_ms;
    uint64_t wait_start_ms; // when the wait for enough peers began
    uint64_t pulse_ms;
    bool has_logged_wait;
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
static uint64_t refused_peers(const struct run *run)
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
        set |= tern_ring_mesh_serial(run->agreement->mesh, i) != 0 ? bit(i) : 0;
    }
    return set & ~refused_peers(run);
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
        set |= serial != 0 && serial == run->hello_serials[i] ? bit(i) : 0;
    }
    return set;
}

static void drop_silent(const struct run *run, uint32_t peer)
{
    char text[64];
    snprintf(text, sizeof text, "the peer did not answer in %" PRIu64 " s",
             run->agreement->timeout_ms / 1000);
    tern_ring_mesh_drop(run->agreement->mesh, peer, text);
}

// Whether an awaited peer has been silent for too long.
static bool is_silent(const struct run *run, uint32_t peer, uint64_t now_ms)
{
    const uint64_t heard_ms = tern_ring_mesh_last_received_ms(run->agreement->mesh, peer);
    const uint64_t since_ms = heard_ms > run->phase_start_ms ? heard_ms : run->phase_start_ms;
    return now_ms > since_ms && now_ms - since_ms > run->agreement->timeout_ms;
}

// Sends a heartbeat when it is due, so that waiting peers do not time out.
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

static bool send_hello(const struct run *run, uint32_t peer)
{
    uint8_t body[TERN_RING_HELLO_SIZE];
    tern_ring_hello_write(run->mine, body);
    return tern_ring_mesh_send(run->agreement->mesh, peer, TERN_RING_HELLO, run->agreement->epoch,
                               body, sizeof body, NULL, 0);
}

static void send_hellos(struct run *run)
{
    const uint64_t there = connected(run);
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const uint32_t serial = tern_ring_mesh_serial(run->agreement->mesh, i);
        if ((there & bit(i)) != 0 && serial != run->hello_serials[i] && send_hello(run, i)) {
            run->hello_serials[i] = serial;
            run->hellos_received &= ~bit(i);
            run->views_received &= ~bit(i);
        }
    }
}

enum step { CONTINUE, RESTART, DONE, FAILED };

static bool has_same_settings(const struct run *run, const uint8_t *body)
{
    struct tern_ring_hello hello;
    tern_ring_hello_read(body, &hello);
    return memcmp(hello.agreement, run->mine->agreement, sizeof hello.agreement) == 0;
}

static void explain_difference(const struct run *run, uint32_t peer)
{
    char text[TERN_RING_PEER_TEXT_MAX];
    snprintf(run->why, TERN_RING_AGREE_WHY_MAX, "%s has different settings: %s; " SET_ALIKE,
             tern_ring_peer_text(&run->agreement->peers->peers[peer], text), run->differs[peer]);
}

// Sets run->differs[peer] from the peer's settings as text.
static void compare_terms(struct run *run, uint32_t peer)
{
    char *differs = run->differs[peer];
    tern_ring_terms_compare(run->agreement->terms, tern_ring_mesh_terms(run->agreement->mesh, peer),
                            differs);
    if (differs[0] == '\0') {
        snprintf(differs, TERN_RING_TERMS_WHY_MAX, SOME_DIFFER);
    }
}

// Refuses a peer with different settings: sends this peer's hello again, so that the other one sees the difference, and counts
// it as absent. Fails if the remaining peers are not more than half, so that at most one group of peers continues.
static enum step refuse(struct run *run, uint32_t peer)
{
    struct tern_ring_agreement *agreement = run->agreement;
    tern_ring_mesh_discard(agreement->mesh, peer);
    (void)send_hello(run, peer);
    agreement->refused[peer] = tern_ring_mesh_serial(agreement->mesh, peer);
    compare_terms(run, peer);
    run->hellos_received &= ~bit(peer);
    run->unlike |= bit(peer);
    if (is_enough(run, all_peers(run) & ~refused_peers(run))) {
        char why[TERN_RING_TERMS_WHY_MAX + sizeof SET_ALIKE + 2];
        snprintf(why, sizeof why, "%s; " SET_ALIKE, run->differs[peer]);
        tern_log(TERN_LOG_WARN, "peer-refused", "name=%s why=%s",
                 TERN_LOG_TEXT(agreement->peers->peers[peer].name), TERN_LOG_TEXT(why));
        return CONTINUE;
    }
    explain_difference(run, peer);
    return FAILED;
}

// Handles a frame from a peer whose hello of this epoch has arrived. Stores a view and discards its frame, because the frame
// would block the peer's next hello: the peer may already wait in a later epoch.
static void keep_early_view(struct run *run, uint32_t peer, const struct tern_ring_head *head,
                            const uint8_t *body)
{
    if (head->type == TERN_RING_VIEW && head->epoch == run->agreement->epoch) {
        run->views[peer] = tern_get_le64(body);
        run->views_received |= bit(peer);
    } else if (head->type != TERN_RING_PULSE) {
        return;
    }
    tern_ring_mesh_discard(run->agreement->mesh, peer);
}

// Handles a frame from a peer while hellos are collected.
static enum step collect_hello(struct run *run, uint32_t peer)
{
    const uint8_t *body = NULL;
    const struct tern_ring_head *head = tern_ring_mesh_received(run->agreement->mesh, peer, &body);
    const bool is_refused = (refused_peers(run) & bit(peer)) != 0;
    const bool is_hello = head != NULL && head->type == TERN_RING_HELLO && !is_refused;
    if (is_hello && !has_same_settings(run, body)) {
        return refuse(run, peer);
    }
    if (is_hello && head->epoch > run->agreement->epoch) {
        run->agreement->epoch = head->epoch;
        run->agreement->has_started = true;
        return RESTART;
    }
    if (head == NULL) {
        return CONTINUE;
    }
    if ((run->hellos_received & bit(peer)) != 0) {
        keep_early_view(run, peer, head, body);
        return CONTINUE;
    }
    if (is_hello && head->epoch == run->agreement->epoch) {
        tern_ring_hello_read(body, &run->hellos[peer]);
        run->hellos_received |= bit(peer);
        run->unlike &= ~bit(peer);
    }
    // Other frames are heartbeats, or from an earlier epoch or a refused peer: discard them.
    tern_ring_mesh_discard(run->agreement->mesh, peer);
    return CONTINUE;
}

static enum step process_frames(struct run *run, enum step (*take)(struct run *run, uint32_t peer))
{
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        const enum step step = i != run->agreement->self ? take(run, i) : CONTINUE;
        if (step != CONTINUE) {
            return step;
        }
    }
    return CONTINUE;
}

// Returns the peers whose hello this peer still waits for.
static uint64_t awaited_peers(const struct run *run, uint64_t now_ms)
{
    const bool waits_for_all = !run->agreement->has_started || !is_enough(run, connected(run));
    const bool has_time = now_ms - run->wait_start_ms < run->agreement->start_ms;
    const uint64_t wanted =
        waits_for_all && has_time ? all_peers(run) & ~refused_peers(run) : connected(run);
    return wanted & ~run->hellos_received & ~run->excluded;
}

// Logs once which absent peers this peer waits for, and the longest wait.
static void log_wait(struct run *run, uint64_t absent, uint64_t now_ms)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    char names[TERN_LOG_TEXT_MAX] = "";
    size_t len = 0;
    if (absent == 0 || run->has_logged_wait) {
        return;
    }
    run->has_logged_wait = true;
    for (uint32_t i = 0; i < agreement->peers->count && len < sizeof names; i++) {
        if ((absent & bit(i)) != 0) {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                                    agreement->peers->peers[i].name);
        }
    }
    tern_log(TERN_LOG_INFO, "waits", "for=%s until_s=%" PRIu64, TERN_LOG_TEXT(names),
             (agreement->start_ms - (now_ms - run->wait_start_ms) + 999) / 1000);
}

static enum step collect_hellos(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    run->phase_start_ms = tern_monotonic_ms();
    run->hellos_received = bit(agreement->self);
    run->views_received = 0;
    memset(run->hello_serials, 0, sizeof run->hello_serials);
    while (!is_interrupted(run)) {
        send_hellos(run);
        const enum step step = process_frames(run, collect_hello);
        if (step != CONTINUE) {
            return step;
        }
        const uint64_t now_ms = tern_monotonic_ms();
        run->hellos_received &= connected(run);
        const uint64_t waits_for = awaited_peers(run, now_ms);
        log_wait(run, waits_for & ~connected(run), now_ms);
        const bool has_visitors = tern_ring_mesh_in_handshake(agreement->mesh) &&
                                  now_ms - run->phase_start_ms < HANDSHAKE_WAIT_MS;
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

// Handles a hello of this epoch that arrives after this peer has collected hellos. On a connection that did not carry this
// peer's hello, the sender waits for a hello that never comes, and others may wait for the sender: all begin again with it.
static enum step handle_late_hello(struct run *run, uint32_t peer)
{
    if (run->hello_serials[peer] == tern_ring_mesh_serial(run->agreement->mesh, peer)) {
        return CONTINUE;
    }
    run->agreement->epoch++;
    return RESTART;
}

static enum step collect_view(struct run *run, uint32_t peer)
{
    const uint8_t *body = NULL;
    const struct tern_ring_head *head = tern_ring_mesh_received(run->agreement->mesh, peer, &body);
    const uint32_t epoch = run->agreement->epoch;
    if (head != NULL && head->type == TERN_RING_HELLO && !has_same_settings(run, body)) {
        return CONTINUE; // the peer reconnected; the next collection of hellos refuses it
    }
    if (head != NULL && head->type == TERN_RING_HELLO && head->epoch > epoch) {
        run->agreement->epoch = head->epoch;
        return RESTART;
    }
    const bool has_viewed = (run->view & run->views_received & bit(peer)) != 0;
    if (head == NULL || (has_viewed && head->type != TERN_RING_PULSE)) {
        return CONTINUE; // a frame after the view belongs to the exchange or to the next hellos
    }
    if (head->type == TERN_RING_VIEW && head->epoch == epoch) {
        run->views[peer] = tern_get_le64(body);
        run->views_received |= bit(peer);
    }
    if (head->type == TERN_RING_HELLO && head->epoch == epoch && (run->view & bit(peer)) == 0) {
        return handle_late_hello(run, peer);
    }
    tern_ring_mesh_discard(run->agreement->mesh, peer);
    return CONTINUE;
}

// Whether another member's view lacks this peer; then the others continue without it.
static bool is_left_out(const struct run *run)
{
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((run->view & run->views_received & bit(i)) != 0 &&
            (run->views[i] & bit(run->agreement->self)) == 0) {
            return true;
        }
    }
    return false;
}

// Ends if all views are equal; else starts over with the peers that are in all views.
static enum step compare_views(struct run *run)
{
    uint64_t common = run->view;
    bool equal = true;
    for (uint32_t i = 0; i < run->agreement->peers->count; i++) {
        if ((run->view & bit(i)) != 0 && i != run->agreement->self) {
            equal &= run->views[i] == run->view;
            common &= run->views[i];
        }
    }
    if (equal) {
        return DONE;
    }
    run->excluded |= run->view & ~common;
    run->agreement->epoch++;
    return RESTART;
}

static enum step exchange_views(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    uint8_t body[TERN_RING_VIEW_SIZE];
    run->view = run->hellos_received & ~run->excluded;
    run->views_received = (run->views_received & run->hellos_received) | bit(agreement->self);
    run->views[agreement->self] = run->view;
    run->phase_start_ms = tern_monotonic_ms();
    tern_put_le64(body, run->view);
    send_to_all(run, TERN_RING_VIEW, body, sizeof body);
    while (!is_interrupted(run)) {
        const enum step step = process_frames(run, collect_view);
        if (step != CONTINUE) {
            return step;
        }
        const uint64_t missing = run->view & ~run->views_received;
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
            return RESTART;
        }
        pulse(run, now_ms);
        tern_ring_mesh_poll(agreement->mesh, POLL_MS);
    }
    return FAILED;
}

// --- Hellos and views together

// Writes why too few peers are present after the wait.
static enum tern_result explain_missing(const struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    const char *separator = " ";
    size_t len = (size_t)snprintf(run->why, TERN_RING_AGREE_WHY_MAX,
                                  "only %u of %u peers are connected, and more than half must be; "
                                  "start the others, then this one again. Missing:",
                                  count_bits(run->hellos_received), agreement->peers->count);
    for (uint32_t i = 0; i < agreement->peers->count; i++) {
        char text[TERN_RING_PEER_TEXT_MAX];
        const char *reason = (run->unlike & bit(i)) != 0
                                 ? run->differs[i]
                                 : tern_ring_mesh_failure(agreement->mesh, i);
        if ((run->unlike & bit(i)) != 0 && !is_enough(run, all_peers(run) & ~run->unlike)) {
            explain_difference(run, i);
            return TERN_ERR_CONFIG;
        }
        if ((run->hellos_received & bit(i)) == 0 && len < TERN_RING_AGREE_WHY_MAX) {
            len +=
                (size_t)snprintf(run->why + len, TERN_RING_AGREE_WHY_MAX - len, "%s%s%s%s",
                                 separator, tern_ring_peer_text(&agreement->peers->peers[i], text),
                                 reason[0] != '\0' ? ": " : "", reason);
            separator = "; ";
        }
    }
    return TERN_ERR_BUSY;
}

// Prepares another attempt, while there is time, if too few peers were in all views, as when peers join and leave at once.
static bool restart(struct run *run)
{
    const struct tern_ring_agreement *agreement = run->agreement;
    if (run->excluded == 0 || tern_monotonic_ms() - run->wait_start_ms > agreement->start_ms) {
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
        members->serials[i] = run->hello_serials[i];
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
    run.wait_start_ms = tern_monotonic_ms();
    for (uint32_t epochs = 1;; epochs++) {
        // Peers that exclude different peers never have equal views.
        run.excluded = epochs % EXCLUDED_MOST == 0 ? 0 : run.excluded;
        enum step step = collect_hellos(&run);
        if (step == DONE && !is_enough(&run, run.hellos_received & ~run.excluded)) {
            if (restart(&run)) {
                continue;
            }
            return explain_missing(&run);
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
