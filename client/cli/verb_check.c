// `tern-client check`: checks everything that a client needs before it sends anything.
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "data/columns.h"
#include "data/readers.h"
#include "hosted/cli.h"
#include "hosted/csv_judge.h"
#include "hosted/csv_profile.h"
#include "hosted/csv_text.h"
#include "hosted/data_spec.h"
#include "hosted/files.h"
#include "hosted/terminal.h"
#include "meter/meter.h"
#include "tensor/model.h"
#include "util/date.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Bytes on the wire of the cheapest round: a resumed handshake, a check-in and an update.
#define LEAST_ROUND (TERN_PRICE_RESUMED + 2u * TERN_PRICE_EXCHANGE)

// The request of a client that is not enrolled. An enrolled client instead asks for the state of the scaling, which changes
// nothing.
#define READY_PATH "/readyz"
#define READY_ANSWER "ok\n"

#define CHECK_SENTENCE_MAX 640

// What the check of the data needs to know about the federation.
struct check_federation {
    const char *spec; // the federation's built-in model; NULL: unknown
    enum {
        CHECK_SCALING_UNKNOWN, // the client is not enrolled
        CHECK_SCALING_NONE,    // clients share no statistics of columns
        CHECK_SCALING_DUE,     // clients share statistics, and the scaling does not exist yet
        CHECK_SCALING_MADE,    // the scaling exists, and this client has not fetched it
        CHECK_SCALING_HELD,    // this client has the scaling
    } shared;
    // the aggregator reports column names that differ from those of most clients
    bool other_columns;
    struct tern_span scaling; // CHECK_SCALING_HELD: the columns' means and deviations
};

// The destination of the table about the columns of a CSV file.
struct check_table {
    cJSON *columns; // array that receives an object for each column; NULL: print the table
};

// --- State directory

#define OTHER_STATE_DIR                                                                            \
    "set client.state_dir to a folder that this user may write, or run as the user that owns it"

static void report_missing_state(const char *folder, struct tern_findings *findings)
{
    char parent[PATH_MAX];
    if (tern_file_can_make_folders(folder, parent) == TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "state", NULL,
                          "%s does not exist yet; enrolling creates it", folder);
    } else {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s does not exist, and enrolling cannot create it in %s: %s", folder,
                          parent, strerror(errno));
    }
}

// Returns whether the state directory can be used, and reports it if it is missing or cannot.
static bool state_is_usable(const char *folder, struct tern_findings *findings)
{
    struct stat facts;
    if (stat(folder, &facts) != 0) {
        report_missing_state(folder, findings);
        return false;
    }
    if (!S_ISDIR(facts.st_mode)) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s is not a folder", folder);
        return false;
    }
    if (access(folder, R_OK | W_OK | X_OK) != 0) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s cannot be written by this user: %s", folder, strerror(errno));
        return false;
    }
    return true;
}

static void check_state(struct session *session, const struct tern_client_identity **identity,
                        struct tern_findings *findings)
{
    const char *folder = tern_client_settings.client_state_dir;
    *identity = NULL;
    if (!state_is_usable(folder, findings)) {
        return;
    }
    enum tern_result result = tern_session_open_reader(session, &tern_client_settings);
    if (result != TERN_OK) { // the other checks of the store need a client
        tern_file_store_close(session->store);
        session->store = NULL;
    }
    result = result == TERN_OK ? tern_session_identify(session) : result;
    if (result == TERN_OK) {
        *identity = tern_client_identity(&session->client);
        tern_findings_add(findings, TERN_HEALTH_GOOD, "state", NULL,
                          "%s: client %" PRIu64 ", enrolled for %s", folder, (*identity)->client_id,
                          (*identity)->model_spec);
    } else {
        tern_findings_add(findings,
                          result == TERN_ERR_NOT_FOUND ? TERN_HEALTH_GOOD : TERN_HEALTH_PROBLEM,
                          "state", NULL, "%s", session->why);
    }
}

// --- The aggregator

// Returns whether a response with status 200 comes from an aggregator.
static bool is_ready(const struct tern_response *response)
{
    const size_t len = strlen(READY_ANSWER);
    return response->body_len == len && memcmp(response->body, READY_ANSWER, len) == 0;
}

static bool read_scaling_state(const struct tern_response *response,
                               struct check_federation *federation)
{
    tern_CheckinReply reply;
    struct tern_span none;
    if (response->body_len == 0 ||
        tern_wire_decode_checkin_reply(response->body, response->body_len, &reply, &none) !=
            TERN_OK) {
        return false;
    }
    federation->shared = reply.has_scaling ? CHECK_SCALING_MADE
                         : reply.statistics != tern_StatisticsState_STATISTICS_NONE
                             ? CHECK_SCALING_DUE
                             : CHECK_SCALING_NONE;
    federation->other_columns = reply.other_column_names;
    return true;
}

static void report_answer(const struct tern_client_identity *identity,
                          const struct tern_response *response, uint64_t bytes,
                          struct check_federation *federation, struct tern_findings *findings)
{
    const char *server = tern_client_settings.client_server;
    const int status = response->status;
    const bool busy = status == 503 || status == 429;
    if (identity != NULL && status == 200 && read_scaling_state(response, federation)) {
        tern_findings_add(
            findings, TERN_HEALTH_GOOD, "server", NULL,
            "%s: reached, its certificate is good, and it accepts this client (%" PRIu64
            " bytes on the wire)",
            server, bytes);
    } else if (identity == NULL && status == 200 && is_ready(response)) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "server", NULL,
                          "%s: reached, and its certificate is good (%" PRIu64
                          " bytes on the wire)",
                          server, bytes);
    } else if (identity != NULL && status == 401) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL,
                          "%s: reached, but it refuses this client, which was revoked or "
                          "enrolled with another aggregator: tern-client enroll --force CODE",
                          server);
    } else {
        tern_findings_add(findings, busy ? TERN_HEALTH_WARNING : TERN_HEALTH_PROBLEM, "server",
                          NULL, "%s: answers %d, %s", server, status,
                          busy ? "the aggregator is busy now"
                               : "which is not an answer of a Tern aggregator: check the address");
    }
}

