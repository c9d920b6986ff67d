#include "verbs.h"

#include "codec/plan.h"
#include "hosted/terminal.h"
#include "specs.h"
#include <cjson/cJSON.h>
#include <stdio.h>

static const char *feedback_name(enum tern_feedback feedback)
{
    static const char *const names[] = {
        [TERN_FEEDBACK_NONE] = "none",
        [TERN_FEEDBACK_ERROR] = "error buffer",
        [TERN_FEEDBACK_MOMENTUM] = "momentum and error buffer",
        [TERN_FEEDBACK_FILTERED] = "filtered error buffer",
    };
    return names[feedback];
}

// Tells whether a codec can encode downloads.
struct downloads {
    bool preset;  // with the default parameters
    bool depends; // the answer differs for other parameters
};

static struct downloads downloads_of(const struct tern_codec_entry *entry)
{
    struct spec_list list;
    struct downloads downloads = {.preset = false};
    if (tern_spec_list_variants(entry, &list) != TERN_OK || list.count == 0) {
        return downloads;
    }
    downloads.preset = tern_codec_downloads(&list.specs[0].codec);
    for (size_t i = 1; i < list.count; i++) {
        downloads.depends |= tern_codec_downloads(&list.specs[i].codec) != downloads.preset;
    }
    tern_spec_list_free(&list);
    return downloads;
}

// "uploads, downloads"
static const char *uses_of(const struct tern_codec_entry *entry)
{
    struct downloads downloads = downloads_of(entry);
    if (downloads.depends) {
        return downloads.preset ? "uploads, downloads (not with some values of the keys)"
                                : "uploads, downloads (with some values of the keys)";
    }
    return downloads.preset ? "uploads, downloads" : "uploads";
}

#define FACT_MARGIN "              "

// Prints both texts as one paragraph to the right of the name.
static void print_fact(const char *name, const char *text, const char *more)
{
    char first[32];
    char both[512];
    (void)snprintf(first, sizeof first, "    %-9s ", name);
    (void)snprintf(both, sizeof both, "%s%s", text, more);
    tern_paragraph_print(both, first, FACT_MARGIN, TERN_PARAGRAPH_COLUMNS, stdout);
}

static void print_entry(const struct tern_codec_entry *entry)
{
    printf("%s\n", entry->name);
    tern_paragraph_print(entry->summary, "    ", "    ", TERN_PARAGRAPH_COLUMNS, stdout);
    print_fact("source", entry->source, "");
    print_fact("feedback", feedback_name(entry->feedback),
               entry->random ? ", draws random numbers" : "");
    print_fact("use", uses_of(entry), "");
    print_fact("good for", entry->good_for, "");
    print_fact("not for", entry->not_for, "");
    for (const struct tern_spec_parameter *at = entry->parameters; at->key != NULL; at++) {
        char preset[TERN_SPEC_VALUE_MAX];
        char left_out[64];
        tern_spec_format_preset(at, preset);
        (void)snprintf(left_out, sizeof left_out, "; %s when left out", preset);
        print_fact(at->key, at->meaning, "");
        print_fact("", at->range, left_out);
    }
    putchar('\n');
}

static cJSON *parameter_json(const struct tern_spec_parameter *parameter)
{
    char preset[TERN_SPEC_VALUE_MAX];
    tern_spec_format_preset(parameter, preset);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", parameter->key);
    cJSON_AddStringToObject(json, "meaning", parameter->meaning);
    cJSON_AddStringToObject(json, "range", parameter->range);
    cJSON_AddStringToObject(json, "preset", preset);
    if (parameter->kind == TERN_SPEC_CHOICE) {
        cJSON *choices = cJSON_AddArrayToObject(json, "choices");
        for (size_t i = 0; parameter->choices[i] != NULL; i++) {
            cJSON_AddItemToArray(choices, cJSON_CreateString(parameter->choices[i]));
        }
    }
    return json;
}

static cJSON *entry_json(const struct tern_codec_entry *entry)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", entry->name);
    cJSON_AddNumberToObject(json, "id", (double)entry->id);
    cJSON_AddStringToObject(json, "summary", entry->summary);
    cJSON_AddStringToObject(json, "source", entry->source);
    cJSON_AddStringToObject(json, "good_for", entry->good_for);
    cJSON_AddStringToObject(json, "not_for", entry->not_for);
    cJSON_AddStringToObject(json, "feedback", feedback_name(entry->feedback));
    cJSON_AddBoolToObject(json, "random", entry->random);
    cJSON_AddBoolToObject(json, "uploads", true);
    struct downloads downloads = downloads_of(entry);
    cJSON_AddBoolToObject(json, "downloads", downloads.preset);
    cJSON_AddBoolToObject(json, "downloads_depend_on_keys", downloads.depends);
    cJSON *parameters = cJSON_AddArrayToObject(json, "parameters");
    for (const struct tern_spec_parameter *at = entry->parameters; at->key != NULL; at++) {
        cJSON_AddItemToArray(parameters, parameter_json(at));
    }
    return json;
}

int tern_verb_codecs(struct tern_cli *cli)
{
    cJSON *list = cJSON_CreateArray();
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        if (cli->json) {
            cJSON_AddItemToArray(list, entry_json(entry));
        } else {
            print_entry(entry);
        }
    }
    if (cli->json) {
        tern_print_json(list);
    } else {
        puts("A codec is named NAME[:KEY=VALUE[,KEY=VALUE]...]; keys may be left out.");
    }
    cJSON_Delete(list);
    return TERN_EXIT_OK;
}
