#include "hosted/csv_task.h"
#include "hosted/csv_doubt.h"
#include "hosted/csv_text.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CLASSES_MAX 256 // more are no classes

static bool refuse(char why[TERN_CSV_TASK_WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(char why[TERN_CSV_TASK_WHY_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_CSV_TASK_WHY_MAX, format, arguments);
    va_end(arguments);
    return false;
}

static const struct tern_csv_column *label_of(const struct tern_csv_profile *profile)
{
    return &profile->column[profile->columns.label];
}

// Accepts numbers, and texts meant as numbers ("<0.5", "1,5"), with fractions or many different values. A
// number with a fraction is never a class, even where a small sample has few values.
bool tern_csv_is_target(const struct tern_csv_profile *profile)
{
    const struct tern_csv_column *label = label_of(profile);
    const uint64_t numbers = label->numbers + label->huge.count + label->like.count;
    const uint64_t texts = label->bad.count - label->like.count + label->doubtful.count;
    const bool many = profile->many_labels || profile->labels.count > TERN_CSV_VALUES_MAX;
    const bool fractions = label->numbers > 0 && !label->order.whole;
    return numbers > texts && (many || fractions);
}

// --- Classes

// Whether the labels are the numbers below their count, which need no list.
static bool are_numbers(const struct tern_csv_profile *profile)
{
    uint32_t class;
    bool numbers = true;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        numbers =
            numbers && tern_name_is_class(profile->labels.names[i], profile->labels.count, &class);
    }
    return numbers;
}

// Refuses texts that mostly occur once: notes, ids, times.
static bool refuse_unique(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    const uint32_t count = task->profile->labels.count;
    const uint64_t rows = task->profile->rows - label->missing.count;
    return task->unique || count <= TERN_CSV_VALUES_MAX || 2ull * count <= rows
               ? true
               : refuse(why,
                        "column '%s' of %s has %" PRIu32 " different values in %" PRIu64
                        " rows, which are hardly classes: name the column of the class with "
                        "--label, or add --task classification",
                        label->name, task->data, count, rows);
}

// Numbers with a text among them ("<0.5", "err"), which would be a class.
static bool refuse_mixed(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    return task->mixed || label->bad.count == 0 ||
                   label->numbers <= label->bad.count + label->doubtful.count
               ? true
               : refuse(why,
                        "%s: line %" PRIu64 ", column '%s': '%s' is a text among numbers (%" PRIu64
                        " of %" PRIu64 " rows): mend or leave out such lines, or make each "
                        "value a class with --task classification",
                        task->data, label->bad.line, label->name, label->bad.text, label->bad.count,
                        task->profile->rows);
}

// Names the label that no list of classes can hold; where each can be listed, all of them are too long together.
static bool refuse_unlisted(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_profile *profile = task->profile;
    const char *column = label_of(profile)->name;
    for (uint32_t i = 0; i < profile->labels.count; i++) {
        const char *name = profile->labels.names[i];
        if (!tern_csv_is_listable(name)) {
            char shown[40];
            snprintf(shown, sizeof shown, "%s", name);
            tern_utf8_show(shown, strlen(shown));
            return refuse(why,
                          "%s: line %" PRIu64 ", column '%s': the label '%s' cannot stand in a "
                          "list of classes, being '*', longer than %d bytes, or with '|', quotes "
                          "or a line end in it: write another name, or class numbers from 0",
                          task->data, profile->label[i].line, column, shown, TERN_CSV_NAME_MAX - 1);
        }
    }
    return refuse(why,
                  "the %" PRIu32 " labels in column '%s' of %s are too long together for a list of "
                  "classes, of %d bytes at most: write shorter names, or class numbers from 0",
                  profile->labels.count, column, task->data, TERN_CSV_CLASSES_MAX - 1);
}

bool tern_csv_list_classes(const struct tern_csv_task *task, char classes[TERN_CSV_CLASSES_MAX],
                           char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_profile *profile = task->profile;
    const char *label = label_of(profile)->name;
    const uint32_t listed = tern_csv_count_listed(task->listed);
    const uint32_t count = task->listed != NULL ? listed : profile->labels.count;
    classes[0] = '\0';
    if (profile->many_labels || count < task->least || count > CLASSES_MAX) {
        return refuse(
            why,
            "column '%s' of %s has %" PRIu32
            "%s different value%s%s, and classes are 2 to %d: name the column of the "
            "class with --label, or that of a number with --task regression%s",
            label, task->data, count, profile->many_labels ? " and more" : "", tern_plural(count),
            count > 0          ? ""
            : label[0] == '\0' ? " and no name (do lines end with a comma?)"
                               : ", since it is empty",
            CLASSES_MAX, count == 1 ? ", or learn what is normal with --task anomaly" : "");
    }
    if (task->listed != NULL) { // judged as those of data.source are
        return snprintf(classes, TERN_CSV_CLASSES_MAX, "%s", task->listed) < TERN_CSV_CLASSES_MAX
                   ? true
                   : refuse(why, "the list of classes is too long for a setting: write the file "
                                 "with class numbers from 0");
    }
    if (!refuse_mixed(task, why) || !refuse_unique(task, why) ||
        !tern_csv_ask_labels(profile, task->data, NULL, why, TERN_CSV_TASK_WHY_MAX)) {
        return false;
    }
    return are_numbers(profile) || tern_csv_profile_classes(profile, classes, TERN_CSV_CLASSES_MAX)
               ? true
               : refuse_unlisted(task, why);
}

// --- A number

bool tern_csv_check_target(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX])
{
    const struct tern_csv_column *label = label_of(task->profile);
    const bool differ = label->deviation > 0;
    if (differ && tern_csv_is_flat(label)) {
        return refuse(why,
                      "column '%s' of %s has numbers that differ by less than 32-bit numbers can: "
                      "subtract a constant, or change the unit",
                      label->name, task->data);
    }
    if (label->huge.count > label->numbers) {
        return refuse(why,
                      "%s: line %" PRIu64 ", column '%s': '%s' is 1e15 or more, which marks a "
                      "missing value (%" PRIu64 " of %" PRIu64 " rows): change the unit",
                      task->data, label->huge.line, label->name, label->huge.text,
                      label->huge.count, task->profile->rows);
    }
    return label->numbers > label->bad.count + label->huge.count && differ
               ? true
               : refuse(why,
                        "column '%s' of %s has no numbers that differ%s%s%s: name the column of "
                        "the number to predict with --label",
                        label->name, task->data, label->bad.count > 0 ? ", but texts such as " : "",
                        label->bad.count > 0 ? label->bad.text : "",
                        label->like.count > 0 ? " (write 1234.5 alone)" : "");
}