static void report_expiry(const struct tern_curl *curl, struct tern_findings *findings)
{
    char sentence[EXPIRY_MAX];
    const bool soon = tern_expiry_describe(curl, (uint64_t)time(NULL), sentence);
    if (sentence[0] != '\0') {
        tern_findings_add(findings, soon ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD, "expiry", NULL,
                          "%s", sentence);
    }
}

static void send_request(struct tern_curl *curl, const struct tern_client_identity *identity,
                         struct check_federation *federation, struct tern_findings *findings)
{
    uint8_t body[TERN_SHA256_SIZE * 8];
    const struct tern_transport transport = tern_curl_port(curl);
    const struct tern_request request = {
        .purpose = TERN_PURPOSE_CHECKIN,
        .method = "GET",
        .path = identity != NULL ? TERN_PATH_STATISTICS : READY_PATH,
        .token = identity != NULL ? identity->token : NULL,
        .timeout_ms = (uint32_t)tern_client_settings.client_timeout};
    struct tern_response response = {.body = body, .body_size = sizeof body};
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = transport.exchange(transport.ctx, &request, &response);
    }
    struct tern_meter meter = {0};
    transport.collect(transport.ctx, &meter);
    if (result == TERN_OK || result == TERN_ERR_TOO_LARGE) {
        const uint64_t bytes =
            tern_meter_total(&meter, TERN_UP).wire + tern_meter_total(&meter, TERN_DOWN).wire;
        report_answer(identity, &response, bytes, federation, findings);
    } else {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL, "%s: %s %s",
                          tern_client_settings.client_server, tern_result_sentence(result),
                          tern_curl_why(curl));
    }
    report_expiry(curl, findings);
}

static void check_server(const struct tern_client_identity *identity,
                         struct check_federation *federation, struct tern_findings *findings)
{
    const struct tern_curl_config config = {.server = tern_client_settings.client_server,
                                            .ca_file = tern_client_settings.client_ca,
                                            .certificate = tern_client_settings.client_certificate,
                                            .key = tern_client_settings.client_key,
                                            .tls = tern_client_settings.client_tls,
                                            .proxy = tern_client_settings.client_proxy};
    struct tern_curl *curl = NULL;
    char why[512] = "libcurl cannot start";
    if (tern_client_settings.client_server[0] == '\0') {
        tern_findings_add(
            findings, TERN_HEALTH_PROBLEM, "server", NULL,
            "client.server is not set: name the aggregator with --config FILE or --set "
            "client.server=https://host:port");
    } else if (tern_curl_global() != TERN_OK || tern_curl_open(&curl, &config, why) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL, "%s", why);
    } else {
        send_request(curl, identity, federation, findings);
    }
    tern_curl_close(curl);
}

// --- Secure rounds

static void check_secure(struct tern_findings *findings)
{
    const uint32_t least = tern_client_settings.secure_min_clients;
    if (tern_client_settings.secure_helper_key[0] == '\0') {
        return; // opening the session has checked the settings
    }
    if (least < TERN_SECURE_MIN_CLIENTS) {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "secure", NULL,
                          "updates are masked, but secure.min_clients = %" PRIu32
                          " is weak: the aggregator may get sums of so few updates; 50 or more "
                          "hide each one better",
                          least);
    } else {
        tern_findings_add(
            findings, TERN_HEALTH_GOOD, "secure", NULL,
            "updates are masked; the aggregator gets sums of at least %" PRIu32 " updates", least);
    }
}

// --- Budget, clock and conditions

static uint32_t this_month(void)
{
    const struct tern_clock clock = tern_posix_clock();
    const struct tern_date date = tern_date_of((uint32_t)(clock.unix_seconds(clock.ctx) / 86400));
    return date.year * 12 + date.month;
}

static void check_budget(struct session *session, struct tern_findings *findings)
{
    const struct tern_client_settings *settings = &tern_client_settings;
    const struct tern_client_budget none = {0};
    const bool metered =
        session->store != NULL && tern_client_load_meter(&session->client) == TERN_OK;
    const struct tern_client_budget *spent = metered ? tern_client_budget(&session->client) : &none;
    const uint64_t month_spent = this_month() > spent->month ? 0 : spent->month_spent;
    const uint64_t usual = spent->round_mean > LEAST_ROUND ? spent->round_mean : LEAST_ROUND;
    if (settings->budget_per_round == 0 && settings->budget_per_month == 0) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "budget", NULL,
                          "no limit is set (budget.per_round, per_month)");
    } else if (settings->budget_per_round != 0 && settings->budget_per_round < usual) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "budget", NULL,
                          "budget.per_round = %" PRIu64 " is less than the %" PRIu64
                          " bytes that a round %s: no round will start",
                          settings->budget_per_round, usual,
                          usual > LEAST_ROUND ? "took so far" : "takes without its payload");
    } else if (settings->budget_per_month != 0 &&
               settings->budget_per_month < month_spent + usual) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "budget", NULL,
                          "budget.per_month = %" PRIu64
                          " leaves no room for a round this month: %" PRIu64
                          " bytes are spent, and a round takes %" PRIu64 " at least",
                          settings->budget_per_month, month_spent, usual);
    } else {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "budget", NULL,
                          "%" PRIu64 " bytes a round, %" PRIu64 " a month (0 = no limit); %" PRIu64
                          " spent this month",
                          settings->budget_per_round, settings->budget_per_month, month_spent);
    }
}

