// Runs whole rings in one process, and kills, restarts and stops their peers at random. Node, mesh and connections are the
// product's; this file replaces clock, sockets and TLS. Each seed gives one order of events, the same in every run. Peers are
// coroutines, and poll() switches between them.
#include "exchange/exchange.h"
#include "hosted/log.h"
#include "mesh/mesh.h"
#include "node/agree.h"
#include "node/node.h"
#include "tests/cases.h"
#include "tests/sanitized.h"
#include "util/prng.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PEERS_MOST 5u
#define FIRST_PORT 1000u // nothing is bound to it
#define STACK_SIZE (512u * 1024u)
#define WAITING_MOST 64u
#define TIMEOUT_MS 3000u
#define START_MS 300000u
#define CALM_MS 60000u // after the last loss, until all are members again

struct peer {
    char state_path[64];
    bool lives;
    volatile sig_atomic_t killed;
    ucontext_t context;
    uint8_t *stack;
    struct pollfd *polls; // what it waits for, as in poll()
    nfds_t poll_count;
    uint64_t quiet_at; // world.traffic when its sockets had nothing new
    uint64_t wakes_ms;
    uint64_t stopped_until_ms;
    int listener;
    int waiting[WAITING_MOST]; // connections that the peer has not accepted yet
    uint32_t waiting_count;
    uint32_t version; // of its last round
    uint32_t members;
    char hash[2 * TERN_SHA256_SIZE + 1];
};

static struct world {
    struct tern_ring_peers list;
    struct peer peers[PEERS_MOST];
    struct tern_model model;
    struct tern_codec codec;
    struct tern_prng rng;
    uint64_t now_ms;
    uint64_t traffic; // counts what another peer's poll() can see
    uint32_t current; // the peer whose turn it is
    ucontext_t scheduler;
    bool cut[PEERS_MOST]; // two of these peers cannot connect to each other
    char folder[32];
    char log[1 << 16]; // the last lines
    size_t log_len;
} world;

static uint32_t draw(uint32_t below)
{
    return tern_prng_below(&world.rng, below);
}

static struct peer *self(void)
{
    return &world.peers[world.current];
}

// --- Replacements of clock, poll, fsync and log

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_poll(struct pollfd *polls, nfds_t count, int wait_ms);
int __real_poll(struct pollfd *polls, nfds_t count, int wait_ms);
int __wrap_fsync(int fd);
void __wrap_tern_log(enum tern_log_level level, const char *event, const char *format, ...);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = (time_t)(world.now_ms / 1000u);
    now->tv_nsec = (long)(world.now_ms % 1000u) * 1000000;
    return 0;
}

int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

// Gives the turn back until there is traffic or the time has passed.
static void take_turns(struct pollfd *polls, nfds_t count, uint64_t wait_ms)
{
    struct peer *peer = self();
    peer->polls = polls;
    peer->poll_count = count;
    peer->quiet_at = 0;
    peer->wakes_ms = world.now_ms + wait_ms;
    swapcontext(&peer->context, &world.scheduler);
}

int __wrap_poll(struct pollfd *polls, nfds_t count, int wait_ms)
{
    if (wait_ms > 0 && self()->killed == 0) {
        take_turns(polls, count, (uint64_t)wait_ms);
    }
    return __real_poll(polls, count, 0);
}

void __wrap_tern_log(enum tern_log_level level, const char *event, const char *format, ...)
{
    char text[900] = "";
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    if (format != NULL) {
        vsnprintf(text, sizeof text, format, arguments);
    }
    va_end(arguments);
    if (strcmp(event, "round") == 0) {
        assert_int_equal(sscanf(text, "version=%u members=%u %*s %*s model=%64s", &self()->version,
                                &self()->members, self()->hash),
                         3);
    }
    if (world.log_len > sizeof world.log - 1024) {
        world.log_len = 0;
    }
    world.log_len += (size_t)snprintf(world.log + world.log_len, sizeof world.log - world.log_len,
                                      "%llu p%u %s %.500s\n", (unsigned long long)world.now_ms,
                                      world.current, event, text);
}

// --- Replacements of sockets: pairs within this process

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    (void)fd;
    (void)address;
    (void)len;
    return 0;
}

