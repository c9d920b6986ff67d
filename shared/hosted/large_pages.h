// Large pages for large blocks: what is touched here and there, as the sums of updates are, takes one fault of the
// memory's for 2 MiB in place of 512, and finds its pages sooner. Any thread.
#ifndef TERN_HOSTED_LARGE_PAGES_H
#define TERN_HOSTED_LARGE_PAGES_H

#include <stddef.h>

// Asks for large pages behind a block, of which nothing was used yet; NULL is none. Small ones are left as they
// are, and so is all where the kernel has no such pages. It is freed as ever.
void tern_large_pages(void *memory, size_t size);

#endif
