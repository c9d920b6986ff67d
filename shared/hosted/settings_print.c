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

// --- The keys of spec strings

// Whether the entry has that key, with the same range.
static bool has_key(const struct tern_spec_entry *entry, const struct tern_spec_parameter *wanted)
{
    for (unsigned i = 0; entry->parameters[i].key != NULL; i++) {
        const struct tern_spec_parameter *own = &entry->parameters[i];
        if ((entry->used >> i & 1) != 0 && strcmp(own->key, wanted->key) == 0 &&
            strcmp(own->range, wanted->range) == 0 && own->preset == wanted->preset) {
            return true;
        }
    }
    return false;
}

// Prints a key once, with the names that have it; before the first of them.
static void print_key(const struct tern_spec_list *list, size_t first,
                      const struct tern_spec_parameter *parameter, FILE *out)
{
    char names[TERN_SETTING_ALLOWED_MAX] = "";
    char preset[TERN_SPEC_VALUE_MAX];
    char line[1024];
    struct tern_spec_entry entry;
    size_t len = 0;
    bool all = true;
    for (size_t i = 0; list->at(i, &entry); i++) {
        const bool has = has_key(&entry, parameter);
        all = all && has;
        if (has && i < first) {
            return;
        }
        if (has && len < sizeof names) {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                                    entry.name);
        }
    }
    tern_spec_format_preset(parameter, preset);
    snprintf(line, sizeof line, "%s: %s (%s; default %s). For %s.", parameter->key,
             parameter->meaning, parameter->range, preset, all ? "all" : names);
    tern_paragraph_print(line, "#   ", "#     ", COLUMNS, out);
}

static void print_keys(const struct tern_spec_list *list, FILE *out)
{
    struct tern_spec_entry entry;
    for (size_t i = 0; list->at(i, &entry); i++) {
        for (unsigned k = 0; entry.parameters[k].key != NULL; k++) {
            if ((entry.used >> k & 1) != 0) {
                print_key(list, i, &entry.parameters[k], out);
            }
        }
    }
}

// --- Settings

static void print_documented(const struct tern_setting *setting, bool stays, FILE *out)
{
    char allowed[TERN_SETTING_ALLOWED_MAX];
    char line[TERN_SETTING_ALLOWED_MAX + 128];
    bool unset = setting->fallback[0] == '\0';
    tern_setting_allowed(setting, allowed);
    snprintf(line, sizeof(line), "Allowed: %s. Default: %s.%s", allowed,
             unset ? "not set" : setting->fallback, stays ? " Another one needs a restart." : "");
    print_comment(setting->doc, out);
    print_comment(line, out);
    if (setting->type == TERN_SETTING_SPEC) {
        print_keys(setting->spec->list, out);
    }
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

void tern_settings_print_example(const struct tern_settings *settings, const void *values,
                                 FILE *out)
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
    if (settings->print_derived != NULL) {
        settings->print_derived(values, out);
    }
}
