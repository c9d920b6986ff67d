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
    struct tern_text_table table;
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

static const char *group_heading(enum tern_db_meter_group group)
{
    switch (group) {
    case TERN_METER_BY_CLIENT:
        return "CLIENT";
    case TERN_METER_BY_ROUND:
        return "ROUND";
    case TERN_METER_BY_PURPOSE:
    default:
        return "PURPOSE";
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

static void print_csv_row(const char *key, const struct tern_db_meter *row)
{
    uint64_t numbers[NUMBERS];
    numbers_of(row, numbers);
    printf("%s", key);
    for (size_t i = 0; i < NUMBERS; i++) {
        printf(",%" PRIu64, numbers[i]);
    }
    printf("\n");
}

static void add_direction(struct tern_text_table *table, const char *key, const char *direction,
                          const struct tern_bytes *bytes)
{
    tern_text_cell(table, "%s", key);
    tern_text_cell(table, "%s", direction);
    tern_text_cell(table, "%" PRIu64, bytes->payload);
    tern_text_cell(table, "%" PRIu64, bytes->http);
    tern_text_cell(table, "%" PRIu64, bytes->tls);
    tern_text_cell(table, "%" PRIu64, bytes->wire);
}

// A line for each direction: layers beside each other are 80 columns wide, both directions would be 136.
static void add_lines(struct tern_text_table *table, const char *key,
                      const struct tern_db_meter *row)
{
    add_direction(table, key, "up", &row->up);
    tern_text_cell(table, "%" PRIu64, row->exchanges);
    add_direction(table, key, "down", &row->down);
    tern_text_cell(table, "%s", "");
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
        print_csv_row(key_of(report, row, text), row);
        break;
    case FORM_JSON:
        add_json_row(report, row);
        break;
    case FORM_TABLE:
    default:
        add_lines(&report->table, key_of(report, row, text), row);
        break;
    }
}

static void print_csv_header(const struct bytes_report *report)
{
    printf("%s", group_name(report->group));
    for (size_t i = 0; i < NUMBERS; i++) {
        printf(",%s", number_names[i]);
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
        add_lines(&report->table, "total", &report->total);
        if (tern_text_table_print(&report->table, stdout) != TERN_OK) {
            return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "memory could not be had");
        }
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
    struct tern_text_column columns[] = {
        {"PURPOSE", TERN_TEXT_WORD},     {"DIRECTION", TERN_TEXT_WORD},
        {"PAYLOAD", TERN_TEXT_NUMBER},   {"HTTP", TERN_TEXT_NUMBER},
        {"TLS", TERN_TEXT_NUMBER},       {"WIRE", TERN_TEXT_NUMBER},
        {"EXCHANGES", TERN_TEXT_NUMBER},
    };
    struct tern_figures figures;
    struct tern_db *db;
    TERN_CLI_TRY(take_group(cli, &report.group));
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_figures_load(db, &figures);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    report.rows = report.form == FORM_JSON ? cJSON_CreateArray() : NULL;
    columns[0].heading = group_heading(report.group);
    report.table = (struct tern_text_table)TERN_TEXT_TABLE(columns);
    if (report.form == FORM_CSV) {
        print_csv_header(&report);
    }
    struct tern_db_meter row;
    struct tern_db_rows *rows = tern_db_meter_sums(db, report.group);
    while (tern_db_next(rows, &row)) {
        report_row(&report, &row);
    }
    result = tern_db_end(rows);
    if (result != TERN_OK) {
        cJSON_Delete(report.rows);
        tern_text_table_free(&report.table);
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
