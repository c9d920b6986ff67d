// plan prints what a federation would need and cost: processor time, memory, disk and bytes. It calculates from the settings
// and the constants of docs/SCALE.md; a federation in the state directory gives the model and the number of clients.
#include "cli/estimates.h"
#include "cli/serve_config.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "codec/codec.h"
#include "hosted/system.h"
#include "hosted/terminal.h"
#include "meter/meter.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Constants of a core of 3.1 GHz (docs/SCALE.md, "Constants").
#define REQUESTS_MS                                                                                \
    0.31            // a client's round without its values: a resumed TLS session, check-in, update
#define IDLE_MS 0.3 // a check-in between rounds
#define IDLE_DAY_BYTES 1900.0    // on the wire, of a device that no round invites
#define MEMORY_BYTES 45e6        // of a service without clients
#define VALUE_MEMORY 23.0        // model, merging and downloads, for each value
#define CLIENT_MEMORY 1800.0     // for each enrolled client
#define CONNECTION_MEMORY 23.8e3 // for each open connection
#define CONNECTED 0.1            // assumed share of a round's clients that are connected at once
#define WRITTEN 3.2              // bytes written to disk for each byte of an update

// Assumed prices in USD.
#define DEVICE_GB "1" // --device-price
#define OUT_GB "0.05" // --out-price
#define MACHINE 25.0  // a month of two cores and 4 GB of memory
#define MACHINE_CORES 2.0
#define MACHINE_MEMORY 4e9
#define DISK_GB 0.1 // a month

// MemoryMax of the systemd unit: that of configs/systemd, or the estimate and a quarter, in whole steps.
#define UNIT_MEMORY 1024.0 // MiB
#define UNIT_STEP 256.0    // MiB
#define MIB 1048576.0

#define CLIENTS 1000 // enrolled, unless the federation has clients
#define DAY_MS 86400000.0
#define MONTH_DAYS 30.0

enum unit { COUNT, SECONDS, BYTES, USD };

// One line of the result.
struct row {
    const char *key; // in JSON
    const char *text;
    enum unit unit;
    double value;
};

#define ROWS_MAX 24

struct plan {
    double clients;
    double slowness;  // processor time of this machine over that of the constants' machine
    double device_gb; // prices
    double out_gb;
    double unit_mib; // MemoryMax
    struct row rows[ROWS_MAX];
    size_t count;
};

// --- This machine's speed

#define TRIAL_VALUES 100000
#define TRIALS 20
// Least processor time for each value of the constants' machine: encoding and adding with 3lc.
#define REFERENCE_NS 1.0

// Lays out a model of one tensor.
static enum tern_result lay_out(struct tern_model *model, uint32_t values)
{
    tern_model_clear(model);
    TERN_TRY(tern_model_add(model, "values", &values, 1, 1));
    return tern_model_layout(model);
}

// Sets *ns to the least processor time for each value to encode changes and to add them to a model.
static enum tern_result measure_trials(float *values, float *sum, uint8_t *bytes, size_t size,
                                       double *ns)
{
    static struct tern_model model;
    struct tern_codec codec;
    TERN_TRY(tern_codec_parse("3lc:s=1.5", &codec, NULL));
    TERN_TRY(lay_out(&model, TRIAL_VALUES));
    *ns = INFINITY;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        size_t written;
        tern_model_init_weights(&model, trial, values);
        for (size_t i = 0; i < TRIAL_VALUES; i++) {
            values[i] *= values[i] * values[i]; // few values of large magnitude, as changes have
        }
        const uint64_t began = tern_thread_cpu_ns();
        TERN_TRY(tern_codec_encode(&codec, NULL, values, TRIAL_VALUES, bytes, size, &written));
        TERN_TRY(tern_codec_accumulate(bytes, written, 1, sum, TRIAL_VALUES));
        *ns = fmin(*ns, (double)(tern_thread_cpu_ns() - began) / TRIAL_VALUES);
    }
    return TERN_OK;
}

