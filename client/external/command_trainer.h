// The trainer port (ports.h) over a command of the user's, in any language: it is given the model
// as a safetensors file and what to do as JSON and environment variables, and answers with a
// safetensors file and a small JSON file (docs/TRAINERS.md). Whatever it does instead, it cannot
// harm the client: it crashes, hangs, floods or writes nonsense, and the task is dropped with a
// reason. step() and evaluate() return TERN_AGAIN while it runs, after at most
// TERN_COMMAND_WAIT_MS. Linux; from the thread that steps the client.
//
// The command is started for each task; a persistent one once, it is told the path of each task's file
// and answers "done" or "failed WHY". After a task that failed it is ended, and the next task starts it.
#ifndef TERN_COMMAND_TRAINER_H
#define TERN_COMMAND_TRAINER_H

#include "external/child.h"
#include "external/command_line.h"
#include "external/task_file.h"
#include "external/trainer_result.h"

#define TERN_COMMAND_WAIT_MS 200

struct tern_command_config {
    const char *command;            // split by tern_command_line_split()
    const char *folder;             // made for each run and removed; the one above it must exist
    const struct tern_model *model; // borrowed until the trainer is closed
    uint64_t time_ms;               // of one run; 0 = no limit
    uint64_t grace_ms;              // between SIGTERM and SIGKILL
    bool persistent;
};

// What the command does now.
enum tern_command_work { TERN_COMMAND_IDLE, TERN_COMMAND_TRAINS, TERN_COMMAND_EVALUATES };

// Starts from zeros. Others may pause the child while the client may not work (its time then stands
// still, too) and read its tail, `metrics` and `why`.
struct tern_command_trainer {
    struct tern_command_config config;
    struct tern_command_line line;
    struct tern_child child;
    struct tern_task_paths paths;
    struct tern_task_file file;
    float *weights; // [model->count]; behind tern_model_trained() zeros that are never touched
    uint32_t local_steps;
    enum tern_command_work work;
    bool told_another; // of a persistent command: another process, of this task
    char folder[TERN_WORK_PATH_MAX];
    char metrics[TERN_TRAINER_METRICS_MAX]; // of the last answer, "name=1.5 other=2"
    char why[TERN_EXTERNAL_WHY_MAX];        // after an error: a sentence
};

// Splits the command, takes memory and removes what a crash left in the folder. Runs nothing.
// TERN_ERR_CONFIG  the command or the path is malformed; TERN_ERR_NO_MEMORY; with `why`
TERN_MUST_USE enum tern_result tern_command_trainer_open(struct tern_command_trainer *trainer,
                                                         const struct tern_command_config *config,
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// The port. begin, step and evaluate, beyond what ports.h lists:
//   TERN_ERR_TRAINER  the command could not be started, was ended because its time was over, ended
//                     with another code than 0 or by a signal, or what it wrote is not what it must
//                     write: `why` says so
//   TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY  the task could not be written
struct tern_trainer tern_command_trainer_port(struct tern_command_trainer *trainer);

// Ends the command if it runs, and frees everything.
void tern_command_trainer_close(struct tern_command_trainer *trainer);

#endif
