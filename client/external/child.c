#define _GNU_SOURCE
#include "external/child.h"
#include "hosted/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAP_MIN_MS 2
#define NAP_MAX_MS 100
#define READS_MAX 64 // reads of one wait, so that a flood of output cannot hold up the client
#define FILES_MAX                                                                                  \
    65536 // file descriptors that are closed one by one on kernels without close_range()
#define NOT_STARTED 127
#define ANSWER_FILE 3

// --- Starting

static bool same_variable(const char *one, const char *other)
{
    const size_t len = strcspn(one, "=");
    return strncmp(one, other, len + 1) == 0;
}

static bool is_added(char *const *additions, const char *entry)
{
    while (*additions != NULL && !same_variable(*additions, entry)) {
        additions++;
    }
    return *additions != NULL;
}

// Copies this process's environment; the additions replace variables of the same name.
static char **joined_environment(char *const *additions)
{
    size_t size = 1;
    size_t count = 0;
    for (char *const *at = environ; *at != NULL; at++) {
        size++;
    }
    for (char *const *at = additions; *at != NULL; at++) {
        size++;
    }
    char **joined = calloc(size, sizeof *joined);
    if (joined == NULL) {
        return NULL;
    }
    for (char *const *at = environ; *at != NULL; at++) {
        if (!is_added(additions, *at)) {
            joined[count++] = *at;
        }
    }
    for (char *const *at = additions; *at != NULL; at++) {
        joined[count++] = *at;
    }
    return joined;
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &action, NULL);
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_from(int first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) {
        return;
    }
#endif
    const long most = sysconf(_SC_OPEN_MAX);
    const int end = most > 0 && most < FILES_MAX ? (int)most : FILES_MAX;
    for (int fd = first; fd < end; fd++) {
        (void)close(fd);
    }
}

// Both ends of the files between parent and child.
struct pipes {
    int output[2]; // pipe for standard output and standard error
    int talk[2];   // sockets for lines and answers; -1: not a talking child
};

// Turns the forked child into the program, with only calls that are safe between fork and exec. The program has the standard
// files and, if it talks, the file for answers. exec closes the next file, `report`; if exec fails, its errno goes there.
static void run_program(char *const *words, char **environment, const struct pipes *pipes,
                        int report, pid_t parent)
{
    const bool talks = pipes->talk[1] >= 0;
    const int input = talks ? pipes->talk[1] : open("/dev/null", O_RDONLY);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    reset_signals();
    // Copies to descriptors of 10 and above, which the dup2() calls below do not overwrite.
    int errors = fcntl(report, F_DUPFD, 10);
    const int high_output = fcntl(pipes->output[1], F_DUPFD, 10);
    const int high_input = fcntl(input, F_DUPFD, 10);
    if (getppid() == parent && dup2(high_input, 0) == 0 && dup2(high_output, 1) == 1 &&
        dup2(high_output, 2) == 2 &&
        dup3(high_input, ANSWER_FILE, talks ? 0 : O_CLOEXEC) == ANSWER_FILE &&
        dup3(errors, ANSWER_FILE + 1, O_CLOEXEC) == ANSWER_FILE + 1) {
        errors = ANSWER_FILE + 1;
        close_from(ANSWER_FILE + 2);
        environ = environment;
        execvp(words[0], words);
    }
    const int error = errno;
    (void)!write(errors, &error, sizeof error);
    _exit(NOT_STARTED);
}

static void close_pair(int pair[2])
{
    (void)close(pair[0]);
    (void)close(pair[1]);
}

// Starts the program in a new process. Returns its id, or 0 with the errno of fork or exec in *error.
static pid_t spawn(char *const *words, char **environment, const struct pipes *pipes, int *error)
{
    int report[2];
    const pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC) != 0) {
        *error = errno;
        return 0;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        run_program(words, environment, pipes, report[1], parent);
    }
    *error = pid < 0 ? errno : 0;
    (void)close(report[1]);
    ssize_t got = -1;
    while (pid > 0 && (got = read(report[0], error, sizeof *error)) < 0 && errno == EINTR) {
    }
    (void)close(report[0]);
    if (pid > 0 && got > 0) {
        (void)waitpid(pid, NULL, 0);
        return 0;
    }
    if (pid > 0) {
        *error = 0;
        (void)setpgid(pid, pid);
        return pid;
    }
    return 0;
}

static bool open_pipes(struct pipes *pipes, bool talks)
{
    *pipes = (struct pipes){.talk = {-1, -1}};
    if (pipe2(pipes->output, O_CLOEXEC) != 0) {
        return false;
    }
    if (talks && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipes->talk) != 0) {
        close_pair(pipes->output);
        return false;
    }
    return true;
}

