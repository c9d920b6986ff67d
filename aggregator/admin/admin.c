#define _GNU_SOURCE // pipe2

#include "admin/admin.h"

#include "admin/internal.h"
#include "admin/page.h"
#include "admin/waiting.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include "util/text.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_USES_DEFAULT 1
#define CODE_USES_MAX 1000000
#define CODE_EXPIRES_S_DEFAULT 86400
#define CODE_EXPIRES_S_MAX 31536000
#define QUOTED_MAX 40 // most bytes of an unknown key that a message quotes

#define TOKEN_MIN 16
#define TOKEN_MAX 200

// Limit of a request's headers. Browsers send longer headers than devices, such as all cookies of this host.
#define HEADER_BYTES 16384

// Most rows of one reply, since clients' updates wait while the service thread reads them.
#define LIST_LIMIT 1000

// --- The dashboard

// Headers of "/", which browsers must fetch each time: the page contains the paths of the other files, which change
// with their contents.
#define HEADERS                                                                                    \
    "Cache-Control: no-cache\r\n"                                                                  \
    "Content-Security-Policy: default-src 'none';script-src 'self';style-src 'self';"              \
    "img-src 'self';connect-src 'self';base-uri 'none';form-action 'none';frame-ancestors 'none'"  \
    "\r\n"

#define SAFE "X-Content-Type-Options: nosniff\r\n"

static const struct tern_page_file *find_page(const char *path)
{
    for (size_t i = 0; i < tern_page_file_count; i++) {
        if (strcmp(tern_page_files[i].path, path) == 0) {
            return &tern_page_files[i];
        }
    }
    return NULL;
}

static bool has_page(const char *path)
{
    return find_page(path) != NULL;
}

static void reply_page(struct tern_admin *admin, const struct tern_http_request *request,
                       struct tern_http_reply *reply)
{
    const struct tern_page_file *file = find_page(request->path);
    const bool is_index = strcmp(request->path, "/") == 0;
    (void)admin;
    *reply = (struct tern_http_reply){.status = 200,
                                      .cache = is_index ? NULL : "max-age=31536000, immutable",
                                      .type = file->type,
                                      .headers = is_index ? HEADERS SAFE : SAFE,
                                      .body = tern_blob_new(file->len)};
    if (reply->body == NULL) {
        *reply = (struct tern_http_reply){.status = 503, .retry_after_s = 1};
        return;
    }
    memcpy(reply->body->data, file->data, file->len);
}

// --- Child processes

#define PATIENCE_MS 60000
#define OUTPUT_MAX (UINT64_C(1) << 30)
#define ARGUMENTS_MAX 8 // arguments of a verb, before the options

extern char **environ;

struct tern_tools_state {
    pthread_mutex_t lock;
    pthread_t thread;
    bool joinable; // a thread was started and not joined
    bool busy;     // a tool runs and has not replied yet
    bool stopping;
    pid_t child; // process id of the running tool; 0 = none
};

struct task {
    struct tern_tools *tools;
    enum tern_tool tool;
    struct tern_http_exchange *exchange;
};

