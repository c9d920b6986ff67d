// tern-fleet: many clients in one process, for experiments and load.
#include "fleet/fleet.h"
#include "fleet/global_model.h"
#include "hosted/cli.h"
#include "hosted/host.h"
#include "posix/transport.h"

#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- Settings of the aggregator, in the experiment's file, that the fleet shows and checks

// Sources of settings. path: the INI file; NULL: none. sets: overrides "section.key=value" of the file. Borrowed.
struct plan {
    const char *path;
    char *const *sets;
    unsigned set_count;
};

struct wanted {
    const char *section;
    const char *key;
    char *value;
    size_t size;
};

static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    const struct wanted *wanted = ctx;
    if (strcmp(section, wanted->section) == 0 && strcmp(key, wanted->key) == 0) {
        snprintf(wanted->value, wanted->size, "%s", value);
    }
    return 1;
}

// Writes the value of section.key to value[size], truncated; "": not set.
static void read_planned(const struct plan *plan, const char *section, const char *key, char *value,
                         size_t size)
{
    struct wanted wanted = {section, key, value, size};
    char prefix[128];
    const int len = snprintf(prefix, sizeof prefix, "%s.%s=", section, key);
    value[0] = '\0';
    if (plan->path != NULL) {
        ini_parse(plan->path, on_key, &wanted);
    }
    for (unsigned i = 0; i < plan->set_count; i++) {
        if (strncmp(plan->sets[i], prefix, (size_t)len) == 0) {
            snprintf(value, size, "%s", plan->sets[i] + len);
        }
    }
}

// Returns [round] rounds, the number of planned rounds; 0: not set.
static uint32_t planned_rounds(const struct plan *plan)
{
    char value[32];
    read_planned(plan, "round", "rounds", value, sizeof value);
    return (uint32_t)strtoul(value, NULL, 10);
}

// --- The program

static struct tern_fleet_settings settings;

// Ends the process while clients' threads may still run.
static void end_now(int code)
{
    fflush(stdout);
    fflush(stderr);
    _exit(code);
}

static int read_baseline(const struct tern_cli *cli, const char *path,
                         struct tern_fleet_results *results)
{
    char why[256];
    enum tern_result result = tern_fleet_results_read(path, results, why);
    return result == TERN_OK ? TERN_EXIT_OK : tern_cli_fail(cli, result, "%s", why);
}

static int print_json(const struct tern_cli *cli, const struct tern_fleet_results *results)
{
    char *text = tern_fleet_results_text(results);
    if (text == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "memory is out");
    }
    puts(text);
    free(text);
    return TERN_EXIT_OK;
}

// --- run

static const struct tern_cli_option run_options[] = {
    {"results", "FILE", "write the results as flat JSON"},
    {"baseline", "FILE", "compare with the results of an earlier run"},
    {"no-table", NULL, "do not print the table"},
    {"pooled", NULL, "also train one client with all rows, and compare"},
    {"check", NULL, "only check the settings and open the data"},
    {0},
};

static int show_run(const struct tern_cli *cli, const struct tern_fleet_results *results,
                    const struct tern_fleet_results *baseline)
{
    const char *path = tern_cli_option(cli, "results", NULL);
    if (path != NULL) {
        enum tern_result result = tern_fleet_results_write(results, path);
        if (result != TERN_OK) {
            return tern_cli_fail(cli, result, "%s: %s", path, tern_result_sentence(result));
        }
    }
    if (cli->json) {
        return print_json(cli, results);
    }
    if (!tern_cli_flag(cli, "no-table")) {
        tern_fleet_print_table(results, stdout);
    }
    if (baseline != NULL) {
        tern_fleet_print_comparison(results, "this run", baseline,
                                    tern_cli_option(cli, "baseline", NULL), stdout);
    }
    return TERN_EXIT_OK;
}

static int run(struct tern_cli *cli)
{
    struct tern_fleet_results results = {0};
    struct tern_fleet_results baseline = {0};
    const char *baseline_path = tern_cli_option(cli, "baseline", NULL);
    const struct plan plan = {cli->config, cli->sets, cli->set_count};
    const struct tern_fleet_run fleet = {
        .settings = &settings,
        .planned_rounds = planned_rounds(&plan),
        .pooled = tern_cli_flag(cli, "pooled"),
        .out = cli->json ? stderr : stdout,
        .interrupted = &tern_interrupted,
    };
    char why[512];
    if (baseline_path != NULL && read_baseline(cli, baseline_path, &baseline) != TERN_EXIT_OK) {
        return TERN_EXIT_FAILED;
    }
    if (tern_cli_flag(cli, "check")) {
        char model[256];
        tern_fleet_results_clear(&baseline);
        read_planned(&plan, "federation", "model", model, sizeof model);
        const enum tern_result sound = tern_fleet_check(&settings, model, why);
        return sound == TERN_OK ? TERN_EXIT_OK : tern_cli_fail(cli, sound, "%s", why);
    }
    if (settings.fleet_server[0] == '\0' || settings.fleet_join_code[0] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "fleet.server and fleet.join_code must be set; see tern-fleet --help");
    }
    tern_interrupts_catch();
    enum tern_result result = tern_curl_global();
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "libcurl: %s", tern_result_sentence(result));
    }
    result = tern_fleet_run(&fleet, &results, why);
    if (result == TERN_AGAIN) {
        end_now(TERN_EXIT_INTERRUPTED);
    }
    if (result != TERN_OK) {
        end_now(tern_cli_fail(cli, result, "%s", why));
    }
    int code = show_run(cli, &results, baseline_path != NULL ? &baseline : NULL);
    tern_fleet_results_clear(&results);
    tern_fleet_results_clear(&baseline);
    return code;
}

