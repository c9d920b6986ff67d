/* A trainer as a shared object, in C99 without a library: softmax regression on IDX files.
 *
 *   cc -std=c99 -O2 -shared -fPIC $(pkg-config --cflags tern) softmax_library.c -o softmax.so -lm
 *
 * with the package tern-dev, which has the header; else with -I build/include of a build of Tern.
 *
 *   [client]
 *   trainer = library
 *   trainer_library = /opt/trainers/softmax.so
 *   trainer_options = /srv/digits
 *
 * Made for models softmax:PIXELS-CLASSES: the tensors fc1.weight [classes][pixels] and fc1.bias. */
#include <tern/trainer/tern_trainer_abi.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES_MAX 256
#define EXAMPLES_MAX 1000000u

struct part {
    uint32_t count;
    uint32_t pixels;       /* of an image */
    unsigned char *images; /* [count][pixels] */
    unsigned char *labels; /* [count] */
};

struct trainer {
    uint32_t pixels;
    uint32_t classes;
    uint64_t weight_at; /* where the tensors lie in the flat vector */
    uint64_t bias_at;
    size_t count;
    size_t trained; /* the first values of the flat vector; the others are frozen */
    struct part train;
    struct part test;
    float *velocity; /* [count] */
    struct tern_trainer_task task;
    const float *base;
    float *weights;
    uint32_t done;
    double loss;
    uint64_t random;
};

/* --- Data */

