#include "verbs.h"

#include "measure.h"
#include "specs.h"
#include "tensor_set.h"
#include <stdio.h>
#include <unistd.h>

// clang-format off
#define FIGURES \
    {"bits_per_value", "bits/val", 9, 4}, \
    {"ratio", "ratio", 8, 1}, \
    {"relative_error", "rel. error", 10, 6}, \
    {"density", "density", 8, 4}, \
    {"encode_gb_per_s", "encode", 8, 2}, \
    {"decode_gb_per_s", "decode", 8, 2}
// clang-format on

static const struct column columns[] = {
    {"codec", "codec", 34, TABLE_TEXT},
    FIGURES,
    {.key = NULL},
};

// Columns of the table that also has a row for each tensor.
static const struct column tensor_columns[] = {
    {"codec", "codec", 34, TABLE_TEXT},
    {"tensor", "tensor", 32, TABLE_TEXT},
    FIGURES,
    {.key = NULL},
};

// Seconds of measurement for each codec, divided among all tensors, so that a model with hundreds
// of tensors takes as long as one tensor.
static const double SECONDS = 0.1;

struct comparison {
    const struct tensor_set *set;
    const struct tern_parallel *parallel;
    struct workbench bench;
    struct effort effort;
    struct report report;
    const struct column *columns;
    bool per_tensor;
    bool refused; // a codec could not encode a tensor
};

// Sums over all tensors.
struct total {
    double bytes, values, nonzero, lost, energy, encode, decode;
};

static void add(struct total *total, const struct measurement *m, size_t count)
{
    total->bytes += (double)m->bytes;
    total->values += (double)count;
    total->nonzero += (double)m->info.nonzero;
    total->lost += m->lost;
    total->energy += m->energy;
    total->encode += m->best.encode;
    total->decode += m->best.decode;
}

static cJSON *make_row(const char *spec, const char *tensor, const struct total *total)
{
    double whole = total->values > 0 ? total->values : 1;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "codec", spec);
    cJSON_AddStringToObject(row, "tensor", tensor);
    cJSON_AddNumberToObject(row, "count", total->values);
    cJSON_AddNumberToObject(row, "bytes", total->bytes);
    cJSON_AddNumberToObject(row, "bits_per_value", 8 * total->bytes / whole);
    cJSON_AddNumberToObject(row, "ratio", 4 * total->values / total->bytes);
    cJSON_AddNumberToObject(row, "relative_error",
                            total->energy > 0 ? total->lost / total->energy : 0);
    cJSON_AddNumberToObject(row, "density", total->nonzero / whole);
    cJSON_AddNumberToObject(row, "encode_gb_per_s",
                            tern_float_rate((size_t)total->values, total->encode));
    cJSON_AddNumberToObject(row, "decode_gb_per_s",
                            tern_float_rate((size_t)total->values, total->decode));
    return row;
}

static enum tern_result compare_tensor(struct comparison *c, const struct spec *spec,
                                       const struct tensor *tensor, struct total *total)
{
    struct measurement m;
    struct total one = {.bytes = 0};
    TERN_TRY(tern_measure_codec(&spec->codec, c->parallel, c->set->values + tensor->offset,
                                tensor->count, &c->effort, &c->bench, &m));
    add(total, &m, tensor->count);
    add(&one, &m, tensor->count);
    if (c->per_tensor) {
        tern_report_row(&c->report, "tensors", c->columns,
                        make_row(spec->text, tensor->name, &one));
    }
    return TERN_OK;
}

// Makes the row of a codec that cannot encode some of the values because they are too large.
static cJSON *refused_row(const char *spec)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "codec", spec);
    cJSON_AddStringToObject(row, "refused", "some values are too large for the codec");
    return row;
}