// Output of a child process on one file descriptor.
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
    if (output->len + len >= output->room) { // with space for a NUL
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

// Reads the available bytes. False: the output has ended.
static bool read_output(int fd, struct output *output)
{
    uint8_t buffer[16384];
    const ssize_t len = read(fd, buffer, sizeof buffer);
    if (len > 0 && !output->failed) {
        append(output, buffer, (size_t)len);
    }
    return len > 0 || (len < 0 && errno == EINTR);
}

// Reads standard output and standard error to their ends. False: the child took longer than PATIENCE_MS.
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
            if (polled[i].revents != 0 && !read_output(polled[i].fd, &outputs[i])) {
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
        *why = ended ? "a signal ended the program" : "the program took longer than 60 s";
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

// Whether the output is the reply. `doctor` exits with 1 if it has found a problem; its output is complete in this
// case, too.
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

static bool begin_tool(struct tern_tools *tools, enum tern_tool tool,
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
    state->busy = true; // without the lock, because no other thread runs
    state->joinable = pthread_create(&state->thread, NULL, work, task) == 0;
    if (!state->joinable) {
        state->busy = false;
        free(task);
    }
    return state->joinable;
}

static void run_tool(struct tern_tools *tools, enum tern_tool tool,
                     struct tern_http_exchange *exchange)
{
    struct tern_http_reply reply;
    if (tools->options != NULL && begin_tool(tools, tool, exchange)) {
        return;
    }
    tern_admin_reply_error(&reply, 503, TERN_ERR_BUSY,
                           "`doctor` or `export` is running for another request. Try again later.");
    tern_http_reply(exchange, &reply);
}

static enum tern_result start_tools(struct tern_tools *tools, const char *const *options)
{
    *tools = (struct tern_tools){options, calloc(1, sizeof *tools->state)};
    if (tools->state == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&tools->state->lock, NULL);
    return TERN_OK;
}

static void cancel_tools(struct tern_tools *tools)
{
    struct tern_tools_state *state = tools->state;
    pthread_mutex_lock(&state->lock);
    state->stopping = true;
    if (state->child != 0) {
        kill(state->child, SIGKILL);
    }
    pthread_mutex_unlock(&state->lock);
}

static void stop_tools(struct tern_tools *tools)
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

// --- Answers that need no job

static void set_text(struct tern_http_reply *reply, int status, const char *type, const char *text)
{
    const size_t len = strlen(text);
    *reply = (struct tern_http_reply){.status = status,
                                      .retry_after_s = status == 503 ? 1 : 0,
                                      .type = type,
                                      .body = tern_blob_new(len)};
    if (reply->body != NULL) {
        memcpy(reply->body->data, text, len);
    }
}

static void reply_healthy(struct tern_admin *admin, const struct tern_http_request *request,
                          struct tern_http_reply *reply)
{
    (void)admin;
    (void)request;
    set_text(reply, 200, "text/plain", "ok\n");
}

static void reply_ready(struct tern_admin *admin, const struct tern_http_request *request,
                        struct tern_http_reply *reply)
{
    (void)request;
    char why[256];
    char silent[TERN_UPSTREAM_MAX];
    char text[TERN_UPSTREAM_MAX + 16];
    struct tern_service_facts facts;
    if (!tern_service_can_store(admin->config.service, why)) {
        snprintf(text, sizeof text, "%s\n", why);
        set_text(reply, 503, "text/plain", text);
        return;
    }
    // A gateway stores devices' updates even if the upstream aggregator does not answer.
    tern_service_facts(admin->config.service, &facts);
    if (facts.upstream.silent_ms == 0) {
        set_text(reply, 200, "text/plain", "ok\n");
        return;
    }
    snprintf(text, sizeof text, "ok, but %s\n",
             tern_upstream_sentence(&facts.upstream, tern_unix_ms(), silent));
    set_text(reply, 200, "text/plain", text);
}

static void reply_metrics(struct tern_admin *admin, const struct tern_http_request *request,
                          struct tern_http_reply *reply)
{
    (void)request;
    struct tern_service_facts facts;
    struct tern_http_counters counters = {0};
    tern_service_facts(admin->config.service, &facts);
    if (admin->config.clients != NULL) {
        tern_http_counters(admin->config.clients, &counters);
    }
    struct tern_blob *text = tern_admin_metrics(&facts, &counters);
    *reply = text != NULL ? (struct tern_http_reply){.status = 200,
                                                     .type = "text/plain; version=0.0.4",
                                                     .body = text}
                          : (struct tern_http_reply){.status = 503, .retry_after_s = 1};
}

// Replies whether a proxy names the user, and with the user's name and role, so that the page needs no form.
static void reply_session(struct tern_admin *admin, const struct tern_http_request *request,
                          struct tern_http_reply *reply)
{
    const bool sso = request->user != NULL;
    struct tern_db_actor caller;
    const char *why;
    const int refused = sso ? tern_admin_admit(admin, request, false, &caller, &why) : 0;
    if (refused != 0) {
        tern_admin_reply_error(reply, refused, refused == 403 ? TERN_ERR_FORBIDDEN : TERN_ERR_HTTP,
                               why);
        return;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "sso", sso);
    if (sso) {
        cJSON_AddStringToObject(json, "name", caller.who);
        cJSON_AddStringToObject(json, "role", tern_role_name(caller.role));
    }
    (void)tern_admin_reply_json(reply, 200, json);
}

static void reply_settings(struct tern_admin *admin, const struct tern_http_request *request,
                           struct tern_http_reply *reply)
{
    (void)request;
    pthread_mutex_lock(&admin->settings_lock);
    cJSON *settings =
        admin->settings != NULL ? cJSON_Duplicate(admin->settings, true) : cJSON_CreateArray();
    pthread_mutex_unlock(&admin->settings_lock);
    (void)tern_admin_reply_json(reply, 200, settings);
}

static void reply_views(struct tern_admin *admin, const struct tern_http_request *request,
                        struct tern_http_reply *reply)
{
    static const struct tern_view *const views[] = {
        &tern_view_clients,  &tern_view_client_rounds, &tern_view_held,   &tern_view_rounds,
        &tern_view_replicas, &tern_view_schedule,      &tern_view_ledger, &tern_view_codes,
        &tern_view_audit,    &tern_view_tokens};
    cJSON *object = cJSON_CreateObject();
    (void)admin;
    (void)request;
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        cJSON_AddItemToObject(object, views[i]->name, tern_view_help(views[i]));
    }
    (void)tern_admin_reply_json(reply, 200, object);
}

static void reply_log(struct tern_admin *admin, const struct tern_http_request *request,
                      struct tern_http_reply *reply)
{
    static char lines[TERN_LOG_RECENT_MAX]; // static, because the admin listener has one thread
    cJSON *object = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(object, "lines");
    (void)admin;
    (void)request;
    tern_log_recent(lines);
    for (char *line = lines; *line != '\0';) {
        const size_t len = strcspn(line, "\n");
        char *next = line + len + (line[len] != '\0');
        line[len] = '\0';
        cJSON_AddItemToArray(list, cJSON_CreateString(line));
        line = next;
    }
    (void)tern_admin_reply_json(reply, 200, object);
}

// --- Answers from a child process

static void answer_doctor(struct tern_admin *admin, struct tern_http_exchange *exchange)
{
    run_tool(&admin->tools, TERN_TOOL_DOCTOR, exchange);
}

static void answer_model(struct tern_admin *admin, struct tern_http_exchange *exchange)
{
    run_tool(&admin->tools, TERN_TOOL_EXPORT, exchange);
}

// --- Routes

struct route {
    const char *method;
    const char *path;
    enum tern_role role; // the least role that may use the route
    // The request's handler, one of `job`, `reply` (at once) and `answer` (later).
    tern_service_job job;
    const struct tern_view *view; // view of a list; NULL = the route is no list
    bool arrays;                  // the reply has an array for each column of the list
    void (*reply)(struct tern_admin *admin, const struct tern_http_request *request,
                  struct tern_http_reply *reply);
    void (*answer)(struct tern_admin *admin, struct tern_http_exchange *exchange);
};

static const struct route routes[] = {
#define ROUTE(method, path, role, ...) {method, path, TERN_ROLE_##role, __VA_ARGS__},
#include "admin/routes.def"
};

static const struct route page_route = {"GET", "/", TERN_ROLE_NONE, .reply = reply_page};

// Whether the path matches this form. argument: the part of the path at "{}".
static bool matches_form(const char *path, const char *form, char argument[TERN_ADMIN_ARGUMENT_MAX])
{
    const char *gap = strstr(form, "{}");
    argument[0] = '\0';
    if (gap == NULL) {
        return strcmp(path, form) == 0;
    }
    const size_t before = (size_t)(gap - form);
    if (strncmp(path, form, before) != 0) {
        return false;
    }
    const size_t len = strcspn(path + before, "/");
    if (len == 0 || len >= TERN_ADMIN_ARGUMENT_MAX || strcmp(path + before + len, gap + 2) != 0) {
        return false;
    }
    memcpy(argument, path + before, len);
    argument[len] = '\0';
    return true;
}

// Returns the route of the request. NULL: no route has this path and method. *known: whether a route has this path.
static const struct route *route_of(const struct tern_http_request *request, bool *known,
                                    char argument[TERN_ADMIN_ARGUMENT_MAX])
{
    *known = has_page(request->path);
    if (*known) {
        return strcmp(request->method, "GET") == 0 ? &page_route : NULL;
    }
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (matches_form(request->path, routes[i].path, argument)) {
            *known = true;
            if (strcmp(request->method, routes[i].method) == 0) {
                return &routes[i];
            }
        }
    }
    return NULL;
}