static int measure(const struct tern_cli *cli, struct plan *plan)
{
    const size_t size = tern_codec_bound_any(TRIAL_VALUES);
    float *values = malloc(TRIAL_VALUES * sizeof *values);
    float *sum = calloc(TRIAL_VALUES, sizeof *sum);
    uint8_t *bytes = malloc(size);
    double ns = 0;
    const enum tern_result result = values == NULL || sum == NULL || bytes == NULL
                                        ? TERN_ERR_NO_MEMORY
                                        : measure_trials(values, sum, bytes, size, &ns);
    free(values);
    free(sum);
    free(bytes);
    plan->slowness = ns / REFERENCE_NS;
    return tern_cli_check(cli, result, "the speed of this machine cannot be measured: %s",
                          tern_result_name(result));
}

// --- The calculation

static double add(struct plan *plan, const char *key, const char *text, enum unit unit,
                  double value)
{
    plan->rows[plan->count++] = (struct row){key, text, unit, value};
    return value;
}

// Adds what the aggregator needs. Returns its price of a month.
static double add_aggregator(struct plan *plan, const struct tern_aggregator_settings *s,
                             const struct tern_federation_config *config,
                             const struct tern_model *model, const struct tern_spending *spending,
                             double rounds)
{
    const struct tern_round_time time =
        tern_round_time(config, model, (uint64_t)plan->clients, NULL);
    const double cohort = time.clients;
    const double round_s = plan->slowness * (cohort * REQUESTS_MS / 1e3 + time.seconds);
    const double idle_s = plan->slowness * plan->clients * IDLE_MS / 1e3;
    const double up = spending->update_bytes * cohort;
    const double beside =
        (spending->round_bytes - spending->update_bytes - spending->download_bytes) / 2;
    const double idle = IDLE_DAY_BYTES / 2 * plan->clients;
    add(plan, "round_clients", "clients of a round", COUNT, cohort);
    add(plan, "rounds_a_day", "rounds a day", COUNT, rounds);
    add(plan, "round_seconds", "processor time of a round", SECONDS, round_s);
    add(plan, "downloads_seconds", "of these, to make downloads, one after the other", SECONDS,
        plan->slowness * time.seconds);
    const double cores = add(plan, "cores", "cores, mean of a day", COUNT,
                             (round_s * rounds + idle_s) / (DAY_MS / 1e3));
    const double memory =
        add(plan, "memory", "memory", BYTES,
            MEMORY_BYTES + VALUE_MEMORY * model->count + CLIENT_MEMORY * plan->clients +
                CONNECTION_MEMORY * CONNECTED * cohort);
    plan->unit_mib = fmax(UNIT_MEMORY, ceil(1.25 * memory / MIB / UNIT_STEP) * UNIT_STEP);
    const double disk =
        add(plan, "disk", "disk", BYTES,
            (double)tern_disk_need_bytes(s, config, model, (uint64_t)plan->clients));
    add(plan, "written_a_day", "written to disk a day", BYTES, WRITTEN * up * rounds);
    add(plan, "in_a_month", "bytes in, a month", BYTES,
        MONTH_DAYS * ((up + beside * cohort) * rounds + idle));
    const double out =
        add(plan, "out_a_month", "bytes out, a month", BYTES,
            MONTH_DAYS * ((spending->download_bytes + beside) * cohort * rounds + idle));
    const double machines = fmax(ceil(cores / MACHINE_CORES), ceil(memory / MACHINE_MEMORY));
    return add(plan, "aggregator_price", "price of machine, disk and bytes out, a month", USD,
               machines * MACHINE + disk / 1e9 * DISK_GB + out / 1e9 * plan->out_gb);
}

// Returns the bytes of all devices a month with so many bytes of a client's round.
static double devices_bytes(const struct plan *plan, double cohort, double rounds,
                            double round_bytes)
{
    return MONTH_DAYS * (cohort * rounds * round_bytes + IDLE_DAY_BYTES * plan->clients);
}

static void add_devices(struct plan *plan, const struct tern_model *model,
                        const struct tern_spending *spending, double cohort, double rounds)
{
    const double float32 = (double)tern_price(TERN_PRICE_RESUMED, 3, 8 * (uint64_t)model->count);
    const double bytes = devices_bytes(plan, cohort, rounds, spending->round_bytes);
    add(plan, "client_round", "bytes of a device's round", BYTES, spending->round_bytes);
    add(plan, "device_a_month", "bytes of a device, mean of a month", BYTES, bytes / plan->clients);
    add(plan, "device_price", "price for a device, a month", USD,
        bytes / plan->clients / 1e9 * plan->device_gb);
    add(plan, "devices_price", "price for all devices, a month", USD,
        bytes / 1e9 * plan->device_gb);
    add(plan, "devices_float32_price", "the same with float32 in both directions", USD,
        devices_bytes(plan, cohort, rounds, float32) / 1e9 * plan->device_gb);
}