static uint32_t get_be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads what follows an IDX header of `dims` sizes; NULL with a sentence when it cannot. */
static unsigned char *read_open(FILE *file, uint32_t dims, uint32_t *sizes, const char **wrong)
{
    unsigned char header[16];
    unsigned char *bytes = NULL;
    size_t total = 1;
    uint32_t i;
    *wrong = "is no IDX file of bytes with as many sizes as its name says";
    if (fread(header, 4 + 4 * dims, 1, file) != 1 || header[2] != 8 || header[3] != dims) {
        return NULL;
    }
    for (i = 0; i < dims; i++) {
        sizes[i] = get_be32(header + 4 + 4 * i);
        total *= sizes[i] <= EXAMPLES_MAX ? sizes[i] : 0;
    }
    bytes = total > 0 ? malloc(total) : NULL;
    *wrong = "has a size that is 0 or too large";
    if (bytes != NULL && fread(bytes, total, 1, file) != 1) {
        *wrong = "ends too early: copy it again";
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

static unsigned char *read_idx(const char *folder, const char *name, uint32_t dims, uint32_t *sizes,
                               char *why, size_t why_size)
{
    char path[512];
    unsigned char *bytes = NULL;
    const char *wrong = "is not there; trainer_options names a folder with the four IDX files";
    FILE *file;
    snprintf(path, sizeof path, "%s/%s-ubyte.gz", folder, name);
    file = fopen(path, "rb");
    if (file != NULL) {
        wrong = "is there as .gz alone: unpack it (gunzip -k)";
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/%s-ubyte", folder, name);
    file = fopen(path, "rb");
    if (file != NULL) {
        bytes = read_open(file, dims, sizes, &wrong);
        fclose(file);
    }
    if (bytes == NULL) {
        snprintf(why, why_size, "%s %s", path, wrong);
    }
    return bytes;
}

static int read_part(const char *folder, const char *name, struct part *part, char *why,
                     size_t why_size)
{
    char file[64];
    uint32_t sizes[3] = {0, 0, 0};
    uint32_t labels = 0;
    snprintf(file, sizeof file, "%s-images-idx3", name);
    part->images = read_idx(folder, file, 3, sizes, why, why_size);
    if (part->images == NULL) {
        return 0;
    }
    snprintf(file, sizeof file, "%s-labels-idx1", name);
    part->labels = read_idx(folder, file, 1, &labels, why, why_size);
    if (part->labels == NULL) {
        return 0;
    }
    part->count = sizes[0];
    part->pixels = sizes[1] * sizes[2];
    if (labels != sizes[0]) {
        snprintf(why, why_size, "%s/%s: there are not as many labels as images", folder, name);
    }
    return labels == sizes[0];
}

static int fits(const struct trainer *trainer, const struct part *part)
{
    uint32_t i;
    for (i = 0; i < part->count && part->labels[i] < trainer->classes; i++) {
    }
    return part->pixels == trainer->pixels && i == part->count;
}

/* --- Opening */

static int take_model(struct trainer *trainer, const struct tern_trainer_model *model)
{
    uint32_t i;
    for (i = 0; i < model->tensor_count; i++) {
        /* A newer client's struct may be larger: its size is the step. */
        const struct tern_trainer_tensor *tensor =
            (const void *)((const char *)model->tensors + i * (size_t)model->tensors->size);
        if (strcmp(tensor->name, "fc1.weight") == 0 && tensor->dim_count == 2) {
            trainer->classes = tensor->dims[0];
            trainer->pixels = tensor->dims[1];
            trainer->weight_at = tensor->offset;
        } else if (strcmp(tensor->name, "fc1.bias") == 0) {
            trainer->bias_at = tensor->offset;
        } else {
            return 0;
        }
    }
    trainer->count = (size_t)model->count;
    trainer->trained = (size_t)model->trained;
    return trainer->classes > 0 && trainer->classes <= CLASSES_MAX &&
           model->count == (uint64_t)trainer->classes * (trainer->pixels + 1);
}

static void close_trainer(void *state)
{
    struct trainer *trainer = state;
    free(trainer->train.images);
    free(trainer->train.labels);
    free(trainer->test.images);
    free(trainer->test.labels);
    free(trainer->velocity);
    free(trainer);
}

static int open_trainer(const struct tern_trainer_model *model, const char *options, void **state,
                        char *why, size_t why_size)
{
    struct trainer *trainer = calloc(1, sizeof *trainer);
    const char *wrong = NULL;
    if (trainer == NULL) {
        snprintf(why, why_size, "no memory");
        return TERN_TRAINER_FAILED;
    }
    if (!take_model(trainer, model)) {
        wrong = "the model is no softmax:PIXELS-CLASSES";
    } else if (!read_part(options, "train", &trainer->train, why, why_size) ||
               !read_part(options, "t10k", &trainer->test, why, why_size)) {
        wrong = why;
    } else if (!fits(trainer, &trainer->train) || !fits(trainer, &trainer->test)) {
        wrong = "the images or labels are not the model's: see softmax:PIXELS-CLASSES";
    } else if ((trainer->velocity = calloc(trainer->count, sizeof(float))) == NULL) {
        wrong = "no memory";
    }
    if (wrong != NULL) {
        if (wrong != why) {
            snprintf(why, why_size, "%s", wrong);
        }
        close_trainer(trainer);
        return TERN_TRAINER_FAILED;
    }
    *state = trainer;
    return TERN_TRAINER_DONE;
}

/* --- Training */

/* A tensor in training: what is frozen is read from base, and never from weights. */
static const float *tensor_at(const struct trainer *trainer, uint64_t at)
{
    return (at < trainer->trained ? trainer->weights : trainer->base) + at;
}

/* Fills p[classes] with the probabilities of an image; returns its loss. */
static double look(const struct trainer *trainer, const float *weight, const float *bias,
                   const unsigned char *image, unsigned label, double *p)
{
    double most = -HUGE_VAL;
    double sum = 0;
    uint32_t c;
    uint32_t i;
    for (c = 0; c < trainer->classes; c++) {
        const float *row = weight + (size_t)c * trainer->pixels;
        p[c] = (double)bias[c];
        for (i = 0; i < trainer->pixels; i++) {
            p[c] += (double)row[i] * image[i] / 255;
        }
        most = p[c] > most ? p[c] : most;
    }
    for (c = 0; c < trainer->classes; c++) {
        p[c] = exp(p[c] - most);
        sum += p[c];
    }
    for (c = 0; c < trainer->classes; c++) {
        p[c] /= sum;
    }
    return -log(p[label] + 1e-30);
}

static int begin(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size)
{
    struct trainer *trainer = state;
    (void)why;
    (void)why_size;
    trainer->task = *task;
    trainer->base = base;
    trainer->weights = weights;
    trainer->done = 0;
    trainer->loss = 0;
    trainer->random = task->seed;
    memset(trainer->velocity, 0, trainer->count * sizeof(float));
    return TERN_TRAINER_DONE;
}

/* A linear congruential generator (Knuth, MMIX) is random enough to choose examples. */
static uint32_t next_example(struct trainer *trainer)
{
    trainer->random = trainer->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((trainer->random >> 33) % trainer->train.count);
}

static void add_example(struct trainer *trainer, uint32_t example)
{
    const float *weight = tensor_at(trainer, trainer->weight_at);
    const float *bias = tensor_at(trainer, trainer->bias_at);
    const unsigned char *image = trainer->train.images + (size_t)example * trainer->pixels;
    const unsigned label = trainer->train.labels[example];
    double p[CLASSES_MAX];
    uint32_t c;
    uint32_t i;
    trainer->loss += look(trainer, weight, bias, image, label, p) / trainer->task.batch_size;
    for (c = 0; c < trainer->classes; c++) {
        const float error =
            (float)((p[c] - (c == label ? 1 : 0)) / (double)trainer->task.batch_size);
        float *row = trainer->velocity + trainer->weight_at + (uint64_t)c * trainer->pixels;
        for (i = 0; i < trainer->pixels; i++) {
            row[i] += error * (float)image[i] / 255;
        }
        trainer->velocity[trainer->bias_at + c] += error;
    }
}

static int step(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size)
{
    struct trainer *trainer = state;
    const struct tern_trainer_task *task = &trainer->task;
    float *w = trainer->weights;
    float *v = trainer->velocity;
    uint64_t i;
    uint32_t b;
    for (i = 0; i < trainer->trained; i++) {
        v[i] = task->momentum * v[i] + task->weight_decay * w[i] +
               task->prox_mu * (w[i] - trainer->base[i]);
    }
    for (b = 0; b < task->batch_size; b++) {
        add_example(trainer, next_example(trainer));
    }
    for (i = 0; i < trainer->trained; i++) {
        w[i] -= task->learning_rate * v[i];
    }
    if (!(trainer->loss < HUGE_VAL)) {
        snprintf(why, why_size, "the loss is no longer finite");
        return TERN_TRAINER_FAILED;
    }
    if (++trainer->done < task->local_steps) {
        return TERN_TRAINER_MORE;
    }
    result->num_examples = trainer->train.count;
    result->local_steps = trainer->done;
    result->loss = (float)(trainer->loss / trainer->done);
    return TERN_TRAINER_DONE;
}

static int evaluate(void *state, const float *weights, struct tern_trainer_evaluate_result *result,
                    char *why, size_t why_size)
{
    struct trainer *trainer = state;
    const struct part *test = &trainer->test;
    double p[CLASSES_MAX];
    double loss = 0;
    uint32_t right = 0;
    uint32_t i;
    uint32_t c;
    (void)why;
    (void)why_size;
    for (i = 0; i < test->count; i++) {
        uint32_t best = 0;
        loss += look(trainer, weights + trainer->weight_at, weights + trainer->bias_at,
                     test->images + (size_t)i * trainer->pixels, test->labels[i], p);
        for (c = 1; c < trainer->classes; c++) {
            best = p[c] > p[best] ? c : best;
        }
        right += best == test->labels[i];
    }
    result->num_examples = test->count;
    result->loss = (float)(loss / test->count);
    result->accuracy = (float)right / (float)test->count;
    return TERN_TRAINER_DONE;
}

const struct tern_trainer_library *tern_trainer_entry(uint32_t client_version)
{
    static const struct tern_trainer_library library = {
        sizeof(struct tern_trainer_library),
        TERN_TRAINER_ABI_VERSION,
        "softmax",
        open_trainer,
        begin,
        step,
        evaluate,
        close_trainer,
    };
    return client_version == TERN_TRAINER_ABI_VERSION ? &library : NULL;
}
