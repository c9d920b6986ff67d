// What a person notices of settings: values arrive, mistakes are named and change nothing.
#include "hosted/settings.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

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
static const struct tern_settings_section foreign[] = {
    {"client", "tern-client"}, {"server", "tern-other"}, {NULL, NULL}};
static const char *const foreign_keys[] = {"client.planned", NULL};
static const struct tern_settings settings = {
    "tern-example", table, sizeof table / sizeof table[0], foreign, foreign_keys, NULL};

static struct example_settings defaults(void)
{
    struct example_settings values;
    memset(&values, 0x5a, sizeof(values));
    tern_settings_defaults(&settings, &values);
    return values;
}

// Loads `text` as the file "a.ini".
static enum tern_result load(struct example_settings *values, const char *text, size_t len,
                             char why[512])
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, len, "r");
    assert_non_null(stream);
    enum tern_result result = tern_settings_load_stream(&settings, values, stream, "a.ini", why);
    fclose(stream);
    return result;
}

static void assert_loads(struct example_settings *values, const char *text)
{
    char why[512];
    if (load(values, text, strlen(text), why) != TERN_OK) {
        fail_msg("%s", why);
    }
}

// The file must be refused with exactly this sentence and must change nothing.
static void assert_refused(const char *text, const char *sentence)
{
    char why[512];
    struct example_settings values = defaults();
    struct example_settings before = values;
    assert_int_equal(load(&values, text, strlen(text), why), TERN_ERR_CONFIG);
    assert_string_equal(why, sentence);
    assert_memory_equal(&values, &before, sizeof(values));
}

static void assert_set_refused(const char *assignment, const char *sentence)
{
    char why[512];
    struct example_settings values = defaults();
    struct example_settings before = values;
    assert_int_equal(tern_settings_set(&settings, &values, assignment, why), TERN_ERR_CONFIG);
    assert_string_equal(why, sentence);
    assert_memory_equal(&values, &before, sizeof(values));
}

CASE(defaults_come_from_the_table)
{
    struct example_settings values = defaults();
    assert_int_equal(values.server_port, 8443);
    assert_string_equal(values.server_name, "tern");
    assert_string_equal(values.server_certificate, "");
    assert_int_equal(values.round_deadline, 600000);
    assert_true(values.round_learning_rate == 0.05);
    assert_int_equal(values.limits_body, 16777216);
    assert_int_equal(values.limits_clients, 1000000);
    assert_true(values.limits_strict);
}

CASE(a_file_changes_what_it_names)
{
    struct example_settings values = defaults();
    assert_loads(&values, "\xEF\xBB\xBF# comment\n"
                          "[server]\r\n"
                          "port=443\r\n"
                          "   name = a ; b\n"
                          "; comment\n"
                          "[round]\n"
                          "deadline: 90s\n"
                          "learning_rate = 1e-3\n"
                          "[client]\n"
                          "unheard-of = 1\n"
                          "[limits]\n"
                          "strict = off\n"
                          "body = 64Ki");
    assert_int_equal(values.server_port, 443);
    assert_string_equal(values.server_name, "a ; b");
    assert_int_equal(values.round_deadline, 90000);
    assert_true(values.round_learning_rate == 1e-3);
    assert_false(values.limits_strict);
    assert_int_equal(values.limits_body, 65536);
    assert_int_equal(values.limits_clients, 1000000);
}

