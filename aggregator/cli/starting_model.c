#define _GNU_SOURCE // memrchr()
#include "cli/starting_model.h"

#include "cli/service_advice.h"
#include "hosted/files.h"
#include "hosted/safetensors.h"
#include "util/bytes.h"
#include "util/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Rules of tensors

#define RULES_WHY_MAX 512

// The setting tensors.rules: how each tensor of a model is sent. "," or ";" separates rules. A rule is
// "GLOB: RULE"; the first rule whose glob matches a tensor's name counts:
//   *.bias: fuse, bn*.running_mean: dense, embed*: skip
// A backslash makes the next character literal, also a separator: "a\,b*: skip". (In an INI file a blank and ";"
// begin a comment.) A tensor without a matching rule is dense when its name ends in running_mean or running_var
// (statistics of a batch norm), fused when it has fewer than TERN_FUSE_BELOW values, else compressed.

static const char *const names[TERN_RULE_COUNT] = {"compress", "fuse", "dense", "skip", "local"};

enum { GLOB_MAX = 2 * TERN_TENSOR_NAME_MAX };

const char *tern_tensor_rule_name(enum tern_rule rule)
{
    return names[rule];
}

static enum tern_rule default_rule(const struct tern_tensor *tensor)
{
    if (tern_ends_with(tensor->name, "running_mean") ||
        tern_ends_with(tensor->name, "running_var")) {
        return TERN_RULE_DENSE;
    }
    return tensor->count < TERN_FUSE_BELOW ? TERN_RULE_FUSE : TERN_RULE_COMPRESS;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && strchr(" \t\r\n", **text) != NULL) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && strchr(" \t\r\n", (*text)[*len - 1]) != NULL) {
        (*len)--;
    }
}

static bool rule_from_name(const char *text, size_t len, enum tern_rule *rule)
{
    for (int i = 0; i < TERN_RULE_COUNT; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            *rule = (enum tern_rule)i;
            return true;
        }
    }
    return false;
}

// Parses "GLOB: RULE". The last colon separates the two, because a name may contain colons.
static bool read_rule(const char *text, size_t len, char glob[GLOB_MAX], enum tern_rule *rule)
{
    const char *colon = memrchr(text, ':', len);
    if (colon == NULL) {
        return false;
    }
    const char *name = colon + 1;
    size_t name_len = len - (size_t)(name - text);
    size_t glob_len = (size_t)(colon - text);
    trim(&name, &name_len);
    trim(&text, &glob_len);
    if (glob_len == 0 || glob_len >= GLOB_MAX) {
        return false;
    }
    memcpy(glob, text, glob_len);
    glob[glob_len] = '\0';
    return rule_from_name(name, name_len, rule);
}

// Sets the rule of all tensors that its glob matches and no earlier glob did. Returns whether the glob matches any tensor.
static bool apply_rule(const char *glob, enum tern_rule rule, struct tern_model *model,
                       bool decided[TERN_MODEL_MAX_TENSORS])
{
    bool matched = false;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (fnmatch(glob, model->tensors[i].name, 0) != 0) {
            continue;
        }
        matched = true;
        if (!decided[i]) {
            model->tensors[i].rule = rule;
            decided[i] = true;
        }
    }
    return matched;
}

static enum tern_result apply_rules_text(const char *text, size_t len, struct tern_model *model,
                                         bool decided[TERN_MODEL_MAX_TENSORS],
                                         char why[RULES_WHY_MAX])
{
    char glob[GLOB_MAX];
    enum tern_rule rule = TERN_RULE_COMPRESS;
    trim(&text, &len);
    if (len == 0) {
        return TERN_OK; // the list ended in a comma
    }
    if (!read_rule(text, len, glob, &rule)) {
        snprintf(
            why, RULES_WHY_MAX,
            "'%.*s' is not a rule: write GLOB: ACTION, where ACTION is compress, fuse, dense, skip "
            "or local; in a name, write a comma as \\, and a semicolon as \\;",
            (int)(len < 300 ? len : 300), text);
        return TERN_ERR_CONFIG;
    }
    if (!apply_rule(glob, rule, model, decided)) {
        snprintf(why, RULES_WHY_MAX, "no tensor of the model matches '%s'", glob);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

// Returns the length of the first rule. A backslash makes the next character literal, for fnmatch() as well.
static size_t rule_length(const char *rules)
{
    size_t len = 0;
    while (rules[len] != '\0' && rules[len] != ',' && rules[len] != ';') {
        len += rules[len] == '\\' && rules[len + 1] != '\0' ? 2 : 1;
    }
    return len;
}

static enum tern_result check_any_trains(const struct tern_model *model, char why[RULES_WHY_MAX])
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].rule < TERN_RULE_SKIP) {
            return TERN_OK;
        }
    }
    snprintf(why, RULES_WHY_MAX, "no tensor is sent: all are skipped or local");
    return TERN_ERR_CONFIG;
}

