// Spec strings: a name, and parameters as keys and values, NAME[:KEY=VALUE[,KEY=VALUE]...], e.g. "3lc:s=1.5,coder=range"
// or "fedadam:beta1=0.9,tau=1e-3". Codecs are named so everywhere, and strategies, schedules, learning rates and
// error feedback in settings. A list of entries with tables of parameters gives the parser, the canonical form and
// the sentences about mistakes. Pure; the caller owns all memory; reentrant.
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
    TERN_SPEC_REAL, // double, written as any decimal number, 1e-3 too; not in builds without TERN_FOR_PEOPLE
};

#define TERN_SPEC_MILLION 1000000 // numbers are in millionths

// One key of a spec string.
struct tern_spec_parameter {
    const char *key;
    const char *meaning; // for --help and docs
    const char *range;   // for error messages and --help: "1 to 1.999999"
    enum tern_spec_kind kind;
    size_t offset; // of the field in the struct that a parsed spec string fills

    // Range and value when the key is left out, of which the canonical spec string leaves out all
    // but the first parameter's. Numbers are in millionths, choices are indices.
    uint32_t least;
    uint32_t most;
    uint32_t preset;
    const char *const *choices; // NULL-terminated
    uint32_t left_out;          // bit i: choice i is not built in (build.h)
    bool or_zero;               // 0, below the least, is allowed as well
};

// One name, with its parameters.
struct tern_spec_entry {
    const char *name;
    const struct tern_spec_parameter *parameters; // ends with key NULL
    uint32_t used;                                // bit i: the name has parameter i
};
#define TERN_SPEC_ALL UINT32_MAX // of `used`: every parameter of the table

struct tern_spec_list {
    const char *what; // "codec": what the names are, in sentences
    // Fills *entry with the index-th name; false behind the last one.
    bool (*at)(size_t index, struct tern_spec_entry *entry);
};

#define TERN_SPEC_SENTENCE_MAX 512 // bytes with the terminating NUL

// Why a spec string was refused. Pointers into the spec or static strings.
struct tern_spec_refusal {
    const struct tern_spec_list *list;
    const char *at;                              // the part that is wrong
    struct tern_spec_entry entry;                // name NULL: the list has no such name
    const struct tern_spec_parameter *parameter; // NULL: no such key, or one that stands twice
};

// Parses a spec string into *values, the struct that the parameters' offsets are of: presets, then what is written.
// *index: of the entry. On error *values is unspecified and *refusal says why.
// TERN_ERR_UNKNOWN   no such name
// TERN_ERR_ARGUMENT  unknown or repeated key, malformed value, or a value outside its range
TERN_MUST_USE enum tern_result tern_spec_parse(const struct tern_spec_list *list, const char *spec,
                                               void *values, size_t *index,
                                               struct tern_spec_refusal *refusal);

// As tern_spec_parse(), with the sentence in place of the refusal.
TERN_MUST_USE enum tern_result tern_spec_read(const struct tern_spec_list *list, const char *spec,
                                              void *values, size_t *index,
                                              char why[TERN_SPEC_SENTENCE_MAX]);

// Sets every parameter of the entry to its preset.
void tern_spec_presets(const struct tern_spec_entry *entry, void *values);

// Writes the canonical spec string of an entry without reals, cut to `size` bytes with the terminating NUL.
void tern_spec_format(const struct tern_spec_entry *entry, const void *values, char *spec,
                      size_t size);

// One sentence for a person: the key and its range, or the keys or names that there are and the nearest one.
// `3lc: s is 1 to 1.999999, not "2"`; `fedadam: no key "beat1"; did you mean "beta1"? It has beta1, tau`.
void tern_spec_explain(const struct tern_spec_refusal *refusal,
                       char sentence[TERN_SPEC_SENTENCE_MAX]);

// Writes the value that a parameter has when its key is left out.
#define TERN_SPEC_VALUE_MAX 32 // bytes with the terminating NUL
void tern_spec_format_preset(const struct tern_spec_parameter *parameter,
                             char text[TERN_SPEC_VALUE_MAX]);

#ifdef __cplusplus
}
#endif

#endif
