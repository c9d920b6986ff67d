// How much memory is free for training.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX 4096 // the kernel's has some 1,500 bytes

uint32_t tern_probe_memory(const char *root)
{
    static const char key[] = "MemAvailable:";
    char text[FILE_MAX];
    tern_probe_text(root, "proc/meminfo", text, sizeof text);
    const char *found = strstr(text, key);
    const unsigned long long kib = found != NULL ? strtoull(found + sizeof key - 1, NULL, 10) : 0;
    return kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX;
}
