#include "cli/file_limit.h"

#include "hosted/log.h"
#include <sys/resource.h>

// The database, listeners, loops, key files and the log.
#define OTHER_FILES 64u

// A connection is a socket, and a file while a long body comes in on it.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings)
{
    return 2 * (uint64_t)settings->limits_connections + settings->limits_unfinished + OTHER_FILES;
}

void tern_cli_raise_file_limit(const struct tern_cli *cli)
{
    const uint64_t needed = tern_cli_files_needed(tern_state_settings(cli));
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) {
        return;
    }
    struct rlimit raised = files;
    raised.rlim_cur = files.rlim_max < needed ? files.rlim_max : (rlim_t)needed;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        files = raised;
    }
    if (files.rlim_cur < needed) {
        tern_log(TERN_LOG_WARN, "few-files",
                 "limit=%llu needed=%llu advice=\"raise LimitNOFILE of the unit or ulimit -Hn, or "
                 "lower limits.connections\"",
                 (unsigned long long)files.rlim_cur, (unsigned long long)needed);
    }
}