// --- Options

// Reads a price of zero or more.
static int read_price(const struct tern_cli *cli, const char *name, const char *usual,
                      double *price)
{
    const char *text = tern_cli_option(cli, name, usual);
    char *end;
    *price = strtod(text, &end);
    return end != text && *end == '\0' && *price >= 0 && *price <= 1e9
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "--%s '%s' must be a price in USD, for example 0.5", name, text);
}

// Overrides a setting by an option.
static int override(const struct tern_cli *cli, const char *option, const char *setting)
{
    char assignment[128];
    char why[512];
    const char *text = tern_cli_option(cli, option, NULL);
    if (text == NULL) {
        return TERN_EXIT_OK;
    }
    snprintf(assignment, sizeof assignment, "%s=%.64s", setting, text);
    return tern_cli_check(
        cli, tern_settings_set(cli->program->settings, cli->program->values, assignment, why),
        "--%s: %s", option, why);
}

// Sets the model, and the number of clients, to those of the federation in the state directory.
static int read_federation(struct tern_cli *cli, struct tern_model *model,
                           struct tern_db_federation *federation, uint64_t *clients)
{
    struct tern_db *db;
    struct tern_db_counts counts;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, federation);
    if (result == TERN_OK) {
        result = tern_model_build(model, federation->model_spec, federation->manifest,
                                  federation->manifest_len, federation->model_hash);
    }
    result = result == TERN_OK ? tern_db_counts(db, 0, &counts) : result;
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    *clients = counts.clients > 0 ? counts.clients : *clients;
    tern_db_close(db);
    return TERN_EXIT_OK;
}

// Makes a model of one tensor, that of the federation, or that of federation.model.
static int make_model(struct tern_cli *cli, struct tern_starting_model *start,
                      struct tern_db_federation *federation, uint64_t *clients)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    uint64_t values;
    if (!tern_cli_flag(cli, "values")) {
        return tern_state_has_federation(cli)
                   ? read_federation(cli, &start->model, federation, clients)
                   : tern_starting_model_make(cli, s->federation_model, s->tensors_rules, start,
                                              federation);
    }
    if (tern_cli_number(cli, "values", 0, 1, TERN_MODEL_MAX_VALUES, &values) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    snprintf(federation->model_spec, sizeof federation->model_spec, "%" PRIu64 " values", values);
    return tern_cli_check(cli, lay_out(&start->model, (uint32_t)values),
                          "no model has %" PRIu64 " values", values);
}

// Overrides settings by the options, and reads the prices.
static int read_options(const struct tern_cli *cli, struct plan *plan)
{
    TERN_CLI_TRY(override(cli, "cohort", "round.cohort"));
    TERN_CLI_TRY(override(cli, "interval", "round.min_interval"));
    TERN_CLI_TRY(read_price(cli, "device-price", DEVICE_GB, &plan->device_gb));
    TERN_CLI_TRY(read_price(cli, "out-price", OUT_GB, &plan->out_gb));
    return tern_cli_flag(cli, "measure") ? measure(cli, plan) : TERN_EXIT_OK;
}

// Sets the number of clients, and refuses settings by which a month has no number of rounds or of updates.
static int check_size(const struct tern_cli *cli, uint64_t usual, struct plan *plan)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    uint64_t clients;
    if (tern_cli_number(cli, "clients", usual, 1, UINT32_MAX, &clients) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    if (s->round_cohort > clients) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "a round wants %" PRIu32 " updates, and there are %" PRIu64
                             " clients: lower --cohort, or raise --clients",
                             s->round_cohort, clients);
    }
    if (tern_serve_config_interval_ms(s) == 0) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "rounds open without a pause, so that a month has no number of rounds: "
            "give the time from round to round, for example --interval 1h");
    }
    plan->clients = (double)clients;
    return TERN_EXIT_OK;
}

// --- Output

