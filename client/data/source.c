#include "data/source.h"
#include "data/readers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tern_data_limits default_limits = {
    .max_bytes = 1ull << 32,
    .max_examples = 1u << 24,
    .max_features = 1u << 20,
    .max_classes = 4096,
};

#define MAX_CLASSES 65536u // labels are uint16_t

static struct tern_data_limits apply_default_limits(const struct tern_data_limits *given)
{
    struct tern_data_limits limits = default_limits;
    if (given == NULL) {
        return limits;
    }
    limits.max_bytes = given->max_bytes > 0 ? given->max_bytes : limits.max_bytes;
    limits.max_examples = given->max_examples > 0 ? given->max_examples : limits.max_examples;
    limits.max_features = given->max_features > 0 ? given->max_features : limits.max_features;
    limits.max_classes = given->max_classes > 0 ? given->max_classes : limits.max_classes;
    limits.max_classes = limits.max_classes < MAX_CLASSES ? limits.max_classes : MAX_CLASSES;
    return limits;
}

static const struct {
    const char *name;
    bool file;    // the name of a file or folder follows the colon
    bool selects; // the reader reads only the examples that spec->part selects
    tern_reader_fn *open;
} kinds[] = {
    {"digits", false, false, tern_read_digits},  {"sensors", false, false, tern_read_sensors},
    {"audio", false, false, tern_read_audio},    {"idx", true, true, tern_read_idx},
    {"cifar10", true, false, tern_read_cifar10}, {"csv", true, false, tern_read_csv},
    {"npy", true, false, tern_read_npy},         {"npz", true, false, tern_read_npz},
};

// Removes the examples that spec->part does not select.
static enum tern_result reduce(const struct tern_data_spec *spec, struct tern_data *data)
{
    struct tern_partition partition = {0};
    struct tern_view shard;
    if (!spec->part->test) {
        tern_dataset_release(&data->test);
    }
    if (spec->part->partition == NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_shard_choose(spec, &data->train, &partition, &shard));
    enum tern_result result = tern_shard_keep(spec, &shard, &data->train);
    tern_partition_free(&partition);
    return result;
}

// Refuses a spec that lacks the file or folder that its kind needs, or that has one although its kind reads none.
static enum tern_result refuse_path(const struct tern_data_spec *spec, const char *kind, bool file,
                                    const char *options)
{
    const bool images = strcmp(kind, "idx") == 0;
    return file ? tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                   "names no file or folder: write %s:PATH%s, or set data.dir "
                                   "(--data-dir of ./tern experiment)%s",
                                   kind, options[0] != '\0' ? ",..." : "",
                                   images ? "; Debian's package dataset-fashion-mnist has "
                                            "Fashion-MNIST in /usr/share/datasets/fashion-mnist"
                                          : "")
                : tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                   "takes options only, no file: %s:key=value", kind);
}

static enum tern_result refuse_kind(const struct tern_data_spec *spec)
{
    const size_t len = strcspn(spec->kind, ",");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (spec->kind[len] == ',' && strlen(kinds[i].name) == len &&
            memcmp(spec->kind, kinds[i].name, len) == 0) {
            return refuse_path(spec, kinds[i].name, kinds[i].file, spec->kind + len);
        }
    }
    return tern_spec_refuse(
        spec, TERN_ERR_CONFIG,
        "no data of the kind '%.60s'; known: digits, sensors, audio, idx, cifar10, "
        "csv, npy, npz",
        spec->kind);
}

static enum tern_result open_kind(struct tern_data_spec *spec,
                                  const struct tern_data_limits *limits, struct tern_data *data)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(spec->kind, kinds[i].name) != 0) {
            continue;
        }
        if (kinds[i].file != (spec->path[0] != '\0')) {
            return refuse_path(spec, spec->kind, kinds[i].file, "");
        }
        TERN_TRY(kinds[i].open(spec, limits, data));
        return kinds[i].selects ? TERN_OK : reduce(spec, data);
    }
    return refuse_kind(spec);
}

enum tern_result tern_dataset_open_part(const char *text, const struct tern_data_limits *limits,
                                        const struct tern_data_part *part, struct tern_data *data,
                                        char why[TERN_DATA_WHY_MAX])
{
    struct tern_data_limits bounds = apply_default_limits(limits);
    struct tern_data_spec spec;
    memset(data, 0, sizeof *data);
    why[0] = '\0';
    TERN_TRY(tern_data_spec_parse(&spec, text, why));
    spec.part = part;
    enum tern_result result = open_kind(&spec, &bounds, data);
    if (result != TERN_OK) {
        tern_data_close(data);
    } else {
        why[0] = '\0'; // deletes messages about file names that were tried and do not exist
    }
    return result;
}

enum tern_result tern_dataset_open(const char *text, const struct tern_data_limits *limits,
                                   struct tern_data *data, char why[TERN_DATA_WHY_MAX])
{
    const struct tern_data_part everything = {.test = true};
    return tern_dataset_open_part(text, limits, &everything, data, why);
}

bool tern_data_next_note(const char **rest, char note[TERN_DATA_WHY_MAX])
{
    if (*rest == NULL || **rest == '\0') {
        return false;
    }
    const size_t len = strcspn(*rest, "\n");
    snprintf(note, TERN_DATA_WHY_MAX, "%.*s", (int)len, *rest);
    *rest += len + ((*rest)[len] == '\n');
    return true;
}

void tern_data_close(struct tern_data *data)
{
    tern_dataset_release(&data->train);
    tern_dataset_release(&data->test);
    tern_name_set_free(&data->groups);
    tern_name_set_free(&data->classes);
    free(data->labelled);
    data->labelled = NULL;
    free(data->notes);
    data->notes = NULL;
}