// Makes `fd` another descriptor of `from`, which is closed.
static void become(int fd, int from)
{
    assert_true(from >= 0);
    assert_int_equal(dup2(from, fd), fd);
    close(from);
}

// Makes `fd` readable while connections wait.
int __wrap_listen(int fd, int backlog)
{
    (void)backlog;
    become(fd, eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK));
    self()->listener = fd;
    return 0;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in to;
    int pair[2];
    assert_true(len >= sizeof to);
    memcpy(&to, address, sizeof to);
    const uint32_t port = ntohs(to.sin_port) - FIRST_PORT;
    struct peer *peer = &world.peers[port];
    const bool is_cut = world.cut[world.current] && world.cut[port];
    if (is_cut || !peer->lives || peer->listener < 0 || peer->waiting_count == WAITING_MOST) {
        errno = ECONNREFUSED;
        return -1;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    become(fd, pair[0]);
    peer->waiting[peer->waiting_count++] = pair[1];
    assert_int_equal(eventfd_write(peer->listener, 1), 0);
    world.traffic++;
    return 0;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    struct peer *peer = self();
    eventfd_t one;
    (void)address;
    (void)len;
    (void)flags;
    assert_int_equal(fd, peer->listener);
    if (peer->waiting_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    assert_int_equal(eventfd_read(fd, &one), 0);
    const int accepted = peer->waiting[0];
    peer->waiting_count--;
    memmove(peer->waiting, peer->waiting + 1, sizeof peer->waiting[0] * peer->waiting_count);
    return accepted;
}

// --- Replacement of mesh/ring_tls.c: plain bytes. A handshake has three flights, as in TLS 1.3: the dialling end's name, the
// answering end's name, and the dialling end's name again

struct tern_ring_tls_session {
    int fd;
    bool dials;
    uint32_t flights; // complete
    char name[TERN_RING_NAME_SIZE];
    size_t name_have;
};

struct tern_ring_tls_session *tern_ring_tls_open(struct tern_ring_tls *tls, int fd, bool dials)
{
    struct tern_ring_tls_session *session = calloc(1, sizeof *session);
    (void)tls;
    if (session != NULL) {
        session->fd = fd;
        session->dials = dials;
    }
    return session;
}

void tern_ring_tls_close(struct tern_ring_tls_session *session)
{
    world.traffic++;
    free(session);
}

enum tern_ring_io tern_ring_tls_read(struct tern_ring_tls_session *session, uint8_t *dst,
                                     size_t size, size_t *len)
{
    if (self()->killed != 0) {
        return TERN_RING_IO_WANT_READ;
    }
    const ssize_t got = recv(session->fd, dst, size, 0);
    if (got > 0) {
        *len = (size_t)got;
        return TERN_RING_IO_DONE;
    }
    if (got == 0) {
        return TERN_RING_IO_END;
    }
    return errno == EAGAIN ? TERN_RING_IO_WANT_READ : TERN_RING_IO_FAILED;
}

enum tern_ring_io tern_ring_tls_write(struct tern_ring_tls_session *session, const uint8_t *src,
                                      size_t len, size_t *written)
{
    if (self()->killed != 0) {
        return TERN_RING_IO_WANT_WRITE;
    }
    const ssize_t sent = send(session->fd, src, len, MSG_NOSIGNAL);
    world.traffic++;
    if (sent > 0) {
        *written = (size_t)sent;
        return TERN_RING_IO_DONE;
    }
    return errno == EAGAIN ? TERN_RING_IO_WANT_WRITE : TERN_RING_IO_FAILED;
}

static enum tern_ring_io send_name(struct tern_ring_tls_session *session)
{
    char name[TERN_RING_NAME_SIZE] = "";
    size_t written = 0;
    snprintf(name, sizeof name, "%s", world.list.peers[world.current].name);
    return tern_ring_tls_write(session, (const uint8_t *)name, sizeof name, &written);
}

static enum tern_ring_io receive_name(struct tern_ring_tls_session *session)
{
    while (session->name_have < sizeof session->name) {
        size_t len = 0;
        const enum tern_ring_io io =
            tern_ring_tls_read(session, (uint8_t *)session->name + session->name_have,
                               sizeof session->name - session->name_have, &len);
        if (io != TERN_RING_IO_DONE) {
            return io;
        }
        session->name_have += len;
    }
    return TERN_RING_IO_DONE;
}

enum tern_ring_io tern_ring_tls_handshake(struct tern_ring_tls_session *session)
{
    while (session->flights < 3) {
        const bool sends = session->dials == (session->flights % 2 == 0);
        const enum tern_ring_io io = sends ? send_name(session) : receive_name(session);
        if (io != TERN_RING_IO_DONE) {
            return io;
        }
        session->flights++;
        session->name_have = session->flights == 2 && !session->dials ? 0 : session->name_have;
    }
    return TERN_RING_IO_DONE;
}

void tern_ring_tls_peer_name(const struct tern_ring_tls_session *session,
                             char name[TERN_RING_NAME_SIZE])
{
    memcpy(name, session->name, TERN_RING_NAME_SIZE);
}

void tern_ring_tls_explain(const struct tern_ring_tls_session *session,
                           char why[TERN_RING_TLS_WHY_MAX])
{
    (void)session;
    snprintf(why, TERN_RING_TLS_WHY_MAX, "the peer has closed the connection");
}

bool tern_ring_tls_has_more(const struct tern_ring_tls_session *session)
{
    (void)session;
    return false;
}

void tern_ring_tls_close_notify(struct tern_ring_tls_session *session)
{
    (void)session;
}

uint64_t tern_ring_tls_received(const struct tern_ring_tls_session *session)
{
    (void)session;
    return 0;
}

uint64_t tern_ring_tls_sent(const struct tern_ring_tls_session *session)
{
    (void)session;
    return 0;
}

// --- Peers

static enum tern_result train(void *ctx, uint32_t round, const float *weights, float *descent,
                              uint32_t count, void (*between)(void *arg), void *arg, float *loss)
{
    (void)ctx;
    for (uint32_t i = 0; i < count; i++) {
        descent[i] = (float)round + (float)world.current - weights[i];
    }
    for (uint32_t steps = draw(4); steps > 0 && self()->killed == 0; steps--) {
        take_turns(NULL, 0, draw(40));
        between(arg);
    }
    *loss = 0;
    return TERN_OK;
}

static void run_peer(void)
{
    struct peer *peer = self();
    struct tern_ring_mesh *mesh = NULL;
    struct tern_ring_state state;
    struct tern_ring_outcome outcome;
    static const uint8_t agreement[TERN_SHA256_SIZE] = {1};
    char why[TERN_RING_NODE_WHY_MAX] = "";
    const uint32_t count = world.model.count;
    assert_int_equal(tern_ring_state_new(&state, count, world.list.count), TERN_OK);
    if (tern_ring_state_load(&state, agreement, peer->state_path, why) != TERN_OK) {
        tern_ring_state_hash(&state);
    }
    const struct tern_ring_mesh_config mesh_config = {
        .peers = &world.list,
        .self = world.current,
        .limits = {.block = (uint32_t)(TERN_RING_BLOCK_HEAD_SIZE +
                                       tern_ring_block_bound(&world.codec, &world.model, 2)),
                   .model = tern_ring_model_size(count, world.list.count)},
        .listen = "",
        .terms = "x y\n",
        .handshake_ms = 10000,
    };
    assert_int_equal(tern_ring_mesh_open(&mesh_config, &mesh, why), TERN_OK);
    const struct tern_ring_node_config config = {
        .peers = &world.list,
        .self = world.current,
        .mesh = mesh,
        .model = &world.model,
        .codec = &world.codec,
        .learner = {.train = train},
        .agreement = {1},
        .terms = "x y\n",
        .state_path = peer->state_path,
        .seed = 1,
        .rounds = 1000000,
        .learning_rate = .05F,
        .timeout_ms = TIMEOUT_MS,
        .start_ms = START_MS,
        .abort = &peer->killed,
    };
    tern_log(TERN_LOG_INFO, "started", "version=%u", state.version);
    const enum tern_result result = tern_ring_node_run(&config, &state, &outcome, why);
    if (peer->killed == 0) {
        fail_msg("p%u ended with %d: %s\n%s", world.current, (int)result, why, world.log);
    }
    tern_ring_mesh_close(mesh);
    tern_ring_state_free(&state);
    peer->listener = -1;
    peer->lives = false;
    swapcontext(&peer->context, &world.scheduler);
}

static void start(uint32_t index)
{
    struct peer *peer = &world.peers[index];
    peer->killed = 0;
    peer->lives = true;
    peer->listener = -1;
    peer->waiting_count = 0;
    peer->poll_count = 0;
    peer->stopped_until_ms = 0;
    peer->wakes_ms = world.now_ms + draw(200); // the program starts
    getcontext(&peer->context);
    peer->context.uc_stack.ss_sp = peer->stack;
    peer->context.uc_stack.ss_size = STACK_SIZE;
    peer->context.uc_link = NULL;
    makecontext(&peer->context, run_peer, 0);
}

static void resume(uint32_t index)
{
    world.current = index;
    swapcontext(&world.scheduler, &world.peers[index].context);
}

// Ends a peer as SIGKILL does: nothing more is sent, and what the kernel holds for others arrives.
static void kill_peer(uint32_t index)
{
    struct peer *peer = &world.peers[index];
    if (peer->listener < 0) { // not yet begun
        peer->lives = false;
        return;
    }
    peer->killed = 1;
    while (peer->lives) {
        resume(index);
    }
    for (uint32_t i = 0; i < peer->waiting_count; i++) {
        close(peer->waiting[i]);
    }
    peer->waiting_count = 0;
}

// --- Turns

static bool has_traffic(struct peer *peer)
{
    if (peer->quiet_at != world.traffic && __real_poll(peer->polls, peer->poll_count, 0) > 0) {
        return true;
    }
    peer->quiet_at = world.traffic;
    return false;
}

static bool may_run(struct peer *peer)
{
    return peer->lives && world.now_ms >= peer->stopped_until_ms &&
           (world.now_ms >= peer->wakes_ms || has_traffic(peer));
}

// Returns when the next peer may run, if no bytes are under way; at most `until_ms`.
static uint64_t next_wake(uint64_t until_ms)
{
    for (uint32_t i = 0; i < world.list.count; i++) {
        const struct peer *peer = &world.peers[i];
        const uint64_t stopped_ms = peer->stopped_until_ms;
        const uint64_t wakes_ms = stopped_ms > world.now_ms ? stopped_ms : peer->wakes_ms;
        until_ms = peer->lives && wakes_ms < until_ms ? wakes_ms : until_ms;
    }
    return until_ms;
}

static void step(uint64_t until_ms)
{
    uint32_t ready[PEERS_MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i < world.list.count; i++) {
        if (may_run(&world.peers[i])) {
            ready[count++] = i;
        }
    }
    if (count == 0) {
        world.now_ms = next_wake(until_ms);
        return;
    }
    const uint32_t chosen = ready[draw(count)];
    resume(chosen);
    world.now_ms += draw(3) == 0;
    if (draw(100) == 0) { // the machine does something else
        world.peers[chosen].stopped_until_ms = world.now_ms + draw(300);
    }
}

static void run_for(uint64_t ms)
{
    const uint64_t until_ms = world.now_ms + ms;
    while (world.now_ms < until_ms) {
        step(until_ms);
    }
}

static bool all_are_members(const uint32_t versions[PEERS_MOST])
{
    for (uint32_t i = 0; i < world.list.count; i++) {
        const struct peer *peer = &world.peers[i];
        if (peer->version <= versions[i] || peer->members != world.list.count) {
            return false;
        }
    }
    return true;
}

// Kills or stops one to three peers of five.
static void strike(void)
{
    const uint32_t count = world.list.count;
    const uint32_t first = draw(count);
    const uint32_t victims[3] = {first, (first + 1) % count, (first + 3) % count};
    const uint32_t many = 1 + draw(3);
    const bool stops = draw(10) < 3;
    const uint64_t away_ms = draw(stops ? 4000 : 500);
    for (uint32_t i = 0; i < many; i++) {
        if (stops) {
            world.peers[victims[i]].stopped_until_ms = world.now_ms + away_ms;
        } else {
            kill_peer(victims[i]);
        }
    }
    run_for(away_ms);
    for (uint32_t i = 0; i < many; i++) {
        if (!stops) {
            start(victims[i]);
            run_for(draw(100));
        }
    }
    run_for(draw(1000));
}

static void start_ring(uint32_t seed, uint32_t count, const char *groups)
{
    tern_prng_init(&world.rng, seed, TERN_PRNG_TEST, 1, 1);
    world.list.count = count;
    world.now_ms = 1000000;
    world.traffic = 1;
    world.log_len = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tern_ring_peer *one = &world.list.peers[i];
        struct peer *peer = &world.peers[i];
        snprintf(one->name, sizeof one->name, "p%u", i);
        one->port = (uint16_t)(FIRST_PORT + i);
        snprintf(one->address, sizeof one->address, "127.0.0.1");
        one->group = groups != NULL ? (uint8_t)(groups[i] - 'a') : 0;
        snprintf(peer->state_path, sizeof peer->state_path, "%s/%u", world.folder, i);
        unlink(peer->state_path);
        peer->version = peer->members = 0;
        start(i);
    }
}

