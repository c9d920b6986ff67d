// How busy the processors are with other work.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_MAX 1e6 // nothing has so many processes
#define CPUS_MAX 65536

// Adds up a list of ranges like "0-3,6,8-11". Returns 0 when it is none.
static long count_cpus(const char *list)
{
    long count = 0;
    const char *at = list;
    for (;;) {
        char *end = NULL;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (end == at) {
            return 0;
        }
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at) {
                return 0;
            }
        }
        if (first < 0 || last < first || last >= CPUS_MAX) {
            return 0;
        }
        count += last - first + 1;
        if (*end != ',') {
            return *end == '\0' ? count : 0;
        }
        at = end + 1;
    }
}

// The first number of the file: over one minute.
static bool read_load(const char *root, double *load)
{
    char line[128];
    char *end = NULL;
    if (!tern_probe_line(root, "proc/loadavg", line, sizeof line)) {
        return false;
    }
    *load = strtod(line, &end);
    return end != line && *end == ' ' && *load >= 0 && *load <= LOAD_MAX;
}

void tern_probe_load(const char *root, double own, struct tern_reading *reading)
{
    char cpus[256];
    double load = 0;
    snprintf(reading->from, sizeof reading->from, "%.80s/proc/loadavg", root);
    if (!read_load(root, &load)) {
        tern_reading_unknown(reading, "the load cannot be read");
        return;
    }
    tern_probe_line(root, "sys/devices/system/cpu/online", cpus, sizeof cpus);
    const long count = count_cpus(cpus);
    if (count == 0) {
        tern_reading_unknown(reading,
                             "%.80s/sys/devices/system/cpu/online does not tell the "
                             "number of processors",
                             root);
        return;
    }
    const double others = load > own ? load - own : 0;
    tern_reading_known(reading, others / (double)count,
                       "%.2f of others on %ld processor%s: %.2f per core", others, count,
                       count == 1 ? "" : "s", others / (double)count);
}
