// What is wrong or odd about a table, in sentences that name line and column. One place for all programs:
// `tern-aggregator init --data`, `tern-client check`, and the reader of examples of run, predict and
// experiments, which refuses by the first problem. Hosted; reentrant.
#ifndef TERN_CSV_JUDGE_H
#define TERN_CSV_JUDGE_H

#include "hosted/csv_profile.h"

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

#endif
