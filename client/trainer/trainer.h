// Implements the trainer port (ports.h) for the models of tern_model_from_spec() (softmax, MLP, small CNN; classes, numbers,
// reconstruction) by mini-batch SGD. Called by tern-client, tern-fleet, tern-ring and firmware: the caller owns all memory, and
// nothing here calls malloc. The same task on the same data gives the same bits on every machine. One thread at a time uses
// a trainer.
//
//   g = mean gradient of the batch + weight_decay * w + prox_mu * (w - base)
//   v = momentum * v + g;  w = w - learning_rate * v         v is 0 at the start of a round
#ifndef TERN_TRAINER_H
#define TERN_TRAINER_H

#include "data/dataset.h"
#include "ports.h"
#include "tensor/model.h"
#include "trainer/network.h"
#include "util/prng.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_builtin_config {
    const struct tern_model *model; // read during the calls that take the config, not kept
    struct tern_view train;         // local training data; may be empty
    struct tern_view test;          // local evaluation data; may be empty
    uint32_t max_batch;             // examples worked on at once, >= 1: more costs memory and is
                                    // faster; larger batches of a task are done in parts
#if TERN_LOSSES
    float
        anomaly_quantile; // of the training examples' errors; an example whose error is above it is
                          // an anomaly; 0: TERN_ANOMALY_QUANTILE
#endif
};

// An autoencoder trains on the examples of class 0 alone, the normal ones; without labels all are of class 0. Examples of
// other classes are anomalies that it should detect.
#define TERN_ANOMALY_QUANTILE 0.99f

// Examples that a class must have in an evaluation for its recall to be reported.
#define TERN_RECALL_EXAMPLES 3u

#if TERN_HELD_OUT
// Counts of one class in an evaluation: correct, predicted and labelled.
struct tern_told {
    uint32_t right;
    uint32_t told;
    uint32_t labelled;
};
#endif

#if TERN_LOSSES
// How far the network's output for an example is from the example.
struct tern_example_error {
    float error;
    bool anomaly; // by its label
};
#endif

// The trainer's state outside its arena. Fields are private.
struct tern_builtin_trainer {
    struct tern_network network;
    struct tern_view train;
    struct tern_view test;
    uint32_t count;  // values of the model
    float *weights;  // [count]
    float *velocity; // [count]
    uint32_t *order; // [train.count], the epoch's order
#if TERN_HELD_OUT
    struct tern_told *told; // [classes], of an evaluation
#endif
#if TERN_LOSSES
    uint32_t normal_count; // of order[]; of other models all training examples
    float anomaly_quantile;
    struct tern_example_error
        *errors; // [most of train and test], of an evaluation of an autoencoder
#endif
    uint32_t next;       // of order[]
    uint32_t steps_done; // of the task
    double loss;         // sum over the steps
    struct tern_train_task task;
    struct tern_prng rng;
    const float *base;
    bool training;
};

// Bytes of arena that tern_builtin_trainer_init() needs for this config; 0 when the config is one
// that it refuses. About 8 bytes per model value, 4 per training example, and per example of
// max_batch 4 for each feature and each unit of a layer (and twice the widest layer).
size_t tern_builtin_trainer_bound(const struct tern_builtin_config *config);

// Prepares a trainer in arena[0..arena_size), which stays the trainer's until it is dropped. It may
// be called again for other data with the same arena, when that is large enough.
// TERN_ERR_ARGUMENT        max_batch is 0, or both views are empty
// TERN_ERR_MODEL_MISMATCH  the model is no built-in one, the data's shape is not its input, or the
//                          data has more classes than it has outputs
// TERN_ERR_NO_SPACE        arena_size is below the bound
TERN_MUST_USE enum tern_result tern_builtin_trainer_init(struct tern_builtin_trainer *trainer,
                                                         const struct tern_builtin_config *config,
                                                         void *arena, size_t arena_size);

// The port, for struct tern_ports. Beyond what ports.h lists:
//   begin     TERN_ERR_NOT_FOUND when there is no training data. Ranges: local_steps and batch_size
//             >= 1, momentum 0..<1, learning_rate, weight_decay, prox_mu finite and >= 0.
//   step      a batch is batch_size examples drawn without replacement from a shuffled epoch, never
//             more than there are; TERN_ERR_STATE without a begin, or after the last step.
//   evaluate  may be called between steps. Metrics beside the loss: of classes f1_macro, largest, the share of the
//             largest class, and, of the worst class of those with TERN_RECALL_EXAMPLES and more, recall_worst, the share
//             of its examples that are right, and class_worst, its number. The worst class has the lowest
//             (right + 1) / (examples + 2); of one number r2,
//             mae and mse, in the units of the targets as they came; of an autoencoder auc and f1, where
//             there are examples of both kinds, threshold (see anomaly_quantile) and flagged, the share
//             of examples above it. Its loss is that of the normal examples, where there are any.
struct tern_trainer tern_builtin_trainer_port(struct tern_builtin_trainer *trainer);

// The prediction of a model of classes.
struct tern_prediction {
    uint16_t label;
    float score; // the model's probability for it
};

// Writes the prediction for each test example, in their order, to predictions[test.count].
// TERN_ERR_MODEL_MISMATCH when count is not the model's, or the model predicts numbers.
TERN_MUST_USE enum tern_result tern_builtin_trainer_predict(struct tern_builtin_trainer *trainer,
                                                            const float *weights, uint32_t count,
                                                            struct tern_prediction *predictions);

#if TERN_LOSSES
// For a model of numbers, writes the value of each test example in the units of the targets. For an autoencoder, writes each
// example's error, and to *threshold the error above which an example is an anomaly.
// TERN_ERR_MODEL_MISMATCH when count is not the model's, or the model predicts classes.
TERN_MUST_USE enum tern_result tern_builtin_trainer_numbers(struct tern_builtin_trainer *trainer,
                                                            const float *weights, uint32_t count,
                                                            float *numbers, float *threshold);
#endif

// Writes the class that the model gives each test example, in their order, to
// answers[test.count]. TERN_ERR_MODEL_MISMATCH as in tern_builtin_trainer_predict().
TERN_MUST_USE enum tern_result tern_builtin_trainer_answer(struct tern_builtin_trainer *trainer,
                                                           const float *weights, uint32_t count,
                                                           uint16_t *answers);

#ifdef __cplusplus
}
#endif

#endif
