// Builds the built-in models from their spec strings.
#include "tensor/model.h"

#include "util/bytes.h"
#include "util/math.h"
#include "util/text.h"
#include <stdbool.h>
#include <string.h>

enum { MAX_SIZES = 16, TERN_KERNEL_SIDE = 3 };

// Position of a layer, which sets its initial bound: sqrt(6 / fan_in) before a relu (He et al.
// 2015), sqrt(3 / fan_in) for the last layer (LeCun et al. 1998).
enum gain { BEFORE_RELU = 6, LAST = 3 };

static float bound_of(enum gain gain, uint32_t fan_in)
{
    float variance = (float)gain / (float)fan_in;
    // Rounding a correct float64 root to float32 gives the correct float32 root.
    return (float)tern_sqrt((double)variance);
}

// Writes a tensor's name, e.g. "fc12.weight" from "fc", 12 and ".weight". number: from 1, at most 2
// digits.
static void layer_name(char name[TERN_TENSOR_NAME_MAX], const char *kind, unsigned number,
                       const char *part)
{
    char digits[] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10), '\0'};
    const char *pieces[] = {kind, number < 10 ? digits + 1 : digits, part};
    size_t len = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (const char *c = pieces[i]; *c != '\0'; c++) {
            name[len++] = *c;
        }
    }
    name[len] = '\0';
}

static enum tern_result add_layer(struct tern_model *model, const char *kind, unsigned number,
                                  const uint32_t *dims, uint32_t dim_count, enum gain gain)
{
    uint64_t fan_in = 1;
    for (uint32_t i = 1; i < dim_count; i++) {
        fan_in *= dims[i];
    }
    if (fan_in > TERN_MODEL_MAX_VALUES) {
        return TERN_ERR_TOO_LARGE;
    }
    char name[TERN_TENSOR_NAME_MAX];
    layer_name(name, kind, number, ".weight");
    TERN_TRY(tern_model_add(model, name, dims, dim_count, bound_of(gain, (uint32_t)fan_in)));
    layer_name(name, kind, number, ".bias");
    return tern_model_add(model, name, dims, 1, 0);
}

static enum tern_result add_dense(struct tern_model *model, unsigned number, uint32_t out,
                                  uint32_t in, enum gain gain)
{
    const uint32_t dims[] = {out, in};
    return add_layer(model, "fc", number, dims, 2, gain);
}

static enum tern_result build_dense(struct tern_model *model, const uint32_t *sizes, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        enum gain gain = i + 2 == count ? LAST : BEFORE_RELU;
        TERN_TRY(add_dense(model, (unsigned)i + 1, sizes[i + 1], sizes[i], gain));
    }
    return TERN_OK;
}

static enum tern_result build_one_layer(struct tern_model *model, const uint32_t *sizes,
                                        size_t count)
{
    return count == 2 ? build_dense(model, sizes, count) : TERN_ERR_ARGUMENT;
}

// Builds the same layers as softmax; take_loss() requires a loss.
static enum tern_result build_linear(struct tern_model *model, const uint32_t *sizes, size_t count)
{
    return TERN_LOSSES ? build_one_layer(model, sizes, count) : TERN_ERR_ARGUMENT;
}

static enum tern_result build_mlp(struct tern_model *model, const uint32_t *sizes, size_t count)
{
    return count >= 3 ? build_dense(model, sizes, count) : TERN_ERR_ARGUMENT;
}

static enum tern_result add_conv(struct tern_model *model, unsigned number, uint32_t out,
                                 uint32_t in)
{
    const uint32_t dims[] = {out, TERN_KERNEL_SIDE, TERN_KERNEL_SIDE, in};
    return add_layer(model, "conv", number, dims, 4, BEFORE_RELU);
}

// sizes: H, W, C, F1, F2, classes.
static enum tern_result build_cnn(struct tern_model *model, const uint32_t *sizes, size_t count)
{
    if (!TERN_CONVOLUTIONS || count != 6 || sizes[0] < 4 || sizes[1] < 4) {
        return TERN_ERR_ARGUMENT;
    }
    uint64_t pixels = (uint64_t)(sizes[0] / 4) * (sizes[1] / 4);
    if (pixels > TERN_MODEL_MAX_VALUES || pixels * sizes[4] > TERN_MODEL_MAX_VALUES) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(add_conv(model, 1, sizes[3], sizes[2]));
    TERN_TRY(add_conv(model, 2, sizes[4], sizes[3]));
    return add_dense(model, 1, sizes[5], (uint32_t)(pixels * sizes[4]), LAST);
}

static const struct {
    const char *prefix;
    const char *separators; // the characters after the first sizes; '-' after all others
    enum tern_result (*build)(struct tern_model *model, const uint32_t *sizes, size_t count);
} families[] = {
    {"softmax:", "", build_one_layer},
    {"linear:", "", build_linear},
    {"mlp:", "", build_mlp},
    {"cnn:", "xx", build_cnn},
};

#define LOSS_KEY ",loss="

static const char *const loss_names[TERN_LOSS_COUNT] = {"cross-entropy", "mse", "mae",
                                                        "reconstruction"};

const char *tern_loss_name(enum tern_loss loss)
{
    return loss_names[loss];
}

static bool is_text(const char *a, const char *b)
{
    const size_t len = strlen(a);
    return len == strlen(b) && memcmp(a, b, len) == 0;
}