// Whether the header Host names this machine. Any port is allowed, since a tunnel may change the port. Without this
// check a foreign page could reach this listener through a browser here, by a name that resolves to this machine (DNS
// rebinding). A unix socket has no name.
static bool is_own_host(const struct tern_admin *admin, const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    const size_t len = end == NULL ? strlen(host) : (size_t)(end - host) + (host[0] == '[');
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (strncmp(admin->config.address, "unix:", 5) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], host, len) == 0) {
            return true;
        }
    }
    return strlen(admin->config.address) == len && strncmp(admin->config.address, host, len) == 0;
}

static int on_headers(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    struct tern_admin *admin = ctx;
    char argument[TERN_ADMIN_ARGUMENT_MAX];
    bool known = false;
    const struct route *route = route_of(request, &known, argument);
    const bool changes = strcmp(request->method, "GET") != 0;
    (void)content_length;
    if (!is_own_host(admin, request->host)) {
        return 421;
    }
    struct tern_db_actor caller;
    const int refused = tern_admin_admit(admin, request, changes, &caller, &permit->sentence);
    permit->known = refused == 0;
    if (refused == 400) {
        return refused;
    }
    if (route == NULL) {
        permit->sentence = NULL;
        return known ? 405 : 404;
    }
    if (route->role != TERN_ROLE_NONE && refused != 0) {
        return refused;
    }
    permit->body_limit = strcmp(route->method, "POST") == 0 ? TERN_ADMIN_BODY_MAX : 0;
    permit->context = malloc(sizeof caller);
    if (permit->context == NULL) {
        return 503;
    }
    memcpy(permit->context, &caller, sizeof caller);
    return 0;
}

