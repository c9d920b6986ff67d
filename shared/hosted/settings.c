#include "hosted/settings.h"
#include "hosted/setting_value.h"
#include "util/near_name.h"
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 512
#define LINE_MAX_BYTES 1024 // of one INI line

static void *field_of(const struct tern_setting *setting, void *values)
{
    return (char *)values + setting->offset;
}

void tern_settings_defaults(const struct tern_settings *settings, void *values)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct tern_setting *setting = &settings->table[i];
        char problem[TERN_SETTING_PROBLEM_MAX];
        memset(field_of(setting, values), 0, setting->size);
        if (setting->type == TERN_SETTING_TEXT && setting->fallback[0] == '\0') {
            continue;
        }
        if (tern_setting_parse(setting, setting->fallback, field_of(setting, values), problem) !=
            TERN_OK) {
            fprintf(stderr, "%s: the default of %s.%s %s\n", settings->program, setting->section,
                    setting->key, problem);
            abort();
        }
    }
}

// --- Names: looking up, and guessing what a typo meant

// How far a setting is from what was written; a wrong section costs one edit, so that the right key
// in the wrong section is still found.
static size_t setting_distance(const struct tern_setting *setting, const char *section,
                               const char *key)
{
    size_t distance = tern_edit_distance(key, setting->key);
    if (section != NULL && strcmp(section, setting->section) != 0 && distance != SIZE_MAX) {
        distance++;
    }
    return distance;
}

static const struct tern_setting *nearest(const struct tern_settings *settings, const char *section,
                                          const char *key)
{
    const struct tern_setting *best = NULL;
    size_t best_distance = tern_near_limit(key);
    for (size_t i = 0; i < settings->count; i++) {
        size_t distance = setting_distance(&settings->table[i], section, key);
        if (distance < best_distance) {
            best_distance = distance;
            best = &settings->table[i];
        }
    }
    return best;
}

static bool is_section(const struct tern_settings *settings, const char *section)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->table[i].section, section) == 0) {
            return true;
        }
    }
    return false;
}

#define AGGREGATOR "tern-aggregator"
#define CLIENT "tern-client"

const struct tern_settings_section tern_settings_sections[] = {
    {"admin", AGGREGATOR},      {"budget", CLIENT},
    {"client", CLIENT},         {"codec", AGGREGATOR},
    {"data", CLIENT},           {"deep", "./tern experiment"},
    {"downloads", AGGREGATOR},  {"experiment", "./tern experiment"},
    {"federation", AGGREGATOR}, {"fleet", "tern-fleet"},
    {"limits", AGGREGATOR},     {"log", AGGREGATOR},
    {"ring", "tern-ring"},      {"round", AGGREGATOR},
    {"server", AGGREGATOR},     {"statistics", AGGREGATOR},
    {"tensors", AGGREGATOR},    {"tls", AGGREGATOR},
    {"train", AGGREGATOR},      {NULL, NULL}};

// The row of a section that is not one of this program's; NULL: it is, or no program has it.
static const struct tern_settings_section *foreign(const struct tern_settings *settings,
                                                   const char *section)
{
    const struct tern_settings_section *row = settings->foreign_sections;
    for (; row != NULL && row->name != NULL; row++) {
        if (strcmp(row->name, section) == 0) {
            return is_section(settings, section) ? NULL : row;
        }
    }
    return NULL;
}

// The section, of this program or another, that a wrong name may have meant; "": none is near.
static const char *nearest_section(const struct tern_settings *settings, const char *section)
{
    struct tern_near_name search = {.written = section, .limit = tern_near_limit(section)};
    const struct tern_settings_section *row = settings->foreign_sections;
    for (size_t i = 0; i < settings->count; i++) {
        tern_near_offer(&search, settings->table[i].section);
    }
    for (; row != NULL && row->name != NULL; row++) {
        tern_near_offer(&search, row->name);
    }
    return search.best != NULL ? search.best : "";
}

