// Implements the trainer port (ports.h) with a user's command in any language. The command receives the model as a
// safetensors file and the task as JSON and environment variables, and answers with a safetensors file and a small JSON file
// (docs/TRAINERS.md). A command that crashes, hangs, floods its output or writes nonsense cannot harm the client, which drops
// the task with a reason. step() and evaluate() return TERN_AGAIN while the command runs, after at most TERN_COMMAND_WAIT_MS.
// Called by client/cli on the thread that steps the client.
//
// The command starts for each task. A persistent command starts once, receives the path of each task's file, and answers
// "done" or "failed WHY"; after a failed task it is ended, and the next task starts it again.
#ifndef TERN_COMMAND_TRAINER_H
#define TERN_COMMAND_TRAINER_H

#include "external/trainer_files.h"
#include <sys/types.h>

// --- The child process: runs one command and everything it starts, without a shell, with a limited time, with pause and
// continue; keeps the end of its output, and ends it reliably. No function blocks longer than its argument allows.
//
// The child gets /dev/null as input, one pipe for standard output and standard error, no other file of this process,
// default signals, and its own process group. The group is killed when the child ends, so that its own children end too;
// if this process dies, the kernel kills the child.
//
// The child of a persistent command is a talking child: it reads lines from its standard input, and answers each line with a
// line on file descriptor 3.

#define TERN_CHILD_TAIL_MAX 4096 // bytes of output that are kept, the last ones
#define TERN_CHILD_LINE_MAX 4095 // bytes of a sent line without its newline
#define TERN_CHILD_ANSWER_MAX                                                                      \
    512 // bytes of an answer with its newline; the rest of a longer one is ignored

struct tern_child_limits {
    // running time without pauses, since the start or the last sent line; 0 = no limit
    uint64_t time_ms;
    uint64_t grace_ms; // time between SIGTERM and SIGKILL
};

enum tern_child_end {
    TERN_CHILD_EXITED,    // code: the exit code
    TERN_CHILD_SIGNALLED, // code: the signal
    TERN_CHILD_TIMED_OUT, // it was ended after limits.time_ms
};

// Fields are private; start from zeros.
struct tern_child {
    pid_t pid;  // 0: no child
    int output; // pipe from its standard output and standard error; -1: closed
    int talk; // socket to its standard input and from its file descriptor 3; -1: not a talking child
    bool paused;
    bool timed_out;
    uint64_t last_ms;     // time of the last update of ran_ms
    uint64_t ran_ms;      // running time without pauses
    uint64_t ended_at_ms; // time of SIGTERM; 0: SIGTERM was not sent
    bool killed;
    uint32_t nap_ms; // duration of the next wait after the child has closed its output
    struct tern_child_limits limits;
    char tail[TERN_CHILD_TAIL_MAX + 1]; // the last output; use tern_child_tail()
    size_t tail_len;
    char answer[TERN_CHILD_ANSWER_MAX];
    size_t answer_len; // received bytes of the answer
};

// Stops the child with its group (SIGSTOP), or continues them. Does nothing without a child.
void tern_child_pause(struct tern_child *child, bool paused);

// Returns the processor seconds of the running child and of all ended children of this process.
double tern_child_seconds(const struct tern_child *child);

// Returns the end of the child's output as text, from the start of a line if possible. Valid until the next call for the child.
const char *tern_child_tail(const struct tern_child *child);

// --- The words of client.trainer_command

// The setting client.trainer_command is split into words without a shell. There is no expansion, pipe or redirection, so no
// word can become another command.

#define TERN_COMMAND_TEXT_MAX 1024 // bytes with the terminating NUL
#define TERN_COMMAND_WORDS_MAX 64

struct tern_command_line {
    char text[TERN_COMMAND_TEXT_MAX];
    char *words[TERN_COMMAND_WORDS_MAX +
                2]; // point into text; there is space for one more word and the final NULL
    size_t count;
};

// Splits a command into words. Blanks separate words. In 'single quotes' every character is literal; in "double quotes" and
// outside quotes a backslash makes the next character literal. Quoted and unquoted text without a blank between them form one
// word. After an error *why is the reason.
// TERN_ERR_CONFIG     no word, an open quote, or a backslash at the end
// TERN_ERR_TOO_LARGE  too many words or bytes
TERN_MUST_USE enum tern_result
tern_command_line_split(const char *text, struct tern_command_line *line, const char **why);

// --- The trainer

#define TERN_COMMAND_WAIT_MS 200 // longest time that a call of step() or evaluate() waits

struct tern_command_config {
    const char *command; // split by tern_command_line_split()
    // working directory, which is created for each task and removed after it; its parent must exist
    const char *folder;
    const struct tern_model *model; // borrowed until the trainer is closed
    uint64_t time_ms;               // longest time of one task; 0 = no limit
    uint64_t grace_ms;              // time between SIGTERM and SIGKILL
    bool persistent;                // start the command once, not for each task
};

// What the command is doing.
enum tern_command_work { TERN_COMMAND_IDLE, TERN_COMMAND_TRAINS, TERN_COMMAND_EVALUATES };

// A trainer that runs a command; all zero before tern_command_trainer_open(). Callers may pause the child, which also stops its
// time limit, and read its output, `metrics` and `why`; other fields are private.
struct tern_command_trainer {
    struct tern_command_config config;
    struct tern_command_line line;
    struct tern_child child;
    struct tern_task_paths paths;
    struct tern_task_file file;
    float *weights; // [model->count]; only the first tern_model_trained() values are used
    uint32_t local_steps;
    enum tern_command_work work;
    bool restarted; // a persistent command was restarted for this task
    char folder[TERN_WORK_PATH_MAX];
    char metrics[TERN_TRAINER_METRICS_MAX]; // metrics of the last answer, "name=1.5 other=2"
    char why[TERN_EXTERNAL_WHY_MAX];        // after an error: the reason
};

// Splits the command, allocates memory, and removes the folder if a crash has left one. Starts no process.
// TERN_ERR_CONFIG  the command or the path is malformed; TERN_ERR_NO_MEMORY; with `why`
TERN_MUST_USE enum tern_result tern_command_trainer_open(struct tern_command_trainer *trainer,
                                                         const struct tern_command_config *config,
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// Returns the port. Errors of begin, step and evaluate besides those of ports.h:
//   TERN_ERR_TRAINER  with `why`: the command could not be started, exceeded its time limit, ended by a signal or with an exit
//                     code other than 0, or wrote an invalid file
//   TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY  the task could not be written
struct tern_trainer tern_command_trainer_port(struct tern_command_trainer *trainer);

// Ends the command if it runs, and frees everything.
void tern_command_trainer_close(struct tern_command_trainer *trainer);

#endif
