// The trainer port (ports.h) over a shared object of the user's with the C interface of
// trainer/tern_trainer_abi.h: no process and no files between, for devices that have room for
// neither. It runs in this process, so what it answers is checked, but a crash of it is the
// client's. A static program cannot load one (TERN_LIBRARY_TRAINERS=OFF): opening says so.
#ifndef TERN_LIBRARY_TRAINER_H
#define TERN_LIBRARY_TRAINER_H

#include "external/model_file.h"
#include "external/trainer_result.h"
#include "ports.h"
#include "trainer/tern_trainer_abi.h"

struct tern_library_config {
    const char *path;               // of the shared object
    const char *options;            // handed to it
    const char *spec;               // the model's name
    const struct tern_model *model; // borrowed until the trainer is closed
};

// Fields but `why` are private; start from zeros.
struct tern_library_trainer {
    void *handle;
    const struct tern_trainer_library *library;
    void *state;
    bool opened;
    bool trains;
    uint32_t local_steps;
    struct tern_trainer_model model;
    struct tern_trainer_tensor *tensors;
    float *weights;                  // [model.count]
    char why[TERN_EXTERNAL_WHY_MAX]; // after an error: a sentence; else ""
};

// Loads the library and opens its trainer.
// TERN_ERR_CONFIG     it cannot be loaded, has no tern_trainer_entry(), another version, or
//                     functions missing; or this program cannot load libraries
// TERN_ERR_TRAINER    its open() failed
// TERN_ERR_NO_MEMORY; all with `why`
TERN_MUST_USE enum tern_result tern_library_trainer_open(struct tern_library_trainer *trainer,
                                                         const struct tern_library_config *config,
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// The port. begin, step and evaluate, beyond what ports.h lists:
//   TERN_ERR_TRAINER    the library failed or answered what cannot be: `why`
//   TERN_ERR_NOT_FOUND  it has no examples for it
struct tern_trainer tern_library_trainer_port(struct tern_library_trainer *trainer);

// Closes the trainer and unloads the library.
void tern_library_trainer_close(struct tern_library_trainer *trainer);

#endif
