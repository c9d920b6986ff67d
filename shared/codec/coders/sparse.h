// Payloads that list some of a segment's values as they are (docs/FORMAT.md, "sparse"): what the
// sparse quantizers have in common. Internal to shared/codec.
#ifndef TERN_SPARSE_H
#define TERN_SPARSE_H

#include "codec/modes.h"

// The modes of every sparse codec.
extern const struct tern_mode tern_sparse_bitmap_mode;
extern const struct tern_mode tern_sparse_gaps_mode;

// The keys of spec strings that all have: the share, in millionths, and the coder of the indices.
#define TERN_SHARE_PARAMETER(default_share)                                                        \
    {                                                                                              \
        .key = "p", .meaning = TERN_HELP("share of the values that is sent"),                      \
        .range = TERN_HELP("0.000001 to 1"), .kind = TERN_SPEC_NUMBER,                             \
        .offset = TERN_FIELD(density), .least = 1, .most = TERN_SPEC_MILLION,                      \
        .preset = (default_share)                                                                  \
    }
#define TERN_INDEX_CODER_PARAMETER                                                                 \
    {                                                                                              \
        .key = "coder", .meaning = TERN_HELP("how the indices of the values become bytes"),        \
        .range = TERN_HELP("auto (the smaller), bitmap or gaps"), .kind = TERN_SPEC_CHOICE,        \
        .offset = TERN_FIELD(coder), .most = TERN_INDEX_GAPS, .preset = TERN_INDEX_AUTO,           \
        .choices = tern_index_coder_names                                                          \
    }
extern const char *const tern_index_coder_names[]; // NULL at the end

// The most bytes of a payload that lists k of count values, and of the room to make it.
size_t tern_sparse_bound(size_t k, size_t count);

// The values of a segment that are sent: bit i % 64 of words[i / 64] is 1 for value i.
struct tern_sparse_list {
    uint64_t *words;
    size_t listed; // 1 to the k of the bound
};

// Room for a list, at the end of a job's dst of `bound` bytes.
uint64_t *tern_sparse_words(const struct tern_encode_job *job, size_t bound);

// Lists the k values of largest magnitude, or all that are not 0 where those are fewer.
struct tern_sparse_list tern_sparse_largest(const struct tern_encode_job *job, size_t k,
                                            size_t bound);

// Writes the payload with the coder of the job's codec, and leaves +0 in the values that it lists.
// Returns its length.
size_t tern_sparse_encode(const struct tern_encode_job *job, const struct tern_sparse_list *list);

#endif
