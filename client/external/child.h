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

#define TERN_CHILD_TAIL_MAX 4096  // bytes of output that are kept, the last ones
#define TERN_CHILD_LINE_MAX 4095  // bytes of a sent line without its newline
#define TERN_CHILD_ANSWER_MAX 512 // bytes of an answer with its newline; a longer answer is cut

struct tern_child_limits {
    // running time without pauses, since the start or the last sent line; 0 = no limit
    uint64_t time_ms;
    uint64_t grace_ms; // between SIGTERM and SIGKILL
};

enum tern_child_end {
    TERN_CHILD_EXITED,    // code: the exit code
    TERN_CHILD_SIGNALLED, // code: the signal
    TERN_CHILD_TIMED_OUT, // ended by this module after limits.time_ms
};

// Fields are private; start from zeros.
struct tern_child {
    pid_t pid;  // 0: no child
    int output; // pipe; -1: closed
    int talk;   // socket to its standard input and from its file 3; -1: not a talking child
    bool paused;
    bool timed_out;
    uint64_t last_ms;     // time of the last update of ran_ms
    uint64_t ran_ms;      // running time without pauses
    uint64_t ended_at_ms; // time of SIGTERM; 0: not sent
    bool killed;
    uint32_t nap_ms; // next wait when there is no output to wait for
    struct tern_child_limits limits;
    char tail[TERN_CHILD_TAIL_MAX + 1]; // the last output; use tern_child_tail()
    size_t tail_len;
    char answer[TERN_CHILD_ANSWER_MAX];
    size_t answer_len; // bytes of the answer that have arrived
};

// Starts the program words[0], which is searched in PATH, with the words (NULL-terminated) as its arguments. environment:
// "NAME=value" texts (NULL-terminated) that are added to this process's environment. talks: as a talking child.
// TERN_ERR_STATE  the child is already running
// TERN_ERR_IO     the program could not be started; *error: the errno
TERN_MUST_USE enum tern_result tern_child_start(struct tern_child *child, char *const *words,
                                                char *const *environment,
                                                const struct tern_child_limits *limits, bool talks,
                                                int *error);

// Sends a line, without its newline, to a talking child; restarts its time limit, and drops its earlier answer.
// TERN_ERR_STATE  there is no child, or it has ended
// TERN_ERR_IO     the child does not read or is not a talking child, or the line is too long
TERN_MUST_USE enum tern_result tern_child_send(struct tern_child *child, const char *line);

// Returns the child's answer to the last line, without the newline; NULL: not complete yet.
const char *tern_child_answer(const struct tern_child *child);

// Waits at most `wait_ms` for the child to end or to write; a signal to this process also ends the wait.
// TERN_OK         the child and its group have ended; *end and *code are set
// TERN_AGAIN      the child runs, or has received SIGTERM after its time limit
// TERN_ERR_STATE  there is no child
TERN_MUST_USE enum tern_result tern_child_wait(struct tern_child *child, uint32_t wait_ms,
                                               enum tern_child_end *end, int *code);

// Stops the child with its group (SIGSTOP), or continues them. Does nothing without a child.
void tern_child_pause(struct tern_child *child, bool paused);

// Ends the child: SIGTERM to the group, and SIGKILL after limits.grace_ms. Returns when it has ended. Does nothing without
// a child.
void tern_child_stop(struct tern_child *child);

// Returns the processor seconds of the running child and of all ended children of this process.
double tern_child_seconds(const struct tern_child *child);

// Returns the end of the child's output as text, from the start of a line if possible. Valid until the next call for the child.
const char *tern_child_tail(const struct tern_child *child);

#endif
