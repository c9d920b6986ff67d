// Names of devices that have none: stable, and different for clones.
#include "hosted/files.h"
#include "hosted/host.h"
#include "tests/cases.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAC_FIRST "52:54:00:00:00:01\n"
#define MAC_SECOND "52:54:00:00:00:02\n"

static void put(const char *root, const char *name, const char *text)
{
    char path[PATH_MAX];
    char folder[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(tern_file_make_folders(folder, 0700), TERN_OK);
    assert_int_equal(tern_file_write(path, text, strlen(text), 0600), TERN_OK);
}

// A machine with that address of its one network device, below a folder of its own.
static void make_machine(char root[PATH_MAX], const char *address)
{
    snprintf(root, PATH_MAX, "/tmp/tern-device-name-XXXXXX");
    assert_non_null(mkdtemp(root));
    put(root, "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
    put(root, "sys/class/net/eth0/address", address);
    put(root, "sys/class/net/eth0/device/uevent", "");
    put(root, "sys/class/net/lo/address", "00:00:00:00:00:00\n");
}

static void remove_machine(const char *root)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void name_of(const char *root, const char *folder, char name[TERN_DEVICE_NAME_MAX])
{
    memset(name, 'x', TERN_DEVICE_NAME_MAX);
    tern_device_name(root, folder, name);
    const char *digits = strrchr(name, '-');
    assert_non_null(digits);
    assert_int_equal(strlen(digits), 7);
    assert_int_equal(strspn(digits + 1, "0123456789abcdef"), 6);
}

CASE(test_clones)
{
    char first[PATH_MAX];
    char clone[PATH_MAX];
    char name[TERN_DEVICE_NAME_MAX];
    char again[TERN_DEVICE_NAME_MAX];
    char other[TERN_DEVICE_NAME_MAX];
    (void)state;
    make_machine(first, MAC_FIRST);
    make_machine(clone, MAC_SECOND);
    name_of(first, "/var/lib/tern", name);
    name_of(first, "/var/lib/tern", again);
    name_of(clone, "/var/lib/tern", other);
    assert_string_equal(name, again);
    assert_string_not_equal(name, other); // host and machine-id are the same
    put(first, "sys/class/net/docker0/address", "02:42:00:00:00:09\n");
    name_of(first, "/var/lib/tern", again);
    assert_string_equal(name, again); // of no device
    name_of(first, "/var/lib/tern-two", other);
    assert_string_not_equal(name, other);
    remove_machine(first);
    remove_machine(clone);
}

// A folder that is made later has the same name then, and folders of one name in different places have not.
CASE(test_folders)
{
    char root[PATH_MAX];
    char folder[PATH_MAX + 16];
    char name[TERN_DEVICE_NAME_MAX];
    char other[TERN_DEVICE_NAME_MAX];
    (void)state;
    make_machine(root, MAC_FIRST);
    assert_int_equal(chdir(root), 0);
    name_of(root, "state", name);
    snprintf(folder, sizeof folder, "%s/state", root);
    assert_int_equal(mkdir(folder, 0700), 0);
    name_of(root, "state", other);
    assert_string_equal(name, other);
    assert_int_equal(chdir(folder), 0);
    name_of(root, "state", other);
    assert_string_not_equal(name, other);
    assert_int_equal(chdir("/"), 0);
    remove_machine(root);
}