static void end_ring(void)
{
    for (uint32_t i = 0; i < world.list.count; i++) {
        kill_peer(i);
    }
}

static void lose_peers(uint32_t seed, const char *groups)
{
    uint32_t versions[PEERS_MOST];
    start_ring(seed, PEERS_MOST, groups);
    run_for(2000);
    for (uint32_t i = 0; i < 12; i++) {
        strike();
    }
    for (uint32_t i = 0; i < PEERS_MOST; i++) {
        versions[i] = world.peers[i].version;
    }
    const uint64_t until_ms = world.now_ms + CALM_MS;
    while (!all_are_members(versions)) {
        step(until_ms + 1);
        if (world.now_ms > until_ms) {
            fprintf(stderr, "%.*s", (int)world.log_len, world.log);
            fail_msg("seed %u: peers that are there wait for each other", seed);
        }
    }
    for (uint32_t i = 1; i < PEERS_MOST; i++) {
        if (world.peers[i].version == world.peers[0].version) {
            assert_string_equal(world.peers[i].hash, world.peers[0].hash);
        }
    }
    end_ring();
}

static int set_up(void **state)
{
    (void)state;
    strcpy(world.folder, "/tmp/tern-ring-XXXXXX");
    assert_non_null(mkdtemp(world.folder));
    assert_int_equal(tern_codec_parse("float32", &world.codec, NULL), TERN_OK);
    assert_int_equal(tern_model_from_spec(&world.model, "softmax:3-4"), TERN_OK);
    for (uint32_t i = 0; i < PEERS_MOST; i++) {
        world.peers[i].stack = malloc(STACK_SIZE);
        assert_non_null(world.peers[i].stack);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PEERS_MOST; i++) {
        unlink(world.peers[i].state_path);
        free(world.peers[i].stack);
    }
    return rmdir(world.folder);
}

