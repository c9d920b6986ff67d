// Files that a command line names for different things must not be the same one where one of them
// is written: the other would be lost.
#ifndef TERN_CLI_ROLES_H
#define TERN_CLI_ROLES_H

#include "hosted/cli.h"

struct role {
    const char *name; // as the help has it: "OUT", "--like"
    const char *path; // "-" is the standard input or output; NULL: not given
    bool written;
};

// Compares the files themselves (device and inode), so that links are seen through; of files that
// are not there yet, their names and folders. Devices and pipes may be given twice. On error names
// both on stderr. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_roles_check(const struct tern_cli *cli,
                                                const struct role *roles, size_t count);

#endif