CASE(every_unit_is_read)
{
    static const struct {
        const char *text;
        uint64_t value;
    } sizes[] = {{"1500", 1500},     {"2k", 2000},      {"2K", 2000},        {"64Ki", 65536},
                 {"20M", 20000000},  {"3Mi", 3145728},  {"1G", 1000000000},  {"1Gi", 1073741824},
                 {"64KiB", 65536},   {"64 KiB", 65536}, {"2KB", 2000},       {"2kB", 2000},
                 {"20MB", 20000000}, {"3MiB", 3145728}, {"1GB", 1000000000}, {"1GiB", 1073741824},
                 {"1500B", 1500}},
      times[] = {{"1500", 1500}, {"1500ms", 1500}, {"30s", 30000},
                 {"5m", 300000}, {"2h", 7200000},  {"1d", 86400000}};
    char why[512];
    char assignment[64];
    struct example_settings values = defaults();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(assignment, sizeof(assignment), "limits.body=%s", sizes[i].text);
        assert_int_equal(tern_settings_set(&settings, &values, assignment, why), TERN_OK);
        assert_int_equal(values.limits_body, sizes[i].value);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        snprintf(assignment, sizeof(assignment), "deadline=%s", times[i].text);
        assert_int_equal(tern_settings_set(&settings, &values, assignment, why), TERN_OK);
        assert_int_equal(values.round_deadline, times[i].value);
    }
    assert_int_equal(values.round_pause, TERN_AUTO_MS);
    assert_int_equal(tern_settings_set(&settings, &values, "pause=0", why), TERN_OK);
    assert_int_equal(values.round_pause, 0);
    assert_int_equal(tern_settings_set(&settings, &values, "pause=2h", why), TERN_OK);
    assert_int_equal(values.round_pause, 7200000);
    assert_int_equal(tern_settings_set(&settings, &values, "pause=auto", why), TERN_OK);
    assert_int_equal(values.round_pause, TERN_AUTO_MS);
}

CASE(limits_of_a_range_are_allowed)
{
    char why[512];
    struct example_settings values = defaults();
    static const char *const allowed[] = {
        "server.port=1",   "server.port=65535", "server.name=a",
        "deadline=1s",     "deadline=1d",       "server.name=fifteen-bytes-x",
        "learning_rate=0", "learning_rate=10",  "limits.clients=1000000000000",
        "limits.body=1Gi", "round.name=",       "server.name=\xC3\xA9\xF0\x9F\x90\xA6",
    };
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        if (tern_settings_set(&settings, &values, allowed[i], why) != TERN_OK) {
            fail_msg("%s", why);
        }
    }
}

CASE(a_value_may_be_as_long_as_its_setting_allows)
{
    char text[400] = "[server]\ncertificate = ";
    struct example_settings values = defaults();
    size_t head = strlen(text);
    memset(text + head, 'c', 255);
    assert_loads(&values, text);
    assert_int_equal(strlen(values.server_certificate), 255);
}

