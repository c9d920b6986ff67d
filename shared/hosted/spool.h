// Bytes that are too many to be held in memory: a file without a name, which is gone with its last
// user, however the program ends, or one with a name, which a program that is killed leaves behind,
// to be found by the next. What was written is read through a mapping, whose pages the kernel may
// take back at any time. Who calls: the listener for long bodies, and whoever makes a blob of many
// bytes. One thread at a time; a view may be read by any number of them.
#ifndef TERN_HOSTED_SPOOL_H
#define TERN_HOSTED_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_spool {
    int fd; // -1 = not open
    size_t len;
    uint8_t *mapped; // NULL = not yet
    char *path;      // NULL = without a name
};

#define TERN_SPOOL_CLOSED                                                                          \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

// Makes the file in `folder`. False: it cannot be made; errno says why.
bool tern_spool_open(struct tern_spool *spool, const char *folder);
// Likewise with a name, which is `name` and what sets it apart from other files of that name:
// TERN_SPOOL_SUFFIX bytes, a '-' first and no other in them.
bool tern_spool_open_named(struct tern_spool *spool, const char *folder, const char *name);
#define TERN_SPOOL_SUFFIX 7u
// Goes on with the file of such a name, of which the first `len` bytes count. False: there are fewer,
// or it cannot be opened.
bool tern_spool_open_again(struct tern_spool *spool, const char *path, size_t len);
// False: the disk is full or fails; errno says why. Not after tern_spool_view().
bool tern_spool_append(struct tern_spool *spool, const void *data, size_t len);
// Reads `len` of the bytes that were appended, from `at` on. False: the disk fails.
bool tern_spool_read(const struct tern_spool *spool, size_t at, void *dst, size_t len);
// All that was appended, len > 0 bytes, valid until tern_spool_close(). NULL: it cannot be mapped.
const uint8_t *tern_spool_view(struct tern_spool *spool);
// The pages of len bytes of the view from `from` on need not be in memory for now; whoever reads
// them brings them back.
void tern_spool_rest(const struct tern_spool *spool, size_t from, size_t len);
void tern_spool_close(struct tern_spool *spool); // and deletes it; closed: nothing happens
void tern_spool_leave(struct tern_spool *spool); // closes it; a file with a name stays

#endif