// The setting of that name. section NULL: any; `matches` says how many settings have the key.
static const struct tern_setting *find(const struct tern_settings *settings, const char *section,
                                       const char *key, size_t *matches)
{
    const struct tern_setting *found = NULL;
    *matches = 0;
    for (size_t i = 0; i < settings->count; i++) {
        const struct tern_setting *setting = &settings->table[i];
        if (strcmp(setting->key, key) == 0 &&
            (section == NULL || strcmp(setting->section, section) == 0)) {
            found = found == NULL ? setting : found;
            (*matches)++;
        }
    }
    return found;
}

static void append(char why[WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char why[WHY_MAX], const char *format, ...)
{
    size_t used = strlen(why);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why + used, WHY_MAX - used, format, arguments);
    va_end(arguments);
}

static void explain_unknown(const struct tern_settings *settings, const char *section,
                            const char *key, char why[WHY_MAX])
{
    const bool strange = section != NULL && !is_section(settings, section);
    const char *meant = strange ? nearest_section(settings, section) : "";
    size_t matches = 0;
    if (meant[0] != '\0' && find(settings, meant, key, &matches) == NULL) {
        append(why, "there is no section [%.60s]; did you mean [%s]?", section, meant);
        return;
    }
    if (strange) {
        append(why, "there is no section [%.60s]", section);
    } else if (section != NULL) {
        append(why, "there is no key '%.60s' in section [%.60s]", key, section);
    } else {
        append(why, "there is no setting '%.60s'", key);
    }
    // A name that was a section once, or belongs to another one, may be a key: [strategy] name for round.strategy.
    size_t named = 0;
    const struct tern_setting *guess = nearest(settings, meant[0] != '\0' ? meant : section, key);
    guess = guess == NULL && strange ? find(settings, NULL, section, &named) : guess;
    if (guess != NULL) {
        append(why, "; did you mean '%s' in section [%s]?", guess->key, guess->section);
    } else {
        append(why, "; %s --settings lists them all", settings->program);
    }
}

// Parses `text` into the setting's field; on error appends the reason to why.
static enum tern_result assign(const struct tern_setting *setting, void *values, const char *text,
                               char why[WHY_MAX])
{
    char problem[TERN_SETTING_PROBLEM_MAX];
    char allowed[TERN_SETTING_ALLOWED_MAX];
    if (tern_setting_parse(setting, text, field_of(setting, values), problem) == TERN_OK) {
        return TERN_OK;
    }
    if (problem[0] == ':') {
        append(why, "[%s] %s = '%.100s'%s", setting->section, setting->key, text, problem);
        return TERN_ERR_CONFIG;
    }
    tern_setting_allowed(setting, allowed);
    append(why, "[%s] %s = '%.100s' %s%s allowed: %s", setting->section, setting->key, text,
           problem, strchr(problem, '?') != NULL ? "" : ";", allowed);
    return TERN_ERR_CONFIG;
}

// --- Files

// One load under way. The values are changed in a copy.
struct load {
    const struct tern_settings *settings;
    void *values;
    unsigned *seen;                              // per setting: the line that set it, 0 for none
    const struct tern_settings_section *skipped; // the first foreign section; NULL: none
    unsigned skipped_line;
    FILE *stream;
    const char *path;
    unsigned line;
    bool failed;
    char *why;
};

// Starts the sentence of the load's first error, naming file and line.
static char *load_fails(struct load *load)
{
    load->failed = true;
    snprintf(load->why, WHY_MAX, "%s:%u: ", load->path, load->line);
    return load->why;
}

// libinih's line reader: as fgets(), but counts lines, and ends the file at the first error.
static char *read_line(char *line, int size, void *context)
{
    struct load *load = context;
    int used = 0;
    int c = EOF;
    load->line++;
    while (!load->failed && used < size - 1 && (c = getc(load->stream)) != EOF && c != '\0') {
        line[used++] = (char)c;
        if (c == '\n') {
            break;
        }
    }
    line[used] = '\0';
    if (load->failed || (used == 0 && c == EOF)) {
        return NULL;
    }
    if (c == '\0') {
        append(load_fails(load), "the line holds a NUL byte; an INI file is text");
        return NULL;
    }
    if (c != '\n' && c != EOF) {
        append(load_fails(load), "the line is longer than %d bytes", size - 2);
        return NULL;
    }
    return line;
}

