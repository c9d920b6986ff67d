// What the text of one field of a table means: a number, a missing value, or something that only looks
// like one. For every program that reads tables, so that all read the same. Hosted; reentrant.
#ifndef TERN_CSV_TEXT_H
#define TERN_CSV_TEXT_H

#include <stdbool.h>
#include <stdint.h>

// The end of a noun in a sentence: "1 row", "2 rows".
static inline const char *tern_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

// Reads one finite decimal number that is all of `text`, but for blanks around it, of any kind. Its sign may be any
// minus or dash.
bool tern_csv_number(const char *text, float *value);

// Reads what tern_csv_number() reads, more finely. false: it is no number.
bool tern_csv_double(const char *text, double *value);

// Reads one of two words that mean 1 and 0: true, yes, on, t, y; false, no, off, f, n, in any case.
bool tern_csv_flag(const char *text, float *value);

// Whether the text marks a missing value: "", NA, N/A, (null), NaN, ? and their kin, in any case.
bool tern_csv_is_missing(const char *text);

// Whether the text is a word or mark that may stand for a missing value, and may be a class: none, -, unknown.
// In a column of numbers it is a missing value.
bool tern_csv_is_doubtful(const char *text);

// Whether the text is that of a line of sums: total, subtotal.
bool tern_csv_is_total(const char *text);

// Whether loggers write the number for a value that is missing: -999, 9999.
bool tern_csv_is_mark(double value);

// Whether the text is no number but was meant as one: "<0.5", "1,5", "1 234", "12 %", "-3.5 ms".
bool tern_csv_is_like_number(const char *text);

// Whether the text would be a number but for its decimal comma: "1,5".
bool tern_csv_has_decimal_comma(const char *text);

// Whether digits are grouped in thousands: "1 234", "1'234".
bool tern_csv_has_groups(const char *text);

// Whether two texts are the same but for case, blanks and dashes, or two spellings of one number.
bool tern_csv_is_variant(const char *a, const char *b);

// Whether two texts are the same but for case and blanks.
bool tern_csv_is_same(const char *a, const char *b);

#endif
