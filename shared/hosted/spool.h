// Bytes that are too many to be held in memory: a file without a name, which is gone with its last
// user, however the program ends. What was written is read through a mapping, whose pages the
// kernel may take back at any time. Who calls: the listener for long bodies, and whoever makes a
// blob of many bytes. One thread at a time; a view may be read by any number of them.
#ifndef TERN_HOSTED_SPOOL_H
#define TERN_HOSTED_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_spool {
    int fd; // -1 = not open
    size_t len;
    uint8_t *mapped; // NULL = not yet
};

#define TERN_SPOOL_CLOSED                                                                          \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

// Makes the file in `folder`. False: it cannot be made; errno says why.
bool tern_spool_open(struct tern_spool *spool, const char *folder);
// False: the disk is full or fails; errno says why. Not after tern_spool_view().
bool tern_spool_append(struct tern_spool *spool, const void *data, size_t len);
// All that was appended, len > 0 bytes, valid until tern_spool_close(). NULL: it cannot be mapped.
const uint8_t *tern_spool_view(struct tern_spool *spool);
// The pages of len bytes of the view from `from` on need not be in memory for now; whoever reads
// them brings them back.
void tern_spool_rest(const struct tern_spool *spool, size_t from, size_t len);
void tern_spool_close(struct tern_spool *spool); // closed: nothing happens

#endif
