// Implements the trainer port (ports.h) with a user's shared object that has the C interface of
// trainer/tern_trainer_abi.h, for devices without room for another process and its files. Its results are checked, but it
// runs in this process, so its crash ends the client. A static program cannot load one (TERN_LIBRARY_TRAINERS=OFF), and
// opening returns TERN_ERR_CONFIG. Called by client/cli on the thread that steps the client.
#ifndef TERN_LIBRARY_TRAINER_H
#define TERN_LIBRARY_TRAINER_H

#include "external/trainer_files.h"
#include "ports.h"
#include "trainer/tern_trainer_abi.h"

struct tern_library_config {
    const char *path;               // the shared object
    const char *options;            // passed to the library's open()
    const char *spec;               // name of the model
    const struct tern_model *model; // borrowed until the trainer is closed
};

// A trainer that calls a library; all zero before tern_library_trainer_open(). All fields except `why` are private.
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
    char why[TERN_EXTERNAL_WHY_MAX]; // after an error: the reason; else ""
};

// Loads the library and opens its trainer.
// TERN_ERR_CONFIG     it cannot be loaded, has no tern_trainer_entry(), another version, or
//                     functions missing; or this program cannot load libraries
// TERN_ERR_TRAINER    its open() failed
// TERN_ERR_NO_MEMORY; all with `why`
TERN_MUST_USE enum tern_result tern_library_trainer_open(struct tern_library_trainer *trainer,
                                                         const struct tern_library_config *config,
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// Returns the port. Errors of begin, step and evaluate besides those of ports.h:
//   TERN_ERR_TRAINER    the library failed or returned an invalid result: `why`
//   TERN_ERR_NOT_FOUND  it has no examples
struct tern_trainer tern_library_trainer_port(struct tern_library_trainer *trainer);

// Closes the trainer and unloads the library.
void tern_library_trainer_close(struct tern_library_trainer *trainer);

#endif
