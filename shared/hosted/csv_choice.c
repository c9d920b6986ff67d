#include "hosted/csv_choice.h"
#include <stdio.h>
#include <string.h>

// Reads an option that has one of three words; *chosen is the word's number, and stays when it was not given.
static enum tern_result read_word(struct tern_data_spec *spec, const char *key,
                                  const char *const words[3], const char *known, uint32_t *chosen)
{
    const char *text = tern_spec_option(spec, key);
    for (uint32_t i = 0; text != NULL && i < 3; i++) {
        if (words[i] != NULL && strcmp(text, words[i]) == 0) {
            *chosen = i;
            return TERN_OK;
        }
    }
    return text == NULL ? TERN_OK
                        : tern_spec_refuse(spec, TERN_ERR_CONFIG, "%s=%.40s is none of %s", key,
                                           text, known);
}

static enum tern_result read_words(struct tern_data_spec *spec, struct tern_csv_choice *choice)
{
    static const char *const headers[3] = {
        [TERN_CSV_HEADER_YES] = "yes", [TERN_CSV_HEADER_NO] = "no"};
    static const char *const missing[3] = {[TERN_CSV_MISSING_MEAN] = "mean",
                                           [TERN_CSV_MISSING_SKIP] = "skip",
                                           [TERN_CSV_MISSING_REFUSE] = "refuse"};
    uint32_t header = choice->header;
    uint32_t what = choice->missing;
    TERN_TRY(read_word(spec, "header", headers, "yes and no", &header));
    TERN_TRY(read_word(spec, "missing", missing, "mean, skip and refuse", &what));
    choice->header = (enum tern_csv_header)header;
    choice->missing = (enum tern_csv_missing)what;
    return TERN_OK;
}

// Refuses an option that no reader of tables has, before another is judged: a misspelt one would be judged as missing.
static enum tern_result refuse_unknown(const struct tern_data_spec *spec)
{
    static const char known[] = "label, target, drop, classes, group, header, missing, only, "
                                "test_file, test, seed, scale, ";
    for (uint32_t i = 0; i < spec->option_count; i++) {
        char listed[48];
        const int len = snprintf(listed, sizeof listed, "%s, ", spec->options[i].key);
        const char *found = len < (int)sizeof listed ? strstr(known, listed) : NULL;
        if (found == NULL || (found != known && found[-1] != ' ')) {
            return tern_spec_refuse(spec, TERN_ERR_CONFIG, "no option '%.40s'; known: %.*s",
                                    spec->options[i].key, (int)sizeof known - 3, known);
        }
    }
    return TERN_OK;
}

enum tern_result tern_csv_choose(struct tern_data_spec *spec, struct tern_csv_choice *choice)
{
    TERN_TRY(refuse_unknown(spec));
    const char *label = tern_spec_option(spec, "label");
    const char *target = tern_spec_option(spec, "target");
    const char *scale = tern_spec_option(spec, "scale");
    *choice = (struct tern_csv_choice){.classes = tern_spec_option(spec, "classes"),
                                       .drop = tern_spec_option(spec, "drop"),
                                       .group = tern_spec_option(spec, "group"),
                                       .numeric = target != NULL};
    if (target != NULL && (label != NULL || choice->classes != NULL)) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "target names a column of numbers to be told, label one of classes: "
            "it takes one of them, and classes with a label only");
    }
    // A column of that name is given by its number.
    choice->unlabelled = label != NULL && strcmp(label, "none") == 0;
    choice->label = target != NULL ? target : choice->unlabelled ? NULL : label;
    choice->scaled = scale != NULL && strcmp(scale, "none") != 0 && strcmp(scale, "standard") != 0;
    return read_words(spec, choice);
}