// Sets the rule of every tensor of the model, which invalidates its layout.
// TERN_ERR_CONFIG  a rule is malformed, its glob matches no tensor, or no tensor is sent; why is a sentence
static enum tern_result tensor_rules_apply(const char *rules, struct tern_model *model,
                                           char why[RULES_WHY_MAX])
{
    bool decided[TERN_MODEL_MAX_TENSORS] = {false};
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        model->tensors[i].rule = default_rule(&model->tensors[i]);
    }
    for (;;) {
        const size_t len = rule_length(rules);
        TERN_TRY(apply_rules_text(rules, len, model, decided, why));
        if (rules[len] == '\0') {
            return check_any_trains(model, why);
        }
        rules += len + 1;
    }
}

// --- The model

#define FILE_MAX ((size_t)(SIZE_MAX > UINT32_MAX ? 1ull << 34 : 1ull << 30))
#define SPEC_PREFIX "tensors:"
#define COUNTER_NAME "num_batches_tracked" // of a batch norm in PyTorch

enum {
    SPEC_DIGITS = 16,                          // hex digits of the model's hash
    KEPT_BYTES_MAX = 64 << 20,                 // bytes of all untrained tensors
    KEPT_DTYPE_MAX = 16,                       // characters
    KEPT_NAME_MAX = TERN_TENSOR_NAME_MAX + 32, // bytes of "NAME (DTYPE)"
};

void tern_starting_model_free(struct tern_starting_model *start)
{
    free(start->weights);
    free(start->manifest);
    cJSON_free(start->metadata);
    free(start->kept);
    free(start->kept_names);
}

// Encodes the manifest, once all tensors and rules are known, and replaces the model with the one that clients build from
// the manifest.
static int make_manifest(const struct tern_cli *cli, struct tern_starting_model *start,
                         struct tern_db_federation *federation)
{
    start->manifest = malloc(TERN_MANIFEST_MAX);
    if (start->manifest == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the model's manifest");
    }
    start->manifest_len = tern_manifest_encode(&start->model, start->manifest);
    enum tern_result result =
        tern_model_from_manifest(&start->model, start->manifest, start->manifest_len);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot make a manifest of the model: %s",
                                tern_result_sentence(result)));
    federation->manifest = start->manifest;
    federation->manifest_len = start->manifest_len;
    memcpy(federation->model_hash, start->model.hash, TERN_SHA256_SIZE);
    start->weights = calloc(start->model.count, sizeof(float));
    return start->weights != NULL
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %" PRIu32 " values",
                               start->model.count);
}

static int apply_rules(const struct tern_cli *cli, const char *rules, struct tern_model *model)
{
    char why[RULES_WHY_MAX] = "";
    return tern_cli_check(cli, tensor_rules_apply(rules, model, why), "tensors.rules: %s", why);
}

// --- A built-in model

static int build_spec(const struct tern_cli *cli, const char *spec, struct tern_model *model)
{
    enum tern_result result = tern_model_from_spec(model, spec);
    if (result == TERN_ERR_TOO_LARGE) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "model '%s' is too large: at most %u values in %d tensors", spec,
                             TERN_MODEL_MAX_VALUES, TERN_MODEL_MAX_TENSORS);
    }
    return result == TERN_OK
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "model '%s' is not softmax:FEATURES-CLASSES,"
                               " mlp:FEATURES-HIDDEN-...-CLASSES, cnn:HxWxC-F1-F2-CLASSES,"
                               " mlp:FEATURES-HIDDEN-...-1,loss=mse (or mae; linear:FEATURES-1),"
                               " mlp:FEATURES-HIDDEN-...-FEATURES,loss=reconstruction, or the"
                               " name of a .safetensors file",
                               spec);
}

