#include "hosted/paragraph.h"
#include "hosted/setting_value.h"
#include "hosted/settings.h"
#include <string.h>

#define COLUMNS 96

static void print_comment(const char *text, FILE *out)
{
    tern_paragraph_print(text, "# ", "# ", COLUMNS, out);
}

static bool takes_settings_anew(const struct tern_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (settings->table[i].change == TERN_SETTING_LIVE) {
            return true;
        }
    }
    return false;
}

static void print_documented(const struct tern_setting *setting, bool stays, FILE *out)
{
    char allowed[160];
    char line[256];
    bool unset = setting->fallback[0] == '\0';
    tern_setting_allowed(setting, allowed);
    snprintf(line, sizeof(line), "Allowed: %s. Default: %s.%s", allowed,
             unset ? "not set" : setting->fallback, stays ? " Another one needs a restart." : "");
    print_comment(setting->doc, out);
    print_comment(line, out);
    fprintf(out, "%s%s = %s\n\n", unset ? "; " : "", setting->key, setting->fallback);
}

// Starts a section when it is not the one before.
static void print_section(const struct tern_settings *settings, size_t i, FILE *out)
{
    const struct tern_setting *table = settings->table;
    if (i == 0 || strcmp(table[i].section, table[i - 1].section) != 0) {
        fprintf(out, "[%s]\n", table[i].section);
    }
}

void tern_settings_print_example(const struct tern_settings *settings, FILE *out)
{
    const bool is_live = takes_settings_anew(settings);
    fprintf(out,
            "# Settings of %s. Every key stands here with its default; a file needs only what it\n"
            "# changes. On the command line: --set section.key=value.\n%s\n",
            settings->program,
            is_live ? "# A service that runs reads the file again on SIGHUP; what needs a restart "
                      "says so.\n"
                    : "");
    for (size_t i = 0; i < settings->count; i++) {
        print_section(settings, i, out);
        const struct tern_setting *setting = &settings->table[i];
        print_documented(setting, is_live && setting->change == TERN_SETTING_RESTART, out);
    }
}
