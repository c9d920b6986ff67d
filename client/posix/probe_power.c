// Where the power comes from, by the kernel's power_supply class.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "sys/class/power_supply"

// A name longer than this is no supply's.
#define NAME_MAX_SHOWN 47

// What all supplies say together; names are of the last that said so.
struct supplies {
    unsigned outside; // mains, USB, wireless
    unsigned online;  // of those
    unsigned batteries;
    char online_name[NAME_MAX_SHOWN + 1];
    char discharging[NAME_MAX_SHOWN + 1];
    char charging[NAME_MAX_SHOWN + 1];
    char full[NAME_MAX_SHOWN + 1];
    char emptiest[NAME_MAX_SHOWN + 1];
    long charge; // of the emptiest
};

static bool read_attribute(const char *root, const char *supply, const char *attribute, char *word,
                           size_t size)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, FOLDER "/%s/%s", supply, attribute);
    return tern_probe_line(root, path, word, size);
}

static void set_name(char name[NAME_MAX_SHOWN + 1], const char *supply)
{
    snprintf(name, NAME_MAX_SHOWN + 1, "%s", supply);
}

static void add_battery(const char *root, const char *supply, struct supplies *all)
{
    char word[32];
    long charge = 0;
    if (read_attribute(root, supply, "present", word, sizeof word) && strcmp(word, "0") == 0) {
        return; // an empty slot
    }
    all->batteries++;
    read_attribute(root, supply, "status", word, sizeof word);
    if (strcmp(word, "Discharging") == 0) {
        set_name(all->discharging, supply);
    } else if (strcmp(word, "Charging") == 0) {
        set_name(all->charging, supply);
    } else if (strcmp(word, "Full") == 0) {
        set_name(all->full, supply);
    }
    read_attribute(root, supply, "capacity", word, sizeof word);
    if (tern_probe_number(word, &charge) && charge >= 0 && charge <= 100 &&
        (all->emptiest[0] == '\0' || charge < all->charge)) {
        all->charge = charge;
        set_name(all->emptiest, supply);
    }
}

// `online` is 1 for a fixed and 2 for a programmable voltage.
static void add_outside(const char *root, const char *supply, struct supplies *all)
{
    char word[32];
    long online = 0;
    read_attribute(root, supply, "online", word, sizeof word);
    if (!tern_probe_number(word, &online)) {
        return;
    }
    all->outside++;
    if (online > 0) {
        all->online++;
        set_name(all->online_name, supply);
    }
}

static void add(const char *root, const char *supply, struct supplies *all)
{
    char type[32];
    char scope[32];
    read_attribute(root, supply, "scope", scope, sizeof scope);
    if (strlen(supply) > NAME_MAX_SHOWN || strcmp(scope, "Device") == 0) {
        return; // of a mouse or a headset
    }
    read_attribute(root, supply, "type", type, sizeof type);
    if (strcmp(type, "Battery") == 0 || strcmp(type, "UPS") == 0) {
        add_battery(root, supply, all);
    } else {
        add_outside(root, supply, all);
    }
}

static bool read_all(const char *root, struct supplies *all)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/" FOLDER, root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return false;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            add(root, entry->d_name, all);
        }
    }
    closedir(folder);
    return true;
}

// The surest sign first. A battery that runs down decides even beside a supply that is online,
// which then is too weak for the work. "Full" comes last: some say so for a while after the plug
// was pulled.
static void judge_charging(const struct supplies *all, struct tern_reading *charging)
{
    if (all->discharging[0] != '\0') {
        tern_reading_known(charging, 0, "%s is discharging", all->discharging);
    } else if (all->online > 0) {
        tern_reading_known(charging, 1, "%s is online", all->online_name);
    } else if (all->charging[0] != '\0') {
        tern_reading_known(charging, 1, "%s is charging", all->charging);
    } else if (all->outside > 0 && all->batteries > 0) {
        tern_reading_known(charging, 0, "there is a battery and no supply is online");
    } else if (all->full[0] != '\0') {
        tern_reading_known(charging, 1, "%s is full", all->full);
    } else if (all->batteries > 0) {
        tern_reading_unknown(charging, "no battery says whether it charges, no supply is listed");
    } else if (all->outside > 0) {
        tern_reading_unknown(charging, "no supply is online, and no battery is listed");
    } else {
        tern_reading_unknown(charging, "no power supply is listed");
    }
}

static void judge_battery(const struct supplies *all, struct tern_reading *battery)
{
    if (all->emptiest[0] != '\0') {
        tern_reading_known(battery, (double)all->charge, "%s holds %ld %%", all->emptiest,
                           all->charge);
    } else if (all->batteries > 0) {
        tern_reading_unknown(battery, "no battery says what it holds");
    } else {
        tern_reading_unknown(battery, "no battery is listed");
    }
}

void tern_probe_power(const char *root, struct tern_reading *charging, struct tern_reading *battery)
{
    struct supplies all = {0};
    snprintf(charging->from, sizeof charging->from, "%.80s/" FOLDER, root);
    snprintf(battery->from, sizeof battery->from, "%s", charging->from);
    if (!read_all(root, &all)) {
        tern_reading_unknown(charging, "the folder cannot be read");
        tern_reading_unknown(battery, "the folder cannot be read");
        return;
    }
    judge_charging(&all, charging);
    judge_battery(&all, battery);
}