static bool same_rules(const struct tern_model *a, const struct tern_model *b)
{
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        if (a->tensors[i].rule != b->tensors[i].rule) {
            return false;
        }
    }
    return true;
}

// Computes the built-in model's initial weights from the seed, and stores them at the offsets of the layout with rules.
static int fill_seed_weights(const struct tern_cli *cli, const struct tern_model *plain,
                             struct tern_starting_model *start, uint64_t seed)
{
    float *weights = malloc(plain->count * sizeof *weights);
    if (weights == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %" PRIu32 " values",
                             plain->count);
    }
    tern_model_init_weights(plain, seed, weights);
    for (uint32_t i = 0; i < plain->tensor_count; i++) {
        const struct tern_tensor *from = &plain->tensors[i];
        memcpy(start->weights + start->model.tensors[i].offset, weights + from->offset,
               from->count * sizeof *weights);
    }
    free(weights);
    return TERN_EXIT_OK;
}

static int make_built_in(const struct tern_cli *cli, const char *spec, const char *rules,
                         struct tern_starting_model *start, struct tern_db_federation *federation)
{
    static struct tern_model plain;
    if (strlen(spec) >= sizeof federation->model_spec) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "the model spec is longer than %zu characters",
                             sizeof federation->model_spec - 1);
    }
    memcpy(federation->model_spec, spec, strlen(spec) + 1);
    TERN_CLI_TRY(build_spec(cli, spec, &plain));
    start->model = plain;
    TERN_CLI_TRY(apply_rules(cli, rules, &start->model));
    if (same_rules(&plain, &start->model)) {
        memcpy(federation->model_hash, plain.hash, TERN_SHA256_SIZE);
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(make_manifest(cli, start, federation));
    return fill_seed_weights(cli, &plain, start, federation->seed);
}

// --- A file

static int check_entry(const struct tern_cli *cli, const char *path,
                       const struct tern_safetensors_entry *entry,
                       uint32_t dims[TERN_TENSOR_MAX_DIMS], uint32_t *dim_count)
{
    if (strlen(entry->name) >= TERN_TENSOR_NAME_MAX) {
        return tern_cli_fail(cli, TERN_ERR_TOO_LARGE, "%s: the name '%s' is longer than %d bytes",
                             path, entry->name, TERN_TENSOR_NAME_MAX - 1);
    }
    if (!tern_safetensors_dims(entry, dims, TERN_TENSOR_MAX_DIMS, dim_count)) {
        return tern_cli_fail(cli, TERN_ERR_TOO_LARGE,
                             "%s: tensor '%s' has the shape %.100s; at most %d dimensions below"
                             " 2^32 are supported",
                             path, entry->name, entry->shape, TERN_TENSOR_MAX_DIMS);
    }
    return TERN_EXIT_OK;
}

// Returns false for tensors without values or of other types than float, which are only kept for export.
static bool is_trained(const struct tern_safetensors_entry *entry)
{
    return entry->kind != TERN_SAFETENSORS_OTHER && entry->count > 0;
}

static int add_entry(const struct tern_cli *cli, const char *path,
                     const struct tern_safetensors_entry *entry, struct tern_model *model)
{
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count = 0;
    TERN_CLI_TRY(check_entry(cli, path, entry, dims, &dim_count));
    enum tern_result result =
        tern_model_add_by_rule(model, entry->name, dims, dim_count, TERN_RULE_COMPRESS);
    if (result == TERN_ERR_TOO_LARGE) {
        return tern_cli_fail(cli, result,
                             "%s is too large: at most %u values in %d tensors can be trained",
                             path, TERN_MODEL_MAX_VALUES, TERN_MODEL_MAX_TENSORS);
    }
    return tern_cli_check(cli, result, "%s: tensor '%s' cannot be part of a model", path,
                          entry->name);
}

static int add_tensors(const struct tern_cli *cli, const char *path,
                       const struct tern_safetensors *file, struct tern_starting_model *start)
{
    tern_model_clear(&start->model);
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if (is_trained(entry)) {
            TERN_CLI_TRY(add_entry(cli, path, entry, &start->model));
        }
    }
    return start->model.tensor_count > 0
               ? TERN_EXIT_OK
               : tern_cli_fail(
                     cli, TERN_ERR_ARGUMENT,
                     "%s: no tensor of F32, F16 or BF16 has a value, so there is nothing to "
                     "train",
                     path);
}

