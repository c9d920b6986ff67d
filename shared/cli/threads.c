#include "threads.h"

enum tern_result tern_threads_make(const struct tern_cli *cli, struct threads *threads)
{
    uint64_t count = 0;
    *threads = (struct threads){.count = 1};
    TERN_TRY(tern_cli_number(cli, "threads", 1, 0, TERN_WORKERS_MAX, &count));
    threads->count = count > 0 ? (unsigned)count : tern_workers_available();
    if (threads->count == 1) {
        return TERN_OK;
    }
    enum tern_result result = tern_worker_pool_create(threads->count, &threads->pool);
    TERN_TRY(tern_cli_refuse(cli, result, "cannot make %u threads: %s", threads->count,
                             tern_result_sentence(result)));
    threads->parallel = tern_worker_pool_parallel(threads->pool);
    return TERN_OK;
}

void tern_threads_free(struct threads *threads)
{
    tern_worker_pool_free(threads->pool);
    *threads = (struct threads){.count = 0};
}