static void check_clock(const struct session *session, struct tern_findings *findings)
{
    const struct tern_clock clock = tern_posix_clock();
    const uint64_t now = clock.unix_seconds(clock.ctx);
    const struct tern_date date = tern_date_of((uint32_t)(now / 86400));
    const uint32_t month = session->store != NULL ? tern_client_budget(&session->client)->month : 0;
    if (now == 0) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "clock", NULL,
                          "the clock is not set, so that certificates cannot be verified and "
                          "months not distinguished; "
                          "set it, e.g. by NTP");
    } else if (month > date.year * 12 + date.month) {
        tern_findings_add(
            findings, TERN_HEALTH_WARNING, "clock", NULL,
            "it shows %04" PRIu32 "-%02" PRIu32 "-%02" PRIu32
            ", a month before the last one in which this client counted bytes: was it set back? "
            "Until then budget.per_month covers 31 days of running time",
            date.year, date.month + 1, date.day + 1);
    } else {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "clock", NULL,
                          "%04" PRIu32 "-%02" PRIu32 "-%02" PRIu32 " (UTC)", date.year,
                          date.month + 1, date.day + 1);
    }
}

static void check_conditions(struct tern_findings *findings)
{
    static struct tern_posix_conditions conditions;
    char problem[CONDITIONS_WHY_MAX];
    const char *why = NULL;
    if (tern_conditions_from_settings(&tern_client_settings, &conditions, problem) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "when", NULL, "%s", problem);
        return;
    }
    const bool allowed = tern_posix_conditions_read(&conditions, &why);
    tern_posix_conditions_close(&conditions);
    if (allowed) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "when", NULL, "the client may work now%s",
                          tern_client_settings.client_when[0] == '\0' ? " (client.when is empty)"
                                                                      : "");
    } else {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "when", NULL,
                          "the client would wait now: %s (tern-client conditions)", why);
    }
}

// --- The table of `check --data`: the content of a CSV file, column by column

struct row {
    const char *kind;
    char becomes[160];
    uint64_t missing;
    bool has_values; // the profile has statistics of this column
};

static const char *kind_of(const struct tern_csv_profile *profile,
                           const struct tern_csv_column *column)
{
    if (column->suspect == TERN_CSV_TIME) {
        return "time";
    }
    if (column->missing.count == profile->rows) {
        return "empty";
    }
    return tern_csv_is_numeric(column) ? "number" : "text";
}

static void describe_feature(const struct tern_csv_profile *profile,
                             const struct tern_csv_choice *choice,
                             const struct tern_csv_column *column, struct row *row)
{
    const char *why = tern_csv_why_useless(profile, column);
    const char *suspect = tern_csv_suspect_text(column->suspect);
    const bool filled = tern_csv_fills_features(choice->missing) && column->missing.count > 0;
    if (why != NULL) {
        snprintf(row->becomes, sizeof row->becomes, "a feature that predicts nothing: %s", why);
    } else if (column->bad.count > 0) {
        snprintf(row->becomes, sizeof row->becomes, "refused: '%s' in line %" PRIu64,
                 column->bad.text, column->bad.line);
    } else if (filled) {
        snprintf(row->becomes, sizeof row->becomes, "a feature, %" PRIu64 " filled with the mean",
                 column->missing.count);
    } else {
        snprintf(row->becomes, sizeof row->becomes, "a feature%s%s", suspect[0] != '\0' ? "; " : "",
                 suspect);
    }
}

static struct row describe(const struct tern_csv_profile *profile,
                           const struct tern_csv_choice *choice, uint32_t c)
{
    const struct tern_csv_column *column = &profile->column[c];
    const bool label = c == profile->columns.label;
    struct row row = {.kind = kind_of(profile, column),
                      .missing = column->missing.count,
                      .has_values = label || column->feature};
    if (column->feature) {
        describe_feature(profile, choice, column, &row);
    } else {
        snprintf(row.becomes, sizeof row.becomes, "%s",
                 label                         ? choice->numeric ? "the target" : "the label"
                 : c == profile->columns.group ? "the group"
                                               : "left out (drop)");
    }
    return row;
}

static uint64_t distinct_of(const struct tern_csv_profile *profile, uint32_t c)
{
    const bool labels = c == profile->columns.label && profile->labels.count > 0;
    return labels ? profile->labels.count : profile->column[c].distinct;
}

static void print_table(const struct tern_csv_profile *profile,
                        const struct tern_csv_choice *choice)
{
    static const struct tern_text_column columns[] = {
        {"COLUMN", TERN_TEXT_LONG},     {"KIND", TERN_TEXT_WORD},   {"MISSING", TERN_TEXT_NUMBER},
        {"MIN", TERN_TEXT_NUMBER},      {"MEAN", TERN_TEXT_NUMBER}, {"MAX", TERN_TEXT_NUMBER},
        {"DISTINCT", TERN_TEXT_NUMBER}, {"BECOMES", TERN_TEXT_LONG}};
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const struct row row = describe(profile, choice, c);
        const double values[] = {column->low, column->mean, column->high};
        tern_text_cell(&table, "%s", column->name);
        tern_text_cell(&table, "%s", row.has_values ? row.kind : "-");
        tern_text_cell(&table, "%" PRIu64, row.missing);
        for (size_t i = 0; i < 3; i++) {
            tern_text_cell(&table, column->numbers > 0 ? "%.10g" : "-", values[i]);
        }
        const uint64_t distinct = distinct_of(profile, c);
        tern_text_cell(&table, row.has_values && distinct > 0 ? "%" PRIu64 : "-", distinct);
        tern_text_cell(&table, "%s", row.becomes);
    }
    if (tern_text_table_print(&table, stdout) != TERN_OK) {
        printf("no memory for the columns\n");
    }
    printf("\n%" PRIu64 " row%s; %s\n\n", profile->rows, tern_plural(profile->rows),
           profile->columns.header
               ? "the first line names the columns"
               : "the file has no header line; the columns are numbered from 0");
}

static void add_table(const struct tern_csv_profile *profile, const struct tern_csv_choice *choice,
                      cJSON *list)
{
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        const struct row row = describe(profile, choice, c);
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "column", column->name);
        cJSON_AddStringToObject(object, "kind", row.has_values ? row.kind : "");
        cJSON_AddNumberToObject(object, "missing", (double)row.missing);
        if (column->numbers > 0) {
            cJSON_AddNumberToObject(object, "min", column->low);
            cJSON_AddNumberToObject(object, "mean", column->mean);
            cJSON_AddNumberToObject(object, "max", column->high);
        }
        cJSON_AddNumberToObject(object, "distinct", (double)distinct_of(profile, c));
        cJSON_AddStringToObject(object, "becomes", row.becomes);
        cJSON_AddItemToArray(list, object);
    }
}

