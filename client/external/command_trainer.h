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

#include "external/child.h"
#include "external/command_trainer.h"
#include "external/trainer_files.h"

// Splits the setting client.trainer_command into words without a shell: no expansion, pipe or redirection, so that no word
// can become a command.

#define TERN_COMMAND_TEXT_MAX 1024 // bytes with the terminating NUL
#define TERN_COMMAND_WORDS_MAX 64

struct tern_command_line {
    char text[TERN_COMMAND_TEXT_MAX];
    char *words[TERN_COMMAND_WORDS_MAX + 2]; // in text; room for one more word and the final NULL
    size_t count;
};

// Blanks separate words. In 'single quotes' every character is literal; in "double quotes" and outside quotes a backslash
// makes the next character literal. Adjacent parts form one word. *why: a sentence, after an error
// TERN_ERR_CONFIG     no word, an open quote, or a backslash at the end
// TERN_ERR_TOO_LARGE  too many words or bytes
TERN_MUST_USE enum tern_result
tern_command_line_split(const char *text, struct tern_command_line *line, const char **why);

#define TERN_COMMAND_WAIT_MS 200

struct tern_command_config {
    const char *command; // split by tern_command_line_split()
    const char *folder;  // created for each run and removed after it; its parent must exist
    const struct tern_model *model; // borrowed until the trainer is closed
    uint64_t time_ms;               // longest time of one task; 0 = no limit
    uint64_t grace_ms;              // between SIGTERM and SIGKILL
    bool persistent;
};

// The current work of the command.
enum tern_command_work { TERN_COMMAND_IDLE, TERN_COMMAND_TRAINS, TERN_COMMAND_EVALUATES };

// The caller zeroes it. Callers may pause the child, which also stops its time limit, and read its tail, `metrics` and `why`.
struct tern_command_trainer {
    struct tern_command_config config;
    struct tern_command_line line;
    struct tern_child child;
    struct tern_task_paths paths;
    struct tern_task_file file;
    float *weights; // [model->count]; those from tern_model_trained() on are never written
    uint32_t local_steps;
    enum tern_command_work work;
    bool restarted; // a persistent command was restarted for this task
    char folder[TERN_WORK_PATH_MAX];
    char metrics[TERN_TRAINER_METRICS_MAX]; // metrics of the last answer, "name=1.5 other=2"
    char why[TERN_EXTERNAL_WHY_MAX];        // after an error: a sentence
};

// Splits the command, allocates memory and removes the leftovers of a crash from the folder. Starts nothing.
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