// --- compare

static int compare(struct tern_cli *cli)
{
    struct tern_fleet_results results = {0};
    struct tern_fleet_results baseline = {0};
    int code = read_baseline(cli, cli->arguments[0], &results);
    if (code == TERN_EXIT_OK) {
        code = read_baseline(cli, cli->arguments[1], &baseline);
    }
    if (code == TERN_EXIT_OK) {
        tern_fleet_print_comparison(&results, cli->arguments[0], &baseline, cli->arguments[1],
                                    stdout);
    }
    tern_fleet_results_clear(&results);
    tern_fleet_results_clear(&baseline);
    return code;
}

// --- evaluate

static void print_client(const char *before, const struct tern_client_score *score)
{
    printf("%s%.4f (client %u%s%s)", before, score->accuracy, score->number,
           score->groups[0] != '\0' ? ": " : "", score->groups);
}

static int evaluate(struct tern_cli *cli)
{
    char why[512];
    struct tern_global_model model;
    const bool averaged = tern_cli_flag(cli, "averaged");
    const enum tern_result result = tern_global_model_measure(
        &settings, cli->arguments[0], cli->arguments[1], averaged, &model, why);
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s", why);
    }
    if (model.whole.no_accuracy) {
        printf("%s model: loss %.4f", averaged ? "averaged" : "global", (double)model.whole.loss);
        for (uint32_t i = 0; i < model.whole.metric_count; i++) {
            printf(", %s %.4f", model.whole.metrics[i].name, (double)model.whole.metrics[i].value);
        }
        printf("\n");
        return TERN_EXIT_OK;
    }
    printf("%s model: accuracy %.4f, macro F1 %.4f, ", averaged ? "averaged" : "global",
           model.accuracy, model.macro_f1);
    if (isnan(model.worst.accuracy)) {
        printf("clients unknown: no test example belongs to their groups\n");
    } else {
        print_client("clients ", &model.worst);
        print_client(" to ", &model.best);
        printf("\n");
    }
    return TERN_EXIT_OK;
}

static const struct tern_cli_option evaluate_options[] = {
    {"averaged", NULL, "MODEL.f32 is the averaged model"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"run", "run a fleet against an aggregator until the federation finishes", "",
     "Enrols fleet.clients clients and an evaluator with one join code and runs each in a thread.\n"
     "Prints a line per round and a table at the end. --json prints the results as JSON\n"
     "and the lines on stderr. The means per client and round are all bytes of all training\n"
     "clients, including enrolment, handshakes and idle check-ins, divided by the number of\n"
     "applied updates.\n"
     "\n"
     "  tern-fleet run --config experiment.ini --set fleet.server=https://127.0.0.1:8443 \\\n"
     "      --set fleet.ca=ca.pem --set fleet.join_code=CODE --results run.json\n"
     "\n"
     "./tern experiment does this and starts the aggregator too.\n",
     run_options, 0, 0, run},
    {"compare", "print two runs side by side", "RUN.json BASELINE.json",
     "Prints accuracy (of the replica) and bytes of two runs, and their ratios.\n"
     "\n"
     "  tern-fleet compare 3lc.json float32.json\n",
     NULL, 2, 2, compare},
    {"evaluate", "measure the global model of a finished run", "RUN.json MODEL.f32",
     "Measures the weights that `tern-aggregator export --global MODEL.f32` wrote after the run, "
     "on\n"
     "the test set of [data], and adds to the run's JSON: global_accuracy, global_loss, macro_f1,\n"
     "class_accuracy, class_precision, class_f1, confusion (a row of answers per class),\n"
     "class_names (where the data name their classes),\n"
     "client_accuracy and client_examples. A client's accuracy is that on the test examples of\n"
     "its own groups (data.partition = natural; client_groups has their names), else the mean of\n"
     "the classes' accuracies, weighted by its mix of classes. A file that is not the model of\n"
     "that run is refused. A run that fleet.patience ended has no model hash: any model of that\n"
     "size is accepted.\n"
     "--averaged adds averaged_accuracy, averaged_loss and averaged_macro_f1, of what `export "
     "--averaged` wrote.\n"
     "\n"
     "  tern-fleet evaluate --config experiment.ini run.json model.f32\n",
     evaluate_options, 2, 2, evaluate},
    {0},
};

int main(int argc, char **argv)
{
    static const struct tern_cli_program program = {
        .name = "tern-fleet",
        .summary = "many Tern clients in one process, for experiments",
        .help =
            "Runs a fleet of real clients, each over its own HTTPS connection, and measures\n"
            "accuracy and bytes. Settings: [fleet] and [data] of the INI file; tern-aggregator\n"
            "may read the same file.\n",
        .verbs = verbs,
        .settings = &tern_fleet_settings_table,
        .values = &settings,
    };
    return tern_cli_main(&program, argc, argv);
}
