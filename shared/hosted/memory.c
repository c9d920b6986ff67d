#include "hosted/memory.h"

#include "hosted/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// --- Large pages

// Large pages for large blocks: what is touched here and there, as the sums of updates are, takes one fault of the
// memory's for 2 MiB in place of 512, and finds its pages sooner. Any thread.

// Two large pages of most machines: a smaller block need not have a whole one.
#define LARGE ((size_t)4 << 20)

void tern_large_pages(void *memory, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t skipped = (0 - (uintptr_t)memory) % page; // to the first whole page
    if (memory != NULL && size >= LARGE) {
        (void)madvise((char *)memory + skipped, (size - skipped) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)size;
#endif
}

// --- Memory in a file

// Memory whose pages are those of a file without a name, which is gone when it is given back, however
// the program ends: the kernel writes them out and takes them back when it needs memory. For blocks that
// are larger than what may be held in memory. Each block is its caller's.

// To write into a page that finds no room on the disk later would be a signal.
static void *map(const struct tern_spool *file, size_t size)
{
    errno = posix_fallocate(file->fd, 0, (off_t)size);
    if (errno != 0) {
        return NULL;
    }
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

void *tern_file_memory_new(const char *folder, size_t size)
{
    struct tern_spool file;
    if (!tern_spool_open(&file, folder)) {
        return NULL;
    }
    void *mapped = map(&file, size);
    const int error = errno;
    tern_spool_close(&file); // the mapping keeps the file
    errno = error;
    return mapped;
}

void tern_file_memory_rest(void *memory, size_t size)
{
    (void)madvise(memory, size, MADV_DONTNEED); // else its pages only stay
}

void tern_file_memory_free(void *memory, size_t size)
{
    munmap(memory, size);
}