// Returns the loss with exactly this name; TERN_LOSS_COUNT: none.
static enum tern_loss loss_of(const char *name)
{
    enum tern_loss loss = TERN_LOSS_CROSS_ENTROPY;
    while (loss < TERN_LOSS_COUNT && !is_text(name, loss_names[loss])) {
        loss++;
    }
    return loss;
}

// Returns the text after the sizes: it starts with a comma or is empty.
static const char *behind_sizes(const char *spec)
{
    while (*spec != '\0' && *spec != ',') {
        spec++;
    }
    return spec;
}

enum tern_loss tern_model_spec_loss(const char *spec)
{
    const char *name = behind_sizes(spec);
    const enum tern_loss loss =
        tern_skip_prefix(&name, LOSS_KEY) ? loss_of(name) : TERN_LOSS_CROSS_ENTROPY;
    return loss < TERN_LOSS_COUNT ? loss : TERN_LOSS_CROSS_ENTROPY;
}

// Returns true if the loss allows that number of outputs.
static bool loss_fits(enum tern_loss loss, uint32_t inputs, uint32_t outputs)
{
    return loss == TERN_LOSS_CROSS_ENTROPY ||
           outputs == (loss == TERN_LOSS_RECONSTRUCTION ? inputs : 1);
}

// Sets the model's loss. Refuses "loss=cross-entropy", the default, so that each model has only one
// spec.
static enum tern_result take_loss(struct tern_model *model, const char *spec)
{
    const char *name = behind_sizes(spec);
    const char *family = spec;
    if (!TERN_LOSSES) {
        return TERN_OK; // is_end() has refused a spec with a loss
    }
    const bool linear = tern_skip_prefix(&family, "linear:");
    if (*name == '\0') {
        return linear ? TERN_ERR_ARGUMENT : TERN_OK;
    }
    const enum tern_loss loss = tern_skip_prefix(&name, LOSS_KEY) ? loss_of(name) : TERN_LOSS_COUNT;
    if (loss == TERN_LOSS_COUNT || loss == TERN_LOSS_CROSS_ENTROPY ||
        tern_skip_prefix(&family, "softmax:") ||
        !loss_fits(loss, tern_model_spec_inputs(spec),
                   model->tensors[model->tensor_count - 1].count)) {
        return TERN_ERR_ARGUMENT;
    }
    model->loss = loss;
    return TERN_OK;
}

static bool is_end(const char *text)
{
    return *text == '\0' || (TERN_LOSSES && *text == ',');
}

// Reads a decimal number of at least 1 without leading zeros; returns its end, or NULL.
static const char *read_size(const char *text, uint32_t *size)
{
    uint64_t value = 0;
    if (*text < '1' || *text > '9') {
        return NULL;
    }
    text = tern_get_decimal(text, &value);
    // tern_model_add() reports a size that is too large.
    *size = value <= TERN_MODEL_MAX_VALUES ? (uint32_t)value : TERN_MODEL_MAX_VALUES + 1;
    return text;
}

// Reads the sizes of a spec, up to its end or its loss; returns their number, or 0 if the text is
// malformed.
static size_t read_sizes(const char *text, const char *separators, uint32_t sizes[MAX_SIZES])
{
    size_t count = 0;
    for (;;) {
        text = count < MAX_SIZES ? read_size(text, &sizes[count]) : NULL;
        if (text == NULL) {
            return 0;
        }
        count++;
        if (is_end(text)) {
            return count;
        }
        if (*text++ != (*separators != '\0' ? *separators : '-')) {
            return 0;
        }
        separators += *separators != '\0';
    }
}

enum tern_result tern_model_from_spec(struct tern_model *model, const char *spec)
{
    tern_model_clear(model);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *rest = spec;
        if (!tern_skip_prefix(&rest, families[i].prefix)) {
            continue;
        }
        uint32_t sizes[MAX_SIZES];
        size_t count = read_sizes(rest, families[i].separators, sizes);
        if (count == 0) {
            return TERN_ERR_ARGUMENT;
        }
        TERN_TRY(families[i].build(model, sizes, count));
        TERN_TRY(take_loss(model, spec));
        return tern_model_layout(model);
    }
    return TERN_ERR_ARGUMENT;
}

// Returns true if a built-in family has the spec's prefix. The spec of an imported model has a hash
// that may look like a size.
static bool is_built_in(const char *spec)
{
    bool known = false;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *rest = spec;
        known = known || tern_skip_prefix(&rest, families[i].prefix);
    }
    return known;
}

uint32_t tern_model_spec_inputs(const char *spec)
{
    uint32_t inputs = is_built_in(spec) ? 1 : 0;
    while (*spec != '\0' && *spec != ':') {
        spec++;
    }
    while (*spec == ':' || *spec == 'x') {
        uint32_t size;
        spec = read_size(spec + 1, &size);
        inputs = spec != NULL ? inputs * size : 0;
        spec = spec != NULL ? spec : "";
    }
    return inputs;
}

uint32_t tern_model_spec_columns(const char *spec)
{
    const enum tern_loss loss = tern_model_spec_loss(spec);
    const uint32_t inputs = tern_model_spec_inputs(spec);
    return inputs > 0 ? inputs + (loss == TERN_LOSS_MSE || loss == TERN_LOSS_MAE) : 0;
}
