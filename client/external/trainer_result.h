// The small JSON file that an external trainer answers with. Every number is held against what is
// possible: it came from a program that this one does not know. Hosted; reentrant.
#ifndef TERN_TRAINER_RESULT_H
#define TERN_TRAINER_RESULT_H

#include "external/model_file.h"
#include "ports.h"

#define TERN_TRAINER_METRICS_MAX 512 // bytes of the metrics as text, with the terminating NUL
#define TERN_TRAINER_EXAMPLES_MAX 1000000000 // a larger num_examples is a mistake

// num_examples and loss must be there; local_steps (1 to what was asked) and metrics (an object of
// numbers) may. metrics: what was there as "name=1.5 other=2", cut at its size; "" for none.
// TERN_ERR_CORRUPT with `why`, and those of tern_regular_file_read()
TERN_MUST_USE enum tern_result tern_trainer_result_read(const char *path, uint32_t local_steps,
                                                        struct tern_train_result *result,
                                                        char metrics[TERN_TRAINER_METRICS_MAX],
                                                        char why[TERN_EXTERNAL_WHY_MAX]);

// Likewise num_examples, loss, and perhaps accuracy (0 to 1) and metrics, of which those whose names are
// short enough are in *result, too; its metric_count is 0 before.
TERN_MUST_USE enum tern_result tern_evaluate_result_read(const char *path,
                                                         struct tern_evaluate_result *result,
                                                         char metrics[TERN_TRAINER_METRICS_MAX],
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// What both must satisfy, also when a library says it. TERN_ERR_CORRUPT with `why`
TERN_MUST_USE enum tern_result tern_train_result_check(const struct tern_train_result *result,
                                                       uint32_t local_steps,
                                                       char why[TERN_EXTERNAL_WHY_MAX]);
TERN_MUST_USE enum tern_result tern_evaluate_result_check(const struct tern_evaluate_result *result,
                                                          char why[TERN_EXTERNAL_WHY_MAX]);

#endif
