#define _GNU_SOURCE
#include "external/command_trainer.h"
#include "hosted/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
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

// --- Starting the child process

#define NAP_MIN_MS 2
#define NAP_MAX_MS 100
#define READS_MAX 64 // most reads per call, so that endless output does not block the client
#define FILES_MAX                                                                                  \
    65536 // file descriptors that are closed one by one on kernels without close_range()
#define NOT_STARTED 127
#define ANSWER_FILE 3

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

// Returns a malloc'ed copy of this process's environment, in which the additions replace variables of the same name.
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

// Both ends of the pipes and sockets between parent and child.
struct pipes {
    int output[2]; // pipe for standard output and standard error
    int talk[2];   // sockets for lines and their answers; -1: not a talking child
};

// Executes the program in the forked child, using only calls that are safe between fork and exec. The program gets the standard
// files and, if it talks, the file for answers. If exec fails, its errno is written to `report`, which a successful exec
// closes.
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

// Starts the program words[0], which is searched in PATH, with the words (NULL-terminated) as its arguments. environment:
// "NAME=value" texts (NULL-terminated) that are added to this process's environment. talks: as a talking child.
// TERN_ERR_STATE  the child is already running
// TERN_ERR_IO     the program could not be started; *error: the errno
static enum tern_result start_child(struct tern_child *child, char *const *words,
                                    char *const *environment,
                                    const struct tern_child_limits *limits, bool talks, int *error)
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

// --- The child's output

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