static void show_table(const struct tern_csv_profile *profile, const struct tern_csv_choice *choice,
                       struct check_table *table)
{
    if (table->columns != NULL) {
        add_table(profile, choice, table->columns);
    } else {
        print_table(profile, choice);
    }
}

// --- The check

#define NAMED 5 // most columns or classes that one line lists

#define TOO_LARGE 100.0 // root mean square above which training does not learn from a column
#define FEW 10 // a column with at most this many different values can be constant on one client
#define TOO_FLAT                                                                                   \
    1e-3 // standard deviation after scaling below which the statistics must be those of other data

struct check {
    const struct tern_client_settings *settings;
    struct tern_findings *findings;
    const struct check_federation *federation;
    struct check_table *table;
    struct tern_data_spec spec;
    struct tern_csv_profile profile; // rows == 0: the data is no CSV file
    struct tern_data data;
    bool unlabelled; // no column has a label
    bool open;    // the options name no labels, so the check finds them like `tern-aggregator init`
    bool as_init; // `settings` includes the labels that the check has found
    char classes[TERN_CSV_CLASSES_MAX]; // if `open`: the classes that the check has found
};

static void append(char text[CHECK_SENTENCE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[CHECK_SENTENCE_MAX], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, CHECK_SENTENCE_MAX - used, format, arguments);
    va_end(arguments);
}

// --- Lines, fields and labels of a CSV file

static void report_judgement(void *ctx, enum tern_csv_level level, enum tern_result result,
                             const char *area, const char *sentence)
{
    struct check *check = ctx;
    (void)result;
    tern_findings_add(check->findings,
                      level == TERN_CSV_PROBLEM ? TERN_HEALTH_PROBLEM : TERN_HEALTH_WARNING, area,
                      NULL, "%s", sentence);
}

// Writes the name of a class or, if it has none, its number.
static const char *class_name(const struct check *check, uint32_t number, char text[64])
{
    char name[TERN_CSV_NAME_MAX];
    const char *classes = NULL;
    for (uint32_t i = 0; i < check->spec.option_count; i++) {
        if (strcmp(check->spec.options[i].key, "classes") == 0) {
            classes = check->spec.options[i].value;
        }
    }
    snprintf(text, 64, "%" PRIu32, number);
    for (uint32_t i = 0; tern_csv_list_next(&classes, name); i++) {
        if (i == number) {
            snprintf(text, 64, "%.63s", name);
        }
    }
    return text;
}

static void report_classes(struct check *check)
{
    const struct tern_dataset *train = &check->data.train;
    uint32_t *counts = calloc(train->class_count, sizeof *counts);
    char seen[CHECK_SENTENCE_MAX] = "";
    char unseen[CHECK_SENTENCE_MAX] = "";
    char name[64];
    uint32_t missing = 0;
    uint32_t present = 0;
    for (uint32_t i = 0; counts != NULL && i < train->count; i++) {
        counts[train->labels[i]]++;
    }
    for (uint32_t i = 0; counts != NULL && i < train->class_count; i++) {
        if (counts[i] == 0 && missing++ < NAMED) {
            append(unseen, "%s%s", missing > 1 ? ", " : "", class_name(check, i, name));
        } else if (counts[i] > 0 && present++ < 2 * NAMED) {
            append(seen, "%s%s %" PRIu32, present > 1 ? ", " : "", class_name(check, i, name),
                   counts[i]);
        }
    }
    free(counts);
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "classes", NULL,
                      "%" PRIu32 " with examples to train on: %s%s", present, seen,
                      present > 2 * NAMED ? ", ..." : "");
    if (missing > 0) {
        tern_findings_add(check->findings, TERN_HEALTH_WARNING, "classes", NULL,
                          "%" PRIu32 " without an example to train on here (other clients may have "
                          "some): %s%s",
                          missing, unseen, missing > NAMED ? ", ..." : "");
    }
}

// --- Scales

static const char *feature_name(const struct check *check, uint32_t feature, char text[64])
{
    const struct tern_csv_profile *profile = &check->profile;
    snprintf(text, 64, "feature %" PRIu32, feature);
    for (uint32_t c = 0, f = 0; profile->rows > 0 && c < profile->columns.count; c++) {
        if (profile->column[c].feature && f++ == feature) {
            snprintf(text, 64, "'%.60s'", profile->column[c].name);
        }
    }
    return text;
}

// Scales the data by the federation's scaling, as before training.
static void apply_scaling(struct check *check)
{
    const struct tern_span scaling = check->federation->scaling;
    const uint32_t count = (uint32_t)(scaling.len / TERN_WIRE_COLUMN_BYTES);
    const enum tern_result result =
        tern_columns_scale(&check->data, scaling.data,
                           count); // if the number of columns differs, report_model() reports it
    if (result == TERN_OK) {
        tern_findings_add(check->findings, TERN_HEALTH_GOOD, "scaling", NULL,
                          "columns are scaled by the federation's shared statistics");
    } else if (result == TERN_ERR_NON_FINITE) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM, "scaling", NULL,
                          "a value is too far outside the range that the federation's shared "
                          "statistics describe");
    }
}

