// Evaluates models whose outputs are numbers: regression, and anomaly detection by an autoencoder's error.
#include "trainer/internal.h"
#include "util/math.h"
#include <string.h>

// --- Normal examples

static bool is_anomaly(const struct tern_view *view, uint32_t position)
{
    const uint32_t example = view->indices != NULL ? view->indices[position] : position;
    return view->dataset->labels[example] != 0;
}

uint32_t tern_numbers_normal(const struct tern_builtin_trainer *trainer)
{
    uint32_t normal = trainer->train.count;
    if (trainer->network.loss != TERN_LOSS_RECONSTRUCTION) {
        return normal;
    }
    for (uint32_t i = 0; i < trainer->train.count; i++) {
        normal -= is_anomaly(&trainer->train, i);
    }
    return normal;
}

void tern_numbers_order(struct tern_builtin_trainer *trainer)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < trainer->train.count; i++) {
        if (!is_anomaly(&trainer->train, i)) {
            trainer->order[next++] = i;
        }
    }
}

// --- Errors

// Writes the error of each example, or of each normal one, to trainer->errors, in the view's order. Returns their number.
static uint32_t find_errors(struct tern_builtin_trainer *trainer, const float *weights,
                            const struct tern_view *view, bool normal_alone)
{
    uint32_t count = 0;
    for (uint32_t done = 0; done < view->count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, view, done);
        for (uint32_t i = 0; i < part; i++) {
            const bool anomaly = trainer->network.labels[i] != 0;
            if (!anomaly || !normal_alone) {
                trainer->errors[count++] = (struct tern_example_error){
                    (float)tern_numbers_loss(&trainer->network, i), anomaly};
            }
        }
        done += part;
    }
    return count;
}

// --- Sorting: heap sort, which needs no memory

static void sift(struct tern_example_error *errors, uint32_t root, uint32_t count)
{
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && errors[child + 1].error > errors[child].error;
        if (!(errors[child].error > errors[root].error)) {
            return;
        }
        const struct tern_example_error kept = errors[root];
        errors[root] = errors[child];
        errors[child] = kept;
    }
}

// Sorts ascending by error.
static void sort(struct tern_example_error *errors, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(errors, i, count);
    }
    for (uint32_t last = count; last-- > 1;) {
        const struct tern_example_error kept = errors[0];
        errors[0] = errors[last];
        errors[last] = kept;
        sift(errors, 0, last);
    }
}

// --- Anomalies

// Returns the anomaly_quantile of the normal training examples' errors; without such examples that of the normal test
// examples; without these 0.
static float find_threshold(struct tern_builtin_trainer *trainer, const float *weights)
{
    const struct tern_view *view = trainer->normal_count > 0 ? &trainer->train : &trainer->test;
    const uint32_t count = find_errors(trainer, weights, view, true);
    sort(trainer->errors, count);
    uint32_t rank = (uint32_t)((double)trainer->anomaly_quantile * (double)count);
    rank += (double)rank < (double)trainer->anomaly_quantile * (double)count;
    return count > 0 ? trainer->errors[rank > 0 ? rank - 1 : 0].error : 0.0f;
}

// Counts of the examples above and below a threshold.
struct detection {
    uint32_t anomalies; // by label
    uint32_t flagged;   // above the threshold
    uint32_t found;     // anomalies above the threshold
    uint32_t normal;
    double normal_loss; // sum
};

static struct detection detect(const struct tern_example_error *errors, uint32_t count,
                               float threshold)
{
    struct detection found = {0};
    for (uint32_t i = 0; i < count; i++) {
        const bool flagged = errors[i].error > threshold;
        found.flagged += flagged;
        found.anomalies += errors[i].anomaly;
        found.found += flagged && errors[i].anomaly;
        if (!errors[i].anomaly) {
            found.normal++;
            found.normal_loss += (double)errors[i].error;
        }
    }
    return found;
}

// --- Metrics

// Returns the fraction of pairs of an anomaly and a normal example in which the anomaly has the larger error; a tie counts
// half (Mann and Whitney 1947). errors: ascending.
static double area_under_curve(const struct tern_example_error *errors, uint32_t count,
                               const struct detection *found)
{
    double pairs = 0.0;
    double normal_below = 0.0;
    for (uint32_t i = 0; i < count;) {
        double normal = 0.0;
        double anomalies = 0.0;
        const float error = errors[i].error;
        for (; i < count && errors[i].error == error; i++) {
            anomalies += errors[i].anomaly;
            normal += !errors[i].anomaly;
        }
        pairs += anomalies * (normal_below + 0.5 * normal);
        normal_below += normal;
    }
    return pairs / ((double)found->anomalies * (double)found->normal);
}