// Reads the values, with +0 for -0: a payload of zeros has no signs, and clients must hold the same bits.
static int read_values(const struct tern_cli *cli, const char *path,
                       const struct tern_safetensors *file, struct tern_starting_model *start)
{
    const struct tern_tensor *tensor = start->model.tensors;
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if (!is_trained(entry)) {
            continue;
        }
        float *values = start->weights + tensor->offset;
        tern_safetensors_floats(entry, values);
        for (uint32_t k = 0; k < tensor->count; k++) {
            if (!isfinite(values[k])) {
                return tern_cli_fail(cli, TERN_ERR_NON_FINITE,
                                     "%s: value %" PRIu32 " of tensor '%s' is %g", path, k,
                                     tensor->name, (double)values[k]);
            }
            values[k] = values[k] == 0 ? 0 : values[k];
        }
        tensor++;
    }
    return TERN_EXIT_OK;
}

// --- Untrained tensors, which are kept for export

struct kept {
    struct tern_safetensors_tensor tensors[TERN_MODEL_MAX_TENSORS];
    size_t count;
    uint64_t bytes;
};

static int collect_untrained(const struct tern_cli *cli, const char *path,
                             const struct tern_safetensors *file, struct kept *kept)
{
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if (is_trained(entry)) {
            continue;
        }
        TERN_CLI_TRY(check_entry(cli, path, entry, dims, &dim_count));
        if (strlen(entry->dtype) > KEPT_DTYPE_MAX) {
            return tern_cli_fail(cli, TERN_ERR_ARGUMENT, "%s: tensor '%s' has an invalid type",
                                 path, entry->name);
        }
        kept->bytes += entry->data_len; // cannot overflow, because the file is that large
        if (kept->count == TERN_MODEL_MAX_TENSORS || kept->bytes > KEPT_BYTES_MAX) {
            return tern_cli_fail(
                cli, TERN_ERR_TOO_LARGE,
                "%s: '%s' exceeds what is kept for export: at most %d tensors of other types"
                " than F32, F16 and BF16 or without values, and %d MiB. Remove it from the file",
                path, entry->name, TERN_MODEL_MAX_TENSORS, KEPT_BYTES_MAX >> 20);
        }
        kept->tensors[kept->count++] = tern_safetensors_as_read(entry);
    }
    return TERN_EXIT_OK;
}

// Returns "NAME (DTYPE), NAME (DTYPE)", malloc'ed; NULL: no memory.
static char *list_untrained_names(const struct kept *kept)
{
    char *text = calloc(kept->count, KEPT_NAME_MAX);
    size_t used = 0;
    for (size_t i = 0; text != NULL && i < kept->count; i++) {
        const struct tern_safetensors_entry *entry = kept->tensors[i].as_read;
        used += (size_t)snprintf(text + used, KEPT_NAME_MAX, "%s%s (%s)", i > 0 ? ", " : "",
                                 entry->name, entry->dtype);
    }
    return text;
}

static int pack_untrained(const struct tern_cli *cli, const char *path, const struct kept *kept,
                          struct tern_starting_model *start, struct tern_db_federation *federation)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    enum tern_result result =
        tern_safetensors_make(kept->tensors, kept->count, NULL, TERN_SAFETENSORS_F32, &start->kept,
                              &federation->kept_len, why);
    start->kept_names = result == TERN_OK ? list_untrained_names(kept) : NULL;
    if (result != TERN_OK || start->kept_names == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "%s: no memory for the tensors that are kept",
                             path);
    }
    federation->kept = start->kept;
    return TERN_EXIT_OK;
}

static int keep_untrained(const struct tern_cli *cli, const char *path,
                          const struct tern_safetensors *file, struct tern_starting_model *start,
                          struct tern_db_federation *federation)
{
    static struct kept kept;
    TERN_CLI_TRY(collect_untrained(cli, path, file, &kept));
    return kept.count > 0 ? pack_untrained(cli, path, &kept, start, federation) : TERN_EXIT_OK;
}

// --- The whole file

