// Payloads with some of a segment's values as float32 (docs/FORMAT.md, "sparse"), for all sparse codecs. Internal to
// shared/codec.
#ifndef TERN_SPARSE_H
#define TERN_SPARSE_H

#include "codec/modes.h"

// The modes of every sparse codec.
extern const struct tern_mode tern_sparse_bitmap_mode;
extern const struct tern_mode tern_sparse_gaps_mode;

// The parameters that all sparse codecs have. default_share: in millionths.
#define TERN_SHARE_PARAMETER(default_share)                                                        \
    {                                                                                              \
        .key = "p", .meaning = TERN_HELP("fraction of the values to send"),                        \
        .range = TERN_HELP("0.000001 to 1"), .kind = TERN_SPEC_NUMBER,                             \
        .offset = TERN_FIELD(density), .least = 1, .most = TERN_SPEC_MILLION,                      \
        .preset = (default_share)                                                                  \
    }
#define TERN_INDEX_CODER_PARAMETER                                                                 \
    {                                                                                              \
        .key = "coder", .meaning = TERN_HELP("encoding of the indices"),                           \
        .range = TERN_HELP("auto (the smaller), bitmap or gaps"), .kind = TERN_SPEC_CHOICE,        \
        .offset = TERN_FIELD(coder), .most = TERN_INDEX_GAPS, .preset = TERN_INDEX_AUTO,           \
        .choices = tern_index_coder_names                                                          \
    }
extern const char *const tern_index_coder_names[]; // NULL at the end

// Returns the bytes that encoding k of count values needs, including working space.
size_t tern_sparse_bound(size_t k, size_t count);

// The values to send: bit i % 64 of words[i / 64] is set if value i is sent.
struct tern_sparse_list {
    uint64_t *words;
    size_t listed; // number of values, 1 to the k of tern_sparse_bound()
};

// Returns the words of a list, at the end of a job's dst of `bound` bytes.
uint64_t *tern_sparse_words(const struct tern_encode_job *job, size_t bound);

// Lists the k values of largest magnitude, or all that are not 0 if there are fewer.
struct tern_sparse_list tern_sparse_largest(const struct tern_encode_job *job, size_t k,
                                            size_t bound);

// Writes the payload and sets the listed values to +0. Returns its length.
size_t tern_sparse_encode(const struct tern_encode_job *job, const struct tern_sparse_list *list);

#endif
