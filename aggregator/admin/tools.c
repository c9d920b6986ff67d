#define _GNU_SOURCE // pipe2

#include "admin/tools.h"

#include "admin/internal.h"
#include "hosted/system.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define OUTPUT_MAX (UINT64_C(1) << 30)
#define ARGUMENTS_MAX 8 // arguments of a verb, before the options

extern char **environ;

struct tern_tools_state {
    pthread_mutex_t lock;
    pthread_t thread;
    bool joinable; // a thread was started and not joined
    bool busy;     // the running tool has not replied
    bool stopping;
    pid_t child; // 0 = none
};

struct task {
    struct tern_tools *tools;
    enum tern_tool tool;
    struct tern_http_exchange *exchange;
};

// Output of a child on one descriptor.
struct output {
    uint8_t *data;
    size_t len;
    size_t room;
    bool failed; // too long, or out of memory
};

static const char *const verbs[][ARGUMENTS_MAX] = {
    [TERN_TOOL_DOCTOR] = {"doctor", "--json", NULL},
    [TERN_TOOL_EXPORT] = {"export", "-", "--format", "safetensors", NULL},
};

// --- The child

static char **make_arguments(const struct task *task)
{
    const char *const *options = task->tools->options;
    size_t count = 1;
    while (options[count - 1] != NULL) {
        count++;
    }
    char **arguments = calloc(count + ARGUMENTS_MAX + 1, sizeof *arguments);
    if (arguments == NULL) {
        return NULL;
    }
    size_t at = 0;
    arguments[at++] = (char *)(uintptr_t) "tern-aggregator";
    for (const char *const *part = verbs[task->tool]; *part != NULL; part++) {
        arguments[at++] = (char *)(uintptr_t)*part;
    }
    for (; *options != NULL; options++) {
        arguments[at++] = (char *)(uintptr_t)*options;
    }
    return arguments;
}

// Starts the verb with `out` and `err` as its standard output and standard error. Returns an errno,
// or 0.
static int spawn(const struct task *task, int out, int err, pid_t *child)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t ignored;
    char **arguments = make_arguments(task);
    if (arguments == NULL) {
        return ENOMEM;
    }
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(child, "/proc/self/exe", &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(arguments);
    return error;
}

static void append(struct output *output, const uint8_t *data, size_t len)
{
    if (output->len + len >= output->room) { // leaves room for a NUL
        const size_t room = 2 * (output->len + len) + 4096;
        uint8_t *grown = room > OUTPUT_MAX ? NULL : realloc(output->data, room);
        if (grown == NULL) {
            output->failed = true;
            return;
        }
        output->data = grown;
        output->room = room;
    }
    memcpy(output->data + output->len, data, len);
    output->len += len;
    output->data[output->len] = '\0';
}

// Reads the available bytes; false at the end.
static bool take(int fd, struct output *output)
{
    uint8_t buffer[16384];
    const ssize_t len = read(fd, buffer, sizeof buffer);
    if (len > 0 && !output->failed) {
        append(output, buffer, (size_t)len);
    }
    return len > 0 || (len < 0 && errno == EINTR);
}

// Reads both descriptors to their ends. False: the child took too long.
static bool collect(int fds[2], struct output outputs[2])
{
    const uint64_t end_ms = tern_monotonic_ms() + PATIENCE_MS;
    struct pollfd polled[2] = {{.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = POLLIN}};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        const uint64_t now_ms = tern_monotonic_ms();
        if (now_ms >= end_ms) {
            return false;
        }
        if (poll(polled, 2, (int)(end_ms - now_ms)) <= 0) {
            continue;
        }
        for (int i = 0; i < 2; i++) {
            if (polled[i].revents != 0 && !take(polled[i].fd, &outputs[i])) {
                polled[i].fd = -1; // poll() skips negative descriptors
            }
        }
    }
    return true;
}

// Reaps the child under the lock, so that its process id is not reused before the kill.
static void forget_child(struct tern_tools_state *state, bool kills, int *status)
{
    pthread_mutex_lock(&state->lock);
    const pid_t child = state->child;
    if (kills) {
        kill(child, SIGKILL);
    }
    pthread_mutex_unlock(&state->lock);
    siginfo_t ended;
    while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&state->lock);
    (void)waitpid(child, status, 0);
    state->child = 0;
    pthread_mutex_unlock(&state->lock);
}

static int start_child(const struct task *task, int out, int err)
{
    struct tern_tools_state *state = task->tools->state;
    pthread_mutex_lock(&state->lock);
    const int error = state->stopping ? ECANCELED : spawn(task, out, err, &state->child);
    if (error != 0) {
        state->child = 0;
    }
    pthread_mutex_unlock(&state->lock);
    return error;
}

