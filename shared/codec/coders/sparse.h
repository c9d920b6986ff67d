// Payloads that list some of a segment's values as they are (docs/FORMAT.md, "sparse"): what the
// sparse quantizers have in common. Internal to shared/codec.
#ifndef TERN_SPARSE_H
#define TERN_SPARSE_H

#include "codec/modes.h"

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