// Returns whether the check must report large values; not if the federation scales them before training. Applies the
// federation's scaling if the client already has it.
static bool sizes_matter(struct check *check)
{
    const bool has_columns = tern_data_has_columns(&check->data);
    const bool scaled = check->data.scaled;
    switch (check->federation->shared) {
    case CHECK_SCALING_UNKNOWN:
    case CHECK_SCALING_NONE:
        return true;
    case CHECK_SCALING_DUE:
    case CHECK_SCALING_MADE:
    case CHECK_SCALING_HELD:
        break;
    }
    if (scaled || !has_columns) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM, "scaling", NULL, "%s",
                          scaled ? CLIENT_SCALED_TWICE
                                 : "the federation scales columns by shared statistics "
                                   "(statistics.columns), and these examples have no columns: "
                                   "this client will get no tasks");
        return false;
    }
    if (check->federation->shared == CHECK_SCALING_HELD) {
        apply_scaling(check);
        return true;
    }
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "scaling", NULL, "%s",
                      check->federation->shared == CHECK_SCALING_DUE
                          ? "the federation's scaling does not exist yet: clients send statistics "
                            "when they run; columns may stay unscaled"
                          : "the federation has a scaling, which this client fetches when it runs; "
                            "columns may stay unscaled until then");
    return false;
}

// Returns the severity of values with this root mean square. Before enrolment large values are a warning, since the federation
// may scale them.
static enum tern_health severity_of(const struct check *check, double size)
{
    const bool known = check->federation->shared != CHECK_SCALING_UNKNOWN;
    return size > TOO_LARGE && known  ? TERN_HEALTH_PROBLEM
           : size > TERN_COLUMN_LARGE ? TERN_HEALTH_WARNING
                                      : TERN_HEALTH_GOOD;
}

static const char *scaling_caveat(const struct check *check)
{
    return check->federation->shared == CHECK_SCALING_UNKNOWN
               ? " (unless the federation scales them, statistics.columns)"
               : "";
}

// Returns whether scaling has made a column almost constant although its values differ. Then its statistics include a far
// larger value, or belong to another table. A column with few different values may really be constant on one client.
static bool is_flat(const struct check *check, uint32_t column, double *deviation)
{
    const struct tern_dataset *train = &check->data.train;
    const struct tern_csv_profile *profile = &check->profile;
    bool varies = false;
    for (uint32_t c = 0, f = 0; profile->rows > 0 && c < profile->columns.count; c++) {
        const bool target = c == profile->columns.label && column == train->feature_count;
        if (target || (profile->column[c].feature && f++ == column)) {
            varies = profile->column[c].distinct == 0 || profile->column[c].distinct > FEW;
        }
    }
    *deviation = tern_columns_deviation(train, column);
    return (check->data.scaled || check->federation->shared == CHECK_SCALING_HELD) &&
           *deviation < TOO_FLAT && (*deviation > 0 || varies);
}

static void report_targets(struct check *check)
{
    const struct tern_dataset *train = &check->data.train;
    const double size =
        tern_columns_size(train, train->feature_count); // the target's column follows the features
    double deviation;
    if (is_flat(check, train->feature_count, &deviation)) {
        return; // report_flat_columns() names it
    }
    if (size <= TERN_COLUMN_LARGE) {
        tern_findings_add(check->findings, TERN_HEALTH_GOOD, "target", NULL,
                          "targets have the size that training expects (%.4g)", size);
        return;
    }
    tern_findings_add(check->findings, severity_of(check, size), "target", NULL,
                      "targets are unscaled (root mean square %.4g): training expects about 1%s. "
                      "Set scale=FILE with the file that `tern-aggregator init --data` writes, or "
                      "statistics.columns = clients at the aggregator",
                      size, scaling_caveat(check));
}

static bool report_flat_columns(struct check *check)
{
    const struct tern_dataset *train = &check->data.train;
    const bool target = train->targets != NULL;
    char flat[CHECK_SENTENCE_MAX] = "";
    char name[64];
    uint32_t count = 0;
    for (uint32_t f = 0; train->values != NULL && f < train->feature_count + target; f++) {
        double deviation;
        if (is_flat(check, f, &deviation) && count++ < NAMED) {
            append(flat, "%s%s (%.2g)", count > 1 ? ", " : "",
                   f == train->feature_count ? "the target" : feature_name(check, f, name),
                   deviation);
        }
    }
    if (count > 0) {
        tern_findings_add(check->findings, TERN_HEALTH_WARNING, "scale", NULL,
                          "%" PRIu32 " of %" PRIu32 " column%s %s almost constant once scaled "
                          "(standard deviation; training expects about 1): %s%s. The statistics "
                          "belong to other values, or to a table with a value far beyond all "
                          "others: correct it and run `tern-aggregator init --data` again",
                          count, train->feature_count + target,
                          tern_plural(train->feature_count + target), count == 1 ? "is" : "are",
                          flat, count > NAMED ? ", ..." : "");
    }
    return count > 0;
}

static void report_scales(struct check *check)
{
    const struct tern_dataset *train = &check->data.train;
    struct tern_large_columns large;
    char names[CHECK_SENTENCE_MAX] = "";
    char name[64];
    tern_columns_large(train, train->values != NULL ? train->feature_count : 0, &large);
    for (uint32_t i = 0; i < large.count && i < TERN_COLUMNS_FOUND; i++) {
        append(names, "%s%s (%.4g)", i > 0 ? ", " : "", feature_name(check, large.first[i], name),
               large.size[i]);
    }
    const bool flat = report_flat_columns(check);
    if (large.count == 0 && !flat) {
        tern_findings_add(check->findings, TERN_HEALTH_GOOD, "scale", NULL,
                          "the values of every column have the size that training expects");
    }
    if (large.count == 0) {
        return;
    }
    const bool held = check->federation->shared == CHECK_SCALING_HELD;
    const bool scaled = check->data.scaled;
    tern_findings_add(
        check->findings, severity_of(check, large.largest), "scale",
        held ? "compare their units with those of the other clients, whose statistics scale them"
        : scaled ? "compare their units with those of the table behind scale="
        : check->profile.rows > 0
            ? "set scale=scaling.csv, which `tern-aggregator init --data` writes, in data.source, "
              "or statistics.columns = clients at the aggregator"
            : "set statistics.columns = clients at the aggregator before its first round, or scale "
              "them to mean 0 and deviation 1 by the same numbers on every client",
        "%" PRIu32 " of %" PRIu32 " column%s %s %s (root mean square): %s%s%s", large.count,
        train->feature_count, tern_plural(train->feature_count), large.count == 1 ? "is" : "are",
        held || scaled ? "large even after scaling" : "unscaled", names,
        large.count > TERN_COLUMNS_FOUND ? ", ..." : "", scaled ? "" : scaling_caveat(check));
}

