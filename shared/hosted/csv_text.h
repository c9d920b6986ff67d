// Interprets the text of one field of a table: a number, a missing value, or a text that resembles one. All programs
// that read tables use these functions, so that they agree. Reentrant.
#ifndef TERN_CSV_TEXT_H
#define TERN_CSV_TEXT_H

#include <stdbool.h>
#include <stdint.h>

// Returns the plural ending of a noun: "1 row", "2 rows".
static inline const char *tern_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

// Reads a text that is one finite decimal number, with blanks of any kind around it; any dash counts as a minus sign.
// false: it is none.
bool tern_csv_number(const char *text, float *value);

// Like tern_csv_number(), in double precision.
bool tern_csv_double(const char *text, double *value);

// Reads a word that means 1 (true, yes, on, t, y) or 0 (false, no, off, f, n), in any case. false: it is none.
bool tern_csv_flag(const char *text, float *value);

// Whether the text marks a missing value: "", NA, N/A, (null), NaN, ? and similar ones, in any case.
bool tern_csv_is_missing(const char *text);

// Whether the text may be a missing value or a class: none, -, unknown. In a column of numbers it is a missing value.
bool tern_csv_is_doubtful(const char *text);

// Whether the text names a line of sums: total, subtotal.
bool tern_csv_is_total(const char *text);

// Whether the number is one that loggers write for a missing value: -999, 9999.
bool tern_csv_is_mark(double value);

// Whether the text is not a number, but was meant as one: "<0.5", "1,5", "1 234", "12 %", "-3.5 ms".
bool tern_csv_is_like_number(const char *text);

// Whether the text is a number with a decimal comma: "1,5".
bool tern_csv_has_decimal_comma(const char *text);

// Whether the text is a number with grouped digits: "1 234", "1'234".
bool tern_csv_has_groups(const char *text);

// Whether two texts differ only by case, blanks, underscores and dashes, or are two spellings of one number.
bool tern_csv_is_variant(const char *a, const char *b);

// Whether two texts differ only by case and kinds of blanks (tern_csv_fold()).
bool tern_csv_is_same(const char *a, const char *b);

#endif
