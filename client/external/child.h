// Runs one child process and everything it starts: without a shell, with a limited time, with pause and continue, keeping
// the end of its output, and ending it reliably. No function blocks longer than its argument allows. Called by
// command_trainer.c; a child belongs to one thread.
//
// The child gets /dev/null as input, one pipe for standard output and standard error, no other file of this process,
// default signals, and its own process group. The group is killed when the child ends, so that its own children end too;
// if this process dies, the kernel kills the child.
//
// A talking child instead reads lines from its standard input, and answers each with a line on file descriptor 3.
#ifndef TERN_CHILD_H
#define TERN_CHILD_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TERN_CHILD_TAIL_MAX 4096 // bytes of output that are kept, the last ones
#define TERN_CHILD_LINE_MAX 4095 // bytes of a sent line without its newline
#define TERN_CHILD_ANSWER_MAX                                                                      \
    512 // bytes of an answer with its newline; of a longer one the rest is left out

struct tern_child_limits {
    uint64_t
        time_ms; // running time, pauses not counted, since the start or the last line told; 0 = no limit
    uint64_t grace_ms; // between SIGTERM and SIGKILL
};

enum tern_child_end {
    TERN_CHILD_EXITED,    // code: the exit code
    TERN_CHILD_SIGNALLED, // code: the signal
    TERN_CHILD_TIMED_OUT, // it was ended because its time was over
};

// Fields are private; start from zeros.
struct tern_child {
    pid_t pid;  // 0: there is none
    int output; // pipe; -1: closed
    int talk;   // socket, to its standard input and from its file 3; -1: it is not talked to
    bool paused;
    bool timed_out;
    uint64_t last_ms;     // when ran_ms was brought up to date
    uint64_t ran_ms;      // without pauses
    uint64_t ended_at_ms; // SIGTERM was sent
    bool killed;
    uint32_t nap_ms; // next wait when there is no output to wait for
    struct tern_child_limits limits;
    char tail[TERN_CHILD_TAIL_MAX + 1]; // the last output; use tern_child_tail()
    size_t tail_len;
    char answer[TERN_CHILD_ANSWER_MAX];
    size_t answer_len; // read so far
};

// Starts words[0], looked for in PATH, with the words (NULL-terminated) as its arguments and
// `environment` (NULL-terminated "NAME=value") beside this process's own environment.
// TERN_ERR_STATE  there is one already
// TERN_ERR_IO     it could not be started; *error: the errno
TERN_MUST_USE enum tern_result tern_child_start(struct tern_child *child, char *const *words,
                                                char *const *environment,
                                                const struct tern_child_limits *limits, int *error);

// Starts a talking child in the same way.
TERN_MUST_USE enum tern_result
tern_child_start_talking(struct tern_child *child, char *const *words, char *const *environment,
                         const struct tern_child_limits *limits, int *error);

// Sends a line, without its newline, to a talking child; restarts its time limit, and drops its earlier answer.
// TERN_ERR_STATE  there is no child, or it has ended
// TERN_ERR_IO     it does not read, is not a talking child, or the line is too long
TERN_MUST_USE enum tern_result tern_child_send(struct tern_child *child, const char *line);

// The child's answer to that line, without the newline; NULL: none yet.
const char *tern_child_answer(const struct tern_child *child);

// Waits at most `wait_ms` for the child to end or to write; a signal to this process also ends the wait.
// TERN_OK         the child and its group have ended; *end and *code are set
// TERN_AGAIN      it runs, or is being ended after its time limit
// TERN_ERR_STATE  there is no child
TERN_MUST_USE enum tern_result tern_child_wait(struct tern_child *child, uint32_t wait_ms,
                                               enum tern_child_end *end, int *code);

// Stops the child with its group (SIGSTOP), or continues them. Does nothing without a child.
void tern_child_pause(struct tern_child *child, bool paused);

// Ends the child: SIGTERM to the group, and SIGKILL after limits.grace_ms. Returns when it has ended. Does nothing without
// a child.
void tern_child_stop(struct tern_child *child);

// Processor seconds of the running child and of all ended children of this process.
double tern_child_seconds(const struct tern_child *child);

// The end of the child's output as text, starting with a complete line if there is one. Valid until it writes more.
const char *tern_child_tail(const struct tern_child *child);

#endif
