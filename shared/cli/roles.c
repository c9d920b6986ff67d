#include "roles.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What tells a file from all others.
struct identity {
    bool known;
    dev_t device; // of the file, or of its folder when it is not there yet
    ino_t inode;
    char name[NAME_MAX + 1]; // in that folder; "" of a file that is there
};

// A file that is not there yet is known by its folder and its name in it.
static void identify_absent(const char *path, struct identity *identity)
{
    char folder[PATH_MAX];
    struct stat facts;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (strlen(path) >= sizeof folder || strlen(name) > NAME_MAX) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.*s.", (int)(name - path), path);
    if (stat(folder, &facts) == 0) {
        *identity = (struct identity){
            .known = true, .device = facts.st_dev, .inode = facts.st_ino, .name = ""};
        strcpy(identity->name, name);
    }
}

static void identify(const struct role *role, struct identity *identity)
{
    struct stat facts;
    bool standard = strcmp(role->path, "-") == 0;
    int found = standard ? fstat(role->written ? STDOUT_FILENO : STDIN_FILENO, &facts)
                         : stat(role->path, &facts);
    *identity = (struct identity){.known = false};
    if (found == 0 && S_ISREG(facts.st_mode)) {
        *identity = (struct identity){.known = true, .device = facts.st_dev, .inode = facts.st_ino};
    } else if (found != 0 && !standard && errno == ENOENT) {
        identify_absent(role->path, identity);
    }
}

static bool is_same(const struct role *a, const struct role *b)
{
    struct identity first;
    struct identity second;
    if (a->path == NULL || b->path == NULL || (!a->written && !b->written)) {
        return false;
    }
    identify(a, &first);
    identify(b, &second);
    return first.known && second.known && first.device == second.device &&
           first.inode == second.inode && strcmp(first.name, second.name) == 0;
}

enum tern_result tern_roles_check(const struct tern_cli *cli, const struct role *roles,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (is_same(&roles[k], &roles[i])) {
                return tern_cli_refuse(
                    cli, TERN_ERR_CONFIG,
                    "%s %s and %s %s are the same file, and what it holds would be "
                    "lost",
                    roles[k].name, roles[k].path, roles[i].name, roles[i].path);
            }
        }
    }
    return TERN_OK;
}