// Runs the verb to its end. Returns its exit code; -1: the verb could not start or was ended, for
// the reason in `why`.
static int run_verb(const struct task *task, struct output outputs[2], const char **why)
{
    int out[2];
    int err[2];
    int status = 0;
    *why = "this program cannot start another process";
    if (pipe2(out, O_CLOEXEC) != 0) {
        return -1;
    }
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return -1;
    }
    const int error = start_child(task, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (error == 0) {
        const bool ended = collect((int[2]){out[0], err[0]}, outputs);
        forget_child(task->tools->state, !ended, &status);
        *why = ended ? "it was ended by a signal" : "it took longer than 60 s";
    }
    close(out[0]);
    close(err[0]);
    return error == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// --- The reply

// Returns the first line on the verb's standard error, without the program's name.
static const char *reason_of(const struct output *errors, const char *otherwise)
{
    static const char prefix[] = "tern-aggregator: ";
    char *text = (char *)errors->data;
    if (errors->len == 0) {
        return otherwise;
    }
    text[strcspn(text, "\n")] = '\0';
    return strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : text;
}

static void reply_failed(const struct task *task, const struct output *errors, const char *why,
                         struct tern_http_reply *reply)
{
    char message[512];
    snprintf(message, sizeof message,
             "`tern-aggregator %s` failed: %.300s. Run it in a shell on the aggregator.",
             verbs[task->tool][0], reason_of(errors, why));
    tern_admin_reply_error(reply, 503, TERN_ERR_STATE, message);
}

static bool make_reply(const struct task *task, const struct output *output,
                       struct tern_http_reply *reply)
{
    *reply = (struct tern_http_reply){.status = 200,
                                      .type = "application/json",
                                      .headers = "Cache-Control: no-store\r\n"
                                                 "X-Content-Type-Options: nosniff\r\n",
                                      .body = tern_blob_new(output->len)};
    if (task->tool == TERN_TOOL_EXPORT) {
        reply->type = "application/octet-stream";
        reply->headers = "Cache-Control: no-store\r\n"
                         "Content-Disposition: attachment; filename=\"model.safetensors\"\r\n"
                         "X-Content-Type-Options: nosniff\r\n";
    }
    if (reply->body == NULL) {
        return false;
    }
    memcpy(reply->body->data, output->data, output->len);
    return true;
}

// `doctor` exits with 1 where it has found a problem: its output is complete in this case, too.
static bool is_answer(const struct task *task, int code, const struct output *output)
{
    const int most = task->tool == TERN_TOOL_DOCTOR ? 1 : 0;
    return code >= 0 && code <= most && output->len > 0 && !output->failed;
}

static void *work(void *ctx)
{
    struct task *task = ctx;
    struct tern_tools_state *state = task->tools->state;
    struct output outputs[2] = {{.data = NULL}, {.data = NULL}};
    struct tern_http_reply reply;
    const char *why;
    const int code = run_verb(task, outputs, &why);
    if (!is_answer(task, code, &outputs[0]) || !make_reply(task, &outputs[0], &reply)) {
        reply_failed(task, &outputs[1], why, &reply);
    }
    tern_http_reply(task->exchange, &reply);
    free(outputs[0].data);
    free(outputs[1].data);
    free(task);
    pthread_mutex_lock(&state->lock);
    state->busy = false;
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

// --- Calling

static bool begin(struct tern_tools *tools, enum tern_tool tool,
                  struct tern_http_exchange *exchange)
{
    struct tern_tools_state *state = tools->state;
    pthread_mutex_lock(&state->lock);
    const bool free_now = !state->busy;
    pthread_mutex_unlock(&state->lock);
    if (!free_now) {
        return false;
    }
    if (state->joinable) {
        pthread_join(state->thread, NULL);
        state->joinable = false;
    }
    struct task *task = malloc(sizeof *task);
    if (task == NULL) {
        return false;
    }
    *task = (struct task){tools, tool, exchange};
    state->busy = true; // this is the only thread
    state->joinable = pthread_create(&state->thread, NULL, work, task) == 0;
    if (!state->joinable) {
        state->busy = false;
        free(task);
    }
    return state->joinable;
}

void tern_tools_run(struct tern_tools *tools, enum tern_tool tool,
                    struct tern_http_exchange *exchange)
{
    struct tern_http_reply reply;
    if (tools->options != NULL && begin(tools, tool, exchange)) {
        return;
    }
    tern_admin_reply_error(&reply, 503, TERN_ERR_BUSY,
                           "`doctor` or `export` is running for another request. Try again later.");
    tern_http_reply(exchange, &reply);
}

enum tern_result tern_tools_start(struct tern_tools *tools, const char *const *options)
{
    *tools = (struct tern_tools){options, calloc(1, sizeof *tools->state)};
    if (tools->state == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&tools->state->lock, NULL);
    return TERN_OK;
}

void tern_tools_cancel(struct tern_tools *tools)
{
    struct tern_tools_state *state = tools->state;
    pthread_mutex_lock(&state->lock);
    state->stopping = true;
    if (state->child != 0) {
        kill(state->child, SIGKILL);
    }
    pthread_mutex_unlock(&state->lock);
}

void tern_tools_stop(struct tern_tools *tools)
{
    struct tern_tools_state *state = tools->state;
    if (state == NULL) {
        return;
    }
    if (state->joinable) {
        pthread_join(state->thread, NULL);
    }
    pthread_mutex_destroy(&state->lock);
    free(state);
    tools->state = NULL;
}
