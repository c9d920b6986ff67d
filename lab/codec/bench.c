#include "bench.h"

#include "cli/float_file.h"
#include "cli/measure.h"
#include "codec/kernels/kernels.h"
#include <stdio.h>
#include <string.h>

enum { LARGE = 64000000, QUICK = 4000000, MEDIUM = 4000000, LARGEST = 1 << 28 };

static const struct effort thorough = {.least = 2, .most = 200, .seconds = 1.5};
static const struct effort rough = {.least = 2, .most = 50, .seconds = 0.05};

static enum tern_result run_tables(struct bench *bench)
{
    cJSON_AddStringToObject(bench->report.json, "kernels", tern_kernels_name());
    if (bench->report.text) {
        printf("kernels: %s\n", tern_kernels_name());
    }
    TERN_TRY(bench_speed(bench));
    TERN_TRY(bench_coders(bench));
    return bench_rivals(bench);
}

static enum tern_result save(const struct tern_cli *cli, const cJSON *json)
{
    const char *path = tern_cli_option(cli, "save", NULL);
    if (path == NULL) {
        return TERN_OK;
    }
    char *text = cJSON_Print(json);
    enum tern_result result =
        text != NULL ? tern_output_write(cli, path, text, strlen(text)) : TERN_ERR_NO_MEMORY;
    cJSON_free(text);
    return result;
}

static int finish(const struct tern_cli *cli, enum tern_result result, const struct bench *bench)
{
    if (result == TERN_ERR_NO_MEMORY) {
        return tern_cli_fail(cli, result, "out of memory for %zu values: use a smaller --count",
                             bench->large);
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s", tern_result_sentence(result));
    }
    if (cli->json) {
        tern_print_json(bench->report.json);
    }
    return (int)tern_cli_exit_code(save(cli, bench->report.json));
}

// Activates the kernels that --kernels names.
static enum tern_result choose_kernels(const struct tern_cli *cli)
{
    const char *name = tern_cli_option(cli, "kernels", NULL);
    enum tern_result result = tern_kernels_use(name);
    if (result == TERN_OK) {
        return TERN_OK;
    }
    fprintf(stderr, "%s: --kernels %s: %s; built in:", cli->program->name, name,
            result == TERN_ERR_UNKNOWN ? "no kernels have this name"
                                       : "this processor does not support it");
    for (size_t i = 0; tern_kernels_at(i) != NULL; i++) {
        fprintf(stderr, " %s", tern_kernels_at(i));
    }
    fputc('\n', stderr);
    return TERN_ERR_CONFIG;
}

static int run_bench(const struct tern_cli *cli, struct bench *bench)
{
    struct threads threads;
    enum tern_result result = tern_threads_make(cli, &threads);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    bench->parallel = threads.parallel;
    bench->report.json = cJSON_CreateObject();
    cJSON_AddNumberToObject(bench->report.json, "threads", threads.count);
    int code = finish(cli, run_tables(bench), bench);
    cJSON_Delete(bench->report.json);
    tern_threads_free(&threads);
    return code;
}

int verb_codec(struct tern_cli *cli)
{
    uint64_t large = 0;
    bool quick = tern_cli_flag(cli, "quick");
    enum tern_result result =
        tern_cli_number(cli, "count", quick ? QUICK : LARGE, 1, LARGEST, &large);
    if (result == TERN_OK) {
        result = choose_kernels(cli);
    }
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    struct bench bench = {
        .report = {.text = !cli->json},
        .effort = quick ? rough : thorough,
        .large = (size_t)large,
        .medium = large < MEDIUM ? (size_t)large : MEDIUM,
    };
    return run_bench(cli, &bench);
}
