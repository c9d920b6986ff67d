// Memory for large blocks. Large pages take one page fault for 2 MiB in place of 512, and speed up scattered access,
// such as that to the sums of updates. A file mapping without a name holds blocks that are larger than memory may be:
// the kernel writes its pages out and reads them back. Each block belongs to its caller; any thread.
#ifndef TERN_MEMORY_H
#define TERN_MEMORY_H

#include <stddef.h>

// Asks the kernel for large pages behind a block that was not used yet; NULL is allowed. Has no effect on small
// blocks, or where the kernel has no such pages. free() frees the block.
void tern_large_pages(void *memory, size_t size);

// Returns `size` zero bytes whose room in `folder` is allocated. NULL: there is no room or no file; errno has the reason.
void *tern_file_memory_new(const char *folder, size_t size);
// Lets the kernel drop the block's pages from memory at once; the contents stay in the file.
void tern_file_memory_rest(void *memory, size_t size);
void tern_file_memory_free(void *memory, size_t size);

#endif
