#include "cli/proposal.h"

#include "cli/next_steps.h"
#include "cli/proposal_settings.h"
#include "cli/proposal_task.h"
#include "cli/state.h"
#include "hosted/csv_judge.h"
#include "hosted/data_spec.h"
#include "hosted/files.h"
#include "tensor/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_MAX (1ull << 32) // bytes

#define SERVER_INI "aggregator.ini"
#define CLIENT_INI "client.ini"
#define SCALING_CSV "scaling.csv"

void tern_proposal_free(struct tern_proposal *proposal)
{
    tern_csv_profile_free(&proposal->profile);
}

// Appends to a text of TERN_PROPOSAL_LIST_MAX bytes. false when it does not fit.
static bool append(char text[TERN_PROPOSAL_LIST_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool append(char text[TERN_PROPOSAL_LIST_MAX], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(text + used, TERN_PROPOSAL_LIST_MAX - used, format, arguments);
    va_end(arguments);
    return len >= 0 && used + (size_t)len < TERN_PROPOSAL_LIST_MAX;
}

// --- Looking

static int profile(const struct tern_cli *cli, const struct tern_csv_choice *choice,
                   struct tern_proposal *proposal)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    struct tern_input input;
    tern_csv_profile_free(&proposal->profile);
    enum tern_result result = tern_input_open(&input, proposal->data, SAMPLE_MAX, why);
    if (result == TERN_OK) {
        result = tern_csv_profile_read(&input, choice, &proposal->profile);
        tern_input_close(&input);
    }
    return tern_cli_check(cli, result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFIG : result, "--data %s",
                          why);
}

static int read_header(const struct tern_cli *cli, enum tern_csv_header *header)
{
    const char *text = tern_cli_option(cli, "header", "");
    *header = strcmp(text, "yes") == 0  ? TERN_CSV_HEADER_YES
              : strcmp(text, "no") == 0 ? TERN_CSV_HEADER_NO
                                        : TERN_CSV_HEADER_AUTO;
    return *header != TERN_CSV_HEADER_AUTO || text[0] == '\0'
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG, "--header is yes or no, not '%s'", text);
}

static int read_sample(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    struct tern_csv_choice choice = {
        .label = proposal->unlabelled ? NULL : tern_cli_option(cli, "label", NULL),
        .unlabelled = proposal->unlabelled,
        .drop = tern_cli_option(cli, "drop", NULL),
        .group = tern_cli_option(cli, "group", NULL),
        .classes = tern_cli_option(cli, "classes", NULL)};
    TERN_CLI_TRY(read_header(cli, &choice.header));
    return profile(cli, &choice, proposal);
}

// Returns why a column is useless as a feature; NULL: it is useful.
static const char *useless(const struct tern_proposal *proposal, uint32_t column)
{
    return tern_csv_why_useless(&proposal->profile, &proposal->profile.column[column]);
}

static bool append_column(char list[TERN_PROPOSAL_LIST_MAX], const struct tern_csv_profile *profile,
                          uint32_t number)
{
    char text[16];
    return append(list, "%s%s", list[0] != '\0' ? "|" : "",
                  tern_csv_setting_name(profile, number, text));
}

static int refuse_long_list(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "more columns of %s are to be left out than one setting can name: write a "
                         "file without them",
                         proposal->data);
}

// Marks the columns that --drop names.
static int list_dropped(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_columns *columns = &proposal->profile.columns;
    for (uint32_t c = 0; c < columns->count; c++) {
        if (columns->skipped[c] && c != columns->label && c != columns->group &&
            !append_column(proposal->drop, &proposal->profile, c)) {
            return refuse_long_list(cli, proposal);
        }
    }
    return TERN_EXIT_OK;
}

static int choose_columns(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    TERN_CLI_TRY(list_dropped(cli, proposal));
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const char *why = column->feature ? useless(proposal, c) : NULL;
        if (why == NULL) {
            proposal->features += column->feature;
            if (column->feature && tern_csv_has_flags(column) && !cli->json) {
                printf("Read as 1 and 0: column '%s' ('%s', ...).\n", column->name,
                       column->flags.text);
            }
            continue;
        }
        if (!cli->json) {
            printf("Left out: column '%s', since %s.\n", column->name, why);
        }
        if (!append_column(proposal->drop, profile, c)) {
            return refuse_long_list(cli, proposal);
        }
    }
    if (proposal->features == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s has no column of numbers that differ, beside the label's",
                             proposal->data);
    }
    return proposal->task != TERN_TASK_ANOMALY || proposal->features > 1
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "%s has one column to learn from. An autoencoder finds anomalies by "
                               "how columns go together: --task anomaly needs two or more",
                               proposal->data);
}

