#define _GNU_SOURCE
#include "hosted/device_name.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS 6
#define SOURCE_MAX 4096 // bytes of one file
#define NETWORK "sys/class/net"

// A file that is missing adds nothing.
static void add_file(struct tern_sha256 *hash, const char *path)
{
    uint8_t *data = NULL;
    size_t len = 0;
    if (tern_file_read_regular(path, SOURCE_MAX, &data, &len) == TERN_OK) {
        tern_sha256_update(hash, data, len);
        free(data);
    }
}

// Only devices with a driver: the address of a bridge, container or tunnel may change at each start.
static int is_device(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0;
}

static void add_addresses(struct tern_sha256 *hash, const char *root)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%s/" NETWORK, root);
    const int count = scandir(path, &entries, is_device, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/" NETWORK "/%s/device", root, entries[i]->d_name);
        if (access(path, F_OK) == 0) {
            snprintf(path, sizeof path, "%s/" NETWORK "/%s/address", root, entries[i]->d_name);
            add_file(hash, path);
        }
        free(entries[i]);
    }
    free(entries);
}

static void add_path(struct tern_sha256 *hash, const char *folder)
{
    char *whole = realpath(folder, NULL);
    char here[PATH_MAX] = "";
    if (whole == NULL && folder[0] != '/' && getcwd(here, sizeof here) == NULL) {
        here[0] = '\0';
    }
    if (whole != NULL) {
        tern_sha256_update(hash, whole, strlen(whole));
    } else { // it is made later, at this place
        tern_sha256_update(hash, here, strlen(here));
        tern_sha256_update(hash, here[0] != '\0' ? "/" : "", here[0] != '\0');
        tern_sha256_update(hash, folder, strlen(folder));
    }
    free(whole);
}

void tern_device_name(const char *root, const char *state_folder, char name[TERN_DEVICE_NAME_MAX])
{
    struct tern_sha256 hash;
    uint8_t digest[TERN_SHA256_SIZE];
    char digits[2 * TERN_SHA256_SIZE + 1];
    char host[HOST_NAME_MAX + 1] = "";
    char path[PATH_MAX];
    const char *at = strcmp(root, "/") == 0 ? "" : root;
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof host, "device");
    }
    tern_sha256_init(&hash);
    snprintf(path, sizeof path, "%s/etc/machine-id", at);
    add_file(&hash, path);
    add_addresses(&hash, at);
    add_path(&hash, state_folder);
    tern_sha256_final(&hash, digest);
    tern_hex_encode(digest, sizeof digest, digits);
    snprintf(name, TERN_DEVICE_NAME_MAX, "%.*s-%.*s", TERN_DEVICE_NAME_MAX - DIGITS - 2, host,
             DIGITS, digits);
}
