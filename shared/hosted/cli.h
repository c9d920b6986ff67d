// The command line that all of Tern's programs share: verbs, options, settings, help, exit codes, and what verbs print.
// A program passes its verb table to tern_cli_main(), which parses the arguments, loads the settings and runs one verb.
// One call per process, from main().
//
// Every program has these options, before or after the verb:
//   --config FILE    read settings from an INI file
//   --set S.K=V      override one setting of the file; may be repeated
//   --settings       print every setting with its documentation, as an INI file
//   --json           print results as JSON (verbs that print any)
//   --help, -h       help of the program or of the verb
//   --version        print the version
#ifndef TERN_HOSTED_CLI_H
#define TERN_HOSTED_CLI_H

#include "hosted/settings.h"
#include "result.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Exit codes of every program.
enum tern_exit {
    TERN_EXIT_OK = 0,
    TERN_EXIT_FAILED = 1,      // the reason is on stderr
    TERN_EXIT_USAGE = 2,       // usage or configuration error
    TERN_EXIT_REFUSED = 3,     // the peer rejected the credentials or the request
    TERN_EXIT_NOTHING = 4,     // nothing to do, or a budget forbids it
    TERN_EXIT_INTERRUPTED = 5, // a signal ended the program
};

#define TERN_CLI_OPTIONS_MAX 24 // of one verb

// An option of a verb, "--name ARGUMENT" or "--name".
struct tern_cli_option {
    const char *name;
    const char *argument; // its placeholder in --help; NULL for a flag
    const char *doc;      // one line
};

struct tern_cli;

struct tern_cli_verb {
    const char *name;                      // NULL in a program that does one thing and has no verbs
    const char *summary;                   // one line
    const char *arguments;                 // "CODE [FILE]", "" for none
    const char *help;                      // what it does, and examples; lines end with \n
    const struct tern_cli_option *options; // ended by a NULL name; NULL for none
    unsigned least_arguments;
    unsigned most_arguments;
    int (*run)(struct tern_cli *cli); // returns an exit code
};

struct tern_cli_program {
    const char *name;
    const char *summary;                  // one line
    const char *help;                     // a paragraph and examples; lines end with \n
    const struct tern_cli_verb *verbs;    // ended by a NULL run
    const struct tern_settings *settings; // NULL for a program without settings
    void *values;                         // the settings' struct
    const char *default_config;           // read when it exists and --config is absent; or NULL
    const char *verb_of_files; // loads settings files itself, so none is read before; or NULL
};

// The parsed command line, passed to the verb.
struct tern_cli {
    const struct tern_cli_program *program;
    const struct tern_cli_verb *verb;
    char **arguments; // after the options; NULL-terminated
    unsigned argument_count;
    bool json;
    const char *config;                              // path of the loaded settings file; NULL: none
    const char *option_values[TERN_CLI_OPTIONS_MAX]; // of verb->options[i]; or NULL
    char **sets;
    unsigned set_count;
    // Receives the messages of tern_cli_fail(), tern_cli_check() and tern_cli_refuse() for a verb
    // that continues after an error. NULL: they go to stderr.
    char *message;
    size_t message_size;
};

// Parses argv, fills program->values (defaults, then the file, then --set), runs the verb and
// returns the exit code for main().
int tern_cli_main(const struct tern_cli_program *program, int argc, char **argv);

// Sets program->values again: defaults, then the file cli->config, then --set. For verbs that write
// that file, since tern_cli_main() loads it before it runs the verb. Returns an exit code.
int tern_cli_load_settings(struct tern_cli *cli);

// Returns the value of the verb's option, or `fallback` when the option is missing. A flag has the
// value "". name: one of the verb's options.
const char *tern_cli_option(const struct tern_cli *cli, const char *name, const char *fallback);

// Returns true if the command line has the verb's option.
bool tern_cli_flag(const struct tern_cli *cli, const char *name);

// Reads a whole number, which may have a unit ("10k"), from an option. TERN_ERR_CONFIG, with a
// message on stderr: it is malformed or outside [least, most]
TERN_MUST_USE enum tern_result tern_cli_number(const struct tern_cli *cli, const char *name,
                                               uint64_t fallback, uint64_t least, uint64_t most,
                                               uint64_t *value);

// Reads a duration ("30m", "24h", "7d") from an option. TERN_ERR_CONFIG, with a message on stderr: as above
TERN_MUST_USE enum tern_result tern_cli_duration(const struct tern_cli *cli, const char *name,
                                                 uint64_t fallback_ms, uint64_t least_ms,
                                                 uint64_t most_ms, uint64_t *ms);

// Returns the exit code for a result.
enum tern_exit tern_cli_exit_code(enum tern_result result);

// Writes "program: message" to stderr, or the message to cli->message, and returns the exit code of
// `result`.
int tern_cli_fail(const struct tern_cli *cli, enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Like tern_cli_fail(); writes nothing when the result is TERN_OK.
int tern_cli_check(const struct tern_cli *cli, enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Like tern_cli_check(), but returns `result` itself.
TERN_MUST_USE enum tern_result tern_cli_refuse(const struct tern_cli *cli, enum tern_result result,
                                               const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Returns the exit code `expression` from the enclosing function when it is not TERN_EXIT_OK.
#define TERN_CLI_TRY(expression)                                                                   \
    do {                                                                                           \
        int tern_try_code_ = (expression);                                                         \
        if (tern_try_code_ != TERN_EXIT_OK) {                                                      \
            return tern_try_code_;                                                                 \
        }                                                                                          \
    } while (0)

// --- Findings

// Lines of a verb that checks something (`doctor`, `check --data`): each finding has a health and,
// if there is a problem, advice. Findings are printed as text at once, or collected as JSON. One
// thread.

enum tern_health {
    TERN_HEALTH_GOOD,
    TERN_HEALTH_WARNING, // works, with a risk or a limit
    TERN_HEALTH_PROBLEM, // does not work
    TERN_HEALTH_COUNT,
};

struct tern_findings {
    cJSON *list; // objects with health, area, finding and advice; NULL: print each finding as text
    uint32_t count[TERN_HEALTH_COUNT];
};

// Adds a finding. area: one word. advice: what to do, or NULL. Control characters of names and files become '?'.
void tern_findings_add(struct tern_findings *findings, enum tern_health health, const char *area,
                       const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// --- JSON

// Prints the value on one line of standard output, frees it, and returns the exit code.
int tern_json_print(const struct tern_cli *cli, cJSON *value);

#endif