// A text as a value of a data spec.
static bool append_value(char source[TERN_PROPOSAL_LIST_MAX], const char *key, const char *value)
{
    const size_t len = strlen(value);
    const bool padded = len > 0 && (value[0] == ' ' || value[len - 1] == ' ');
    const bool plain = strpbrk(value, ",\"=") == NULL && !padded;
    bool fits = append(source, "%s%s", key, plain ? "" : "\"");
    for (const char *c = value; *c != '\0'; c++) {
        fits = append(source, "%s%c", *c == '"' ? "\"" : "", *c) && fits;
    }
    return append(source, "%s", plain ? "" : "\"") && fits;
}

static int compose(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    const char *group = tern_cli_option(cli, "group", NULL);
    char *source = proposal->source;
    char text[16];
    const bool regression = proposal->task == TERN_TASK_REGRESSION;
    const bool header = profile->columns.header;
    const char *label = proposal->unlabelled
                            ? "none"
                            : tern_csv_setting_name(profile, profile->columns.label, text);
    // Every client must read the first line in the same manner.
    const char *reading = !header                                 ? ",header=no"
                          : proposal->unlabelled || label == text ? ",header=yes"
                                                                  : "";
    bool fits =
        append_value(source, "csv:", proposal->data) &&
        append_value(source, regression ? ",target=" : ",label=", label) &&
        append(source, "%s", reading) &&
        (proposal->classes[0] == '\0' || append_value(source, ",classes=", proposal->classes)) &&
        (proposal->drop[0] == '\0' || append_value(source, ",drop=", proposal->drop)) &&
        (group == NULL || append_value(source, ",group=", group)) &&
        (proposal->shares || append_value(source, ",scale=", SCALING_CSV));
    if (!fits) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the names of classes and of columns that are left out are too long "
                             "for data.source: write a shorter file");
    }
    tern_proposal_choose_model(proposal);
    return TERN_EXIT_OK;
}

// A model of the user's own choice must take what the table has.
static int check_model(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    static struct tern_model model;
    const char *spec = tern_proposal_model(cli, proposal);
    if (tern_model_from_spec(&model, spec) != TERN_OK ||
        (tern_model_spec_inputs(spec) == proposal->features &&
         tern_proposal_suits(proposal, &model))) {
        return TERN_EXIT_OK; // what is no built-in model is looked at elsewhere
    }
    char found[TERN_TEXT];
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "the model %s does not fit %s, which has %" PRIu32 " features and %s, e.g. %s", spec,
        proposal->data, proposal->features, tern_proposal_told(proposal, found), proposal->model);
}

// --- Reading back

struct judgement {
    const struct tern_cli *cli;
    const struct tern_proposal *proposal;
    int code;
};

static void take_judgement(void *ctx, enum tern_csv_level level, enum tern_result result,
                           const char *area, const char *sentence)
{
    struct judgement *judgement = ctx;
    (void)area;
    if (level == TERN_CSV_WARNING) {
        fprintf(stderr, "tern-aggregator: warning: %s: %s\n", judgement->proposal->data, sentence);
    } else if (judgement->code == TERN_EXIT_OK) {
        judgement->code =
            tern_cli_fail(judgement->cli, result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFIG : result,
                          "--data %s: %s", judgement->proposal->data, sentence);
    }
}

// Reads the sample with the data.source that clients will get, and judges the columns.
static int read_back(const struct tern_cli *cli, const char *source, struct tern_proposal *proposal)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    static struct tern_data_spec spec;
    struct tern_csv_choice choice;
    enum tern_result result = tern_data_spec_parse(&spec, source, why);
    result = result == TERN_OK ? tern_csv_choose(&spec, &choice) : result;
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    TERN_CLI_TRY(profile(cli, &choice, proposal));
    if (proposal->profile.columns.features != proposal->features) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s: its columns' names cannot be written to data.source; rename them",
                             proposal->data);
    }
    struct judgement judgement = {.cli = cli, .proposal = proposal};
    const struct tern_csv_judging judging = {.profile = &proposal->profile,
                                             .choice = &choice,
                                             .sample = true,
                                             .report = take_judgement,
                                             .ctx = &judgement};
    tern_csv_judge(&judging);
    return judgement.code;
}

