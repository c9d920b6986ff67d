// The C interface of a trainer in a shared object, which tern-client loads (client.trainer = library, client.trainer_library =
// FILE). C99 and C++; the header needs no other file of Tern. The client calls the library's functions on its main thread. They
// must return errors instead of ending the process, and must not block longer than one local step takes.
//
// The library exports one function, tern_trainer_entry(). Every struct begins with its size in bytes. New fields are added
// at the end of a struct without a new TERN_TRAINER_ABI_VERSION, so compare `size` before you read a newer field. A change of a
// field's meaning gets a new version; a client refuses a version that it does not support.
//
// Texts are UTF-8 with a terminating NUL. Weights are one flat vector of `count` float32 values, in which struct
// tern_trainer_tensor gives the position of each tensor. Pointers in arguments are valid during the call, and pointers in
// struct tern_trainer_model until close().
#ifndef TERN_TRAINER_ABI_H
#define TERN_TRAINER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_TRAINER_ABI_VERSION 1

// Results of the library's functions.
enum {
    TERN_TRAINER_DONE = 0,
    TERN_TRAINER_MORE =
        1, // from step() and evaluate(): not finished, the client calls the function again
    TERN_TRAINER_NO_DATA = 2, // from begin() and evaluate(): there are no examples
    // `why` has the reason; the client drops the task and repeats it later
    TERN_TRAINER_FAILED = 3
};

struct tern_trainer_tensor {
    // bytes of this struct, which is also the distance in bytes between elements of an array of them
    uint32_t size;
    uint32_t dim_count;
    const char *name;     // "fc1.weight"
    const uint32_t *dims; // [dim_count], e.g. [out][in] or [out][kh][kw][in]
    uint64_t offset;      // index of the tensor's first value in the flat vector
    uint64_t count;       // number of values, the product of dims
};

struct tern_trainer_model {
    uint32_t size;
    uint32_t tensor_count;
    const struct tern_trainer_tensor *tensors;
    uint64_t count;   // number of values of all tensors
    const char *spec; // the federation's model spec, e.g. "mlp:256-64-10"
    // training changes only the first `trained` values; the others belong to frozen tensors
    uint64_t trained;
};

struct tern_trainer_task {
    uint32_t size;
    uint32_t round;
    uint32_t local_steps; // >= 1
    uint32_t batch_size;  // >= 1; larger than the local data set, e.g. 2147483647: all examples
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu; // FedProx: prox_mu / 2 * |w - base|^2 is added to the loss
    // differs between federations, rounds and clients; a repeated task has the same seed
    uint32_t seed;
    uint32_t client;
};

struct tern_trainer_train_result {
    uint32_t size;
    // number of examples of the local data set, 1 to 1,000,000,000; it is the client's weight in the average
    uint32_t num_examples;
    uint32_t local_steps; // number of completed steps, 1 to the task's local_steps
    float loss;           // mean over the steps
};

struct tern_trainer_evaluate_result {
    uint32_t size;
    uint32_t num_examples; // number of evaluated examples, 1 to 1,000,000,000
    float loss;            // mean over the examples
    float accuracy;        // fraction of correct predictions, 0 to 1
};

struct tern_trainer_library {
    uint32_t size;        // sizeof(struct tern_trainer_library)
    uint32_t abi_version; // TERN_TRAINER_ABI_VERSION
    const char *name;     // name of the trainer for logs

    // Opens the trainer for the model. options: the setting client.trainer_options. *state: a pointer of the library's choice,
    // which the client passes to the other functions. In every function, why receives a sentence of at most why_size bytes with
    // its NUL if the result is TERN_TRAINER_FAILED.
    int (*open)(const struct tern_trainer_model *model, const char *options, void **state,
                char *why, size_t why_size);

    // Starts a task. base[count]: the global model. weights[count]: the first `trained` values are those to start training
    // from, usually the same as in base. Read the values of frozen tensors from base: the client never reads them from weights,
    // and they take no memory unless they are written. Both vectors are borrowed until the task ends or another task begins.
    int (*begin)(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size);

    // Trains one local step, which changes `weights` of begin(). Returns MORE if further steps follow, and DONE after the last
    // step, with *result filled.
    int (*step)(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size);

    // Evaluates weights[count]. A call may process some of the examples and return MORE; the last call returns DONE, with
    // *result filled.
    int (*evaluate)(void *state, const float *weights, struct tern_trainer_evaluate_result *result,
                    char *why, size_t why_size);

    // Frees *state. The client then unloads the library.
    void (*close)(void *state);
};

// The library exports this function. client_version: TERN_TRAINER_ABI_VERSION of the client. Returns a struct that stays
// valid until the library is unloaded, or NULL if the library does not support that version.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct tern_trainer_library *
tern_trainer_entry(uint32_t client_version);

#ifdef __cplusplus
}
#endif

#endif
