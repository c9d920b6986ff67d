// The C interface of a trainer in a shared object, which tern-client loads (client.trainer = library,
// client.trainer_library = FILE). C99 and C++; needs nothing else of Tern. The library runs in the client's process, on its
// main thread. It returns errors, never ends the process, and never blocks longer than one local step takes.
//
// The library exports one function, tern_trainer_entry(). Every struct begins with its size in bytes. New fields are added
// at the end of a struct, under the same TERN_TRAINER_ABI_VERSION, so compare `size` before you read a newer field. A change
// of meaning gets a new version; a client refuses a version that it does not support.
//
// Texts are UTF-8 with a NUL. Weights are one flat vector of `count` float32 values; struct tern_trainer_tensor has the
// place of a tensor in it. Pointers in arguments are valid during the call, those in struct tern_trainer_model until
// close().
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
    TERN_TRAINER_MORE = 1,    // from step() and evaluate(): call again
    TERN_TRAINER_NO_DATA = 2, // from begin() and evaluate(): there are no examples
    TERN_TRAINER_FAILED =
        3 // `why` has the reason; the client drops the task and tries it again later
};

struct tern_trainer_tensor {
    uint32_t size; // bytes of this struct: the distance from one tensor to the next
    uint32_t dim_count;
    const char *name;     // "fc1.weight"
    const uint32_t *dims; // [dim_count]: [out][in], [out][kh][kw][in], ...
    uint64_t offset;      // index of its first value in the flat vector
    uint64_t count;       // values: the product of dims
};

struct tern_trainer_model {
    uint32_t size;
    uint32_t tensor_count;
    const struct tern_trainer_tensor *tensors;
    uint64_t count;   // values in all tensors
    const char *spec; // "mlp:256-64-10", or another name of the federation's model
    uint64_t trained; // training changes only the first `trained` values of the flat vector; the
                      // others belong to frozen tensors
};

struct tern_trainer_task {
    uint32_t size;
    uint32_t round;
    uint32_t local_steps; // >= 1
    uint32_t batch_size;  // >= 1; at most all examples: 2147483647 means all
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu; // FedProx: + prox_mu / 2 * |w - base|^2 in the loss
    uint32_t seed; // differs by federation, round and client; a repeated task has the same seed
    uint32_t client;
};

struct tern_trainer_train_result {
    uint32_t size;
    // examples of the local data set, 1 to 1,000,000,000: the client's weight
    uint32_t num_examples;
    uint32_t local_steps; // completed, 1 to the task's
    float loss;           // mean over the steps
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
    const char *name;     // name of the trainer for logs

    // Opens the trainer for the model. options: the setting client.trainer_options. *state: passed to the other functions.
    // why: on FAILED, a sentence of at most why_size bytes with the NUL, here and below.
    int (*open)(const struct tern_trainer_model *model, const char *options, void **state,
                char *why, size_t why_size);

    // Starts a task. base[count]: the global model. weights[count]: the first `trained` values are the start of training,
    // usually base's; read the others, of frozen tensors, from base. The client never reads them from weights, and they take
    // no memory until somebody writes them. Both vectors are borrowed until the task is done or another begins.
    int (*begin)(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size);

    // Does one local step in `weights`. MORE while steps are left; DONE after the last, with *result filled.
    int (*step)(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size);

    // Evaluates weights[count]. May process a part of the examples in each call: MORE until DONE.
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
