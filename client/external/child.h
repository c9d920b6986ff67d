// One child process with everything it starts: run without a shell, its output kept to the last few
// lines, its time limited, stopped and gone on with, and ended for certain. Nothing here blocks for
// longer than it is told to. One child at a time belongs to one thread.
//
// The child gets /dev/null to read and one pipe for its standard and its error output, no other
// file of this process, the signals' defaults, and a process group of its own. The group is killed
// when the child ends, so that what it left behind ends too; should this process die without a
// word, the kernel kills the child.
//
// One that is talked to reads lines from its standard input instead, and answers each with a line on
// file descriptor 3.
#ifndef TERN_CHILD_H
#define TERN_CHILD_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TERN_CHILD_TAIL_MAX 4096 // bytes of output that are kept, the last ones
#define TERN_CHILD_LINE_MAX 4095 // bytes of a line told, without its newline
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

// Likewise, of one that is talked to.
TERN_MUST_USE enum tern_result
tern_child_start_talking(struct tern_child *child, char *const *words, char *const *environment,
                         const struct tern_child_limits *limits, int *error);

// Writes a line, without its newline, to a child that is talked to; its time begins anew, and what it
// answered before is forgotten.
// TERN_ERR_STATE  there is none, or it has ended by now
// TERN_ERR_IO     it does not read, is not talked to, or the line is too long
TERN_MUST_USE enum tern_result tern_child_tell(struct tern_child *child, const char *line);

// Its answer to that line, without the newline; NULL: there is none yet.
const char *tern_child_answer(const struct tern_child *child);

// Waits for at most `wait_ms` for it to end or to say something; a signal to this process ends the
// wait, too.
// TERN_OK         it has ended and so has its group; *end and *code are set
// TERN_AGAIN      it runs, or is being ended because its time is over
// TERN_ERR_STATE  there is none
TERN_MUST_USE enum tern_result tern_child_wait(struct tern_child *child, uint32_t wait_ms,
                                               enum tern_child_end *end, int *code);

// Stops it with its group (SIGSTOP), or lets them go on. Nothing when there is none.
void tern_child_pause(struct tern_child *child, bool paused);

// Ends it: SIGTERM to the group, and SIGKILL to what is there after limits.grace_ms. Returns when
// it has ended. Nothing when there is none.
void tern_child_stop(struct tern_child *child);

// Processor seconds of it, as far as it runs, and of all children of this process that have ended.
double tern_child_seconds(const struct tern_child *child);

// What it wrote last, as text; valid until it writes more. Begins with a whole line where there is
// one.
const char *tern_child_tail(const struct tern_child *child);

#endif
