#include "cli/proposal.h"

#include "cli/next_steps.h"
#include "cli/proposal_task.h"
#include "cli/state.h"
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

#define ROUNDS 50 // of the proposal

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

static int read_sample(const struct tern_cli *cli, const char *drop, struct tern_proposal *proposal)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    struct tern_input input;
    const struct tern_csv_choice choice = {
        .label = proposal->unlabelled ? NULL : tern_cli_option(cli, "label", NULL),
        .unlabelled = proposal->unlabelled,
        .drop = drop,
        .group = tern_cli_option(cli, "group", NULL)};
    tern_csv_profile_free(&proposal->profile);
    enum tern_result result = tern_input_open(&input, proposal->data, SAMPLE_MAX, why);
    if (result == TERN_OK) {
        result = tern_csv_profile_read(&input, &choice, &proposal->profile);
        tern_input_close(&input);
    }
    return tern_cli_check(cli, result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFIG : result, "--data %s",
                          why);
}

// Why a column is of no use as a feature; NULL: it is.
static const char *useless(const struct tern_csv_column *column, uint64_t rows)
{
    if (2 * (column->bad.count + column->missing.count + column->huge.count) > rows) {
        return "most of its values are texts or missing";
    }
    if (column->low == column->high) {
        return "it has one value in every row";
    }
    return column->rises ? "it rises from row to row, as a row's number or a time does" : NULL;
}

// Whether a setting can name it: its text leads to it and to no other, and is no number.
static bool is_nameable(const struct tern_csv_profile *profile, uint32_t number)
{
    const char *name = profile->column[number].name;
    bool first = true;
    for (uint32_t c = 0; c < number; c++) {
        first = first && strcmp(profile->column[c].name, name) != 0;
    }
    return first && strpbrk(name, "|\r\n") == NULL && strlen(name) < TERN_CSV_NAME_MAX &&
           name[strspn(name, "-0123456789")] != '\0';
}

// How a setting names a column: by its name where that can be, or else by its number, from 0.
static const char *name_of(const struct tern_csv_profile *profile, uint32_t number, char text[16])
{
    snprintf(text, 16, "%" PRIu32, number);
    return is_nameable(profile, number) ? profile->column[number].name : text;
}

static bool append_column(char list[TERN_PROPOSAL_LIST_MAX], const struct tern_csv_profile *profile,
                          uint32_t number)
{
    char text[16];
    return append(list, "%s%s", list[0] != '\0' ? "|" : "", name_of(profile, number, text));
}

static int choose_columns(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    append(proposal->drop, "%s", tern_cli_option(cli, "drop", ""));
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const char *why = column->feature ? useless(column, profile->rows) : NULL;
        if (why == NULL) {
            proposal->features += column->feature;
            continue;
        }
        if (!cli->json) {
            printf("Left out: column '%s', since %s.\n", column->name, why);
        }
        if (!append_column(proposal->drop, profile, c)) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG,
                                 "more columns of %s are to be left out than one setting can name: "
                                 "write a file without them",
                                 proposal->data);
        }
    }
    return proposal->features > 0
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "%s has no column of numbers that differ, beside the label's",
                               proposal->data);
}

// A text as a value of a data spec.
static bool append_value(char source[TERN_PROPOSAL_LIST_MAX], const char *key, const char *value)
{
    const bool plain = strpbrk(value, ",\"") == NULL;
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
    const char *label =
        proposal->unlabelled ? "none" : name_of(profile, profile->columns.label, text);
    bool fits =
        append_value(source, "csv:", proposal->data) &&
        append_value(source, regression ? ",target=" : ",label=", label) &&
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
    const char *spec = tern_cli_option(cli, "model", proposal->model);
    if (tern_model_from_spec(&model, spec) != TERN_OK ||
        (tern_model_spec_inputs(spec) == proposal->features &&
         tern_proposal_suits(proposal, &model))) {
        return TERN_EXIT_OK; // what is no built-in model is looked at elsewhere
    }
    char found[TERN_TEXT];
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "--model %s does not fit %s, which has %" PRIu32 " features and %s, e.g. %s", spec,
        proposal->data, proposal->features, tern_proposal_told(proposal, found), proposal->model);
}