static void on_dropped(void *ctx, void *context)
{
    (void)ctx;
    free(context);
}

// --- Requests

// Returns the value of the parameter if it has this name; NULL = it has another name.
static const char *value_of(const char *parameter, const char *name)
{
    const size_t len = strlen(name);
    return strncmp(parameter, name, len) == 0 && parameter[len] == '=' ? parameter + len + 1 : NULL;
}

// Reads a parameter's value as a number. False: the value is no number, or out of range.
static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    const char *end = tern_get_decimal(text, value);
    return end != text && (*end == '\0' || *end == '&') && *value >= least && *value <= most;
}

static int hex_digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *at = strchr(digits, tolower((unsigned char)c));
    return c == '\0' || at == NULL ? -1 : (int)(at - digits);
}

// Decodes a parameter's value (%41, +). False: the value is too long or malformed.
static bool decode_text(const char *text, char *value, size_t size, const char **wanted)
{
    size_t len = 0;
    for (; *text != '\0' && *text != '&'; text++) {
        char c = *text == '+' ? ' ' : *text;
        if (*text == '%') {
            const int high = hex_digit(text[1]);
            const int low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0) {
                return false;
            }
            c = (char)(16 * high + low);
            text += 2;
        }
        if (c == '\0' || len + 1 == size) {
            return false;
        }
        value[len++] = c;
    }
    value[len] = '\0';
    *wanted = value;
    return true;
}