static void report_sizes(struct check *check)
{
    if (check->data.train.targets != NULL) {
        report_targets(check);
    }
    report_scales(check);
}

// --- The fit of the model

static void report_model(struct check *check, const char *spec, const struct tern_dataset *train)
{
    static struct tern_model model;
    char why[MODEL_FIT_WHY_MAX];
    if (spec == NULL || tern_model_from_spec(&model, spec) != TERN_OK) {
        return;
    }
    const bool more = model.loss == TERN_LOSS_CROSS_ENTROPY &&
                      model.tensors[model.tensor_count - 1].count > train->class_count;
    if (!tern_model_accepts(spec, &model, train, why)) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM, "model", NULL, "%s", why);
    } else {
        tern_findings_add(check->findings, more ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD, "model",
                          NULL, "%s fits the data%s", spec,
                          more ? ", but has more classes than it" : "");
    }
}

// --- A file without a federation: the proposal that `tern-aggregator init --data` would make for it

// Returns whether the spec has one of the options `keys` (NULL-terminated).
static bool has_option(const struct tern_data_spec *spec, const char *const *keys)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        for (const char *const *key = keys; *key != NULL; key++) {
            if (strcmp(spec->options[i].key, *key) == 0) {
                return true;
            }
        }
    }
    return false;
}

// Returns whether no option of the spec names the file's labels.
static bool lacks_label_option(const struct tern_data_spec *spec)
{
    static const char *const choices[] = {"label", "target", "classes", NULL};
    return !has_option(spec, choices);
}

static uint64_t count_of(const struct tern_csv_profile *profile, const char *label)
{
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        if (strcmp(profile->labels.names[i], label) == 0) {
            return profile->label[i].count;
        }
    }
    return 0;
}

static void report_proposed_classes(const struct check *check)
{
    const struct tern_csv_profile *profile = &check->profile;
    const char *rest = check->classes;
    const bool listed = rest[0] != '\0';
    char name[TERN_CSV_NAME_MAX];
    char seen[CHECK_SENTENCE_MAX] = "";
    for (uint32_t i = 0; i < profile->labels.count && i < 2 * NAMED; i++) {
        snprintf(name, sizeof name, "%" PRIu32, i);
        if (listed) {
            (void)tern_csv_list_next(&rest, name);
        }
        append(seen, "%s%.40s %" PRIu64, i > 0 ? ", " : "", name, count_of(profile, name));
    }
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "classes",
                      "tern-aggregator init --data FILE proposes a federation that learns them",
                      "%" PRIu32 " in column '%.60s', with their rows: %s%s", profile->labels.count,
                      profile->column[profile->columns.label].name, seen,
                      profile->labels.count > 2 * NAMED ? ", ..." : "");
}

// Reports the task that `tern-aggregator init` would propose for this file, which has no problem.
static void report_sound(const struct check *check, bool numeric)
{
    const struct tern_csv_profile *profile = &check->profile;
    uint32_t features = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        features += profile->column[c].feature;
    }
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "data", NULL,
                      "%.200s: %" PRIu64 " rows of %" PRIu32 " features", check->spec.path,
                      profile->rows, features);
    if (!numeric) {
        report_proposed_classes(check);
        return;
    }
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "target",
                      "tern-aggregator init --data FILE proposes a federation that predicts it",
                      "a number, column '%.60s': its values have fractions, or more than %d "
                      "are different",
                      profile->column[profile->columns.label].name, TERN_CSV_VALUES_MAX);
}

// Drops the columns that `tern-aggregator init` drops, because they predict nothing. Returns the number of remaining features.
static uint32_t drop_useless_columns(struct tern_csv_profile *profile)
{
    uint32_t features = 0;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        struct tern_csv_column *column = &profile->column[c];
        column->feature = column->feature && tern_csv_why_useless(profile, column) == NULL;
        features += column->feature;
    }
    return features;
}

// Checks and reports the proposal of `tern-aggregator init`. Returns false if `init` would refuse the file.
static bool report_proposal(struct check *check, const struct tern_csv_choice *choice)
{
    char why[TERN_CSV_TASK_WHY_MAX];
    float number = 0;
    const struct tern_csv_profile *profile = &check->profile;
    const struct tern_csv_task task = {.profile = profile, .data = check->spec.path, .least = 2};
    char hint[CHECK_SENTENCE_MAX];
    if (tern_csv_hint_label(profile, hint, sizeof hint)) {
        tern_findings_add(check->findings, TERN_HEALTH_WARNING, "label", NULL, "%s", hint);
    }
    const uint32_t features = drop_useless_columns(&check->profile);
    if (choice->numeric ? !tern_csv_check_target(&task, why)
                        : !tern_csv_list_classes(&task, check->classes, why)) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM,
                          choice->numeric ? "target" : "classes", NULL, "%s", why);
        check->profile.columns.label = TERN_CSV_NO_COLUMN; // makes later checks ignore the label
        return false;
    }
    if (features == 0) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM, "data", NULL,
                          "%.200s has no column of varying numbers beside the label",
                          check->spec.path);
        return false;
    }
    const struct tern_dataset shape = {.height = 1,
                                       .width = features,
                                       .channels = 1,
                                       .feature_count = features,
                                       .class_count = profile->labels.count,
                                       .targets = choice->numeric ? &number : NULL};
    report_model(check, check->federation->spec, &shape);
    return true;
}

// Appends `before` and a text in quotes to a data.source. Returns false if they do not fit.
static bool append_quoted(char *source, size_t size, const char *before, const char *text)
{
    size_t used = strlen(source);
    used += (size_t)snprintf(source + used, size - used, "%s\"", before);
    for (const char *c = text; used < size && *c != '\0'; c++) {
        used += (size_t)snprintf(source + used, size - used, "%s%c", *c == '"' ? "\"" : "", *c);
    }
    used += used < size ? (size_t)snprintf(source + used, size - used, "\"") : 0;
    return used < size;
}