static void close_pipes(struct pipes *pipes)
{
    close_pair(pipes->output);
    if (pipes->talk[0] >= 0) {
        close_pair(pipes->talk);
    }
}

enum tern_result tern_child_start(struct tern_child *child, char *const *words,
                                  char *const *environment, const struct tern_child_limits *limits,
                                  bool talks, int *error)
{
    struct pipes pipes;
    if (child->pid != 0) {
        return TERN_ERR_STATE;
    }
    (void)signal(SIGCHLD, SIG_DFL); // some parents leave it ignored, which discards exit codes
    if (!open_pipes(&pipes, talks)) {
        *error = errno;
        return TERN_ERR_IO;
    }
    char **joined = joined_environment(environment);
    *error = ENOMEM;
    const pid_t pid = joined != NULL ? spawn(words, joined, &pipes, error) : 0;
    free(joined);
    if (pid == 0) {
        close_pipes(&pipes);
        return TERN_ERR_IO;
    }
    (void)close(pipes.output[1]);
    (void)fcntl(pipes.output[0], F_SETFL, O_NONBLOCK);
    if (talks) {
        (void)close(pipes.talk[1]);
        (void)fcntl(pipes.talk[0], F_SETFL, O_NONBLOCK);
    }
    *child = (struct tern_child){.pid = pid,
                                 .output = pipes.output[0],
                                 .talk = pipes.talk[0],
                                 .limits = *limits,
                                 .last_ms = tern_monotonic_ms(),
                                 .nap_ms = NAP_MIN_MS};
    return TERN_OK;
}

// --- Its output

static void append_tail(struct tern_child *child, const char *text, size_t len)
{
    if (len > TERN_CHILD_TAIL_MAX) {
        text += len - TERN_CHILD_TAIL_MAX;
        len = TERN_CHILD_TAIL_MAX;
    }
    if (child->tail_len + len > TERN_CHILD_TAIL_MAX) {
        const size_t gone = child->tail_len + len - TERN_CHILD_TAIL_MAX;
        memmove(child->tail, child->tail + gone, child->tail_len - gone);
        child->tail_len -= gone;
    }
    memcpy(child->tail + child->tail_len, text, len);
    child->tail_len += len;
    for (size_t i = child->tail_len - len; i < child->tail_len; i++) {
        child->tail[i] = child->tail[i] == '\0' ? '?' : child->tail[i];
    }
    child->tail[child->tail_len] = '\0';
}

// Handles the result of read(): closes the file at its end. Returns whether bytes were read.
static bool read_more(int *file, ssize_t got)
{
    if (got == 0) {
        (void)close(*file);
        *file = -1;
    }
    return got > 0;
}

static void drain_output(struct tern_child *child)
{
    char piece[4096];
    ssize_t got = 1;
    for (int i = 0; i < READS_MAX && child->output >= 0 && got > 0; i++) {
        got = read(child->output, piece, sizeof piece);
        if (read_more(&child->output, got)) {
            append_tail(child, piece, (size_t)got);
        }
    }
}

// Reads the answer. Discards bytes beyond TERN_CHILD_ANSWER_MAX.
static void drain_answer(struct tern_child *child)
{
    char piece[256];
    ssize_t got = 1;
    for (int i = 0; i < READS_MAX && child->talk >= 0 && got > 0; i++) {
        got = read(child->talk, piece, sizeof piece);
        if (read_more(&child->talk, got)) {
            const size_t room = sizeof child->answer - child->answer_len;
            const size_t len = (size_t)got < room ? (size_t)got : room;
            memcpy(child->answer + child->answer_len, piece, len);
            child->answer_len += len;
        }
    }
    if (child->answer_len == sizeof child->answer) {
        child->answer[sizeof child->answer - 1] = '\n';
    }
    char *end = memchr(child->answer, '\n', child->answer_len);
    if (end != NULL) {
        *end = '\0';
    }
}

static void drain(struct tern_child *child)
{
    drain_output(child);
    drain_answer(child);
}

const char *tern_child_tail(const struct tern_child *child)
{
    const char *line = strchr(child->tail, '\n');
    const bool cut = child->tail_len == TERN_CHILD_TAIL_MAX;
    return cut && line != NULL && line[1] != '\0' ? line + 1 : child->tail;
}

// --- Its end

static void signal_group(const struct tern_child *child, int number)
{
    if (kill(-child->pid, number) != 0) {
        (void)kill(child->pid, number);
    }
}

static void count_time(struct tern_child *child)
{
    const uint64_t now = tern_monotonic_ms();
    child->ran_ms += child->paused ? 0 : now - child->last_ms;
    child->last_ms = now;
}