// Handles the result of a read(): closes the file after its end. Returns whether bytes were read.
static bool handle_read(int *file, ssize_t got)
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
        if (handle_read(&child->output, got)) {
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
        if (handle_read(&child->talk, got)) {
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

// --- The child's end

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

// Sends SIGTERM at the first call, and SIGKILL after the grace time. SIGCONT makes a stopped group receive SIGTERM.
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

// Returns whether the child has ended. Does not reap it, so that no other process can get the id of its group.
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
    if (child->output < 0) { // poll() will not return when the child ends: wait in short intervals
        ms = ms < child->nap_ms ? ms : child->nap_ms;
        child->nap_ms = child->nap_ms < NAP_MAX_MS ? child->nap_ms * 2 : NAP_MAX_MS;
    }
    (void)poll(files, sizeof files / sizeof files[0], (int)ms);
}

// Waits at most `wait_ms` for the child to end or to write; a signal to this process also ends the wait.
// TERN_OK         the child and its group have ended; *end and *code are set
// TERN_AGAIN      the child runs, or has received SIGTERM after its time limit
// TERN_ERR_STATE  there is no child
static enum tern_result wait_for_child(struct tern_child *child, uint32_t wait_ms,
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

// Ends the child: SIGTERM to the group, and SIGKILL after limits.grace_ms. Returns when it has ended. Does nothing without
// a child.
static void stop_child(struct tern_child *child)
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

// Sends a line, without its newline, to a talking child; restarts its time limit, and drops its earlier answer.
// TERN_ERR_STATE  there is no child, or it has ended
// TERN_ERR_IO     the child does not read or is not a talking child, or the line is too long
static enum tern_result send_line(struct tern_child *child, const char *line)
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

// Returns the child's answer to the last line, without the newline; NULL: not complete yet.
static const char *child_answer(const struct tern_child *child)
{
    return memchr(child->answer, '\0', child->answer_len) != NULL ? child->answer : NULL;
}

// --- The words of client.trainer_command

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Copies one word with a NUL from *from to *to, and moves both behind the word. The copy is never longer than the original.
static enum tern_result take_word(const char **from, char **to, const char **why)
{
    char quote = '\0';
    const char *at = *from;
    char *out = *to;
    for (; *at != '\0' && (quote != '\0' || !is_blank(*at)); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (*at == quote) {
            quote = '\0';
        } else if (*at == '\\' && quote != '\'') {
            at++;
            if (*at == '\0') {
                *why = "no character follows its last backslash";
                return TERN_ERR_CONFIG;
            }
            *out++ = *at;
        } else {
            *out++ = *at;
        }
    }
    *out++ = '\0';
    *from = at;
    *to = out;
    if (quote != '\0') {
        *why = "a closing quote is missing";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

enum tern_result tern_command_line_split(const char *text, struct tern_command_line *line,
                                         const char **why)
{
    char *to = line->text;
    line->count = 0;
    if (strlen(text) >= sizeof line->text) {
        *why = "the command is too long";
        return TERN_ERR_TOO_LARGE;
    }
    for (;;) {
        while (is_blank(*text)) {
            text++;
        }
        if (*text == '\0') {
            break;
        }
        if (line->count == TERN_COMMAND_WORDS_MAX) {
            *why = "the command has too many words";
            return TERN_ERR_TOO_LARGE;
        }
        line->words[line->count++] = to;
        TERN_TRY(take_word(&text, &to, why));
    }
    line->words[line->count] = NULL;
    if (line->count == 0 || line->words[0][0] == '\0') {
        *why = "the command is empty";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

#define LINE_MAX_SHOWN 160

// --- Opening

enum tern_result tern_command_trainer_open(struct tern_command_trainer *trainer,
                                           const struct tern_command_config *config,
                                           char why[TERN_EXTERNAL_WHY_MAX])
{
    const char *reason = "";
    memset(trainer, 0, sizeof *trainer);
    trainer->config = *config;
    if (tern_command_line_split(config->command, &trainer->line, &reason) != TERN_OK) {
        return tern_external_fail(why, TERN_ERR_CONFIG, "%s", reason);
    }
    if (strlen(config->folder) >= sizeof trainer->folder) {
        return tern_external_fail(why, TERN_ERR_CONFIG,
                                  "the path of the task's folder is too long");
    }
    memcpy(trainer->folder, config->folder, strlen(config->folder) + 1);
    trainer->weights = calloc(config->model->count, sizeof(float));
    if (trainer->weights == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "the model's weights need memory");
    }
    tern_work_folder_remove(trainer->folder);
    return TERN_OK;
}

// --- A run

static void abort_run(struct tern_command_trainer *trainer)
{
    stop_child(&trainer->child);
    tern_work_folder_remove(trainer->folder);
    trainer->work = TERN_COMMAND_IDLE;
}

// Cleans up after a task. A persistent command continues to run.
static void end_task(struct tern_command_trainer *trainer)
{
    if (!trainer->config.persistent) {
        stop_child(&trainer->child);
    }
    tern_work_folder_remove(trainer->folder);
    trainer->work = TERN_COMMAND_IDLE;
}

// Starts the command. A command that is not persistent gets the path of the task's file as its last argument.
static enum tern_result launch(struct tern_command_trainer *trainer)
{
    char persistent[] = "TERN_PERSISTENT=1";
    char *const persists[] = {persistent, NULL};
    struct tern_command_line *line = &trainer->line;
    const bool talks = trainer->config.persistent;
    const struct tern_child_limits limits = {.time_ms = trainer->config.time_ms,
                                             .grace_ms = trainer->config.grace_ms};
    int error = 0;
    line->words[line->count] = talks ? NULL : trainer->paths.task;
    line->words[line->count + 1] = NULL;
    return start_child(&trainer->child, line->words, talks ? persists : trainer->file.environment,
                       &limits, talks, &error) == TERN_OK
               ? TERN_OK
               : tern_external_fail(trainer->why, TERN_ERR_TRAINER, "%s cannot be run: %s",
                                    line->words[0], strerror(error));
}

// Sends the task to a persistent command, and first starts the command if it is not running.
static enum tern_result send_task(struct tern_command_trainer *trainer)
{
    enum tern_result sent = send_line(&trainer->child, trainer->paths.task);
    if (sent == TERN_ERR_STATE) {
        TERN_TRY(launch(trainer));
        sent = send_line(&trainer->child, trainer->paths.task);
    }
    return sent == TERN_OK ? TERN_OK
                           : tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                                "the command does not read its standard input");
}

// Creates the task's folder and the model's file in it. trained, others: as in tern_model_file_write().
static enum tern_result prepare(struct tern_command_trainer *trainer, const float *trained,
                                const float *others)
{
    if (trainer->work == TERN_COMMAND_IDLE) {
        end_task(trainer);
    } else { // the client has dropped its previous task, whose run has not ended
        abort_run(trainer);
    }
    trainer->why[0] = '\0';
    trainer->metrics[0] = '\0';
    TERN_TRY(tern_work_folder_make(trainer->folder, &trainer->paths, trainer->why));
    return tern_model_file_write(trainer->paths.model, trainer->config.model, trained, others,
                                 trainer->why);
}

// Writes the task and starts the command. task: NULL for an evaluation. has_base: the base has a file of its own.
static enum tern_result start_work(struct tern_command_trainer *trainer,
                                   const struct tern_train_task *task, bool has_base)
{
    enum tern_result result =
        tern_task_file_write(&trainer->file, task, &trainer->paths, has_base, trainer->why);
    if (result == TERN_OK) {
        result = trainer->config.persistent ? send_task(trainer) : launch(trainer);
    }
    trainer->work = task != NULL ? TERN_COMMAND_TRAINS : TERN_COMMAND_EVALUATES;
    trainer->restarted = false;
    if (result != TERN_OK) {
        abort_run(trainer);
    }
    return result;
}

// Copies the last line that is not empty, cut to LINE_MAX_SHOWN, for a message.
static void last_line(const char *output, char line[LINE_MAX_SHOWN])
{
    size_t end = strlen(output);
    while (end > 0 && strchr(" \t\r\n", output[end - 1]) != NULL) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && output[begin - 1] != '\n') {
        begin--;
    }
    snprintf(line, LINE_MAX_SHOWN, "%.*s", (int)(end - begin), output + begin);
    for (char *at = line; *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at; // control characters
    }
}

static enum tern_result explain_end(struct tern_command_trainer *trainer, enum tern_child_end end,
                                    int code)
{
    char line[LINE_MAX_SHOWN];
    char what[96] = "";
    last_line(tern_child_tail(&trainer->child), line);
    if (end == TERN_CHILD_EXITED) {
        snprintf(what, sizeof what, "the command ended with exit code %d", code);
    } else if (end == TERN_CHILD_SIGNALLED) {
        snprintf(what, sizeof what, "the command was ended by signal %d (%s)", code,
                 strsignal(code));
    } else {
        snprintf(what, sizeof what, "the command took longer than %" PRIu64 " ms and was stopped",
                 trainer->config.time_ms);
    }
    return tern_external_fail(trainer->why, TERN_ERR_TRAINER, "%s%s%s", what,
                              line[0] != '\0' ? "; its last line was: " : "", line);
}

// Describes an answer other than "done": "failed" with a reason, or an invalid answer.
static enum tern_result explain_answer(struct tern_command_trainer *trainer, const char *answer)
{
    char line[LINE_MAX_SHOWN];
    const bool failed = strncmp(answer, "failed", 6) == 0;
    last_line(failed ? answer + 6 + strspn(answer + 6, " :") : answer, line);
    return failed ? tern_external_fail(trainer->why, TERN_ERR_TRAINER, "the command failed%s%s",
                                       line[0] != '\0' ? ": " : "", line)
                  : tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                       "the command answered '%s'; it must answer done or failed",
                                       line);
}

// Starts a persistent command again that has ended without error and without an answer, perhaps before it received the task.
// Does so only once per task.
static enum tern_result restart_command(struct tern_command_trainer *trainer,
                                        enum tern_child_end end, int code)
{
    if (trainer->restarted) {
        return explain_end(trainer, end, code);
    }
    trainer->restarted = true;
    const enum tern_result sent = send_task(trainer);
    return sent == TERN_OK ? TERN_AGAIN : sent;
}

// Waits up to TERN_COMMAND_WAIT_MS for the command. Returns TERN_OK if it has succeeded, so that its files can be read, and
// TERN_AGAIN if it is still working.
static enum tern_result wait_run(struct tern_command_trainer *trainer)
{
    enum tern_child_end end = TERN_CHILD_EXITED;
    int code = 0;
    const enum tern_result waited =
        wait_for_child(&trainer->child, TERN_COMMAND_WAIT_MS, &end, &code);
    const char *answer = child_answer(&trainer->child);
    if (answer != NULL) {
        return strcmp(answer, "done") == 0 ? TERN_OK : explain_answer(trainer, answer);
    }
    TERN_TRY(waited);
    if (end != TERN_CHILD_EXITED || code != 0) {
        return explain_end(trainer, end, code);
    }
    return trainer->config.persistent ? restart_command(trainer, end, code) : TERN_OK;
}

// Cleans up after a task with the result `done`. A failed task also ends a persistent command.
static void finish_task(struct tern_command_trainer *trainer, enum tern_result done)
{
    if (done == TERN_OK) {
        end_task(trainer);
    } else {
        abort_run(trainer);
    }
}

// Returns TERN_ERR_TRAINER for errors in the files of the command.
static enum tern_result as_trainer_error(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_NO_MEMORY ? result : TERN_ERR_TRAINER;
}

// --- The port

static bool in_range(float value)
{
    return isfinite(value) && value >= 0;
}

static enum tern_result check_task(const struct tern_command_trainer *trainer,
                                   const struct tern_train_task *task, uint32_t count)
{
    if (count != trainer->config.model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    return task->local_steps > 0 && task->batch_size > 0 && in_range(task->learning_rate) &&
                   in_range(task->momentum) && in_range(task->weight_decay) &&
                   in_range(task->prox_mu)
               ? TERN_OK
               : TERN_ERR_ARGUMENT;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_command_trainer *trainer = ctx;
    TERN_TRY(check_task(trainer, task, count));
    const bool ahead = task->ahead != NULL;
    tern_train_start(task, base, trainer->weights, tern_model_trained(trainer->config.model));
    enum tern_result result = prepare(trainer, trainer->weights, base);
    if (result == TERN_OK && ahead) {
        result = tern_model_file_write(trainer->paths.base, trainer->config.model, base, base,
                                       trainer->why);
    }
    if (result != TERN_OK) {
        abort_run(trainer);
        return result;
    }
    trainer->local_steps = task->local_steps;
    return start_work(trainer, task, ahead);
}

static enum tern_result read_answer(struct tern_command_trainer *trainer,
                                    struct tern_train_result *result)
{
    TERN_TRY(tern_trainer_result_read(trainer->paths.result, trainer->local_steps, result,
                                      trainer->metrics, trainer->why));
    return tern_model_file_read(trainer->paths.output, trainer->config.model, trainer->weights,
                                trainer->why);
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_command_trainer *trainer = ctx;
    struct tern_train_result answer = {0};
    if (trainer->work != TERN_COMMAND_TRAINS) {
        return TERN_ERR_STATE;
    }
    enum tern_result done = wait_run(trainer);
    if (done == TERN_AGAIN) {
        return done;
    }
    if (done == TERN_OK) {
        done = as_trainer_error(read_answer(trainer, &answer));
    }
    finish_task(trainer, done);
    if (done == TERN_OK) {
        *weights = trainer->weights;
        *result = answer;
    }
    return done;
}

static enum tern_result begin_evaluation(struct tern_command_trainer *trainer, const float *weights)
{
    const enum tern_result result = prepare(trainer, weights, weights);
    if (result != TERN_OK) {
        abort_run(trainer);
        return result;
    }
    return start_work(trainer, NULL, false);
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_command_trainer *trainer = ctx;
    struct tern_evaluate_result answer = {0};
    if (count != trainer->config.model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (trainer->work == TERN_COMMAND_TRAINS) {
        return TERN_ERR_STATE;
    }
    if (trainer->work == TERN_COMMAND_IDLE) {
        const enum tern_result begun = begin_evaluation(trainer, weights);
        return begun == TERN_OK ? TERN_AGAIN : begun;
    }
    enum tern_result done = wait_run(trainer);
    if (done == TERN_AGAIN) {
        return done;
    }
    if (done == TERN_OK) {
        done = as_trainer_error(tern_evaluate_result_read(trainer->paths.result, &answer,
                                                          trainer->metrics, trainer->why));
    }
    finish_task(trainer, done);
    if (done == TERN_OK) {
        *result = answer;
    }
    return done;
}

struct tern_trainer tern_command_trainer_port(struct tern_command_trainer *trainer)
{
    return (struct tern_trainer){
        .ctx = trainer, .begin = begin, .step = step, .evaluate = evaluate};
}

void tern_command_trainer_close(struct tern_command_trainer *trainer)
{
    if (trainer->weights != NULL) {
        abort_run(trainer);
    }
    free(trainer->weights);
    trainer->weights = NULL;
}
