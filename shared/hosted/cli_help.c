#include "hosted/cli_help.h"
#include <string.h>

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

void tern_cli_help_verb(const struct tern_cli_program *program, const struct tern_cli_verb *verb,
                        FILE *out)
{
    bool has_options = verb->options != NULL && verb->options[0].name != NULL;
    fprintf(out, "Usage: %s %s%s%s%s\n\n%s.\n\n%s", program->name, verb->name,
            has_options ? " [options]" : "", verb->arguments[0] == '\0' ? "" : " ", verb->arguments,
            verb->summary, verb->help);
    print_options(verb, out);
    print_common(program, out);
}

// A program without verbs: its only entry's options stand in the program's own help.
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

void tern_cli_help_program(const struct tern_cli_program *program, FILE *out)
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
    fprintf(out, "\n'%s VERB --help' teaches a verb.\n\n%s", program->name, program->help);
    print_common(program, out);
    print_exit_codes(out);
}