int tern_proposal_make(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    proposal->data = tern_cli_option(cli, "data", NULL);
    proposal->shares = strcmp(tern_state_settings(cli)->statistics_columns, "clients") == 0;
    TERN_CLI_TRY(tern_proposal_read_task(cli, proposal));
    TERN_CLI_TRY(read_sample(cli, proposal));
    proposal->rows = proposal->profile.rows;
    TERN_CLI_TRY(tern_proposal_choose_task(cli, proposal));
    char hint[TERN_CSV_SENTENCE_MAX];
    if (!tern_cli_flag(cli, "label") && !proposal->unlabelled &&
        tern_csv_hint_label(&proposal->profile, hint, sizeof hint)) {
        fprintf(stderr, "tern-aggregator: warning: %s: %s\n", proposal->data, hint);
    }
    TERN_CLI_TRY(choose_columns(cli, proposal));
    TERN_CLI_TRY(compose(cli, proposal));
    TERN_CLI_TRY(check_model(cli, proposal));
    tern_proposal_settings_choose(cli, proposal);
    return read_back(cli, proposal->source, proposal);
}

// --- Writing

// Writes a file that is not there yet.
static int write_new(const struct tern_cli *cli, const char *name, const char *text, size_t len)
{
    errno = 0;
    return tern_cli_check(cli, tern_file_write(name, text, len, 0644), "cannot write %s: %s", name,
                          strerror(errno));
}

static int refuse_old(const struct tern_cli *cli, const char *name)
{
    return access(name, F_OK) != 0
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "%s is here already and is not overwritten: move it away, or go to "
                               "another folder",
                               name);
}

static void write_statistics(FILE *out, const struct tern_csv_column *column)
{
    fputc('"', out);
    for (const char *s = column->name; *s != '\0'; s++) {
        fprintf(out, "%s%c", *s == '"' ? "\"" : "", *s);
    }
    fprintf(out, "\",%.9g,%.9g\n", column->mean, column->deviation);
}

static int write_scaling(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %s", SCALING_CSV);
    }
    fprintf(out, "column,mean,deviation\n");
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature) {
            write_statistics(out, column);
        }
    }
    if (proposal->task == TERN_TASK_REGRESSION) {
        write_statistics(out, &profile->column[profile->columns.label]);
    }
    const int code = fclose(out) == 0
                         ? write_new(cli, SCALING_CSV, text, len)
                         : tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %s", SCALING_CSV);
    free(text);
    return code;
}

static int write_client(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char text[4096 + TERN_PROPOSAL_LIST_MAX];
    char certificate[PATH_MAX];
    char port[TERN_NEXT_STEPS_PORT_MAX];
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, "server.crt", certificate);
    const int len =
        snprintf(text, sizeof text,
                 "; For every device, with its own file in data.source, its own state_dir, the "
                 "aggregator's\n"
                 "; address, and the CA of its certificate. %s\n"
                 "; Every other setting: tern-client --settings\n"
                 "[client]\n"
                 "server = https://localhost:%s\n"
                 "ca = %.300s\n"
                 "state_dir = tern-client-state\n"
                 "; The device's name in `tern-aggregator clients`. auto: the host's name and six "
                 "digits that\n"
                 "; differ for clones of one image and for clients of one machine. Or its own: "
                 "pump-17\n"
                 "name = auto\n"
                 "\n"
                 "[data]\n"
                 "source = %s\n",
                 proposal->shares ? "Columns stay as they are: clients agree on their scaling."
                                  : SCALING_CSV " goes beside it: all clients scale by it.",
                 tern_next_steps_port(cli, port), certificate, proposal->source);
    return write_new(cli, CLIENT_INI, text, (size_t)len);
}

void tern_proposal_take_back(const struct tern_proposal *proposal)
{
    (void)unlink(CLIENT_INI);
    if (!proposal->shares) {
        (void)unlink(SCALING_CSV);
    }
    if (proposal->writes_server) {
        (void)unlink(SERVER_INI);
    }
}

struct written {
    char source[TERN_PROPOSAL_LIST_MAX];
};

