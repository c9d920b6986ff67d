// The command line that all programs share, as a user meets it: an example program is run in a
// child process.
#include "capture.h"
#include "hosted/cli.h"
#include "tests/cases.h"
#include "version.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct example_settings {
#include "hosted/setting_fields.def"

#include "example_settings.def"

#include "hosted/setting_rows_end.def"
};

#include "example_spec.h"

#define TERN_SETTINGS_STRUCT struct example_settings
#include "hosted/setting_rows.h"
static const struct tern_setting table[] = {
#include "example_settings.def"
};
static const struct tern_settings settings = TERN_SETTINGS("tern-example", table, NULL);
static struct example_settings values;

static int show(struct tern_cli *cli)
{
    uint64_t count;
    if (tern_cli_number(cli, "count", 3, 1, 2000, &count) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    printf("port=%u json=%d count=%u label=%s force=%d", values.server_port, cli->json,
           (unsigned)count, tern_cli_option(cli, "label", "none"), tern_cli_flag(cli, "force"));
    for (unsigned i = 0; i < cli->argument_count; i++) {
        printf(" [%s]", cli->arguments[i]);
    }
    printf("\n");
    return TERN_EXIT_OK;
}

static int refuse(struct tern_cli *cli)
{
    return tern_cli_fail(cli, TERN_ERR_UNAUTHORIZED, "the token of client %d was revoked", 7);
}

static const struct tern_cli_option show_options[] = {
    {"count", "N", "how many to show"},
    {"label", "TEXT", "what to call them"},
    {"force", NULL, "show them at any cost"},
    {0},
};
static const struct tern_cli_verb verbs[] = {
    {"show", "Show things", "[THING]", "Shows what there is.\n\n  tern-example show --count 5 a\n",
     show_options, 0, 1, show},
    {"refuse", "Fail", "CODE", "Fails.\n", NULL, 1, 1, refuse},
    {0},
};
static const struct tern_cli_verb only_verb[] = {
    {NULL, "", "", "", show_options, 0, 0, show},
    {0},
};
static const struct tern_cli_program program = {
    "tern-example", "An example", "Example: tern-example show\n", verbs, &settings, &values,
    NULL,           NULL,
};
static const struct tern_cli_program single = {
    "tern-single", "An example", "Example: tern-single\n", only_verb, &settings, &values,
    NULL,          NULL,
};
static const struct tern_cli_program bare = {
    "tern-bare", "Without settings", "Example: tern-bare\n", only_verb, NULL, NULL, NULL, NULL,
};

struct call {
    const struct tern_cli_program *program;
    int argc;
    char *argv[16];
};

static int run_call(void *ctx)
{
    struct call *call = ctx;
    return tern_cli_main(call->program, call->argc, call->argv);
}

// Runs the program with the words of `line`.
static struct capture run(const struct tern_cli_program *which, const char *line)
{
    struct capture capture;
    struct call call = {.program = which};
    char copy[512];
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word != NULL && call.argc < 15; word = strtok(NULL, " ")) {
        call.argv[call.argc++] = word;
    }
    capture_run(&capture, run_call, &call);
    return capture;
}

static void assert_prints(const char *line, const char *out)
{
    struct capture got = run(&program, line);
    assert_string_equal(got.err, "");
    assert_string_equal(got.out, out);
    assert_int_equal(got.code, 0);
}

static void assert_usage_error(const char *line, const char *err)
{
    struct capture got = run(&program, line);
    assert_string_equal(got.err, err);
    assert_string_equal(got.out, "");
    assert_int_equal(got.code, TERN_EXIT_USAGE);
}

CASE(options_stand_before_or_behind_the_verb)
{
    assert_prints("tern-example show", "port=8443 json=0 count=3 label=none force=0\n");
    assert_prints("tern-example --json --set port=1 show",
                  "port=1 json=1 count=3 label=none force=0\n");
    assert_prints("tern-example show a --set server.port=2 --json --force --label=x --count 2k",
                  "port=2 json=1 count=2000 label=x force=1 [a]\n");
    assert_prints("tern-example show -- --json", "port=8443 json=0 count=3 label=none force=0 "
                                                 "[--json]\n");
}