CASE(mistakes_in_a_file_are_named)
{
    assert_refused("[server]\nport = 0\n",
                   "a.ini:2: [server] port = '0' is below the minimum; allowed: a whole number "
                   "from 1 to 65535");
    assert_refused("[server]\n\nport = 70000\n",
                   "a.ini:3: [server] port = '70000' is above the maximum; allowed: a whole number "
                   "from 1 to 65535");
    assert_refused("[server]\nprot = 1\n", "a.ini:2: there is no key 'prot' in section [server]; "
                                           "did you mean 'port' in section [server]?");
    assert_refused("[limits]\ndeadline = 1s\n",
                   "a.ini:2: there is no key 'deadline' in section [limits]; did you mean "
                   "'deadline' in section [round]?");
    assert_refused("[srever]\nport = 1\n", "a.ini:2: there is no section [srever]; did you mean "
                                           "'port' in section [server]?");
    assert_refused("[rounds]\ndeadlines = 1\n", "a.ini:2: there is no section [rounds]; did you "
                                                "mean [round]?");
    assert_refused("[server]\nxyzzy = 1\n", "a.ini:2: there is no key 'xyzzy' in section [server]; "
                                            "tern-example --settings lists them all");
    assert_refused("port = 1\n", "a.ini:1: there is no section []; did you mean 'port' in section "
                                 "[server]?");
    assert_refused("[server]\nport = 1\nname = a\nport = 2\n",
                   "a.ini:4: [server] port is set twice; first in line 2");
    assert_refused(
        "[server]\nport = 1 ; one\n",
        "a.ini:2: [server] port = '1 ; one' is followed by a comment, which needs a line "
        "of its own; allowed: a whole number from 1 to 65535");
    assert_refused("[server\nport = 1\n",
                   "a.ini:1: neither a [section], nor key = value, nor a comment");
    assert_refused("[server]\nport\n",
                   "a.ini:2: neither a [section], nor key = value, nor a comment");
    assert_refused("[round]\ndeadline = 5 weeks\n",
                   "a.ini:2: [round] deadline = '5 weeks' has the unknown unit 'weeks'; allowed: "
                   "a duration (ms, s, m, h, d) from 1s to 1d");
    assert_refused("[round]\npause = automatic\n",
                   "a.ini:2: [round] pause = 'automatic' is not a number; allowed: auto, or a "
                   "duration (ms, s, m, h, d) from 0ms to 1d");
    assert_refused("[limits]\nbody = 2Gi\n",
                   "a.ini:2: [limits] body = '2Gi' is above the maximum; allowed: a size (KiB, "
                   "MiB, GiB by 1024; KB, MB, GB by 1000) from 1KiB to 1GiB");
    assert_refused(
        "[limits]\nbody = 16Mib\n",
        "a.ini:2: [limits] body = '16Mib' has the unknown unit 'Mib'; allowed: a size (KiB, "
        "MiB, GiB by 1024; KB, MB, GB by 1000) from 1KiB to 1GiB");
    assert_refused("[limits]\nbody = 1.5GiB\n",
                   "a.ini:2: [limits] body = '1.5GiB' is not a whole number; allowed: a size (KiB, "
                   "MiB, GiB by 1024; KB, MB, GB by 1000) from 1KiB to 1GiB");
    assert_refused("[limits]\nclients = 1MB\n",
                   "a.ini:2: [limits] clients = '1MB' has the unknown unit 'MB'; allowed: a whole "
                   "number from 0 to 1000000000000");
    assert_refused("[limits]\nbody = 99999999999999999999\n",
                   "a.ini:2: [limits] body = '99999999999999999999' is too large; allowed: a size "
                   "(KiB, MiB, GiB by 1024; KB, MB, GB by 1000) from 1KiB to 1GiB");
    assert_refused(
        "[limits]\nstrict = perhaps\n",
        "a.ini:2: [limits] strict = 'perhaps' is neither yes nor no; allowed: yes or no");
    assert_refused("[round]\nlearning_rate = nan\n",
                   "a.ini:2: [round] learning_rate = 'nan' is not a finite number; allowed: a "
                   "number from 0 to 10");
    assert_refused("[server]\nname =\n", "a.ini:2: [server] name = '' is empty; allowed: a name");
    assert_refused("[server]\nname = sixteen-bytes-xx\n",
                   "a.ini:2: [server] name = 'sixteen-bytes-xx' is longer than 15 bytes; allowed: "
                   "a name");
    assert_refused("[server]\nname = a\x1b[2J\n",
                   "a.ini:2: [server] name = 'a\x1b[2J' is not UTF-8 text, or holds a control "
                   "character; allowed: a name");
}

CASE(words_are_named)
{
    struct example_settings values = defaults();
    assert_string_equal(values.log_level, "info");
    assert_loads(&values, "[log]\nlevel = error\n");
    assert_string_equal(values.log_level, "error");
    assert_refused("[log]\nlevel = verbose\n", "a.ini:2: [log] level = 'verbose' is not known; "
                                               "allowed: error | warn | info | debug");
    assert_refused("[log]\nlevel = inof\n",
                   "a.ini:2: [log] level = 'inof' is not known; did you mean 'info'? allowed: "
                   "error | warn | info | debug");
    assert_refused("[log]\nlevel =\n", "a.ini:2: [log] level = '' is not known; allowed: error | "
                                       "warn | info | debug");
    assert_refused("[log]\nlevel = warn | info\n",
                   "a.ini:2: [log] level = 'warn | info' is not known; allowed: error | warn | "
                   "info | debug");
}