static bool append_option(char *source, size_t size, const char *key, const char *value)
{
    char before[64];
    snprintf(before, sizeof before, ",%.60s=", key);
    return append_quoted(source, size, before, value);
}

// Lists the columns that are neither features, label nor group: an option drops them, or they predict nothing.
static void list_dropped(const struct check *check, char list[CHECK_SENTENCE_MAX])
{
    const struct tern_csv_profile *profile = &check->profile;
    char number[16];
    list[0] = '\0';
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        if (!profile->column[c].feature && c != profile->columns.label &&
            c != profile->columns.group) {
            append(list, "%s%s", list[0] != '\0' ? "|" : "",
                   tern_csv_setting_name(profile, c, number));
        }
    }
}

// Composes the data.source that `tern-aggregator init` would write for the file, with the options of check->spec.
static bool compose_source(struct check *check, const struct tern_csv_choice *choice, char *source,
                           size_t size)
{
    char dropped[CHECK_SENTENCE_MAX];
    char number[16];
    const struct tern_csv_profile *profile = &check->profile;
    source[0] = '\0';
    list_dropped(check, dropped);
    bool fits = append_quoted(source, size, "csv:", check->spec.path);
    for (uint32_t i = 0; i < check->spec.option_count; i++) {
        const char *key = check->spec.options[i].key;
        fits = fits && (strcmp(key, "drop") == 0 ||
                        append_option(source, size, key, check->spec.options[i].value));
    }
    fits = fits && (dropped[0] == '\0' || append_option(source, size, "drop", dropped)) &&
           (check->classes[0] == '\0' || append_option(source, size, "classes", check->classes));
    return fits && (!choice->numeric ||
                    append_option(source, size, "target",
                                  tern_csv_setting_name(profile, profile->columns.label, number)));
}

// Some options can only be checked by reading the examples. If the spec has one, sets data.source to the labels and features
// that `tern-aggregator init` would choose, and returns true.
static bool use_proposed_source(struct check *check, const struct tern_csv_choice *choice)
{
    static const char *const judged[] = {"scale", "only", "test", "test_file", "seed", NULL};
    static struct tern_client_settings settings;
    if (!has_option(&check->spec, judged)) {
        return false;
    }
    settings = *check->settings;
    check->as_init =
        compose_source(check, choice, settings.data_source, sizeof settings.data_source);
    check->settings = &settings;
    return check->as_init;
}

// --- All checks of the data

static enum tern_result read_profile(struct check *check, const struct tern_csv_choice *choice)
{
    char why[TERN_DATA_WHY_MAX];
    struct tern_input input;
    tern_csv_profile_free(&check->profile);
    TERN_TRY(tern_input_open(&input, check->spec.path, 1ull << 32, why));
    const enum tern_result result = tern_csv_profile_read(&input, choice, &check->profile);
    tern_input_close(&input);
    return result;
}

// Profiles the file. If the options name no labels, and the labels found are numbers to predict, profiles it again with numeric
// labels.
static enum tern_result read_table(struct check *check, struct tern_csv_choice *choice)
{
    TERN_TRY(read_profile(check, choice));
    choice->numeric = choice->numeric || (check->open && tern_csv_is_target(&check->profile));
    if (!check->open || !choice->numeric) {
        return TERN_OK;
    }
    choice->header = check->profile.columns.header ? TERN_CSV_HEADER_YES : TERN_CSV_HEADER_NO;
    return read_profile(check, choice);
}

// Checks each line of a CSV file. Returns whether check_examples() should also run.
static bool check_table_file(struct check *check)
{
    char text[TERN_DATA_SPEC_MAX];
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_csv_choice choice;
    const struct tern_client_settings *settings = check->settings;
    tern_data_spec_join(settings->data_source, settings->data_dir, text);
    if (tern_data_spec_parse(&check->spec, text, why) != TERN_OK ||
        strcmp(check->spec.kind, "csv") != 0 || tern_csv_choose(&check->spec, &choice) != TERN_OK) {
        return true; // check_examples() reports the error
    }
    check->open = check->table != NULL && lacks_label_option(&check->spec);
    if (read_table(check, &choice) != TERN_OK) {
        check->profile.rows = 0;
        return true;
    }
    if (check->table != NULL) {
        show_table(&check->profile, &choice, check->table);
    }
    check->unlabelled = choice.unlabelled;
    const uint32_t problems = check->findings->count[TERN_HEALTH_PROBLEM];
    bool fits = true;
    if (check->open) {
        fits = report_proposal(check, &choice);
        choice.classes = check->classes[0] != '\0' ? check->classes : NULL;
    }
    const struct tern_csv_judging judging = {.profile = &check->profile,
                                             .choice = &choice,
                                             .sample = check->open,
                                             .fixed =
                                                 check->federation->spec != NULL && !check->open,
                                             .report = report_judgement,
                                             .ctx = check};
    const uint32_t before = check->findings->count[TERN_HEALTH_PROBLEM];
    tern_csv_judge(&judging);
    if (check->open && fits && check->findings->count[TERN_HEALTH_PROBLEM] == before) {
        report_sound(check, choice.numeric);
    }
    const bool sound = check->findings->count[TERN_HEALTH_PROBLEM] == problems;
    return sound && (!check->open || use_proposed_source(check, &choice));
}