static enum tern_result compare_codec(struct comparison *c, const struct spec *spec)
{
    struct total total = {.bytes = 0};
    for (size_t i = 0; i < c->set->tensor_count; i++) {
        enum tern_result result = compare_tensor(c, spec, &c->set->tensors[i], &total);
        if (result == TERN_ERR_NON_FINITE) {
            c->refused = true;
            tern_report_row(&c->report, "codecs", c->columns, refused_row(spec->text));
            return TERN_OK;
        }
        TERN_TRY(result);
    }
    tern_report_row(&c->report, "codecs", c->columns, make_row(spec->text, "(all)", &total));
    return TERN_OK;
}

// Shows progress in a line that the next output overwrites.
static void show_progress(size_t done, const struct spec_list *list)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, done < list->count ? "\r\033[K%zu/%zu %s\r" : "\r\033[K", done + 1,
                list->count, done < list->count ? list->specs[done].text : "");
    }
}

static enum tern_result compare_all(struct comparison *c, const struct spec_list *list)
{
    if (c->per_tensor) {
        cJSON_AddArrayToObject(c->report.json, "tensors");
    }
    tern_report_table(
        &c->report, "codecs",
        "ratio: size relative to float32. rel. error: squared error divided by the squared\n"
        "values. encode, decode: GB/s of float32.",
        c->columns);
    enum tern_result result = TERN_OK;
    for (size_t i = 0; i < list->count && result == TERN_OK; i++) {
        show_progress(i, list);
        result = compare_codec(c, &list->specs[i]);
    }
    show_progress(list->count, list);
    return result;
}

static size_t largest_tensor(const struct tensor_set *set)
{
    size_t largest = 0;
    for (size_t i = 0; i < set->tensor_count; i++) {
        largest = set->tensors[i].count > largest ? set->tensors[i].count : largest;
    }
    return largest;
}

static int compare_set(const struct tern_cli *cli, const struct tern_parallel *parallel,
                       const struct tensor_set *set, const struct spec_list *list)
{
    struct comparison c = {
        .set = set, .parallel = parallel, .per_tensor = tern_cli_flag(cli, "per-tensor")};
    c.effort = (struct effort){
        .least = 2, .most = 50, .seconds = SECONDS / (double)(set->tensor_count + 1)};
    c.columns = c.per_tensor ? tensor_columns : columns;
    if (!tern_tensor_set_is_finite(set)) {
        return tern_tensor_set_fail(cli, set, "any codec");
    }
    if (!tern_workbench_make(&c.bench, largest_tensor(set))) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", set->count);
    }
    c.report = (struct report){.json = cJSON_CreateObject(), .text = !cli->json};
    cJSON_AddNumberToObject(c.report.json, "count", (double)set->count);
    enum tern_result result = compare_all(&c, list);
    if (result == TERN_OK && cli->json) {
        tern_print_json(c.report.json);
    } else if (result == TERN_OK && c.refused) {
        puts("Dashes: some of the values are too large for the codec.");
    }
    cJSON_Delete(c.report.json);
    tern_workbench_free(&c.bench);
    return result == TERN_OK ? TERN_EXIT_OK
                             : tern_cli_fail(cli, result, "%s", tern_result_sentence(result));
}

static int compare_file(const struct tern_cli *cli, const struct spec_list *list)
{
    struct tensor_set set;
    struct threads threads;
    enum tern_result result =
        tern_tensor_set_read(cli, cli->arguments[0], tern_cli_option(cli, "tensor", NULL), &set);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    result = tern_threads_make(cli, &threads);
    int code = (int)tern_cli_exit_code(result);
    if (result == TERN_OK) {
        code = compare_set(cli, threads.parallel, &set, list);
        tern_threads_free(&threads);
    }
    tern_tensor_set_free(&set);
    return code;
}

int tern_verb_compare(struct tern_cli *cli)
{
    struct spec_list list;
    enum tern_result result =
        tern_spec_list_parse(cli, tern_cli_option(cli, "codecs", NULL), &list);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    int code = compare_file(cli, &list);
    tern_spec_list_free(&list);
    return code;
}