static enum tern_result evaluate_errors(struct tern_builtin_trainer *trainer, const float *weights,
                                        struct tern_evaluate_result *result)
{
    const float threshold = find_threshold(trainer, weights);
    const uint32_t count = find_errors(trainer, weights, &trainer->test, false);
    const struct detection found = detect(trainer->errors, count, threshold);
    double loss = found.normal_loss / (double)found.normal;
    if (found.normal == 0) {
        loss = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            loss += (double)trainer->errors[i].error / (double)count;
        }
    }
    result->loss = (float)loss;
    // NaN errors cannot be sorted; the loss is then NaN, too.
    if (found.anomalies > 0 && found.normal > 0 && tern_is_finite(result->loss)) {
        sort(trainer->errors, count);
        tern_trainer_add_metric(result, "auc", area_under_curve(trainer->errors, count, &found));
        tern_trainer_add_metric(
            result, "f1", 2.0 * (double)found.found / (double)(found.flagged + found.anomalies));
    }
    tern_trainer_add_metric(result, "threshold", (double)threshold);
    tern_trainer_add_metric(result, "flagged", (double)found.flagged / (double)count);
    return TERN_OK;
}

// Sums over examples of the errors and of the targets, whose mean and squares are updated value by value (Welford 1962).
struct deviations {
    double squares;
    double distances;
    double mean;
    double spread;
    double count;
};

static void add_deviation(struct deviations *sums, double output, double target)
{
    const double off = output - target;
    const double away = target - sums->mean;
    sums->count++;
    sums->squares += off * off;
    sums->distances += off < 0.0 ? -off : off;
    sums->mean += away / sums->count;
    sums->spread += away * (target - sums->mean);
}

static enum tern_result evaluate_targets(struct tern_builtin_trainer *trainer, const float *weights,
                                         struct tern_evaluate_result *result)
{
    const struct tern_network *network = &trainer->network;
    struct deviations sums = {0};
    double loss = 0.0;
    for (uint32_t done = 0; done < trainer->test.count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, &trainer->test, done);
        for (uint32_t i = 0; i < part; i++) {
            loss += tern_numbers_loss(network, i);
            add_deviation(&sums, (double)tern_numbers_output(network, i),
                          (double)network->targets[i]);
        }
        done += part;
    }
    result->loss = (float)(loss / sums.count);
    const double unit = (double)trainer->test.dataset->target_deviation;
    if (sums.spread > 0.0) {
        tern_trainer_add_metric(result, "r2", 1.0 - sums.squares / sums.spread);
    }
    tern_trainer_add_metric(result, "mae", sums.distances / sums.count * unit);
    tern_trainer_add_metric(result, "mse", sums.squares / sums.count * unit * unit);
    return TERN_OK;
}

enum tern_result tern_numbers_evaluate(struct tern_builtin_trainer *trainer, const float *weights,
                                       struct tern_evaluate_result *result)
{
    *result = (struct tern_evaluate_result){.num_examples = trainer->test.count};
    result->no_accuracy = true;
    return trainer->network.loss == TERN_LOSS_RECONSTRUCTION
               ? evaluate_errors(trainer, weights, result)
               : evaluate_targets(trainer, weights, result);
}

// --- Predictions

static void write_targets(struct tern_builtin_trainer *trainer, const float *weights,
                          float *numbers)
{
    const struct tern_dataset *data = trainer->test.dataset;
    for (uint32_t done = 0; done < trainer->test.count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, &trainer->test, done);
        for (uint32_t i = 0; i < part; i++) {
            numbers[done + i] = tern_numbers_output(&trainer->network, i) * data->target_deviation +
                                data->target_mean;
        }
        done += part;
    }
}

enum tern_result tern_builtin_trainer_numbers(struct tern_builtin_trainer *trainer,
                                              const float *weights, uint32_t count, float *numbers,
                                              float *threshold)
{
    if (count != trainer->count || !tern_network_predicts_numbers(&trainer->network)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    *threshold = 0.0f;
    if (trainer->network.loss != TERN_LOSS_RECONSTRUCTION) {
        write_targets(trainer, weights, numbers);
        return TERN_OK;
    }
    *threshold = find_threshold(trainer, weights);
    const uint32_t found = find_errors(trainer, weights, &trainer->test, false);
    for (uint32_t i = 0; i < found; i++) {
        numbers[i] = trainer->errors[i].error;
    }
    return TERN_OK;
}