CASE(spec_strings_are_checked_as_they_are_read)
{
    struct example_settings values = defaults();
    assert_loads(&values, "[log]\ncourse = waves:height=2.5e-1,count=3\n");
    assert_string_equal(values.log_course, "waves:height=2.5e-1,count=3");
    static const struct {
        const char *text;
        const char *why;
    } refused[] = {
        {"wave", "there is no course \"wave\"; did you mean \"waves\"? There are steady, waves"},
        {"steady:height=1", "steady: unknown key \"height=1\"; it has no parameters"},
        {"waves:heigth=1",
         "waves: unknown key \"heigth=1\"; did you mean \"height\"? It has height, count"},
        {"waves:count=2,count=3", "waves: repeated key \"count=3\"; it has height, count"},
        {"waves,count=2", "there is no course \"waves,count=2\"; a \":\" stands between a course "
                          "and its parameters: \"waves:count=2\""},
        {"waves:count=1", "waves: count is 0, or 2 to 9, not \"1\""},
        {"waves:height=1e-4", "waves: height is 0.001 to 10, not \"1e-4\""},
        {"waves:height=1e+1", "waves: height is 0.001 to 10, not \"1e+1\""},
        {"waves:height=1e99", "waves: height is 0.001 to 10, not \"1e99\""},
        {"waves:height=1.2.3", "waves: height is 0.001 to 10, not \"1.2.3\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char file[128];
        char sentence[512];
        snprintf(file, sizeof file, "[log]\ncourse = %s\n", refused[i].text);
        snprintf(sentence, sizeof sentence, "a.ini:2: [log] course = '%s': %s", refused[i].text,
                 refused[i].why);
        assert_refused(file, sentence);
    }
    assert_set_refused("course.height=1", "--set course.height=1: there is no section [course]; "
                                          "did you mean 'course' in section [log]?");
}

CASE(spec_strings_are_compared_as_they_are_parsed)
{
    struct example_settings a = defaults();
    struct example_settings b = defaults();
    const struct tern_setting *course = &settings.table[settings.count - 1];
    assert_loads(&a, "[log]\ncourse = waves:height=2.5e-1,count=3\n");
    assert_loads(&b, "[log]\ncourse = waves:count=3,height=0.25\n");
    assert_true(tern_setting_equal(course, &a, &b));
    assert_loads(&b, "[log]\ncourse = waves:count=4,height=0.25\n");
    assert_false(tern_setting_equal(course, &a, &b));
    assert_false(tern_setting_text_equal(course, "waves", "steady"));
    assert_true(tern_setting_text_equal(course, "waves", "waves:height=0.5"));
}

// Real numbers of a spec string are those that strtof() reads.
CASE(reals_are_read_as_elsewhere)
{
    static const char *const numbers[] = {
        "0.05",  "0.0031622776601683794", "1e-3", "2.5e-3",
        "9.999", "123456789e-8",          "10",   "0.1234567891234"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char spec[64];
        struct example_waves waves;
        struct tern_spec_refusal refusal;
        size_t index;
        snprintf(spec, sizeof spec, "waves:height=%s", numbers[i]);
        assert_int_equal(tern_spec_parse(&example_list, spec, &waves, &index, &refusal), TERN_OK);
        assert_true((float)waves.height == strtof(numbers[i], NULL));
    }
}

CASE(values_set_before_an_error_are_taken_back)
{
    assert_refused("[server]\nport = 443\n[limits]\nbody = much\n",
                   "a.ini:4: [limits] body = 'much' is not a number; allowed: a size (KiB, MiB, "
                   "GiB by 1024; KB, MB, GB by 1000) from 1KiB to 1GiB");
}

CASE(binary_and_endless_lines_are_refused)
{
    char why[512];
    char line[3000];
    struct example_settings values = defaults();
    assert_int_equal(load(&values, "[server]\nport\0=1\n", 17, why), TERN_ERR_CONFIG);
    assert_string_equal(why, "a.ini:2: the line holds a NUL byte; an INI file is text");
    memset(line, 'a', sizeof(line));
    assert_int_equal(load(&values, line, sizeof(line), why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "a.ini:1: the line is longer than"));
}

CASE(files_that_cannot_be_read_are_named)
{
    char why[512];
    struct example_settings values = defaults();
    assert_int_equal(tern_settings_load(&settings, &values, "/nonexistent/a.ini", why),
                     TERN_ERR_NOT_FOUND);
    assert_string_equal(why, "/nonexistent/a.ini: No such file or directory");
    assert_int_equal(tern_settings_load(&settings, &values, "/", why), TERN_ERR_IO);
    assert_string_equal(why, "/: Is a directory");
}

CASE(a_file_of_another_program_is_named)
{
    char why[512];
    char text[] = "\n[client]\nname = x\n";
    struct tern_settings strict = settings;
    struct example_settings values = defaults();
    strict.foreign_keys = NULL;
    FILE *file = fmemopen(text, strlen(text), "r");
    assert_int_equal(tern_settings_load_stream(&strict, &values, file, "a.ini", why),
                     TERN_ERR_CONFIG);
    assert_string_equal(why, "a.ini:3: the file has no setting of tern-example: section [client] "
                             "is read by tern-client. Name the file of tern-example");
    rewind(file); // one that reads settings of other programs takes their files
    assert_int_equal(tern_settings_load_stream(&settings, &values, file, "a.ini", why), TERN_OK);
    fclose(file);
}

CASE(overrides_may_leave_out_the_section)
{
    char why[512];
    struct example_settings values = defaults();
    assert_int_equal(tern_settings_set(&settings, &values, "port=1234", why), TERN_OK);
    assert_int_equal(values.server_port, 1234);
    assert_int_equal(tern_settings_set(&settings, &values, "client.planned=1", why), TERN_OK);
    assert_int_equal(tern_settings_set(&settings, &values, "server.name=a=b.c", why), TERN_OK);
    assert_string_equal(values.server_name, "a=b.c");
}

CASE(mistakes_in_an_override_are_named)
{
    assert_set_refused("name=x", "--set name=x: 'name' is in several sections; write one of "
                                 "server.name round.name");
    assert_set_refused("client.anything=1",
                       "--set client.anything=1: section [client] is read by tern-client, and "
                       "tern-example would ignore it: set it there");
    assert_set_refused("port", "--set port: expected section.key=value");
    assert_set_refused("prt=1", "--set prt=1: there is no setting 'prt'; did you mean 'port' in "
                                "section [server]?");
    assert_set_refused(
        "server.port=-1",
        "--set server.port=-1: [server] port = '-1' is below the minimum; allowed: a "
        "whole number from 1 to 65535");
    assert_set_refused("server.port=-x", "--set server.port=-x: [server] port = '-x' is not a "
                                         "number; allowed: a whole number from 1 to 65535");
    assert_set_refused("server.port=", "--set server.port=: [server] port = '' is not a number; "
                                       "allowed: a whole number from 1 to 65535");
}

static char *printed(void (*print)(FILE *out, const void *values), const void *values)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    print(out, values);
    fclose(out);
    return text;
}