static int handle_key(void *context, const char *section, const char *key, const char *text)
{
    struct load *load = context;
    size_t matches;
    const struct tern_settings_section *other = foreign(load->settings, section);
    if (load->failed || other != NULL) {
        if (load->skipped == NULL) {
            load->skipped = other;
            load->skipped_line = load->line;
        }
        return 1;
    }
    const struct tern_setting *setting = find(load->settings, section, key, &matches);
    if (setting == NULL) {
        explain_unknown(load->settings, section, key, load_fails(load));
        return 0;
    }
    unsigned *seen = &load->seen[setting - load->settings->table];
    if (*seen != 0) {
        append(load_fails(load), "[%s] %s is set twice; first in line %u", section, key, *seen);
        return 0;
    }
    *seen = load->line;
    char why[WHY_MAX] = "";
    if (assign(setting, load->values, text, why) != TERN_OK) {
        append(load_fails(load), "%s", why);
        return 0;
    }
    return 1;
}

// A file of another program would be taken for one that keeps every default. A program that reads other programs'
// settings takes such a file.
static void refuse_foreign(struct load *load)
{
    for (size_t i = 0; i < load->settings->count; i++) {
        if (load->seen[i] != 0) {
            return;
        }
    }
    load->line = load->skipped_line;
    append(load_fails(load),
           "the file has no setting of %s: section [%s] is read by %s. Name the file of %s",
           load->settings->program, load->skipped->name, load->skipped->program,
           load->settings->program);
}

static enum tern_result parse_stream(struct load *load)
{
    // libinih keeps these as globals: long lines, no continuation of a value on an indented line
    // (it would silently replace the value), no comment behind a value (it would cut a command).
    ini_use_stack = false;
    ini_max_line = LINE_MAX_BYTES;
    ini_initial_alloc = LINE_MAX_BYTES;
    ini_stop_on_first_error = true;
    ini_allow_multiline = false;
    ini_allow_inline_comments = false;
    int line = ini_parse_stream(read_line, load, handle_key, load);
    if (!load->failed && ferror(load->stream)) {
        snprintf(load->why, WHY_MAX, "%s: %s", load->path, strerror(errno));
        return TERN_ERR_IO;
    }
    if (!load->failed && line != 0) {
        load->line = line > 0 ? (unsigned)line : load->line;
        append(load_fails(load), "neither a [section], nor key = value, nor a comment");
    }
    if (!load->failed && load->skipped != NULL && load->settings->foreign_keys == NULL) {
        refuse_foreign(load);
    }
    return load->failed ? TERN_ERR_CONFIG : TERN_OK;
}

// Bytes of the program's struct up to the end of its last field in the table.
static size_t values_size(const struct tern_settings *settings)
{
    size_t size = 0;
    for (size_t i = 0; i < settings->count; i++) {
        size_t end = settings->table[i].offset + settings->table[i].size;
        size = end > size ? end : size;
    }
    return size;
}

enum tern_result tern_settings_load_stream(const struct tern_settings *settings, void *values,
                                           FILE *stream, const char *path, char why[WHY_MAX])
{
    size_t size = values_size(settings);
    struct load load = {
        .settings = settings,
        .values = malloc(size + 1),
        .seen = calloc(settings->count + 1, sizeof(unsigned)),
        .stream = stream,
        .path = path,
        .why = why,
    };
    enum tern_result result = TERN_ERR_NO_MEMORY;
    snprintf(why, WHY_MAX, "%s: %s", path, tern_result_sentence(result));
    if (load.values != NULL && load.seen != NULL) {
        memcpy(load.values, values, size);
        result = parse_stream(&load);
    }
    if (result == TERN_OK) {
        memcpy(values, load.values, size);
        why[0] = '\0';
    }
    free(load.values);
    free(load.seen);
    return result;
}

