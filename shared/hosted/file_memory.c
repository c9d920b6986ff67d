#include "hosted/file_memory.h"

#include "hosted/spool.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

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
