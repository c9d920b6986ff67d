// report bytes: what crossed the link. report fairness: report_fairness.c.
#include "cli/figures.h"
#include "cli/report_fairness.h"
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <string.h>

enum form { FORM_TABLE, FORM_CSV, FORM_JSON };

static enum form form_of(const struct tern_cli *cli)
{
    if (cli->json) {
        return FORM_JSON;
    }
    return tern_cli_flag(cli, "csv") ? FORM_CSV : FORM_TABLE;
}

// --- Bytes

#define NUMBERS 9

static const char *const number_names[NUMBERS] = {"payload_up", "payload_down", "http_up",
                                                  "http_down",  "tls_up",       "tls_down",
                                                  "wire_up",    "wire_down",    "exchanges"};

struct bytes_report {
    enum form form;
    enum tern_db_meter_group group;
    cJSON *rows;
    struct tern_db_meter total;
};

static void numbers_of(const struct tern_db_meter *row, uint64_t numbers[NUMBERS])
{
    const uint64_t all[NUMBERS] = {row->up.payload, row->down.payload, row->up.http,
                                   row->down.http,  row->up.tls,       row->down.tls,
                                   row->up.wire,    row->down.wire,    row->exchanges};
    memcpy(numbers, all, sizeof all);
}

static const char *group_name(enum tern_db_meter_group group)
{
    switch (group) {
    case TERN_METER_BY_CLIENT:
        return "client";
    case TERN_METER_BY_ROUND:
        return "round";
    case TERN_METER_BY_PURPOSE:
    default:
        return "purpose";
    }
}

static const char *key_of(const struct bytes_report *report, const struct tern_db_meter *row,
                          char text[TERN_TEXT])
{
    if (report->group == TERN_METER_BY_PURPOSE) {
        return tern_purpose_name(row->purpose);
    }
    uint64_t key = report->group == TERN_METER_BY_CLIENT ? row->client : row->round;
    snprintf(text, TERN_TEXT, "%" PRIu64, key);
    return text;
}

static void print_numbers(const char *separator, int width, const struct tern_db_meter *row)
{
    uint64_t numbers[NUMBERS];
    numbers_of(row, numbers);
    for (size_t i = 0; i < NUMBERS; i++) {
        printf("%s%*" PRIu64, separator, width, numbers[i]);
    }
    printf("\n");
}

static void add_numbers(cJSON *object, const struct tern_db_meter *row)
{
    uint64_t numbers[NUMBERS];
    numbers_of(row, numbers);
    for (size_t i = 0; i < NUMBERS; i++) {
        tern_json_u64(object, number_names[i], numbers[i]);
    }
}

static void add_json_row(const struct bytes_report *report, const struct tern_db_meter *row)
{
    cJSON *object = cJSON_CreateObject();
    char text[TERN_TEXT];
    const char *key = key_of(report, row, text);
    if (report->group == TERN_METER_BY_PURPOSE) {
        cJSON_AddStringToObject(object, "purpose", key);
    } else {
        cJSON_AddRawToObject(object, group_name(report->group), key);
    }
    add_numbers(object, row);
    cJSON_AddItemToArray(report->rows, object);
}

static void report_row(struct bytes_report *report, const struct tern_db_meter *row)
{
    char text[TERN_TEXT];
    tern_bytes_add(&report->total.up, &row->up);
    tern_bytes_add(&report->total.down, &row->down);
    report->total.exchanges += row->exchanges;
    switch (report->form) {
    case FORM_CSV:
        printf("%s", key_of(report, row, text));
        print_numbers(",", 0, row);
        break;
    case FORM_JSON:
        add_json_row(report, row);
        break;
    case FORM_TABLE:
    default:
        printf("%-10s", key_of(report, row, text));
        print_numbers(" ", 13, row);
        break;
    }
}

static void print_header(const struct bytes_report *report)
{
    const char *name = group_name(report->group);
    if (report->form == FORM_JSON) {
        return;
    }
    printf(report->form == FORM_CSV ? "%s" : "%-10s", name);
    for (size_t i = 0; i < NUMBERS; i++) {
        printf(report->form == FORM_CSV ? ",%s" : " %13s", number_names[i]);
    }
    printf("\n");
}

// The mean of what one client moves in one round, which is what a user pays.
static void print_mean(const struct tern_figures *figures)
{
    const struct tern_round_bytes *all = &figures->all;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    if (all->participants == 0) {
        return;
    }
    tern_text_bytes(tern_figures_mean(all->up.wire, all->participants), up);
    tern_text_bytes(tern_figures_mean(all->down.wire, all->participants), down);
    printf("\nPer client and round on the wire: %s up, %s down\n", up, down);
    printf("  all bytes of the clients that train, divided by the %" PRIu32
           " updates that were accepted\n",
           all->participants);
    tern_figures_print_outside(figures, "  ");
}

static int finish_bytes(struct tern_cli *cli, struct bytes_report *report,
                        const struct tern_figures *figures)
{
    if (report->form == FORM_CSV) {
        return TERN_EXIT_OK;
    }
    if (report->form == FORM_TABLE) {
        printf("%-10s", "total");
        print_numbers(" ", 13, &report->total);
        print_mean(figures);
        return TERN_EXIT_OK;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "by", group_name(report->group));
    cJSON_AddItemToObject(object, "rows", report->rows);
    add_numbers(cJSON_AddObjectToObject(object, "total"), &report->total);
    tern_figures_add_json(object, figures);
    return tern_json_print(cli, object);
}

static int take_group(struct tern_cli *cli, enum tern_db_meter_group *group)
{
    const char *by = tern_cli_option(cli, "by", "purpose");
    for (int i = TERN_METER_BY_PURPOSE; i <= TERN_METER_BY_ROUND; i++) {
        if (strcmp(by, group_name((enum tern_db_meter_group)i)) == 0) {
            *group = (enum tern_db_meter_group)i;
            return TERN_EXIT_OK;
        }
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "--by '%s' is none of purpose, client, round", by);
}

static int report_bytes(struct tern_cli *cli)
{
    struct bytes_report report = {.form = form_of(cli)};
    struct tern_figures figures;
    struct tern_db *db;
    TERN_CLI_TRY(take_group(cli, &report.group));
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_figures_load(db, &figures);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    report.rows = report.form == FORM_JSON ? cJSON_CreateArray() : NULL;
    print_header(&report);
    struct tern_db_meter row;
    struct tern_db_rows *rows = tern_db_meter_sums(db, report.group);
    while (tern_db_next(rows, &row)) {
        report_row(&report, &row);
    }
    result = tern_db_end(rows);
    if (result != TERN_OK) {
        cJSON_Delete(report.rows);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return finish_bytes(cli, &report, &figures);
}

int tern_cli_report(struct tern_cli *cli)
{
    const char *what = cli->arguments[0];
    if (cli->json && tern_cli_flag(cli, "csv")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--csv and --json exclude each other");
    }
    if (strcmp(what, "bytes") == 0) {
        return report_bytes(cli);
    }
    if (strcmp(what, "fairness") == 0) {
        return tern_report_fairness(cli);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "there is no report '%s'; there are bytes and fairness", what);
}
