// The threads that --threads asks for. They change how long encoding takes, not what it writes.
#ifndef TERN_CLI_THREADS_H
#define TERN_CLI_THREADS_H

#include "hosted/cli.h"
#include "hosted/parallel.h"

struct threads {
    unsigned count;
    struct tern_worker_pool *pool;        // NULL for one thread
    const struct tern_parallel *parallel; // the same
};

// Reads --threads N (1 when it is not given; 0 is all processors) and makes them. On error says why
// on stderr.
TERN_MUST_USE enum tern_result tern_threads_make(const struct tern_cli *cli,
                                                 struct threads *threads);

void tern_threads_free(struct threads *threads);

#endif
