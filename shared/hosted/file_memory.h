// Memory whose pages are those of a file without a name, which is gone when it is given back, however
// the program ends: the kernel writes them out and takes them back when it needs memory. For blocks that
// are larger than what may be held in memory. Each block is its caller's.
#ifndef TERN_HOSTED_FILE_MEMORY_H
#define TERN_HOSTED_FILE_MEMORY_H

#include <stddef.h>

// Zeros, with all of their room in `folder` taken. NULL: there is no room, or no file; errno says why.
void *tern_file_memory_new(const char *folder, size_t size);
// What it holds is not used for a while, and may leave memory at once.
void tern_file_memory_rest(void *memory, size_t size);
void tern_file_memory_free(void *memory, size_t size);

#endif