static void print_value(struct tern_text_table *table, const struct row *row)
{
    char text[TERN_TEXT];
    switch (row->unit) {
    case COUNT:
        tern_text_cell(table, row->value >= 100 ? "%.0f" : "%.2g", row->value);
        break;
    case SECONDS:
        if (row->value < 1) {
            tern_text_cell(table, "%.2g ms", row->value * 1e3);
        } else {
            tern_text_cell(table, "%s", tern_text_duration((uint64_t)(row->value * 1e3), text));
        }
        break;
    case BYTES:
        tern_text_cell(table, "%s", tern_text_bytes(row->value, text));
        break;
    case USD:
        tern_text_cell(table, row->value >= 10 ? "%.0f USD" : "%.2g USD", row->value);
        break;
    }
}

static int print_plan(const struct tern_cli *cli, const struct plan *plan, const char *warning)
{
    static const struct tern_text_column columns[] = {{"WHAT", TERN_TEXT_WORD},
                                                      {"ESTIMATE", TERN_TEXT_NUMBER}};
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    for (size_t i = 0; i < plan->count; i++) {
        tern_text_cell(&table, "%s", plan->rows[i].text);
        print_value(&table, &plan->rows[i]);
    }
    const enum tern_result result = tern_text_table_print(&table, stdout);
    printf("\nPrices: %g USD for a gigabyte of a device, %g USD for one out of the data centre; %g "
           "USD a month for two\n"
           "cores and 4 GB of memory, %g USD for a gigabyte of disk.\n"
           "Processor times: %.2f times those of a core of 3.1 GHz%s. docs/SCALE.md has the "
           "constants.\n",
           plan->device_gb, plan->out_gb, MACHINE, DISK_GB, plan->slowness,
           tern_cli_flag(cli, "measure") ? ", measured" : " (--measure: measure this machine)");
    if (plan->unit_mib > UNIT_MEMORY) {
        printf("The systemd unit allows less memory. systemctl edit tern-aggregator: [Service] "
               "MemoryMax=%.0fM\n",
               plan->unit_mib);
    }
    if (warning[0] != '\0') {
        printf("Warning: %s.\n", warning);
    }
    return tern_cli_check(cli, result, "the plan cannot be printed: %s", tern_result_name(result));
}

static int print_json(const struct tern_cli *cli, const struct plan *plan, const char *warning)
{
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; i < plan->count; i++) {
        cJSON_AddNumberToObject(object, plan->rows[i].key, plan->rows[i].value);
    }
    cJSON_AddNumberToObject(object, "unit_memory_max", plan->unit_mib * MIB);
    cJSON_AddNumberToObject(object, "slowness", plan->slowness);
    cJSON_AddStringToObject(object, "warning", warning);
    return tern_json_print(cli, object);
}

static int make_plan(struct tern_cli *cli, struct plan *plan, struct tern_starting_model *start)
{
    static struct tern_service_config service;
    struct tern_db_federation federation = {.created_ms = 0};
    struct tern_http_limits limits;
    char warning[TERN_ROUND_TIME_MAX] = "";
    uint64_t clients = CLIENTS;
    const struct tern_federation_config *config = &service.federation;
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    TERN_CLI_TRY(tern_serve_config_read(cli, &service));
    TERN_CLI_TRY(make_model(cli, start, &federation, &clients));
    TERN_CLI_TRY(check_size(cli, clients, plan));
    TERN_CLI_TRY(tern_serve_config_fit_model(cli, &start->model, federation.model_spec,
                                             &service.federation, &limits));
    const struct tern_spending spending = tern_spending_estimate(s, config, &start->model);
    const struct tern_round_time time =
        tern_round_time(config, &start->model, (uint64_t)plan->clients, NULL);
    const double rounds = DAY_MS / (double)tern_serve_config_interval_ms(s);
    add(plan, "values", "values of the model", COUNT, start->model.count);
    add(plan, "clients", "clients", COUNT, plan->clients);
    add_aggregator(plan, s, config, &start->model, &spending, rounds);
    add_devices(plan, &start->model, &spending, time.clients, rounds);
    if (!tern_round_time_is_long(&time, warning)) {
        warning[0] = '\0';
    }
    return cli->json ? print_json(cli, plan, warning) : print_plan(cli, plan, warning);
}

int tern_cli_plan(struct tern_cli *cli)
{
    static struct tern_starting_model start;
    struct plan plan = {.slowness = 1};
    TERN_CLI_TRY(read_options(cli, &plan));
    const int code = make_plan(cli, &plan, &start);
    tern_starting_model_free(&start);
    return code;
}
