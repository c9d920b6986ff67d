// A pool of threads for the encoder of large tensors (struct tern_parallel, codec.h). The threads sleep between jobs. Any
// thread may run jobs; the pool runs one job at a time.
#ifndef TERN_HOSTED_PARALLEL_H
#define TERN_HOSTED_PARALLEL_H

#include "codec/codec.h"
#include "result.h"

struct tern_worker_pool;

#define TERN_WORKERS_MAX 256

// Processors that this program may use, at least 1 and at most TERN_WORKERS_MAX.
unsigned tern_workers_available(void);

// Makes a pool of `workers`, one of which is the thread that runs jobs.
// TERN_ERR_ARGUMENT   workers is 0 or above TERN_WORKERS_MAX
// TERN_ERR_NO_MEMORY  no memory, or no threads
TERN_MUST_USE enum tern_result tern_worker_pool_create(unsigned workers,
                                                       struct tern_worker_pool **pool);

// Returns the value for `parallel` of a tern_encode_context; valid as long as the pool.
const struct tern_parallel *tern_worker_pool_parallel(const struct tern_worker_pool *pool);

// Ends the threads. No job may be running. NULL is allowed.
void tern_worker_pool_free(struct tern_worker_pool *pool);

#endif
