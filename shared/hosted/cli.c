#include "hosted/cli.h"

#include "hosted/settings.h"
#include "util/text.h"
#include "version.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The common options that were found before and after the verb.
struct parse {
    struct tern_cli *cli;
    bool help;
    bool version;
    bool settings;
};

// --- Help

// The --help texts of a program. Internal to shared/hosted.

#define NAME_COLUMN 24

static void print_option(const char *name, const char *argument, const char *doc, FILE *out)
{
    char left[96];
    snprintf(left, sizeof(left), "  --%s%s%s", name, argument == NULL ? "" : " ",
             argument == NULL ? "" : argument);
    fprintf(out, "%-*s %s\n", NAME_COLUMN, left, doc);
}

static void print_options(const struct tern_cli_verb *verb, FILE *out)
{
    if (verb->options == NULL || verb->options[0].name == NULL) {
        return;
    }
    fputs("\nOptions:\n", out);
    for (const struct tern_cli_option *option = verb->options; option->name != NULL; option++) {
        print_option(option->name, option->argument, option->doc, out);
    }
}

static void print_common(const struct tern_cli_program *program, FILE *out)
{
    fputs("\nCommon options:\n", out);
    if (program->settings != NULL) {
        print_option("config", "FILE", "read settings from an INI file", out);
        print_option("set", "S.K=V", "override one setting, e.g. --set section.key=value", out);
        print_option("settings", NULL, "print every setting, documented, as an INI file", out);
    }
    print_option("json", NULL, "print results as JSON", out);
    print_option("help", NULL, "this text", out);
    print_option("version", NULL, "print the version", out);
    if (program->default_config != NULL) {
        fprintf(out, "\nWithout --config, %s is read if it exists.\n", program->default_config);
    }
}

static void print_exit_codes(FILE *out)
{
    fputs("\nExit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 refused by the peer,\n"
          "4 nothing to do or over budget, 5 interrupted.\n",
          out);
}

static void help_verb(const struct tern_cli_program *program, const struct tern_cli_verb *verb,
                      FILE *out)
{
    bool has_options = verb->options != NULL && verb->options[0].name != NULL;
    fprintf(out, "Usage: %s %s%s%s%s\n\n%s.\n\n%s", program->name, verb->name,
            has_options ? " [options]" : "", verb->arguments[0] == '\0' ? "" : " ", verb->arguments,
            verb->summary, verb->help);
    print_options(verb, out);
    print_common(program, out);
}

// Prints the help of a program without verbs. Its options are those of the table's only entry.
static void help_single(const struct tern_cli_program *program, FILE *out)
{
    const struct tern_cli_verb *verb = &program->verbs[0];
    fprintf(out, "Usage: %s [options]%s%s\n\n%s.\n\n%s%s", program->name,
            verb->arguments[0] == '\0' ? "" : " ", verb->arguments, program->summary, program->help,
            verb->help == NULL ? "" : verb->help);
    print_options(verb, out);
    print_common(program, out);
    print_exit_codes(out);
}

static void help_program(const struct tern_cli_program *program, FILE *out)
{
    if (program->verbs[0].name == NULL) {
        help_single(program, out);
        return;
    }
    fprintf(out, "Usage: %s [options] VERB [options] [arguments]\n\n%s.\n\nVerbs:\n", program->name,
            program->summary);
    for (const struct tern_cli_verb *verb = program->verbs; verb->run != NULL; verb++) {
        fprintf(out, "  %-*s %s\n", NAME_COLUMN - 2, verb->name, verb->summary);
    }
    fprintf(out, "\n'%s VERB --help' explains a verb.\n\n%s", program->name, program->help);
    print_common(program, out);
    print_exit_codes(out);
}

// Values that getopt_long() returns for the common options; the verb's option i has VERB_OPTION +
// i.
enum {
    OPTION_CONFIG = 256,
    OPTION_SET,
    OPTION_SETTINGS,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_VERSION,
    VERB_OPTION,
};