static bool parse_parameter(const char *parameter, struct admin_job *job)
{
    const char *value;
    uint64_t number = 0;
    if ((value = value_of(parameter, "limit")) != NULL) {
        const bool good = parse_number(value, 1, LIST_LIMIT, &number);
        job->query.limit = (uint32_t)number;
        return good;
    }
    if ((value = value_of(parameter, "after")) != NULL) {
        return parse_number(value, 0, UINT32_MAX - LIST_LIMIT, &job->query.after);
    }
    if ((value = value_of(parameter, "last")) != NULL) {
        return parse_number(value, 1, LIST_LIMIT, &job->query.last);
    }
    if ((value = value_of(parameter, "columns")) != NULL) {
        return decode_text(value, job->columns, sizeof job->columns, &job->query.columns);
    }
    if ((value = value_of(parameter, "where")) != NULL) {
        return decode_text(value, job->where, sizeof job->where, &job->query.where);
    }
    if ((value = value_of(parameter, "sort")) != NULL) {
        return decode_text(value, job->sort, sizeof job->sort, &job->query.sort);
    }
    return false;
}

// Reads the options of a list, each optional, in any order. Without the option `limit`, a list without a key has all
// rows.
static bool parse_list(const char *query, struct admin_job *job)
{
    job->query.limit = job->view->key != NULL ? LIST_LIMIT : 0;
    while (*query != '\0') {
        if (!parse_parameter(query, job)) {
            return false;
        }
        query += strcspn(query, "&");
        query += *query == '&';
    }
    return true;
}

// --- Bodies of POST /enroll-codes

__attribute__((format(printf, 2, 3))) static bool explain_fault(char why[TERN_ADMIN_WHY_MAX],
                                                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_ADMIN_WHY_MAX, format, arguments);
    va_end(arguments);
    return false;
}

static bool parse_integer(const cJSON *item, uint64_t most, uint64_t *value,
                          char why[TERN_ADMIN_WHY_MAX])
{
    const double number = cJSON_GetNumberValue(item); // NaN if the item is no number
    if (!(number >= 1.0 && number <= (double)most) || (double)(uint64_t)number != number) {
        return explain_fault(why, "\"%s\" must be a whole number, 1..%" PRIu64 ".", item->string,
                             most);
    }
    *value = (uint64_t)number;
    return true;
}

static bool parse_label(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    const char *text = cJSON_GetStringValue(item);
    const size_t len = text != NULL ? strlen(text) : 0;
    if (text == NULL || len >= sizeof job->label || !tern_utf8_is_text(text, len)) {
        return explain_fault(
            why,
            "\"label\" must be a text of at most %zu bytes of UTF-8 without control "
            "characters.",
            sizeof job->label - 1);
    }
    memcpy(job->label, text, len + 1);
    return true;
}

static bool parse_tags(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    const char *text = cJSON_GetStringValue(item);
    char wrong[TERN_TAG_WHY_MAX];
    if (text == NULL) {
        return explain_fault(why, "\"tags\" must be a text such as \"site=a,line=3\".");
    }
    return tern_tags_parse(text, job->tags, wrong) == TERN_OK ||
           explain_fault(why, "\"tags\": %s.", wrong);
}

static bool parse_key(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    uint64_t number = 0;
    if (strcmp(item->string, "uses") == 0) {
        const bool good = parse_integer(item, CODE_USES_MAX, &number, why);
        job->uses = (uint32_t)number;
        return good;
    }
    if (strcmp(item->string, "expires_s") == 0) {
        const bool good = parse_integer(item, CODE_EXPIRES_S_MAX, &number, why);
        job->expires_ms = number * 1000;
        return good;
    }
    if (strcmp(item->string, "label") == 0) {
        return parse_label(item, job, why);
    }
    if (strcmp(item->string, "tags") == 0) {
        return parse_tags(item, job, why);
    }
    if (strcmp(item->string, "evaluator") == 0) {
        job->evaluator = cJSON_IsTrue(item);
        return cJSON_IsBool(item) || explain_fault(why, "\"evaluator\" must be true or false.");
    }
    char key[QUOTED_MAX + 1];
    snprintf(key, sizeof key, "%s", item->string);
    tern_utf8_show(key, strlen(key));
    return explain_fault(
        why, "The key \"%s\" is unknown. Use uses, expires_s, label, tags or evaluator.", key);
}

