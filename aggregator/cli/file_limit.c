#include "cli/file_limit.h"

#include "hosted/log.h"
#include <sys/resource.h>

// The database, listeners, loops, key files and the log.
#define OTHER_FILES 64u
// Connections that a client has open: its own, and a broken one that is not closed yet.
#define OF_CLIENT 2u
// Connections of strangers, newcomers and operators.
#define OTHER_CONNECTIONS 200u

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A connection is a socket, and a file while a long body comes in on it.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients)
{
    const uint64_t connections =
        least_of(settings->limits_connections, OF_CLIENT * clients + OTHER_CONNECTIONS);
    return 2 * connections + least_of(settings->limits_unfinished, clients) + OTHER_FILES;
}

void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const uint64_t needed = tern_cli_files_needed(settings, clients);
    const uint64_t allowed = tern_cli_files_needed(settings, settings->limits_connections);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= allowed) {
        return;
    }
    struct rlimit raised = files;
    raised.rlim_cur = (rlim_t)least_of(files.rlim_max, allowed);
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