// What clients will refuse to read.
static uint64_t count_damage(const struct tern_csv_profile *profile)
{
    uint64_t count = profile->ragged.count;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature && useless(column, profile->rows) == NULL) {
            count += column->bad.count + column->missing.count + column->huge.count;
        }
    }
    return count;
}

int tern_proposal_make(const struct tern_cli *cli, struct tern_proposal *proposal)
{
    proposal->data = tern_cli_option(cli, "data", NULL);
    proposal->shares = strcmp(tern_state_settings(cli)->statistics_columns, "clients") == 0;
    TERN_CLI_TRY(tern_proposal_read_task(cli, proposal));
    TERN_CLI_TRY(read_sample(cli, tern_cli_option(cli, "drop", NULL), proposal));
    proposal->rows = proposal->profile.rows;
    TERN_CLI_TRY(tern_proposal_choose_task(cli, proposal));
    TERN_CLI_TRY(choose_columns(cli, proposal));
    TERN_CLI_TRY(compose(cli, proposal));
    TERN_CLI_TRY(check_model(cli, proposal));
    const uint64_t damage = count_damage(&proposal->profile);
    if (damage > 0) {
        fprintf(stderr,
                "tern-aggregator: warning: %" PRIu64
                " fields or lines of %s cannot be learnt from: tern-client check names them, and "
                "none may be left\n",
                damage, proposal->data);
    }
    return TERN_EXIT_OK;
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
        if (column->feature && useless(column, profile->rows) == NULL) {
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
                 "\n"
                 "[data]\n"
                 "source = %s\n",
                 proposal->shares ? "Columns stay as they are: clients agree on their scaling."
                                  : SCALING_CSV " goes beside it: all clients scale by it.",
                 tern_next_steps_port(cli, port), certificate, proposal->source);
    return write_new(cli, CLIENT_INI, text, (size_t)len);
}

#define STATISTICS_MAX 400

// Whose statistics make a scaling that is for all time is decided before the first round.
static const char *statistics_of(const struct tern_cli *cli, const struct tern_proposal *proposal,
                                 char text[STATISTICS_MAX])
{
    if (proposal->shares) {
        snprintf(text, STATISTICS_MAX,
                 "\n"
                 "[statistics]\n"
                 "; Clients agree on one scaling before the first round, and keep it: of the "
                 "statistics of so many\n"
                 "; (0: of as many as rounds begin with). That of one client fits its data alone.\n"
                 "columns = clients\n"
                 "min_clients = %" PRIu32 "\n",
                 tern_state_settings(cli)->statistics_min_clients);
    }
    return proposal->shares ? text : "";
}

static int write_server(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char text[4096];
    char statistics[STATISTICS_MAX];
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const int len = snprintf(
        text, sizeof text,
        "; Proposed by tern-aggregator init --data %.300s.\n"
        "; Every other setting: tern-aggregator --settings\n"
        "[federation]\n"
        "state = %s\n"
        "model = %s\n"
        "\n"
        "[round]\n"
        "; Rounds begin with the first client, so that one device shows whether all works. A model "
        "of\n"
        "; one client is that client's alone: raise this before others' data is at stake.\n"
        "min_clients = 1\n"
        "rounds = %d\n"
        "%s%s",
        proposal->data, settings->federation_state, tern_cli_option(cli, "model", proposal->model),
        ROUNDS, tern_proposal_training(proposal), statistics_of(cli, proposal, statistics));
    return write_new(cli, SERVER_INI, text, (size_t)len);
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

// The settings' file that was written is what every later verb reads.
static int take_settings(struct tern_cli *cli)
{
    cli->config = SERVER_INI;
    return tern_cli_load_settings(cli);
}

static int write_all(struct tern_cli *cli, struct tern_proposal *proposal)
{
    TERN_CLI_TRY(proposal->shares ? TERN_EXIT_OK : write_scaling(cli, proposal));
    TERN_CLI_TRY(write_client(cli, proposal));
    if (!proposal->writes_server) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(write_server(cli, proposal));
    return take_settings(cli);
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