static bool read_code(const struct tern_http_request *request, struct admin_job *job,
                      char why[TERN_ADMIN_WHY_MAX])
{
    job->uses = CODE_USES_DEFAULT;
    job->expires_ms = UINT64_C(1000) * CODE_EXPIRES_S_DEFAULT;
    if (request->body_len == 0) {
        return true;
    }
    cJSON *json = tern_admin_read_object(request);
    if (json == NULL) {
        return explain_fault(
            why, "Send {\"uses\": 10, \"expires_s\": 3600, \"label\": \"lab\", \"tags\": "
                 "\"site=a,line=3\"}, a JSON object, each key optional.");
    }
    bool good = true;
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        if (cJSON_GetObjectItemCaseSensitive(json, item->string) != item) {
            good = explain_fault(why, "The key \"%s\" is given twice.", item->string);
        }
        good = good && parse_key(item, job, why);
    }
    cJSON_Delete(json);
    return good;
}

// --- Arguments of a job

// Parses the argument of a path as a number (decimal, no leading zeros; otherwise 0) and as the id of a join code.
static void parse_argument(const char *argument, struct admin_job *job)
{
    const char *end = tern_get_decimal(argument, &job->number);
    if (*end != '\0' || argument[0] == '0' || job->number > UINT32_MAX) {
        job->number = 0;
    }
    if (strlen(argument) < sizeof job->code) {
        memcpy(job->code, argument, strlen(argument) + 1);
    }
}

// Parses the arguments of a job. False: `why` has the fault.
static bool parse(const struct route *route, const struct tern_http_request *request,
                  const char *argument, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    parse_argument(argument, job);
    if (route->job == tern_admin_enroll_code) {
        return read_code(request, job, why);
    }
    job->view = route->view;
    job->arrays = route->arrays;
    if (job->view != NULL && !parse_list(request->query, job)) {
        snprintf(why, TERN_ADMIN_WHY_MAX,
                 "A list has the options ?limit=1..1000, &after= the last id or round of the "
                 "previous page, &last=1..1000, &columns=A,B, &where=COLUMN=VALUE and "
                 "&sort=COLUMN or -COLUMN.");
        return false;
    }
    return true;
}

// Runs a job in the name of the request's caller.
static enum tern_result run_as_caller(struct tern_service *service, struct tern_db *db,
                                      uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    const struct tern_db_actor before = tern_db_act_as(db, &job->actor);
    const enum tern_result result = job->run(service, db, now_ms, ctx, reply);
    (void)tern_db_act_as(db, &before);
    return result;
}

// Makes a job of the route for the caller. NULL: the exchange is answered.
static struct admin_job *make_job(const struct route *route, const struct tern_db_actor *caller,
                                  struct tern_http_exchange *exchange)
{
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    struct tern_http_reply reply;
    struct admin_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        tern_admin_reply_error(&reply, 503, TERN_ERR_NO_MEMORY, "Out of memory; try again later.");
        tern_http_reply(exchange, &reply);
        return NULL;
    }
    job->run = route->job;
    job->actor = *caller;
    snprintf(job->actor.address, sizeof job->actor.address, "%s", request->peer);
    snprintf(job->action, sizeof job->action, "%s %s", route->method, route->path);
    return job;
}

static void submit(struct tern_admin *admin, const struct route *route, const char *argument,
                   const struct tern_db_actor *caller, struct tern_http_exchange *exchange)
{
    char why[TERN_ADMIN_WHY_MAX];
    struct tern_http_reply reply;
    struct admin_job *job = make_job(route, caller, exchange);
    if (job == NULL) {
        return;
    }
    if (!parse(route, tern_http_exchange_request(exchange), argument, job, why)) {
        free(job);
        tern_admin_reply_error(&reply, 422, TERN_ERR_ARGUMENT, why);
        tern_http_reply(exchange, &reply);
        return;
    }
    tern_service_submit(admin->config.service, exchange, run_as_caller, tern_admin_reply_error,
                        job);
}

// --- Refusals by role

#define REFUSALS_MAX 10 // rows of the audit log in REFUSALS_MS: a small role must not fill the disk
#define REFUSALS_MS 60000

