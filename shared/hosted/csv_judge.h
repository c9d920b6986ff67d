// Judges a profiled table: reports problems and warnings with line and column, and decides between classes and a number
// to predict. `tern-aggregator init --data`, `tern-client check` and the reader of examples share these judgements; the
// reader refuses a table at the first problem. Also has the training that init proposes. Reentrant.
#ifndef TERN_HOSTED_CSV_JUDGE_H
#define TERN_HOSTED_CSV_JUDGE_H

#include "hosted/csv_profile.h"
#include "tensor/model.h"

#define TERN_CSV_SENTENCE_MAX 400

enum tern_csv_level {
    TERN_CSV_WARNING, // the table is read, but perhaps not as its owner expects
    TERN_CSV_PROBLEM, // no model can learn from the table
};

struct tern_csv_judging {
    const struct tern_csv_profile *profile;
    const struct tern_csv_choice *choice;
    bool sample; // init's sample: rows without a label are skipped with a warning
    bool fixed;  // a model exists: dropping a column would change its inputs
    // result: the error of a problem; TERN_OK for a warning. area: one word.
    void (*report)(void *ctx, enum tern_csv_level level, enum tern_result result, const char *area,
                   const char *sentence);
    void *ctx;
};

// Reports skipped lines, missing values and labels, texts instead of numbers, far values, unlisted labels, labels that
// differ only in case, and columns that are constant or number or time the rows.
void tern_csv_judge(const struct tern_csv_judging *judging);

// Returns why init leaves a column out, "it has one value in every row"; NULL: the column is useful.
const char *tern_csv_why_useless(const struct tern_csv_profile *profile,
                                 const struct tern_csv_column *column);

// Returns the column's name where a setting can have it, or else its number from 0, written to `number`.
const char *tern_csv_setting_name(const struct tern_csv_profile *profile, uint32_t column,
                                  char number[16]);

// --- Labels that may be no classes

enum tern_csv_doubt {
    TERN_CSV_CERTAIN,
    TERN_CSV_ALONE,    // one row of many has the label
    TERN_CSV_NO_LABEL, // it may mark a missing label: unknown, -, -999 among texts
    TERN_CSV_NO_ROW,   // one line alone has the label, and the line may be units or a total
};

enum tern_csv_doubt tern_csv_doubt_label(const struct tern_csv_profile *profile, uint32_t label);

// Checks for labels that may be no classes and are not in `listed` (classes separated by '|'; NULL: none). false: there
// is one; *why asks the user about it.
bool tern_csv_ask_labels(const struct tern_csv_profile *profile, const char *data,
                         const char *listed, char *why, size_t size);

// Suggests another label where the user chose none: a column with the name of a label, or, beside a last column of
// numbers, the first text column with few values. false: there is none.
bool tern_csv_hint_label(const struct tern_csv_profile *profile, char *hint, size_t size);

// --- Classes or a number

#define TERN_CSV_TASK_WHY_MAX 1536
#define TERN_CSV_CLASSES_MAX 450 // bytes of a list of classes
#define TERN_CSV_VALUES_MAX 20   // numbers with more different values are a target

// Whether the labels, profiled as classes, are numbers with fractions or many different values.
bool tern_csv_is_target(const struct tern_csv_profile *profile);

struct tern_csv_task {
    const struct tern_csv_profile *profile;
    const char *data;   // path of the table, for messages
    uint32_t least;     // fewest classes
    bool unique;        // most classes may occur only once
    bool mixed;         // a text among numbers is a class
    const char *listed; // the user's classes; NULL: the labels of the table
};

// Writes the list of classes for a data spec; "" where the labels are class numbers. false: the labels cannot be classes;
// *why has the reason.
bool tern_csv_list_classes(const struct tern_csv_task *task, char classes[TERN_CSV_CLASSES_MAX],
                           char why[TERN_CSV_TASK_WHY_MAX]);

// Whether the label's column has different numbers; false: *why has the reason.
bool tern_csv_check_target(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX]);

// --- The usual training

// `tern-aggregator init --data` proposes it for a table, `tern-client compare` repeats it on one client's rows. Measured
// on tables of 300 to 20,000 rows (docs/BENCHMARKS.md, "Rounds and rates of init").

#define TERN_USUAL_PASSES 150    // over the rows
#define TERN_USUAL_WARMUP_MAX 10 // rounds, or passes over one client's rows

struct tern_usual_rate {
    double learning_rate;
    double momentum;
};

// Momentum stops the narrow layers of autoencoders from learning; a higher rate with a warm-up does not.
static inline struct tern_usual_rate tern_usual_rate(enum tern_loss loss)
{
    return loss == TERN_LOSS_RECONSTRUCTION  ? (struct tern_usual_rate){0.1, 0}
           : loss == TERN_LOSS_CROSS_ENTROPY ? (struct tern_usual_rate){0.02, 0.9}
                                             : (struct tern_usual_rate){0.01, 0.9};
}

#endif
