// Bytes that are too many for memory, kept in files: spools, which are written in order and then read through a
// mapping; blobs, which many readers share; and writable blocks of memory behind a file. The kernel may drop the pages
// of all three and read them back.
#ifndef TERN_HOSTED_SPOOL_H
#define TERN_HOSTED_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Spools

// A file without a name is deleted when the program ends; a file with a name can be reopened after
// a restart. The listener writes long bodies into spools. One thread at a time; any number of
// threads may read the view.
struct tern_spool {
    int fd; // -1: not open
    size_t len;
    uint8_t *mapped; // NULL: not mapped yet
    char *path;      // NULL: without a name
};

#define TERN_SPOOL_CLOSED                                                                          \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

// Makes a file without a name in `folder`. Returns false on error; errno has the reason.
bool tern_spool_open(struct tern_spool *spool, const char *folder);
// Makes a file whose name is `name` and a unique suffix of TERN_SPOOL_SUFFIX bytes, which starts with its only '-'.
bool tern_spool_open_named(struct tern_spool *spool, const char *folder, const char *name);
#define TERN_SPOOL_SUFFIX 7u
// Reopens a named file to append after its first `len` bytes. false: it is shorter, or cannot be
// opened.
bool tern_spool_reopen(struct tern_spool *spool, const char *path, size_t len);
// Appends `len` bytes. Returns false if the disk is full or fails; errno has the reason. Do not
// call after tern_spool_view().
bool tern_spool_append(struct tern_spool *spool, const void *data, size_t len);
// Reads `len` appended bytes from offset `at`. false: the disk failed, or the file is shorter.
bool tern_spool_read(const struct tern_spool *spool, size_t at, void *dst, size_t len);
// Maps all appended bytes, at least one; valid until the spool is closed. NULL on error.
const uint8_t *tern_spool_view(struct tern_spool *spool);
// Drops the pages of len bytes of the view at `from` from memory; the next read brings them back.
void tern_spool_drop_pages(const struct tern_spool *spool, size_t from, size_t len);
// Closes and deletes the file; does nothing where the spool is closed.
void tern_spool_close(struct tern_spool *spool);
// Closes the spool; a named file stays on disk.
void tern_spool_close_and_keep(struct tern_spool *spool);

// --- Blobs

// Reference-counted bytes in memory or in a spool: one stored download serves any number of replies without copies.
// Any thread.
struct tern_blob {
    _Atomic uint32_t references;
    size_t len;
    uint8_t *data; // read-only where a spool holds it
    struct tern_spool spool;
    uint8_t memory[];
};

// Returns a blob with one reference and room for len bytes, or NULL.
struct tern_blob *tern_blob_new(size_t len);
// Moves the spool into a blob with one reference. On error returns NULL and closes the spool.
struct tern_blob *tern_blob_from_spool(struct tern_spool *spool);
// Drops the pages of bytes [from, from + len) from memory where a spool holds them.
void tern_blob_drop_pages(const struct tern_blob *blob, size_t from, size_t len);
struct tern_blob *tern_blob_share(struct tern_blob *blob);
void tern_blob_release(struct tern_blob *blob); // NULL is allowed

// --- Large blocks of memory

// Each block belongs to its caller; any thread.

// Asks the kernel for large pages behind an unused block; NULL is allowed. A page fault then brings 2 MiB in place of
// 4 KiB, and scattered access, such as to the sums of updates, is faster. No effect on small blocks. free() frees it.
void tern_large_pages(void *memory, size_t size);

// Lets free() return blocks of 1 MiB and more to the system at once. glibc would keep blocks of up to 32 MiB for reuse, in
// an arena of each thread. Called at a program's start.
void tern_return_large_blocks(void);

// Returns `size` zero bytes behind a file without a name in `folder`, whose disk space is allocated. NULL: no space or
// no file; errno has the reason.
void *tern_file_memory_new(const char *folder, size_t size);
// Drops the block's pages from memory; the contents stay in the file.
void tern_file_memory_drop_pages(void *memory, size_t size);
void tern_file_memory_free(void *memory, size_t size);

#endif
