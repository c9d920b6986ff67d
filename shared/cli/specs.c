#include "specs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MILLION = 1000000, GROWTH = 16 };

enum tern_result tern_spec_argument_parse(const struct tern_cli *cli, const char *text,
                                          struct tern_codec *codec)
{
    struct tern_spec_refusal refusal;
    enum tern_result result = tern_codec_parse(text, codec, &refusal);
    if (result != TERN_OK) {
        char sentence[TERN_SPEC_SENTENCE_MAX];
        tern_spec_explain(&refusal, sentence);
        (void)tern_cli_fail(cli, result, "%s; '%s codecs' lists all codecs and their keys",
                            sentence, cli->program->name);
    }
    return result == TERN_OK ? TERN_OK : TERN_ERR_CONFIG;
}

void tern_spec_list_free(struct spec_list *list)
{
    free(list->specs);
    *list = (struct spec_list){.specs = NULL};
}

static bool is_listed(const struct spec_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->specs[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

static enum tern_result append(struct spec_list *list, const struct tern_codec *codec)
{
    struct spec spec = {.codec = *codec};
    tern_codec_format(codec, spec.text);
    if (is_listed(list, spec.text)) {
        return TERN_OK;
    }
    if (list->count % GROWTH == 0) {
        struct spec *more = realloc(list->specs, (list->count + GROWTH) * sizeof *more);
        if (more == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        list->specs = more;
    }
    list->specs[list->count++] = spec;
    return TERN_OK;
}

// --- Parsing a list

static enum tern_result parse_list(const struct tern_cli *cli, const char *text,
                                   struct spec_list *list)
{
    static const char separators[] = " ;\t\n";
    for (text += strspn(text, separators); *text != '\0'; text += strspn(text, separators)) {
        char one[2 * TERN_CODEC_SPEC_MAX];
        size_t len = strcspn(text, separators);
        struct tern_codec codec;
        // A word that is too long for a spec string is cut, and parsing refuses it.
        (void)snprintf(one, sizeof one, "%.*s", len < sizeof one ? (int)len : (int)sizeof one - 1,
                       text);
        TERN_TRY(tern_spec_argument_parse(cli, one, &codec));
        TERN_TRY(append(list, &codec));
        text += len;
    }
    if (list->count == 0) {
        return tern_cli_refuse(cli, TERN_ERR_CONFIG, "--codecs names no codec");
    }
    return TERN_OK;
}

// --- Variants of all codecs

// Appends NAME:KEY=VALUE, unless another parameter's preset forbids the value.
static enum tern_result append_variant(struct spec_list *list, const struct tern_codec_entry *entry,
                                       const char *key, const char *value)
{
    char text[2 * TERN_CODEC_SPEC_MAX];
    struct tern_codec codec;
    (void)snprintf(text, sizeof text, "%s:%s=%s", entry->name, key, value);
    return tern_codec_parse(text, &codec, NULL) == TERN_OK ? append(list, &codec) : TERN_OK;
}

// Appends two more values of a codec's main parameter, a number. If its range is narrow: the middle
// and three quarters of the range. If it spans orders of magnitude: 1/5 and 1/25 of the preset.
static enum tern_result append_numbers(struct spec_list *list, const struct tern_codec_entry *entry,
                                       const struct tern_spec_parameter *parameter)
{
    double least = (double)parameter->least / MILLION;
    double width = (double)(parameter->most - parameter->least + 1) / MILLION;
    double preset = (double)parameter->preset / MILLION;
    bool narrow = width <= 4 * least;
    char value[32];
    (void)snprintf(value, sizeof value, "%.6f", narrow ? least + width / 2 : preset / 5);
    TERN_TRY(append_variant(list, entry, parameter->key, value));
    (void)snprintf(value, sizeof value, "%.6f", narrow ? least + width * 3 / 4 : preset / 25);
    return append_variant(list, entry, parameter->key, value);
}

// Appends half and about twice the preset of a codec's main parameter, a whole number.
static enum tern_result append_wholes(struct spec_list *list, const struct tern_codec_entry *entry,
                                      const struct tern_spec_parameter *parameter)
{
    char value[32];
    (void)snprintf(value, sizeof value, "%u", parameter->preset / 2);
    TERN_TRY(append_variant(list, entry, parameter->key, value));
    (void)snprintf(value, sizeof value, "%u", 2 * parameter->preset + 1);
    return append_variant(list, entry, parameter->key, value);
}

static enum tern_result append_choices(struct spec_list *list, const struct tern_codec_entry *entry,
                                       const struct tern_spec_parameter *parameter)
{
    for (size_t i = 0; parameter->choices[i] != NULL; i++) {
        TERN_TRY(append_variant(list, entry, parameter->key, parameter->choices[i]));
    }
    return TERN_OK;
}

static enum tern_result append_entry(struct spec_list *list, const struct tern_codec_entry *entry)
{
    struct tern_codec codec;
    if (tern_codec_parse(entry->name, &codec, NULL) == TERN_OK) {
        TERN_TRY(append(list, &codec));
    }
    for (size_t i = 0; entry->parameters[i].key != NULL; i++) {
        const struct tern_spec_parameter *parameter = &entry->parameters[i];
        if (i == 0 && parameter->kind == TERN_SPEC_NUMBER) {
            TERN_TRY(append_numbers(list, entry, parameter));
        }
        if (i == 0 && parameter->kind == TERN_SPEC_WHOLE) {
            TERN_TRY(append_wholes(list, entry, parameter));
        }
        if (parameter->kind == TERN_SPEC_CHOICE) {
            TERN_TRY(append_choices(list, entry, parameter));
        }
    }
    return TERN_OK;
}

enum tern_result tern_spec_list_variants(const struct tern_codec_entry *entry,
                                         struct spec_list *list)
{
    *list = (struct spec_list){.specs = NULL};
    enum tern_result result = append_entry(list, entry);
    if (result != TERN_OK) {
        tern_spec_list_free(list);
    }
    return result;
}

static enum tern_result append_all(struct spec_list *list)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        TERN_TRY(append_entry(list, entry));
    }
    return TERN_OK;
}

enum tern_result tern_spec_list_parse(const struct tern_cli *cli, const char *text,
                                      struct spec_list *list)
{
    *list = (struct spec_list){.specs = NULL};
    enum tern_result result = text != NULL ? parse_list(cli, text, list) : append_all(list);
    if (result == TERN_ERR_NO_MEMORY) {
        (void)tern_cli_fail(cli, result, "no memory for the list of codecs");
    }
    if (result != TERN_OK) {
        tern_spec_list_free(list);
    }
    return result;
}