CASE(the_last_of_several_overrides_wins)
{
    assert_prints("tern-example --set port=1 show --set port=2",
                  "port=2 json=0 count=3 label=none force=0\n");
}

CASE(overrides_are_stronger_than_the_file)
{
    char path[] = "/tmp/tern-cli-XXXXXX";
    char line[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[server]\nport = 5\n", 18), 18);
    close(fd);
    snprintf(line, sizeof(line), "tern-example show --config %s", path);
    assert_prints(line, "port=5 json=0 count=3 label=none force=0\n");
    snprintf(line, sizeof(line), "tern-example --set port=6 show --config %s", path);
    assert_prints(line, "port=6 json=0 count=3 label=none force=0\n");
    unlink(path);
    assert_usage_error("tern-example show --config /nonexistent.ini",
                       "tern-example: /nonexistent.ini: No such file or directory\n");
}

CASE(a_default_file_is_read_when_it_is_there)
{
    char path[] = "/tmp/tern-cli-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[server]\nport = 5\n", 18), 18);
    close(fd);
    struct tern_cli_program with_default = program;
    with_default.default_config = path;
    struct capture got = run(&with_default, "tern-example show");
    assert_string_equal(got.out, "port=5 json=0 count=3 label=none force=0\n");
    unlink(path);
    got = run(&with_default, "tern-example show");
    assert_string_equal(got.out, "port=8443 json=0 count=3 label=none force=0\n");
}

CASE(an_unread_file_of_this_folder_is_named)
{
    char folder[] = "/tmp/tern-cli-XXXXXX";
    char before[1024];
    struct tern_cli_program with_default = program;
    with_default.default_config = "/nonexistent/example.ini";
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    struct capture got = run(&with_default, "tern-example show");
    assert_string_equal(got.err, "");
    FILE *file = fopen("example.ini", "w");
    assert_non_null(file);
    fclose(file);
    got = run(&with_default, "tern-example show");
    assert_int_equal(got.code, TERN_EXIT_USAGE);
    assert_string_equal(got.out, "");
    assert_string_equal(got.err,
                        "tern-example: example.ini of this folder is read only by name: add "
                        "--config example.ini (for default settings: --config "
                        "/dev/null)\n");
    got = run(&with_default, "tern-example show --set server.port=9");
    assert_int_equal(got.code, TERN_EXIT_OK);
    assert_string_equal(got.err,
                        "tern-example: warning: example.ini of this folder is not read, and "
                        "default settings are used: add --config example.ini\n");
    assert_string_equal(run(&with_default, "tern-example show --config /dev/null").err, "");
    assert_string_equal(run(&with_default, "tern-example show --config example.ini").err, "");
    assert_string_equal(run(&with_default, "tern-example --settings").err, "");
    assert_int_equal(unlink("example.ini"), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(folder), 0);
}

