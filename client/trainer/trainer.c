#include "trainer/trainer.h"
#include "codec/kernels/kernels.h"
#include "trainer/internal.h"
#include "util/math.h"
#include <string.h>

// Checks the config, reads the model and allocates from the arena, for bound and init alike.
static enum tern_result allocate(struct tern_builtin_trainer *trainer,
                                 const struct tern_builtin_config *config, struct tern_arena *arena)
{
    const struct tern_view *train = &config->train;
    const struct tern_view *test = &config->test;
    if (config->max_batch == 0 || (train->count == 0 && test->count == 0)) {
        return TERN_ERR_ARGUMENT;
    }
    if (test->count > 0) {
        TERN_TRY(tern_network_build(&trainer->network, config->model, test->dataset));
    }
    if (train->count > 0) {
        TERN_TRY(tern_network_build(&trainer->network, config->model, train->dataset));
    }
    trainer->weights = tern_arena_take(arena, config->model->count, sizeof(float));
    trainer->velocity = tern_arena_take(arena, config->model->count, sizeof(float));
    trainer->order = tern_arena_take(arena, train->count, sizeof *trainer->order);
    if (tern_model_loss(config->model) == TERN_LOSS_RECONSTRUCTION) {
        const size_t most = train->count > test->count ? train->count : test->count;
        trainer->errors = tern_arena_take(arena, most, sizeof *trainer->errors);
    }
    const size_t classes = TERN_HELD_OUT && test->count > 0 ? trainer->network.class_count : 0;
    trainer->classes = tern_arena_take(arena, classes, sizeof *trainer->classes);
    tern_network_place(&trainer->network, config->max_batch, arena);
    return TERN_OK;
}

size_t tern_builtin_trainer_bound(const struct tern_builtin_config *config)
{
    struct tern_builtin_trainer trainer;
    struct tern_arena arena = {NULL, 0, 0};
    // The arena may start at any address; alignment may then skip its first bytes.
    if (allocate(&trainer, config, &arena) != TERN_OK ||
        arena.used > SIZE_MAX - TERN_ARENA_ALIGNMENT) {
        return 0;
    }
    return arena.used + TERN_ARENA_ALIGNMENT;
}

enum tern_result tern_builtin_trainer_init(struct tern_builtin_trainer *trainer,
                                           const struct tern_builtin_config *config, void *arena,
                                           size_t arena_size)
{
    memset(trainer, 0, sizeof *trainer);
    size_t skip =
        (TERN_ARENA_ALIGNMENT - (uintptr_t)arena % TERN_ARENA_ALIGNMENT) % TERN_ARENA_ALIGNMENT;
    struct tern_arena memory = {NULL, 0, 0}; // allocate() reports errors of the config first
    if (arena != NULL && arena_size >= skip) {
        memory = (struct tern_arena){(uint8_t *)arena + skip, arena_size - skip, 0};
    }
    TERN_TRY(allocate(trainer, config, &memory));
    trainer->train = config->train;
    trainer->test = config->test;
    trainer->count = config->model->count;
    trainer->anomaly_quantile =
        config->anomaly_quantile > 0 ? config->anomaly_quantile : TERN_ANOMALY_QUANTILE;
    trainer->normal_count = TERN_LOSSES ? tern_numbers_normal(trainer) : trainer->train.count;
    return memory.used <= memory.size ? TERN_OK : TERN_ERR_NO_SPACE;
}

static bool in_range(float value, float limit)
{
    return tern_is_finite(value) && value >= 0.0f && value < limit;
}

static bool is_valid_task(const struct tern_train_task *task)
{
    return task->local_steps > 0 && task->batch_size > 0 && in_range(task->learning_rate, 1e30f) &&
           in_range(task->momentum, 1.0f) && in_range(task->weight_decay, 1e30f) &&
           in_range(task->prox_mu, 1e30f);
}

static void fill_order(struct tern_builtin_trainer *trainer)
{
    if (tern_network_loss(&trainer->network) == TERN_LOSS_RECONSTRUCTION) {
        tern_numbers_order(trainer);
        return;
    }
    for (uint32_t i = 0; i < trainer->train.count; i++) {
        trainer->order[i] = i;
    }
}