static void print_example(FILE *out, const void *values)
{
    tern_settings_print_example(&settings, values, out);
}

CASE(the_example_file_loads_to_the_defaults)
{
    struct example_settings values = defaults();
    struct example_settings expected = defaults();
    values.server_port = 1;
    values.limits_strict = false;
    values.round_learning_rate = 9;
    char *text = printed(print_example, NULL);
    assert_non_null(strstr(text, "# TCP port to listen on.\n# Allowed: a whole number from 1 to "
                                 "65535. Default: 8443.\nport = 8443\n"));
    assert_non_null(strstr(text, "\n; certificate = \n"));
    assert_non_null(strstr(text, "\n# Allowed: error | warn | info | debug. Default: info.\n"));
    assert_non_null(strstr(text, "\n# Allowed: steady | waves. Default: steady.\n"
                                 "#   height: how high (0.001 to 10; default 0.5). For waves.\n"));
    assert_loads(&values, text);
    assert_memory_equal(&values, &expected, sizeof(values));
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        assert_true(strcspn(line, "\n") <= 100);
    }
    free(text);
}

CASE(a_value_that_was_read_is_written_as_it_reads_back)
{
    struct example_settings values;
    struct example_settings again;
    char text[TERN_SETTING_TEXT_MAX];
    char assignment[TERN_SETTING_TEXT_MAX + 64];
    char why[512];
    memset(&values, 0, sizeof values);
    tern_settings_defaults(&settings, &values);
    again = values;
    assert_loads(&values, "[round]\ndeadline = 90s\npause = 2h\nlearning_rate = 0.1\nname = x y\n"
                          "[limits]\nbody = 1500\nclients = 7\nstrict = no\n"
                          "[server]\nport = 4096\n");
    for (size_t i = 0; i < settings.count; i++) {
        const struct tern_setting *setting = &settings.table[i];
        tern_setting_format(setting, &values, text);
        snprintf(assignment, sizeof assignment, "%s.%s=%s", setting->section, setting->key, text);
        const bool is_changed = !tern_setting_equal(setting, &values, &again);
        assert_true(is_changed == (strcmp(setting->fallback, text) != 0 && text[0] != '\0'));
        if (text[0] != '\0' && tern_settings_set(&settings, &again, assignment, why) != TERN_OK) {
            fail_msg("%s", why);
        }
        assert_true(tern_setting_equal(setting, &values, &again));
    }
    tern_setting_format(&settings.table[3], &values, text);
    assert_string_equal(text, "90s");
}