CASE(mistakes_are_named_and_point_to_help)
{
    assert_usage_error("tern-example",
                       "tern-example: a verb is missing\nTry 'tern-example --help'.\n");
    assert_usage_error("tern-example shoe",
                       "tern-example: there is no verb 'shoe'; did you mean 'show'?\n"
                       "Try 'tern-example --help'.\n");
    assert_usage_error("tern-example frobnicate", "tern-example: there is no verb 'frobnicate'\n"
                                                  "Try 'tern-example --help'.\n");
    assert_usage_error("tern-example --jsn show",
                       "tern-example: unknown option --jsn; did you mean --json?\n"
                       "Try 'tern-example --help'.\n");
    assert_usage_error("tern-example show --cuont 3",
                       "tern-example: unknown option --cuont; did you mean --count?\n"
                       "Try 'tern-example show --help'.\n");
    assert_usage_error("tern-example show -x", "tern-example: unknown option -x\n"
                                               "Try 'tern-example show --help'.\n");
    assert_usage_error("tern-example show --count", "tern-example: --count needs a value\n"
                                                    "Try 'tern-example show --help'.\n");
    assert_usage_error("tern-example show a b", "tern-example: unexpected argument 'b'\n"
                                                "Try 'tern-example show --help'.\n");
    assert_usage_error("tern-example refuse", "tern-example: an argument is missing; expected "
                                              "CODE\nTry 'tern-example refuse --help'.\n");
    assert_usage_error("tern-example show --count 0",
                       "tern-example: --count '0' is below the minimum; allowed: a whole number "
                       "from 1 to 2000\nTry 'tern-example show --help'.\n");
    assert_usage_error("tern-example show --set prt=1",
                       "tern-example: --set prt=1: there is no setting 'prt'; did you mean 'port' "
                       "in section [server]?\n");
}

CASE(failures_have_documented_exit_codes)
{
    struct capture got = run(&program, "tern-example refuse x");
    assert_int_equal(got.code, TERN_EXIT_REFUSED);
    assert_string_equal(got.err, "tern-example: the token of client 7 was revoked\n");
    assert_int_equal(tern_cli_exit_code(TERN_ERR_NETWORK), 1);
    assert_int_equal(tern_cli_exit_code(TERN_ERR_CONFIG), 2);
    assert_int_equal(tern_cli_exit_code(TERN_ERR_BUDGET), 4);
}

CASE(help_teaches)
{
    struct capture got = run(&program, "tern-example --help");
    assert_int_equal(got.code, 0);
    assert_non_null(strstr(got.out, "Usage: tern-example [options] VERB"));
    assert_non_null(strstr(got.out, "  show                   Show things\n"));
    assert_non_null(strstr(got.out, "Exit codes:"));
    got = run(&program, "tern-example show -h");
    assert_int_equal(got.code, 0);
    assert_non_null(strstr(got.out, "Usage: tern-example show [options] [THING]\n"));
    assert_non_null(strstr(got.out, "tern-example show --count 5 a"));
    assert_non_null(strstr(got.out, "  --count N              how many to show\n"));
    got = run(&program, "tern-example --version");
    assert_string_equal(got.out, "tern-example " TERN_VERSION "\n");
    got = run(&program, "tern-example show --version 3");
    assert_int_equal(got.code, TERN_EXIT_USAGE);
    assert_non_null(strstr(got.err, "--version is the program's and takes no value: '3'"));
    assert_string_equal(got.out, "");
    got = run(&program, "tern-example --settings");
    assert_non_null(strstr(got.out, "[server]\n# TCP port to listen on."));
}

CASE(a_program_may_have_no_verbs_and_no_settings)
{
    struct capture got = run(&single, "tern-single --set port=4 --force");
    assert_string_equal(got.out, "port=4 json=0 count=3 label=none force=1\n");
    got = run(&single, "tern-single --help");
    assert_non_null(strstr(got.out, "Usage: tern-single [options]\n"));
    assert_non_null(strstr(got.out, "--label TEXT"));
    got = run(&bare, "tern-bare --set port=4");
    assert_int_equal(got.code, TERN_EXIT_USAGE);
    assert_non_null(strstr(got.err, "this program has no settings"));
}

static int run_into_full_disk(void *ctx)
{
    assert_non_null(freopen("/dev/full", "w", stdout));
    return run_call(ctx);
}

CASE(output_that_cannot_be_written_is_a_failure)
{
    struct capture got;
    char name[] = "tern-example";
    char verb[] = "show";
    struct call call = {.program = &program, .argc = 2, .argv = {name, verb}};
    capture_run(&got, run_into_full_disk, &call);
    assert_int_equal(got.code, TERN_EXIT_FAILED);
    assert_string_equal(got.err,
                        "tern-example: cannot write the output: No space left on device\n");
}
