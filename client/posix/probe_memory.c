// How much memory is free for training.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t tern_probe_memory(const char *root)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    static const char key[] = "MemAvailable:";
    char line[128];
    unsigned long long kib = 0;
    while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, sizeof key - 1) == 0) {
            kib = strtoull(line + sizeof key - 1, NULL, 10);
        }
    }
    fclose(file);
    return kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX;
}