// Shuffles the last epoch's order (Fisher and Yates).
static void shuffle(struct tern_builtin_trainer *trainer)
{
    for (uint32_t i = trainer->normal_count; i > 1; i--) {
        uint32_t j = tern_prng_below(&trainer->rng, i);
        uint32_t kept = trainer->order[i - 1];
        trainer->order[i - 1] = trainer->order[j];
        trainer->order[j] = kept;
    }
    trainer->next = 0;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_builtin_trainer *trainer = ctx;
    trainer->training = false;
    if (count != trainer->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (!is_valid_task(task)) {
        return TERN_ERR_ARGUMENT;
    }
    if (trainer->normal_count == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    trainer->task = *task;
    trainer->base = base;
    trainer->steps_done = 0;
    trainer->loss = 0.0;
    tern_train_start(task, base, trainer->weights, count);
    memset(trainer->velocity, 0, (size_t)count * sizeof *trainer->velocity);
    tern_prng_init(&trainer->rng, task->seed, TERN_PRNG_BATCHES, task->round, task->client);
    fill_order(trainer);
    shuffle(trainer);
    trainer->training = true;
    return TERN_OK;
}

// Sets v = momentum * v + weight_decay * w + prox_mu * (w - base). The batch's gradient is then added to v example by
// example, so that no third vector of the model's size is needed.
static void start_velocity(struct tern_builtin_trainer *trainer)
{
    const struct tern_train_task *task = &trainer->task;
    float *restrict v = trainer->velocity;
    const float *restrict w = trainer->weights;
    const float *restrict base = trainer->base;
    for (uint32_t i = 0; i < trainer->count; i++) {
        v[i] =
            task->momentum * v[i] + (task->weight_decay * w[i] + task->prox_mu * (w[i] - base[i]));
    }
}

static void move_weights(struct tern_builtin_trainer *trainer)
{
    float rate = trainer->task.learning_rate;
    float *restrict w = trainer->weights;
    const float *restrict v = trainer->velocity;
    for (uint32_t i = 0; i < trainer->count; i++) {
        w[i] -= rate * v[i];
    }
}

// Adds the gradients of the next `batch` examples, in chunks that fit the buffers, and returns their mean loss. If fewer
// examples of the epoch are left, starts a new epoch.
static double train_batch(struct tern_builtin_trainer *trainer, uint32_t batch)
{
    struct tern_network *network = &trainer->network;
    double loss = 0.0;
    uint32_t right = 0;
    if (trainer->normal_count - trainer->next < batch) {
        shuffle(trainer);
    }
    for (uint32_t done = 0; done < batch;) {
        uint32_t part = batch - done < network->chunk ? batch - done : network->chunk;
        tern_trainer_gather(trainer, &trainer->train, trainer->order + trainer->next, 0, part);
        tern_network_forward(network, trainer->weights, part);
        tern_network_score(network, part, &loss, &right);
        tern_network_backward(network, trainer->weights, part, 1.0f / (float)batch,
                              trainer->velocity);
        trainer->next += part;
        done += part;
    }
    return loss / (double)batch;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_builtin_trainer *trainer = ctx;
    if (!trainer->training) {
        return TERN_ERR_STATE;
    }
    uint32_t batch = trainer->task.batch_size;
    batch = batch < trainer->normal_count ? batch : trainer->normal_count;
    start_velocity(trainer);
    double loss = train_batch(trainer, batch);
    if (!tern_is_finite((float)loss)) {
        trainer->training = false;
        return TERN_ERR_NON_FINITE;
    }
    move_weights(trainer);
    trainer->loss += loss;
    if (++trainer->steps_done < trainer->task.local_steps) {
        return TERN_AGAIN;
    }
    trainer->training = false;
    if (tern_kernel_peak(trainer->weights, trainer->count) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    *weights = trainer->weights;
    *result = (struct tern_train_result){
        .num_examples = trainer->normal_count,
        .local_steps = trainer->steps_done,
        .loss = (float)(trainer->loss / (double)trainer->steps_done),
    };
    return TERN_OK;
}

static void begin_counting(struct tern_builtin_trainer *trainer)
{
    memset(trainer->classes, 0, trainer->network.class_count * sizeof *trainer->classes);
}

static void count_answers(struct tern_builtin_trainer *trainer, uint32_t count)
{
    const struct tern_network *network = &trainer->network;
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t answer = tern_network_answer(network, i);
        trainer->classes[answer].predicted++;
        trainer->classes[network->labels[i]].labelled++;
        trainer->classes[answer].right += answer == network->labels[i];
    }
}

// Adds f1_macro: the mean of the F1 scores 2 right / (predicted + labelled) of all classes that were predicted or labelled.
static void add_macro_f1(const struct tern_builtin_trainer *trainer,
                         struct tern_evaluate_result *result)
{
    double sum = 0.0;
    uint32_t classes = 0;
    for (uint32_t i = 0; i < trainer->network.class_count; i++) {
        const struct tern_class_counts *of = &trainer->classes[i];
        if (of->predicted + of->labelled > 0) {
            sum += 2.0 * (double)of->right / (double)(of->predicted + of->labelled);
            classes++;
        }
    }
    result->metrics[0] =
        (struct tern_metric){.name = "f1_macro", .value = (float)(sum / (double)classes)};
    result->metric_count = 1;
}

static double recall_of(const struct tern_class_counts *class)
{
    return (double)class->right / (double)class->labelled;
}

// Returns the class's recall, moved towards one half for few examples (Laplace's rule of succession): 0 right of 3 ranks as
// 1 of 5, above 15 right of 100.
static double cautious_recall_of(const struct tern_class_counts *class)
{
    return ((double)class->right + 1) / ((double)class->labelled + 2);
}

// Adds the fraction of the largest class, which is the accuracy of always predicting it, and the recall of the worst class.
// Leaves out classes with fewer than TERN_RECALL_EXAMPLES examples, where one example would decide.
static void add_extremes(const struct tern_builtin_trainer *trainer,
                         struct tern_evaluate_result *result)
{
    const struct tern_class_counts *counts = trainer->classes;
    const uint32_t none = trainer->network.class_count;
    uint32_t largest = 0;
    uint32_t worst = none;
    for (uint32_t i = 0; i < none; i++) {
        largest = counts[i].labelled > counts[largest].labelled ? i : largest;
        if (counts[i].labelled >= TERN_RECALL_EXAMPLES &&
            (worst == none ||
             cautious_recall_of(&counts[i]) < cautious_recall_of(&counts[worst]))) {
            worst = i;
        }
    }
    tern_trainer_add_metric(result, "largest",
                            (double)counts[largest].labelled / trainer->test.count);
    if (worst != none) {
        tern_trainer_add_metric(result, "recall_worst", recall_of(&counts[worst]));
        tern_trainer_add_metric(result, "class_worst", worst);
    }
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_builtin_trainer *trainer = ctx;
    struct tern_network *network = &trainer->network;
    if (count != trainer->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (trainer->test.count == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    if (tern_network_predicts_numbers(network)) {
        return tern_numbers_evaluate(trainer, weights, result);
    }
    double loss = 0.0;
    uint32_t right = 0;
    if (TERN_HELD_OUT) {
        begin_counting(trainer);
    }
    for (uint32_t done = 0; done < trainer->test.count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, &trainer->test, done);
        tern_network_score(network, part, &loss, &right);
        if (TERN_HELD_OUT) {
            count_answers(trainer, part);
        }
        done += part;
    }
    *result = (struct tern_evaluate_result){
        .num_examples = trainer->test.count,
        .loss = (float)(loss / (double)trainer->test.count),
        .accuracy = (float)right / (float)trainer->test.count,
    };
    if (TERN_HELD_OUT) {
        add_macro_f1(trainer, result);
        add_extremes(trainer, result);
    }
    return TERN_OK;
}

enum tern_result tern_builtin_trainer_predict(struct tern_builtin_trainer *trainer,
                                              const float *weights, uint32_t count,
                                              struct tern_prediction *predictions)
{
    const struct tern_network *network = &trainer->network;
    if (count != trainer->count || tern_network_predicts_numbers(network)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    for (uint32_t done = 0; done < trainer->test.count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, &trainer->test, done);
        for (uint32_t i = 0; i < part; i++) {
            const uint16_t label = tern_network_answer(network, i);
            predictions[done + i] = (struct tern_prediction){
                .label = label, .score = tern_network_probability(network, i, label)};
        }
        done += part;
    }
    return TERN_OK;
}

enum tern_result tern_builtin_trainer_answer(struct tern_builtin_trainer *trainer,
                                             const float *weights, uint32_t count,
                                             uint16_t *answers)
{
    struct tern_network *network = &trainer->network;
    if (count != trainer->count || tern_network_predicts_numbers(network)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    for (uint32_t done = 0; done < trainer->test.count;) {
        const uint32_t part = tern_trainer_forward(trainer, weights, &trainer->test, done);
        for (uint32_t i = 0; i < part; i++) {
            answers[done + i] = tern_network_answer(network, i);
        }
        done += part;
    }
    return TERN_OK;
}

struct tern_trainer tern_builtin_trainer_port(struct tern_builtin_trainer *trainer)
{
    return (struct tern_trainer){
        .ctx = trainer, .begin = begin, .step = step, .evaluate = evaluate};
}
