// How hot the machine is, by the kernel's thermal zones.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "sys/class/thermal"
#define ZONE "thermal_zone"

// Sensors that are off or broken show figures beyond these, in thousandths of a degree.
#define COLDEST (-60000)
#define HOTTEST 200000

struct zones {
    unsigned found;
    unsigned believed;
    long hottest;
    char name[32];
};

static void add(const char *root, const char *zone, struct zones *all)
{
    char path[TERN_PROBE_PATH];
    char word[32];
    long millidegrees = 0;
    if (strncmp(zone, ZONE, sizeof ZONE - 1) != 0 || strlen(zone) >= sizeof all->name) {
        return;
    }
    all->found++;
    snprintf(path, sizeof path, FOLDER "/%s/temp", zone);
    tern_probe_line(root, path, word, sizeof word);
    if (!tern_probe_number(word, &millidegrees) || millidegrees < COLDEST ||
        millidegrees > HOTTEST) {
        return;
    }
    if (all->believed++ == 0 || millidegrees > all->hottest) {
        all->hottest = millidegrees;
        snprintf(all->name, sizeof all->name, "%.*s", (int)sizeof all->name - 1, zone);
    }
}

static void read_all(const char *root, struct zones *all)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/" FOLDER, root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        add(root, entry->d_name, all);
    }
    closedir(folder);
}

void tern_probe_temperature(const char *root, struct tern_reading *temperature)
{
    struct zones all = {0};
    snprintf(temperature->from, sizeof temperature->from, "%.80s/" FOLDER, root);
    read_all(root, &all);
    if (all.believed > 0) {
        const double degrees = (double)all.hottest / 1000;
        tern_reading_known(temperature, degrees, "%.1f degrees Celsius in %s, the hottest of %u",
                           degrees, all.name, all.believed);
    } else if (all.found > 0) {
        tern_reading_unknown(temperature, "no thermal zone tells a temperature");
    } else {
        tern_reading_unknown(temperature, "no thermal zone is listed");
    }
}