// Sends SIGTERM once, and SIGKILL after the grace time. A stopped group receives SIGTERM when it continues.
static void end_group(struct tern_child *child)
{
    if (child->ended_at_ms == 0) {
        child->ended_at_ms = tern_monotonic_ms();
        signal_group(child, SIGTERM);
        signal_group(child, SIGCONT);
    } else if (!child->killed &&
               tern_monotonic_ms() - child->ended_at_ms >= child->limits.grace_ms) {
        child->killed = true;
        signal_group(child, SIGKILL);
    }
}

// Whether the child has ended. Does not reap it, so that no other process can get its group's id.
static bool has_ended(const struct tern_child *child)
{
    siginfo_t info = {0};
    const int done = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return done != 0 || info.si_pid == child->pid;
}

static void close_file(int *file)
{
    if (*file >= 0) {
        (void)close(*file);
        *file = -1;
    }
}

static void reap(struct tern_child *child, enum tern_child_end *end, int *code)
{
    int status = 0;
    signal_group(child, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    drain(child);
    close_file(&child->output);
    close_file(&child->talk);
    child->pid = 0;
    *end = WIFSIGNALED(status) ? TERN_CHILD_SIGNALLED : TERN_CHILD_EXITED;
    *code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (child->timed_out) {
        *end = TERN_CHILD_TIMED_OUT;
    }
}

static void wait_for_output(struct tern_child *child, uint32_t wait_ms)
{
    // poll() ignores -1, a closed file.
    struct pollfd files[] = {{.fd = child->output, .events = POLLIN},
                             {.fd = child->talk, .events = POLLIN}};
    uint32_t ms = wait_ms;
    if (child->output < 0) { // no output will wake poll(): check for the child's end often
        ms = ms < child->nap_ms ? ms : child->nap_ms;
        child->nap_ms = child->nap_ms < NAP_MAX_MS ? child->nap_ms * 2 : NAP_MAX_MS;
    }
    (void)poll(files, sizeof files / sizeof files[0], (int)ms);
}

enum tern_result tern_child_wait(struct tern_child *child, uint32_t wait_ms,
                                 enum tern_child_end *end, int *code)
{
    if (child->pid == 0) {
        return TERN_ERR_STATE;
    }
    count_time(child);
    if (child->limits.time_ms != 0 && child->ran_ms >= child->limits.time_ms) {
        child->timed_out = true;
    }
    if (child->timed_out) {
        end_group(child);
    }
    if (!has_ended(child)) {
        wait_for_output(child, wait_ms);
        drain(child);
    }
    if (!has_ended(child)) {
        return TERN_AGAIN;
    }
    reap(child, end, code);
    return TERN_OK;
}

double tern_child_seconds(const struct tern_child *child)
{
    struct rusage ended;
    struct timespec runs = {0};
    clockid_t clock;
    if (child->pid != 0 && clock_getcpuclockid(child->pid, &clock) == 0) {
        (void)clock_gettime(clock, &runs);
    }
    getrusage(RUSAGE_CHILDREN, &ended);
    return (double)runs.tv_sec + (double)runs.tv_nsec * 1e-9 +
           (double)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) +
           (double)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) * 1e-6;
}

void tern_child_pause(struct tern_child *child, bool paused)
{
    if (child->pid != 0 && child->paused != paused) {
        count_time(child);
        child->paused = paused;
        signal_group(child, paused ? SIGSTOP : SIGCONT);
    }
}

void tern_child_stop(struct tern_child *child)
{
    enum tern_child_end end = TERN_CHILD_EXITED;
    int code = 0;
    while (child->pid != 0 && !has_ended(child)) {
        end_group(child);
        wait_for_output(child, NAP_MAX_MS);
        drain(child);
    }
    if (child->pid != 0) {
        reap(child, &end, &code);
    }
}

// --- Talking children

enum tern_result tern_child_send(struct tern_child *child, const char *line)
{
    char text[TERN_CHILD_LINE_MAX + 1];
    const int len = snprintf(text, sizeof text, "%s\n", line);
    enum tern_child_end end;
    int code;
    if (child->pid != 0 && has_ended(child)) {
        reap(child, &end, &code);
    }
    if (child->pid == 0) {
        return TERN_ERR_STATE;
    }
    drain(child); // discards earlier answers
    child->answer_len = 0;
    child->ran_ms = 0;
    child->last_ms = tern_monotonic_ms();
    child->nap_ms = NAP_MIN_MS;
    if (len < 0 || (size_t)len >= sizeof text || child->talk < 0) {
        return TERN_ERR_IO;
    }
    return send(child->talk, text, (size_t)len, MSG_NOSIGNAL) == len ? TERN_OK : TERN_ERR_IO;
}

const char *tern_child_answer(const struct tern_child *child)
{
    return memchr(child->answer, '\0', child->answer_len) != NULL ? child->answer : NULL;
}
