#include "hosted/large_pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

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