// Whether a client parses the written data.source to the proposed value.
static int read_client(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    static const struct tern_setting source = {.section = "data",
                                               .key = "source",
                                               .type = TERN_SETTING_TEXT,
                                               .size = TERN_PROPOSAL_LIST_MAX,
                                               .fallback = "",
                                               .min = 1,
                                               .max = TERN_PROPOSAL_LIST_MAX - 1,
                                               .doc = "The data."};
    static const struct tern_settings settings = {.program = "tern-client",
                                                  .table = &source,
                                                  .count = 1,
                                                  .foreign_sections = tern_settings_sections};
    static struct written written;
    char why[512] = "";
    tern_settings_defaults(&settings, &written);
    TERN_CLI_TRY(tern_cli_check(cli, tern_settings_load(&settings, &written, CLIENT_INI, why),
                                "a client cannot read the proposed settings: %s", why));
    return strcmp(written.source, proposal->source) == 0
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "a client would read data.source = %s from %s: rename the column or "
                               "label that a setting cannot hold",
                               written.source, CLIENT_INI);
}

static int write_all(struct tern_cli *cli, struct tern_proposal *proposal)
{
    TERN_CLI_TRY(proposal->shares ? TERN_EXIT_OK : write_scaling(cli, proposal));
    TERN_CLI_TRY(write_client(cli, proposal));
    TERN_CLI_TRY(read_client(cli, proposal));
    return proposal->writes_server ? tern_proposal_settings_write(cli, proposal, SERVER_INI)
                                   : TERN_EXIT_OK;
}

int tern_proposal_write(struct tern_cli *cli, struct tern_proposal *proposal)
{
    proposal->writes_server = cli->config == NULL;
    TERN_CLI_TRY(refuse_old(cli, CLIENT_INI));
    TERN_CLI_TRY(proposal->shares ? TERN_EXIT_OK : refuse_old(cli, SCALING_CSV));
    TERN_CLI_TRY(proposal->writes_server ? refuse_old(cli, SERVER_INI) : TERN_EXIT_OK);
    const int code = write_all(cli, proposal);
    if (code != TERN_EXIT_OK) {
        tern_proposal_take_back(proposal);
    }
    return code;
}

// --- Telling

void tern_proposal_print(const struct tern_proposal *proposal)
{
    char found[TERN_TEXT];
    const struct tern_csv_profile *profile = &proposal->profile;
    printf("%s: %" PRIu64 " rows, %" PRIu32 " columns to learn from, %s%s%s.\n"
           "%s"
           "%s\n"
           "Wrote %s%s%s.\n",
           proposal->data, proposal->rows, proposal->features, tern_proposal_told(proposal, found),
           proposal->classes[0] != '\0' ? ": " : "", proposal->classes,
           tern_proposal_task_why(proposal),
           proposal->shares
               ? "Columns stay as they are: clients agree on their scaling (statistics.columns)."
               : "Each column is scaled by its mean and deviation in this file, the same for all "
                 "clients.",
           !proposal->writes_server ? ""
           : proposal->shares       ? SERVER_INI " and "
                                    : SERVER_INI ", ",
           CLIENT_INI, proposal->shares ? "" : " and " SCALING_CSV);
    const uint32_t label = profile->columns.label;
    if (label != TERN_CSV_NO_COLUMN && profile->column[label].missing.count > 0) {
        printf("Rows without a label or target: %" PRIu64
               ", for which a client refuses this file. Fill them "
               "in, or add\n,missing=skip to data.source in " CLIENT_INI
               ", which leaves them out.\n",
               profile->column[label].missing.count);
    }
    if (!proposal->writes_server) {
        printf("The file of --config stays as it is. Proposed for this table:\n");
        tern_proposal_settings_print(proposal);
    }
}

void tern_proposal_json(cJSON *object, const struct tern_proposal *proposal)
{
    cJSON *data = cJSON_AddObjectToObject(object, "data");
    cJSON_AddNumberToObject(data, "rows", (double)proposal->rows);
    cJSON_AddNumberToObject(data, "features", proposal->features);
    cJSON_AddStringToObject(data, "task", tern_proposal_task_name(proposal->task));
    cJSON_AddNumberToObject(data, "classes", proposal->class_count);
    cJSON_AddStringToObject(data, "drop", proposal->drop);
    cJSON_AddStringToObject(data, "source", proposal->source);
}