CASES_SHARE(set_up, tear_down)

// TERN_RING_SEED and TERN_RING_SEEDS: the first seed, and how many.
CASE(peers_that_come_and_go_are_members_again)
{
    const char *from = getenv("TERN_RING_SEED");
    const char *many = getenv("TERN_RING_SEEDS");
    const uint32_t first = from != NULL ? (uint32_t)strtoul(from, NULL, 10) : 1;
    const uint32_t count = many != NULL ? (uint32_t)strtoul(many, NULL, 10) : FEWER_TRIALS ? 4 : 30;
    for (uint32_t seed = first; seed < first + count; seed++) {
        lose_peers(seed, seed % 2 == 0 ? "aabbb" : NULL);
    }
}

// Peers 0 and 1 excluded different peers, and all agreed without end.
CASE(peers_do_not_exclude_each_other_for_ever)
{
    lose_peers(10068, "aabbb");
}

CASE(two_peers_without_a_link_are_left_out)
{
    world.cut[1] = world.cut[3] = true;
    for (uint32_t seed = 1; seed < (FEWER_TRIALS ? 2 : 4); seed++) {
        start_ring(seed, PEERS_MOST, NULL);
        run_for(START_MS + CALM_MS);
        for (uint32_t i = 0; i < PEERS_MOST; i++) {
            const struct peer *peer = &world.peers[i];
            assert_int_equal(peer->version > 10, !world.cut[i]);
            assert_true(world.cut[i] || peer->members == 3);
        }
        end_ring();
    }
    world.cut[1] = world.cut[3] = false;
}