enum tern_result tern_settings_load(const struct tern_settings *settings, void *values,
                                    const char *path, char why[WHY_MAX])
{
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        snprintf(why, WHY_MAX, "%s: %s", path, strerror(errno));
        return errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    }
    enum tern_result result = tern_settings_load_stream(settings, values, stream, path, why);
    fclose(stream);
    return result;
}

// --- Command line

static void explain_ambiguous(const struct tern_settings *settings, const char *key,
                              char why[WHY_MAX])
{
    append(why, "'%.60s' is in several sections; write one of", key);
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->table[i].key, key) == 0) {
            append(why, " %s.%s", settings->table[i].section, key);
        }
    }
}

// Splits "section.key=value" in place of `copy`. section is NULL when it is left out.
static bool split_assignment(char *copy, const char **section, const char **key, const char **text)
{
    char *equals = strchr(copy, '=');
    if (equals == NULL) {
        return false;
    }
    *equals = '\0';
    *text = equals + 1;
    char *dot = strchr(copy, '.');
    *section = NULL;
    *key = copy;
    if (dot != NULL) {
        *dot = '\0';
        *section = copy;
        *key = dot + 1;
    }
    return true;
}

// Whether the program itself reads an override of another program's setting.
static bool is_read(const struct tern_settings *settings, const char *section, const char *key)
{
    const char *const *name = settings->foreign_keys;
    const size_t len = strlen(section);
    for (; name != NULL && *name != NULL; name++) {
        if (strncmp(*name, section, len) == 0 && (*name)[len] == '.' &&
            strcmp(*name + len + 1, key) == 0) {
            return true;
        }
    }
    return false;
}

enum tern_result tern_settings_set(const struct tern_settings *settings, void *values,
                                   const char *assignment, char why[WHY_MAX])
{
    char copy[LINE_MAX_BYTES];
    const char *section;
    const char *key;
    const char *text;
    snprintf(why, WHY_MAX, "--set %.100s: ", assignment);
    if (strlen(assignment) >= sizeof(copy)) {
        append(why, "it is longer than %zu bytes", sizeof(copy) - 1);
        return TERN_ERR_CONFIG;
    }
    memcpy(copy, assignment, strlen(assignment) + 1);
    if (!split_assignment(copy, &section, &key, &text)) {
        append(why, "expected section.key=value");
        return TERN_ERR_CONFIG;
    }
    const struct tern_settings_section *other = section != NULL ? foreign(settings, section) : NULL;
    if (other != NULL && is_read(settings, section, key)) {
        return TERN_OK;
    }
    if (other != NULL) {
        append(why, "section [%s] is read by %s, and %s would ignore it: set it there", section,
               other->program, settings->program);
        return TERN_ERR_CONFIG;
    }
    size_t matches;
    const struct tern_setting *setting = find(settings, section, key, &matches);
    if (setting == NULL) {
        explain_unknown(settings, section, key, why);
        return TERN_ERR_CONFIG;
    }
    if (matches > 1) {
        explain_ambiguous(settings, key, why);
        return TERN_ERR_CONFIG;
    }
    return assign(setting, values, text, why);
}

const struct tern_setting *tern_settings_named(const struct tern_settings *settings,
                                               const char *assignment)
{
    char copy[LINE_MAX_BYTES];
    const char *section;
    const char *key;
    const char *text;
    size_t matches = 0;
    if (strlen(assignment) >= sizeof copy) {
        return NULL;
    }
    memcpy(copy, assignment, strlen(assignment) + 1);
    if (!split_assignment(copy, &section, &key, &text)) {
        return NULL;
    }
    const struct tern_setting *setting = find(settings, section, key, &matches);
    return matches == 1 ? setting : NULL;
}