static bool may_record_refusal(struct tern_admin *admin)
{
    const uint64_t now_ms = admin->config.monotonic_ms();
    if (admin->refusals == 0 || now_ms - admin->refusals_ms >= REFUSALS_MS) {
        admin->refusals = 0;
        admin->refusals_ms = now_ms;
    }
    return admin->refusals++ < REFUSALS_MAX;
}

static void reply_refused(const struct tern_db_actor *caller, enum tern_role needed,
                          struct tern_http_reply *reply)
{
    char why[TERN_ADMIN_WHY_MAX];
    snprintf(why, sizeof why, "This needs the role %s, and %s has the role %s.",
             tern_role_name(needed), caller->who, tern_role_name(caller->role));
    tern_admin_reply_error(reply, 403, TERN_ERR_FORBIDDEN, why);
}

static enum tern_result record_refusal(struct tern_service *service, struct tern_db *db,
                                       uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    char result[TERN_DB_OUTCOME_MAX];
    (void)service;
    snprintf(result, sizeof result, "refused: needs the role %s", tern_role_name(job->needed));
    TERN_TRY(tern_db_audit_refusal(db, now_ms, job->action, job->subject, result));
    reply_refused(&job->actor, job->needed, reply);
    return TERN_OK;
}

static void refuse(struct tern_admin *admin, const struct route *route, const char *argument,
                   const struct tern_db_actor *caller, struct tern_http_exchange *exchange)
{
    struct tern_http_reply reply;
    if (!may_record_refusal(admin)) {
        reply_refused(caller, route->role, &reply);
        tern_http_reply(exchange, &reply);
        return;
    }
    struct admin_job *job = make_job(route, caller, exchange);
    if (job == NULL) {
        return;
    }
    job->run = record_refusal;
    job->needed = route->role;
    snprintf(job->subject, sizeof job->subject, "%s", argument);
    tern_service_submit(admin->config.service, exchange, run_as_caller, tern_admin_reply_error,
                        job);
}

static void handle(struct tern_admin *admin, const struct tern_db_actor *caller,
                   struct tern_http_exchange *exchange)
{
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    char argument[TERN_ADMIN_ARGUMENT_MAX];
    bool known = false;
    struct tern_http_reply reply;
    const struct route *route = route_of(request, &known, argument);
    if (caller->role < route->role) {
        refuse(admin, route, argument, caller, exchange);
    } else if (route->job != NULL) {
        submit(admin, route, argument, caller, exchange);
    } else if (route->answer != NULL) {
        route->answer(admin, exchange);
    } else {
        route->reply(admin, request, &reply);
        tern_http_reply(exchange, &reply);
    }
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_db_actor *caller = tern_http_exchange_context(exchange);
    handle(ctx, caller, exchange);
    free(caller);
}

// Ignores the bytes, which never cross the metered link.
static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    (void)ctx;
    (void)tag;
    (void)up;
    (void)down;
}

// Writes refusals of /api as JSON, all other refusals as text.
static void on_refusal(void *ctx, const char *path, enum tern_result result, const char *sentence,
                       struct tern_http_reply *reply)
{
    const uint32_t retry_after_s = reply->retry_after_s;
    char line[256];
    (void)ctx;
    if (strncmp(path, "/api/", 5) == 0) {
        tern_admin_reply_error(reply, reply->status, result, sentence);
    } else {
        snprintf(line, sizeof line, "%s\n", sentence);
        set_text(reply, reply->status, "text/plain", line);
    }
    reply->retry_after_s = retry_after_s;
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    const struct tern_admin *admin = ctx;
    tern_service_log_admin_request(admin->config.service, answered);
}

// --- Life

// Whether the token is long enough and has only characters that a header can contain.
static bool is_token(const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return len >= TOKEN_MIN;
}

