// What is wrong or odd about a table, in sentences that name line and column. One place for all programs:
// `tern-aggregator init --data`, `tern-client check`, and the reader of examples of run, predict and
// experiments, which refuses by the first problem. Hosted; reentrant.
#ifndef TERN_HOSTED_CSV_JUDGE_H
#define TERN_HOSTED_CSV_JUDGE_H

#include "hosted/csv_profile.h"
#include "tensor/model.h"

#define TERN_CSV_SENTENCE_MAX 400

enum tern_csv_level {
    TERN_CSV_WARNING, // the table is read, and not as its owner may think
    TERN_CSV_PROBLEM, // it cannot be learnt from
};

struct tern_csv_judging {
    const struct tern_csv_profile *profile;
    const struct tern_csv_choice *choice;
    // A sample that a federation is proposed for: its rows without a label are left out, and named.
    bool sample;
    // There is a model already: a column that should be left out changes what it takes.
    bool fixed;
    // result: what a reader refuses the table with, TERN_OK of a warning. area: a word.
    void (*say)(void *ctx, enum tern_csv_level level, enum tern_result result, const char *area,
                const char *sentence);
    void *ctx;
};

// Names rows that are left out and columns that number or time the rows, values and labels that are missing, texts
// in the place of numbers, labels that are not listed or differ by case alone.
void tern_csv_judge(const struct tern_csv_judging *judging);

// Columns that say nothing of new rows, or may not: for a proposal, which leaves some out.
// "it has one value in every row"; NULL: it is of use.
const char *tern_csv_why_useless(const struct tern_csv_profile *profile,
                                 const struct tern_csv_column *column);

// Writes how a setting names a column: by its name where that can be, or else by its number from 0.
const char *tern_csv_setting_name(const struct tern_csv_profile *profile, uint32_t column,
                                  char number[16]);

// --- csv_doubt

// Labels of a table that may be no classes: a word or number that marks a missing label, a line of units or sums that
// is no row, or a class that one row alone has. Hosted; reentrant.

enum tern_csv_doubt {
    TERN_CSV_CERTAIN,
    TERN_CSV_ALONE,    // one row of many has it
    TERN_CSV_NO_LABEL, // it may mark a missing label: unknown, -, -999 among texts
    TERN_CSV_NO_ROW, // its line may be no row: it is the first or last and alone has this label, or has a total
};

enum tern_csv_doubt tern_csv_doubt_label(const struct tern_csv_profile *profile, uint32_t label);

// Asks about the labels that `listed` (classes between '|', NULL: none) does not have and that may be none. false: *why
// says which, and what to set.
bool tern_csv_ask_labels(const struct tern_csv_profile *profile, const char *data,
                         const char *listed, char *why, size_t size);

// Names the first text column of few values, which may be the label where nobody chose one and the last column has
// numbers. false: there is none.
bool tern_csv_hint_label(const struct tern_csv_profile *profile, char *hint, size_t size);

// --- csv_task

// What the label's column of a table is to be learnt as where nobody chose it: classes or a number. One decision for
// `tern-aggregator init --data` and `tern-client check --data`. Hosted; reentrant.

#define TERN_CSV_TASK_WHY_MAX 1536
#define TERN_CSV_CLASSES_MAX 450 // bytes of their list
#define TERN_CSV_VALUES_MAX 20   // numbers of more different values are a target

// Whether the labels, profiled as classes, are numbers with fractions or of many different values.
bool tern_csv_is_target(const struct tern_csv_profile *profile);

// What is to be looked at.
struct tern_csv_task {
    const struct tern_csv_profile *profile;
    const char *data;   // the table's place, for sentences
    uint32_t least;     // classes that there must be
    bool unique;        // classes may mostly occur once
    bool mixed;         // a text among numbers is a class
    const char *listed; // the classes, chosen by a user; NULL: those that the table has
};

// Writes the classes as a data spec lists them, "" where the labels are class numbers already. false: *why says why no
// classes can be made of the labels.
bool tern_csv_list_classes(const struct tern_csv_task *task, char classes[TERN_CSV_CLASSES_MAX],
                           char why[TERN_CSV_TASK_WHY_MAX]);

// Whether the label's column has numbers that differ; false: *why says what it has.
bool tern_csv_check_target(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX]);

// --- usual_training

// The training that `tern-aggregator init --data` proposes for a table and `tern-client compare` repeats on one client's
// rows. Measured on tables of 300 to 20,000 rows (docs/BENCHMARKS.md, "Rounds and rates of init"). Pure; reentrant.

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