static void check_examples(struct check *check)
{
    char why[CLIENT_DATA_WHY_MAX] = "";
    const enum tern_result result = tern_client_data_open(check->settings, true, &check->data, why);
    if (result != TERN_OK) {
        tern_findings_add(check->findings, TERN_HEALTH_PROBLEM, "data", NULL, "%s", why);
        return;
    }
    const struct tern_dataset *train = &check->data.train;
    if (check->as_init) {
        if (check->data.scaled) { // check_table_file() has reported the rest
            report_sizes(check);
        }
        return;
    }
    tern_findings_add(check->findings, TERN_HEALTH_GOOD, "data", NULL,
                      "%.200s: %" PRIu32 " examples to train on, %" PRIu32
                      " held out to evaluate on, of %" PRIu32 " values each",
                      check->settings->data_source, train->count, check->data.test.count,
                      train->feature_count);
    if (check->unlabelled) {
        tern_findings_add(check->findings, TERN_HEALTH_GOOD, "classes", NULL,
                          "no label: every row counts as normal, and none is marked as an anomaly");
    } else if (train->targets == NULL) {
        report_classes(check);
    }
    if (sizes_matter(check)) {
        report_sizes(check);
    }
    report_model(check, check->federation->spec, train);
}

// Checks the data of the settings as a client would read it, and each line of a CSV file. table: where to show the columns;
// NULL: nowhere.
static void check_data(const struct tern_client_settings *settings,
                       const struct check_federation *federation, struct tern_findings *findings,
                       struct check_table *table)
{
    struct check *check = calloc(1, sizeof *check);
    if (check == NULL) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "data", NULL,
                          "no memory to check the file");
        return;
    }
    check->settings = settings;
    check->federation = federation;
    check->findings = findings;
    check->table = table;
    if (check_table_file(check)) {
        check_examples(check);
    }
    tern_csv_profile_free(&check->profile);
    tern_data_close(&check->data);
    free(check);
}

// --- All together

static void check_columns(struct session *session, const struct tern_client_identity *identity,
                          struct check_federation *federation, struct tern_findings *findings)
{
    uint8_t *bytes = NULL;
    if (identity != NULL &&
        tern_stored_model_scaling(session, &bytes, &federation->scaling) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "scaling", NULL, "%s", session->why);
    }
    if (federation->scaling.len > 0) {
        federation->shared = CHECK_SCALING_HELD;
    }
    if (federation->other_columns) {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "columns", NULL, "%s",
                          CLIENT_OTHER_COLUMNS);
    }
    check_data(&tern_client_settings, federation, findings, NULL);
    free(bytes);
}

static void check_trainer(const struct tern_cli *cli, struct session *session,
                          const struct tern_client_identity *identity,
                          struct check_federation *federation, struct tern_findings *findings)
{
    struct external_trainer external = {0};
    char why[EXTERNAL_WHY_MAX];
    const char *enrolled = identity != NULL ? identity->model_spec : NULL;
    federation->spec = tern_cli_option(cli, "model", enrolled);
    if (tern_external_kind_of(&tern_client_settings, &external.kind, why) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "data", NULL, "%s", why);
    } else if (external.kind != EXTERNAL_NONE && federation->shared != CHECK_SCALING_UNKNOWN &&
               federation->shared != CHECK_SCALING_NONE) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "data",
                          "remove client.trainer from the settings, so that the built-in trainer "
                          "trains; or ask the operator about statistics.columns",
                          "clients of this federation share statistics of their columns, which "
                          "client.trainer = %s does not have: this client will get no tasks",
                          tern_client_settings.client_trainer);
    } else if (external.kind != EXTERNAL_NONE) {
        tern_findings_add(
            findings, TERN_HEALTH_GOOD, "data", NULL,
            "client.trainer = %s reads its own data: test it with tern-client train-check",
            tern_client_settings.client_trainer);
    } else {
        check_columns(session, identity, federation, findings);
        if (federation->spec == NULL) {
            tern_findings_add(findings, TERN_HEALTH_GOOD, "model", NULL,
                              "unknown before this client is enrolled; --model SPEC checks one");
        }
    }
}

// `check --data FILE`: shows the columns of one file, and reports its problems.
static int check_file(struct tern_cli *cli, const char *place)
{
    static struct tern_client_settings settings;
    char spec[TERN_DATA_SPEC_MAX];
    struct tern_findings findings = {.list = cli->json ? cJSON_CreateArray() : NULL};
    struct check_table table = {.columns = cli->json ? cJSON_CreateArray() : NULL};
    struct check_federation federation = {.shared = CHECK_SCALING_UNKNOWN,
                                          .spec = tern_cli_option(cli, "model", NULL)};
    settings = tern_client_settings;
    if (strncmp(settings.data_source, "csv", 3) !=
        0) { // the options of another kind of data do not apply
        snprintf(settings.data_source, sizeof settings.data_source, "csv");
    }
    tern_client_data_spec(&settings, place, spec);
    if (strlen(spec) >= sizeof settings.data_source) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--data: the file's name is too long");
    }
    memcpy(settings.data_source, spec, strlen(spec) + 1);
    settings.data_dir[0] = '\0';
    settings.data_shard[0] = '\0';
    check_data(&settings, &federation, &findings, &table);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToObject(object, "columns", table.columns);
        cJSON_AddItemToObject(object, "findings", findings.list);
        TERN_CLI_TRY(tern_json_print(cli, object));
    }
    return findings.count[TERN_HEALTH_PROBLEM] > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
}

int tern_verb_check(struct tern_cli *cli)
{
    static struct session session;
    const char *place = tern_cli_option(cli, "data", NULL);
    if (place != NULL) {
        return check_file(cli, place);
    }
    struct tern_findings findings = {.list = cli->json ? cJSON_CreateArray() : NULL};
    const struct tern_client_identity *identity = NULL;
    struct check_federation federation = {.shared = CHECK_SCALING_UNKNOWN};
    check_state(&session, &identity, &findings);
    if (!tern_cli_flag(cli, "offline")) {
        check_server(identity, &federation, &findings);
    }
    check_trainer(cli, &session, identity, &federation, &findings);
    check_secure(&findings);
    check_conditions(&findings);
    check_budget(&session, &findings);
    check_clock(&session, &findings);
    tern_session_close(&session);
    if (cli->json && tern_json_print(cli, findings.list) != TERN_EXIT_OK) {
        return TERN_EXIT_FAILED;
    }
    return findings.count[TERN_HEALTH_PROBLEM] > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
}