static enum tern_result read_token(struct tern_admin *admin, char why[256])
{
    const char *path = admin->config.token_file;
    uint8_t *data = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read(path, TOKEN_MAX, &data, &len);
    if (result != TERN_OK && result != TERN_ERR_TOO_LARGE) {
        snprintf(why, 256, "the admin token %s cannot be read: %s", path, strerror(errno));
        return TERN_ERR_CONFIG;
    }
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r' || data[len - 1] == ' ')) {
        len--;
    }
    if (!is_token(data, len)) {
        free(data);
        snprintf(why, 256,
                 "the admin token %s is not one line of %d to %d characters without spaces; "
                 "delete it, and serve makes a new one",
                 path, TOKEN_MIN, TOKEN_MAX);
        return TERN_ERR_CONFIG;
    }
    tern_sha256(data, len, admin->token_sha256);
    free(data);
    return TERN_OK;
}

// Chooses a random name for the cookie: browsers send cookies to all ports of a host, so that two aggregators behind one
// name would overwrite each other's.
static enum tern_result name_cookie(struct tern_admin *admin)
{
    uint8_t bytes[4];
    char hex[2 * sizeof bytes + 1];
    TERN_TRY(tern_random_fill(bytes, sizeof bytes));
    tern_hex_encode(bytes, sizeof bytes, hex);
    snprintf(admin->cookie_name, sizeof admin->cookie_name, "tern-%s", hex);
    return TERN_OK;
}

static enum tern_result start(struct tern_admin *admin, char why[256])
{
    const char *sso = admin->config.sso != NULL ? admin->config.sso : "";
    TERN_TRY(tern_sso_read(admin->config.address, sso, &admin->sso, why));
    struct tern_http_config config = {.address = admin->config.address,
                                      .port = admin->config.port,
                                      .threads = 1,
                                      .user_header = admin->sso.user,
                                      .groups_header = admin->sso.groups,
                                      .group_connects = admin->sso.user != NULL,
                                      .limits = {.connections = 64,
                                                 .header_bytes = HEADER_BYTES,
                                                 .body_bytes = TERN_ADMIN_BODY_MAX}};
    struct tern_http_handler handler = {
        .ctx = admin,
        .on_headers = on_headers,
        .on_dropped = on_dropped,
        .on_request = on_request,
        .on_metered = on_metered,
        .on_refusal = on_refusal,
        .on_answered = on_answered,
    };
    TERN_TRY(read_token(admin, why));
    TERN_TRY(start_tools(&admin->tools, admin->config.tool_options));
    if (name_cookie(admin) != TERN_OK) {
        snprintf(why, 256, "cannot read random bytes: %s", strerror(errno));
        return TERN_ERR_IO;
    }
    return tern_http_start(&config, &handler, &admin->server, why);
}

static void free_admin(struct tern_admin *admin)
{
    stop_tools(&admin->tools);
    cJSON_Delete(admin->settings);
    pthread_mutex_destroy(&admin->settings_lock);
    free(admin);
}

void tern_admin_set_settings(struct tern_admin *admin, cJSON *settings)
{
    pthread_mutex_lock(&admin->settings_lock);
    cJSON *before = admin->settings;
    admin->settings = settings;
    pthread_mutex_unlock(&admin->settings_lock);
    cJSON_Delete(before);
}

enum tern_result tern_admin_start(const struct tern_admin_config *config, struct tern_admin **out,
                                  char why[256])
{
    struct tern_admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL) {
        snprintf(why, 256, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return TERN_ERR_NO_MEMORY;
    }
    admin->config = *config;
    if (config->monotonic_ms == NULL) {
        admin->config.monotonic_ms = tern_monotonic_ms;
    }
    pthread_mutex_init(&admin->settings_lock, NULL);
    enum tern_result result = start(admin, why);
    if (result != TERN_OK) {
        free_admin(admin);
        return result;
    }
    *out = admin;
    return TERN_OK;
}

uint16_t tern_admin_port(const struct tern_admin *admin)
{
    return tern_http_port(admin->server);
}

void tern_admin_stop(struct tern_admin *admin, uint32_t grace_ms)
{
    if (admin != NULL) {
        cancel_tools(&admin->tools);
        tern_http_stop(admin->server, grace_ms);
        free_admin(admin);
    }
}
