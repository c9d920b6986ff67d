// Spec strings: a name, and parameters as keys and values, NAME[:KEY=VALUE[,KEY=VALUE]...], e.g.
// "3lc:s=1.5,coder=range" or "fedadam:beta1=0.9,tau=1e-3". They name codecs everywhere, and
// strategies, schedules, learning rates and error feedback in settings. The functions here parse
// and print spec strings and explain mistakes, for any list of names with tables of parameters.
// Pure; the caller owns all memory; reentrant.
#ifndef TERN_SPEC_H
#define TERN_SPEC_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tern_spec_kind {
    TERN_SPEC_NUMBER, // float, written with at most 6 decimals
    TERN_SPEC_WHOLE,  // uint32_t
    TERN_SPEC_CHOICE, // uint32_t, written as one of `choices`
    TERN_SPEC_REAL, // double, any decimal number such as 1e-3; only in builds with TERN_FOR_PEOPLE
};

#define TERN_SPEC_MILLION 1000000 // numbers are in millionths

// One key of a spec string.
struct tern_spec_parameter {
    const char *key;
    const char *meaning; // for --help and docs
    const char *range;   // for error messages and --help: "1 to 1.999999"
    enum tern_spec_kind kind;
    size_t offset; // of the field in the struct of parsed values

    // Range, and value without the key. Numbers are in millionths, choices are indices. The
    // canonical spec string omits keys with their preset, except the first key.
    uint32_t least;
    uint32_t most;
    uint32_t preset;
    const char *const *choices; // NULL-terminated
    uint32_t left_out;          // bit i: choice i is not built in (build.h)
    bool or_zero;               // 0 is allowed although it is below `least`
};

// A name and its parameters.
struct tern_spec_entry {
    const char *name;
    const struct tern_spec_parameter *parameters; // ends with key NULL
    uint32_t used;                                // bit i: the name has parameter i
};
#define TERN_SPEC_ALL UINT32_MAX // value of `used`: every parameter of the table

struct tern_spec_list {
    const char *what; // what the names are, for messages: "codec"
    // Sets *entry to the entry with that index; false if there are fewer.
    bool (*at)(size_t index, struct tern_spec_entry *entry);
};

#define TERN_SPEC_SENTENCE_MAX 512 // bytes with the terminating NUL

// Why a spec string was refused. Pointers into the spec or static strings.
struct tern_spec_refusal {
    const struct tern_spec_list *list;
    const char *at;                              // the wrong part of the spec string
    struct tern_spec_entry entry;                // name NULL: the list has no such name
    const struct tern_spec_parameter *parameter; // NULL: unknown or repeated key
};

// Parses a spec string into *values, the struct that the parameters' offsets refer to; keys that
// are missing get their presets. *index: the entry's index. On error *values is unspecified and
// *refusal says why.
// TERN_ERR_UNKNOWN   no such name
// TERN_ERR_ARGUMENT  unknown or repeated key, malformed value, or a value outside its range
TERN_MUST_USE enum tern_result tern_spec_parse(const struct tern_spec_list *list, const char *spec,
                                               void *values, size_t *index,
                                               struct tern_spec_refusal *refusal);

// Like tern_spec_parse(), but writes the error message instead of the refusal.
TERN_MUST_USE enum tern_result tern_spec_read(const struct tern_spec_list *list, const char *spec,
                                              void *values, size_t *index,
                                              char why[TERN_SPEC_SENTENCE_MAX]);

// Sets every parameter of the entry to its preset.
void tern_spec_presets(const struct tern_spec_entry *entry, void *values);

// Writes the canonical spec string of an entry without reals, cut to `size` bytes with the terminating NUL.
void tern_spec_format(const struct tern_spec_entry *entry, const void *values, char *spec,
                      size_t size);

// Writes an error message: the key and its range, or the existing keys or names and the most
// similar one. Examples: `3lc: s is 1 to 1.999999, not "2"`; `fedadam: no key "beat1"; did you mean
// "beta1"? It has beta1, tau`.
void tern_spec_explain(const struct tern_spec_refusal *refusal,
                       char sentence[TERN_SPEC_SENTENCE_MAX]);

// Writes the preset of a parameter as text.
#define TERN_SPEC_VALUE_MAX 32 // bytes with the terminating NUL
void tern_spec_format_preset(const struct tern_spec_parameter *parameter,
                             char text[TERN_SPEC_VALUE_MAX]);

#ifdef __cplusplus
}
#endif

#endif
