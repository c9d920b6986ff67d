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
    const struct tern_model *model; // used only during the calls with this config
    struct tern_view train;         // local training data; may be empty
    struct tern_view test;          // local evaluation data; may be empty
    uint32_t max_batch;             // examples processed at once, >= 1: more is faster and takes
                                    // more memory; larger batches of a task are processed in parts
    // quantile of the training examples' errors above which an example is an anomaly; 0: TERN_ANOMALY_QUANTILE
    float anomaly_quantile;
};

// The default of anomaly_quantile. An autoencoder trains only on examples of class 0, the normal ones; examples without labels
// are of class 0. Examples of other classes are anomalies that the autoencoder should detect.
#define TERN_ANOMALY_QUANTILE 0.99f

// Examples that a class must have in an evaluation for its recall to be reported.
#define TERN_RECALL_EXAMPLES 3u

// Counts of one class in an evaluation.
struct tern_class_counts {
    uint32_t right; // predicted and labelled
    uint32_t predicted;
    uint32_t labelled;
};

// An autoencoder's reconstruction error of one example.
struct tern_example_error {
    float error;
    bool anomaly; // the example's label is not 0
};

// The trainer's state outside its arena. Fields are private.
struct tern_builtin_trainer {
    struct tern_network network;
    struct tern_view train;
    struct tern_view test;
    uint32_t count;                    // values of the model
    float *weights;                    // [count]
    float *velocity;                   // [count]
    uint32_t *order;                   // [train.count], examples in the epoch's order
    struct tern_class_counts *classes; // [classes], scratch of an evaluation
    // examples in order[]; all training examples unless the model is an autoencoder
    uint32_t normal_count;
    float anomaly_quantile;
    struct tern_example_error *errors; // [max(train.count, test.count)], scratch of an evaluation
    uint32_t next;                     // index into order[]
    uint32_t steps_done;               // completed local steps of the task
    double loss;                       // sum over the steps
    struct tern_train_task task;
    struct tern_prng rng;
    const float *base;
    bool training;
};

// Returns the bytes of arena that tern_builtin_trainer_init() needs; 0 if it refuses this config. About 8 bytes per model
// value, 4 per training example, and, per example of max_batch, 4 for each feature and unit (twice for the widest layer).
size_t tern_builtin_trainer_bound(const struct tern_builtin_config *config);

// Prepares a trainer in arena[0..arena_size), which it borrows. It may be called again for other data with the same arena.
// TERN_ERR_ARGUMENT        max_batch is 0, or both views are empty
// TERN_ERR_MODEL_MISMATCH  the model is not built in, the data's shape is not its input, or the data has more classes than
//                          the model has outputs
// TERN_ERR_NO_SPACE        arena_size is below the bound
TERN_MUST_USE enum tern_result tern_builtin_trainer_init(struct tern_builtin_trainer *trainer,
                                                         const struct tern_builtin_config *config,
                                                         void *arena, size_t arena_size);

// Returns the port for struct tern_ports. In addition to ports.h:
//   begin     TERN_ERR_NOT_FOUND without training data. Ranges: local_steps and batch_size >= 1, momentum 0..<1,
//             learning_rate, weight_decay, prox_mu finite and >= 0.
//   step      A batch is batch_size examples, at most all, drawn without replacement from a shuffled epoch. TERN_ERR_STATE
//             without begin, or after the last step.
//   evaluate  May be called between steps. Metrics besides the loss:
//             classes      f1_macro; largest: the fraction of the largest class; class_worst and recall_worst: number and
//                          recall of the worst class, the one with the lowest (right + 1) / (examples + 2) of those with
//                          at least TERN_RECALL_EXAMPLES examples
//             one number   r2, mae and mse, in the targets' original units
//             autoencoder  auc and f1, if there are normal examples and anomalies; threshold (see anomaly_quantile);
//                          flagged: the fraction of examples above it. The loss is that of the normal examples, if any.
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

// For a model of numbers, writes the value of each test example in the units of the targets. For an autoencoder, writes each
// example's error, and to *threshold the error above which an example is an anomaly.
// TERN_ERR_MODEL_MISMATCH when count is not the model's, or the model predicts classes.
TERN_MUST_USE enum tern_result tern_builtin_trainer_numbers(struct tern_builtin_trainer *trainer,
                                                            const float *weights, uint32_t count,
                                                            float *numbers, float *threshold);

// Writes the predicted class of each test example, in their order, to answers[test.count]. TERN_ERR_MODEL_MISMATCH as in
// tern_builtin_trainer_predict().
TERN_MUST_USE enum tern_result tern_builtin_trainer_answer(struct tern_builtin_trainer *trainer,
                                                           const float *weights, uint32_t count,
                                                           uint16_t *answers);

#ifdef __cplusplus
}
#endif

#endif