static const struct option common_options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"set", required_argument, NULL, OPTION_SET},
    {"settings", no_argument, NULL, OPTION_SETTINGS},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
};
#define COMMON_COUNT (sizeof(common_options) / sizeof(common_options[0]))

static void write_message(const struct tern_cli *cli, const char *format, va_list arguments)
{
    if (cli->message != NULL) {
        vsnprintf(cli->message, cli->message_size, format, arguments);
        return;
    }
    fprintf(stderr, "%s: ", cli->program->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

// Writes "program: message" and a hint at --help. Returns the exit code of a wrong command line.
static int usage_error(const struct tern_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int usage_error(const struct tern_cli *cli, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_message(cli, format, arguments);
    va_end(arguments);
    bool has_verb = cli->verb != NULL && cli->verb->name != NULL;
    fprintf(stderr, "Try '%s %s%s--help'.\n", cli->program->name, has_verb ? cli->verb->name : "",
            has_verb ? " " : "");
    return TERN_EXIT_USAGE;
}

static size_t verb_option_count(const struct tern_cli_verb *verb)
{
    size_t count = 0;
    while (verb != NULL && verb->options != NULL && verb->options[count].name != NULL) {
        count++;
    }
    if (count > TERN_CLI_OPTIONS_MAX) {
        fprintf(stderr, "verb %s has more than %d options\n", verb->name, TERN_CLI_OPTIONS_MAX);
        abort();
    }
    return count;
}

// Lists the verb's options, then the common options, then the end mark. getopt_long() takes the
// first match, so a verb can replace a common option.
static void list_options(const struct tern_cli_verb *verb,
                         struct option list[COMMON_COUNT + TERN_CLI_OPTIONS_MAX + 1])
{
    size_t count = verb_option_count(verb);
    memset(list, 0, (COMMON_COUNT + TERN_CLI_OPTIONS_MAX + 1) * sizeof(list[0]));
    memcpy(list + count, common_options, sizeof(common_options));
    for (size_t i = 0; verb != NULL && i < count; i++) {
        const struct tern_cli_option *option = &verb->options[i];
        list[i] = (struct option){option->name,
                                  option->argument == NULL ? no_argument : required_argument, NULL,
                                  VERB_OPTION + (int)i};
    }
}

// Stores an option that getopt_long() returned; false for an unknown option.
static bool take_option(struct parse *parse, int option)
{
    struct tern_cli *cli = parse->cli;
    switch (option) {
    case OPTION_CONFIG:
        cli->config = optarg;
        return true;
    case OPTION_SET:
        cli->sets[cli->set_count++] = optarg;
        return true;
    case OPTION_SETTINGS:
        parse->settings = true;
        return true;
    case OPTION_JSON:
        cli->json = true;
        return true;
    case 'h':
    case OPTION_HELP:
        parse->help = true;
        return true;
    case OPTION_VERSION:
        parse->version = true;
        return true;
    default:
        break;
    }
    if (option < VERB_OPTION) {
        return false;
    }
    cli->option_values[option - VERB_OPTION] = optarg == NULL ? "" : optarg;
    return true;
}

static int no_such_option(const struct tern_cli *cli, const struct option *list,
                          const char *written)
{
    const char *name = written + strspn(written, "-");
    struct tern_near_name search = {.written = name, .limit = tern_near_limit(name)};
    for (; list->name != NULL; list++) {
        tern_near_offer(&search, list->name);
    }
    return search.best == NULL || written[1] != '-'
               ? usage_error(cli, "unknown option %s", written)
               : usage_error(cli, "unknown option %s; did you mean --%s?", written, search.best);
}

// Parses options. Before the verb is known, cli->verb is NULL, only the common options are valid,
// and parsing stops at the first argument that is no option. Returns 0 or an exit code.
static int parse_options(struct parse *parse, int argc, char **argv)
{
    struct option list[COMMON_COUNT + TERN_CLI_OPTIONS_MAX + 1];
    struct tern_cli *cli = parse->cli;
    list_options(cli->verb, list);
    const char *letters = cli->verb == NULL ? "+:h" : ":h";
    optind = 0; // 0 restarts glibc's parser
    int option;
    while ((option = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        if (option == ':') {
            return usage_error(cli, "%s needs a value", argv[optind - 1]);
        }
        if (!take_option(parse, option)) {
            return no_such_option(cli, list, argv[optind - 1]);
        }
    }
    return 0;
}

static const struct tern_cli_verb *find_verb(const struct tern_cli_program *program,
                                             const char *name)
{
    for (const struct tern_cli_verb *verb = program->verbs; verb->run != NULL; verb++) {
        if (strcmp(verb->name, name) == 0) {
            return verb;
        }
    }
    return NULL;
}

static int no_such_verb(const struct tern_cli *cli, const char *written)
{
    struct tern_near_name search = {.written = written, .limit = tern_near_limit(written)};
    for (const struct tern_cli_verb *verb = cli->program->verbs; verb->run != NULL; verb++) {
        tern_near_offer(&search, verb->name);
    }
    return search.best == NULL ? usage_error(cli, "there is no verb '%s'", written)
                               : usage_error(cli, "there is no verb '%s'; did you mean '%s'?",
                                             written, search.best);
}

static bool has_verbs(const struct tern_cli_program *program)
{
    return program->verbs[0].name != NULL;
}

// Parses the whole command line. The verb may be missing, since --help needs none. Returns 0 or an
// exit code.
static int parse_command_line(struct parse *parse, int argc, char **argv)
{
    struct tern_cli *cli = parse->cli;
    if (has_verbs(cli->program)) {
        TERN_CLI_TRY(parse_options(parse, argc, argv));
        if (optind == argc) {
            return 0;
        }
        cli->verb = find_verb(cli->program, argv[optind]);
        if (cli->verb == NULL) {
            return no_such_verb(cli, argv[optind]);
        }
        argc -= optind;
        argv += optind;
    } else {
        cli->verb = &cli->program->verbs[0];
    }
    int code = parse_options(parse, argc, argv);
    cli->arguments = argv + optind;
    cli->argument_count = code == 0 ? (unsigned)(argc - optind) : 0;
    return code;
}

int tern_cli_load_settings(struct tern_cli *cli)
{
    const struct tern_cli_program *program = cli->program;
    char why[512];
    if (program->settings == NULL) {
        return cli->config == NULL && cli->set_count == 0
                   ? 0
                   : usage_error(cli, "this program has no settings");
    }
    tern_settings_defaults(program->settings, program->values);
    if (cli->config == NULL && program->default_config != NULL &&
        access(program->default_config, F_OK) == 0) {
        cli->config = program->default_config;
    }
    if (cli->config != NULL &&
        tern_settings_load(program->settings, program->values, cli->config, why) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        if (tern_settings_set(program->settings, program->values, cli->sets[i], why) != TERN_OK) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
        }
    }
    return 0;
}

// Returns whether the command line itself chooses a federation, a setting, or a file of data to read.
static bool chooses_by_itself(const struct tern_cli *cli)
{
    for (size_t i = 0; i < verb_option_count(cli->verb); i++) {
        const char *name = cli->verb->options[i].name;
        if ((strcmp(name, "state") == 0 || strcmp(name, "data") == 0) &&
            cli->option_values[i] != NULL) {
            return true;
        }
    }
    return cli->set_count > 0;
}

// Refuses to use default settings while the usual settings file is in the current folder, which needs --config. Only warns
// if the command line chooses by itself.
static int check_unread_file(const struct tern_cli *cli)
{
    const char *path = cli->program->default_config;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (cli->config != NULL || slash == NULL || access(slash + 1, F_OK) != 0) {
        return 0;
    }
    if (!chooses_by_itself(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s of this folder is read only by name: add --config %s (for default "
                             "settings: --config /dev/null)",
                             slash + 1, slash + 1);
    }
    fprintf(stderr,
            "%s: warning: %s of this folder is not read, and default settings are used: add "
            "--config %s\n",
            cli->program->name, slash + 1, slash + 1);
    return 0;
}

static int load_before_verb(struct tern_cli *cli)
{
    const char *verb = cli->program->verb_of_files;
    if (verb != NULL && strcmp(cli->verb->name, verb) == 0) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_cli_load_settings(cli));
    return check_unread_file(cli);
}

static int check_arguments(const struct tern_cli *cli)
{
    if (cli->argument_count < cli->verb->least_arguments) {
        return usage_error(cli, "an argument is missing; expected %s", cli->verb->arguments);
    }
    if (cli->argument_count > cli->verb->most_arguments) {
        return usage_error(cli, "unexpected argument '%s'",
                           cli->arguments[cli->verb->most_arguments]);
    }
    return 0;
}

// Answers --help, --version or --settings. Returns false if none of them was given.
static bool answer(const struct parse *parse)
{
    const struct tern_cli *cli = parse->cli;
    if (parse->help && cli->verb != NULL && cli->verb->name != NULL) {
        help_verb(cli->program, cli->verb, stdout);
    } else if (parse->help) {
        help_program(cli->program, stdout);
    } else if (parse->version) {
        printf("%s %s\n", cli->program->name, TERN_VERSION);
    } else if (parse->settings && cli->program->settings != NULL) {
        tern_settings_print_example(cli->program->settings, cli->program->values, stdout);
    } else {
        return false;
    }
    return true;
}

static int run(struct parse *parse, int argc, char **argv)
{
    struct tern_cli *cli = parse->cli;
    TERN_CLI_TRY(parse_command_line(parse, argc, argv));
    if (parse->version && cli->verb != NULL && cli->argument_count > 0) {
        return usage_error(cli, "--version is the program's and takes no value: '%s'",
                           cli->arguments[0]);
    }
    if (parse->settings) { // --settings also prints values that are derived from the settings
        TERN_CLI_TRY(tern_cli_load_settings(cli));
    }
    if (answer(parse)) {
        return TERN_EXIT_OK;
    }
    if (cli->verb == NULL) {
        return usage_error(cli, "a verb is missing");
    }
    TERN_CLI_TRY(check_arguments(cli));
    TERN_CLI_TRY(load_before_verb(cli));
    int code = cli->verb->run(cli);
    // A full disk or a closed pipe must not look like success to a script that reads our output.
    if (fflush(stdout) != 0 && code == TERN_EXIT_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "cannot write the output: %s", strerror(errno));
    }
    return code;
}

int tern_cli_main(const struct tern_cli_program *program, int argc, char **argv)
{
    struct tern_cli cli = {.program = program};
    struct parse parse = {.cli = &cli};
    cli.sets = calloc((size_t)argc + 1, sizeof(cli.sets[0]));
    if (cli.sets == NULL) {
        return tern_cli_fail(&cli, TERN_ERR_NO_MEMORY, "out of memory");
    }
    int code = run(&parse, argc, argv);
    free(cli.sets);
    return code;
}

static size_t option_index(const struct tern_cli *cli, const char *name)
{
    size_t count = verb_option_count(cli->verb);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(cli->verb->options[i].name, name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "%s: the verb has no option --%s\n", cli->program->name, name);
    abort();
}

const char *tern_cli_option(const struct tern_cli *cli, const char *name, const char *fallback)
{
    const char *value = cli->option_values[option_index(cli, name)];
    return value == NULL ? fallback : value;
}

bool tern_cli_flag(const struct tern_cli *cli, const char *name)
{
    return tern_cli_option(cli, name, NULL) != NULL;
}

// Reads an option with the units and the messages of a setting.
static enum tern_result read_option(const struct tern_cli *cli, const char *name,
                                    const struct tern_setting *setting, uint64_t *value)
{
    char problem[TERN_SETTING_PROBLEM_MAX];
    char allowed[TERN_SETTING_ALLOWED_MAX];
    const char *text = tern_cli_option(cli, name, NULL);
    if (text == NULL || tern_setting_parse(setting, text, value, problem) == TERN_OK) {
        return TERN_OK;
    }
    tern_setting_allowed(setting, allowed);
    usage_error(cli, "--%s '%s' %s; allowed: %s", name, text, problem, allowed);
    return TERN_ERR_CONFIG;
}

enum tern_result tern_cli_number(const struct tern_cli *cli, const char *name, uint64_t fallback,
                                 uint64_t least, uint64_t most, uint64_t *value)
{
    const struct tern_setting setting = {.type = TERN_SETTING_U64,
                                         .size = sizeof(*value),
                                         .min = (double)least,
                                         .max = (double)most};
    *value = fallback;
    return read_option(cli, name, &setting, value);
}

enum tern_result tern_cli_duration(const struct tern_cli *cli, const char *name,
                                   uint64_t fallback_ms, uint64_t least_ms, uint64_t most_ms,
                                   uint64_t *ms)
{
    const struct tern_setting setting = {.type = TERN_SETTING_MS,
                                         .size = sizeof(*ms),
                                         .min = (double)least_ms,
                                         .max = (double)most_ms};
    *ms = fallback_ms;
    return read_option(cli, name, &setting, ms);
}

int tern_cli_fail(const struct tern_cli *cli, enum tern_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_message(cli, format, arguments);
    va_end(arguments);
    return (int)tern_cli_exit_code(result);
}

enum tern_result tern_cli_refuse(const struct tern_cli *cli, enum tern_result result,
                                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (result != TERN_OK) {
        write_message(cli, format, arguments);
    }
    va_end(arguments);
    return result;
}

int tern_cli_check(const struct tern_cli *cli, enum tern_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (result != TERN_OK) {
        write_message(cli, format, arguments);
    }
    va_end(arguments);
    return (int)tern_cli_exit_code(result);
}

enum tern_exit tern_cli_exit_code(enum tern_result result)
{
    switch ((int)result) {
    case TERN_OK:
        return TERN_EXIT_OK;
    case TERN_ERR_CONFIG:
        return TERN_EXIT_USAGE;
    case TERN_ERR_UNAUTHORIZED:
    case TERN_ERR_CONFLICT:
    case TERN_ERR_LATE:
    case TERN_ERR_UNKNOWN_ROUND:
    case TERN_ERR_WRONG_REPLICA:
    case TERN_ERR_NOT_IN_COHORT:
    case TERN_ERR_NORM_LIMIT:
    case TERN_ERR_MODEL_MISMATCH:
        return TERN_EXIT_REFUSED;
    case TERN_AGAIN:
    case TERN_ERR_BUDGET:
        return TERN_EXIT_NOTHING;
    default:
        return TERN_EXIT_FAILED;
    }
}

// --- Findings

#define SENTENCE_MAX (2 * PATH_MAX)

static void add(cJSON *list, const char *health, const char *area, const char *sentence,
                const char *advice)
{
    cJSON *finding = cJSON_CreateObject();
    cJSON_AddStringToObject(finding, "health", health);
    cJSON_AddStringToObject(finding, "area", area);
    cJSON_AddStringToObject(finding, "finding", sentence);
    if (advice != NULL) {
        cJSON_AddStringToObject(finding, "advice", advice);
    } else {
        cJSON_AddNullToObject(finding, "advice");
    }
    cJSON_AddItemToArray(list, finding);
}

void tern_findings_add(struct tern_findings *findings, enum tern_health health, const char *area,
                       const char *advice, const char *format, ...)
{
    static const char *const names[TERN_HEALTH_COUNT] = {"good", "warning", "problem"};
    static const char *const marks[TERN_HEALTH_COUNT] = {"good", "WARNING", "PROBLEM"};
    char sentence[SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    tern_utf8_show(sentence, strlen(sentence));
    findings->count[health]++;
    if (findings->list != NULL) {
        add(findings->list, names[health], area, sentence, advice);
        return;
    }
    printf("%-8s %-12s %s\n", marks[health], area, sentence);
    if (advice != NULL) {
        printf("%-21s What to do: %s\n", "", advice);
    }
}

// --- JSON

int tern_json_print(const struct tern_cli *cli, cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    cJSON_Delete(value);
    if (text == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the JSON output");
    }
    puts(text);
    cJSON_free(text);
    return TERN_EXIT_OK;
}