// Warns of batch-norm counters that were cast to float. Training would average and compress such counters with the weights,
// and their large changes would dominate sparse updates.
static void warn_of_counters(const char *path, const struct tern_model *model)
{
    const struct tern_tensor *first = NULL;
    uint32_t count = 0;
    char text[PATH_MAX + TERN_TENSOR_NAME_MAX + 512];
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        if (tensor->rule != TERN_RULE_SKIP && tern_ends_with(tensor->name, COUNTER_NAME)) {
            first = first == NULL ? tensor : first;
            count++;
        }
    }
    if (count > 0) {
        snprintf(text, sizeof text,
                 "%s: %" PRIu32
                 " counter%s (%s) %s cast to float and would be trained and averaged like weights: "
                 "save the file with integers (in Python, tern.save_model()), or freeze them with "
                 "tensors.rules = *" COUNTER_NAME ": skip",
                 path, count, count == 1 ? "" : "s", first->name, count == 1 ? "was" : "were");
        tern_cli_print_advice(text);
    }
}

static int keep_metadata(const struct tern_cli *cli, const struct tern_safetensors *file,
                         struct tern_starting_model *start, struct tern_db_federation *federation)
{
    if (file->metadata == NULL) {
        return TERN_EXIT_OK;
    }
    start->metadata = cJSON_PrintUnformatted(file->metadata);
    federation->metadata = start->metadata;
    return start->metadata != NULL
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the metadata");
}

// Returns the loss in the metadata that `export` writes.
static enum tern_loss loss_of_file(const struct tern_safetensors *file)
{
    const char *spec =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file->metadata, "model"));
    return spec != NULL ? tern_model_spec_loss(spec) : TERN_LOSS_CROSS_ENTROPY;
}

static int make_from_file(const struct tern_cli *cli, const char *path, const char *rules,
                          const struct tern_safetensors *file, struct tern_starting_model *start,
                          struct tern_db_federation *federation)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    TERN_CLI_TRY(add_tensors(cli, path, file, start));
    TERN_CLI_TRY(apply_rules(cli, rules, &start->model));
    warn_of_counters(path, &start->model);
    TERN_CLI_TRY(make_manifest(cli, start, federation));
    TERN_CLI_TRY(read_values(cli, path, file, start));
    TERN_CLI_TRY(keep_untrained(cli, path, file, start, federation));
    TERN_CLI_TRY(keep_metadata(cli, file, start, federation));
    tern_hex_encode(start->model.hash, TERN_SHA256_SIZE, hash);
    const enum tern_loss loss = loss_of_file(file);
    snprintf(federation->model_spec, sizeof federation->model_spec, SPEC_PREFIX "%.*s%s%s",
             SPEC_DIGITS, hash, loss != TERN_LOSS_CROSS_ENTROPY ? ",loss=" : "",
             loss != TERN_LOSS_CROSS_ENTROPY ? tern_loss_name(loss) : "");
    start->model.loss = loss;
    return TERN_EXIT_OK;
}

static int make_imported(const struct tern_cli *cli, const char *path, const char *rules,
                         struct tern_starting_model *start, struct tern_db_federation *federation)
{
    struct tern_safetensors file;
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    uint8_t *bytes = NULL;
    size_t len = 0;
    errno = 0;
    enum tern_result result = tern_file_read_regular(path, FILE_MAX, &bytes, &len);
    if (result == TERN_ERR_ARGUMENT) {
        return tern_cli_fail(cli, result, "%s is not a regular file", path);
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot read %s: %s", path,
                                errno != 0 ? strerror(errno) : tern_result_sentence(result)));
    result = tern_safetensors_parse(bytes, len, &file, why);
    int code = tern_cli_check(cli, result, "%s: %s", path, why);
    if (code == TERN_EXIT_OK) {
        code = make_from_file(cli, path, rules, &file, start, federation);
        tern_safetensors_free(&file);
    }
    free(bytes);
    return code;
}

int tern_starting_model_make(const struct tern_cli *cli, const char *model, const char *rules,
                             struct tern_starting_model *start,
                             struct tern_db_federation *federation)
{
    return tern_ends_with(model, ".safetensors")
               ? make_imported(cli, model, rules, start, federation)
               : make_built_in(cli, model, rules, start, federation);
}
