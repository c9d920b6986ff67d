// The C interface of a trainer that is a shared object, loaded by tern-client (client.trainer =
// library, client.trainer_library = FILE). C99 and C++; needs nothing else of Tern. The library
// runs in the client's process and on its main thread: it returns errors, and never ends the
// process, and does not block for longer than one local step takes.
//
// The library exports one function, tern_trainer_entry(). What it and the client give each other
// begins with its size in bytes. Fields are only ever added at the end of a struct, under the same
// TERN_TRAINER_ABI_VERSION; who reads a field beyond `size` reads a field that is not there. A
// change of meaning is a new version, which a client refuses that does not know it.
//
// Texts are UTF-8 with a NUL. Weights are float32, one flat vector of `count` values; where in it a
// tensor lies, tern_trainer_tensor says. Pointers that a call is given are valid during the call,
// but those in struct tern_trainer_model until close().
#ifndef TERN_TRAINER_ABI_H
#define TERN_TRAINER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_TRAINER_ABI_VERSION 1

// What a function of the library returns.
enum {
    TERN_TRAINER_DONE = 0,
    TERN_TRAINER_MORE = 1,    // of step() and evaluate(): call again
    TERN_TRAINER_NO_DATA = 2, // of begin() and evaluate(): there are no examples for it
    TERN_TRAINER_FAILED = 3   // `why` says why; the task is dropped and tried again later
};

struct tern_trainer_tensor {
    uint32_t size; // of this struct, also the step from one to the next
    uint32_t dim_count;
    const char *name;     // "fc1.weight"
    const uint32_t *dims; // [dim_count]: [out][in], [out][kh][kw][in], ...
    uint64_t offset;      // of its first value in the flat vector
    uint64_t count;       // values: the product of dims
};

struct tern_trainer_model {
    uint32_t size;
    uint32_t tensor_count;
    const struct tern_trainer_tensor *tensors;
    uint64_t count;   // values in all tensors
    const char *spec; // "mlp:256-64-10", or another name of the federation's model
    uint64_t trained; // values that training moves, the first ones of the flat vector: all but
                      // those of frozen tensors
};

struct tern_trainer_task {
    uint32_t size;
    uint32_t round;
    uint32_t local_steps; // >= 1
    uint32_t batch_size;  // >= 1; never more than there are: 2147483647 is all
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu; // FedProx: + prox_mu / 2 * |w - base|^2 in the loss
    uint32_t seed; // differs by federation, round and client; the same task has the same
    uint32_t client;
};

struct tern_trainer_train_result {
    uint32_t size;
    uint32_t num_examples; // in the local data set, 1 to 1,000,000,000: the client's weight
    uint32_t local_steps;  // done, 1 to the task's
    float loss;            // mean over the steps
};

struct tern_trainer_evaluate_result {
    uint32_t size;
    uint32_t num_examples; // evaluated, 1 to 1,000,000,000
    float loss;            // mean
    float accuracy;        // 0 to 1
};

struct tern_trainer_library {
    uint32_t size;        // sizeof(struct tern_trainer_library)
    uint32_t abi_version; // TERN_TRAINER_ABI_VERSION
    const char *name;     // for logs

    // Takes the model and what client.trainer_options holds, and sets *state, which the other calls
    // get. `why`: room for a sentence of why_size bytes with the NUL, also below.
    int (*open)(const struct tern_trainer_model *model, const char *options, void **state,
                char *why, size_t why_size);

    // Starts a task. base[count]: the global model. weights[count]: where to start from, which is
    // base unless the task says otherwise, in the first `trained` values. Those of frozen tensors
    // are read from base. What weights holds behind the first `trained` means nothing and is never
    // read; no memory is behind it while nobody writes there. Both are borrowed until the task is
    // done or another is begun.
    int (*begin)(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size);

    // Does one local step in `weights`. MORE while steps are left; DONE when *result is filled.
    int (*step)(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size);

    // Evaluates weights[count], some of the examples a call if that takes long: MORE until DONE.
    int (*evaluate)(void *state, const float *weights, struct tern_trainer_evaluate_result *result,
                    char *why, size_t why_size);

    // Frees *state. The library is unloaded after it.
    void (*close)(void *state);
};

// What the library exports. client_version: TERN_TRAINER_ABI_VERSION of the client. Returns a
// struct that stays valid until the library is unloaded, or NULL when it cannot work with that
// client.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct tern_trainer_library *
tern_trainer_entry(uint32_t client_version);

#ifdef __cplusplus
}
#endif

#endif
