#include "measure.h"

#include "hosted/system.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A round after the warm-up of every codec.
enum { ROUND = 1000000 };

static const double NEVER = 1e9;

double tern_float_rate(size_t count, double taken)
{
    // Treats zero elapsed time as a very short time, so that no speed is infinite.
    return 4e-9 * (double)count / (taken > 1e-9 ? taken : 1e-9);
}

bool tern_workbench_make(struct workbench *bench, size_t count)
{
    *bench = (struct workbench){.count = count, .payload_size = tern_codec_bound_any(count)};
    bench->work = malloc(count * sizeof(float) + 1);
    bench->payload = malloc(bench->payload_size);
    if (bench->work == NULL || bench->payload == NULL) {
        tern_workbench_free(bench);
        return false;
    }
    memset(bench->work, 0xff, count * sizeof(float));
    memset(bench->payload, 0xff, bench->payload_size);
    return true;
}

void tern_workbench_free(struct workbench *bench)
{
    free(bench->work);
    free(bench->velocity);
    free(bench->payload);
    *bench = (struct workbench){.work = NULL};
}

static enum tern_result make_velocity(const struct tern_codec *codec, struct workbench *bench)
{
    bool needed = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_MOMENTUM;
    if (!needed || bench->velocity != NULL) {
        return TERN_OK;
    }
    bench->velocity = malloc(bench->count * sizeof(float) + 1);
    return bench->velocity != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static void keep_best(double *best, double start)
{
    double taken = tern_monotonic_seconds() - start;
    *best = taken < *best ? taken : *best;
}

// Sets the inputs of a first call with an empty error buffer: the sum t and the velocity equal the
// input.
static void prepare(const float *input, size_t count, struct workbench *bench, double *best)
{
    if (bench->velocity != NULL) {
        memcpy(bench->velocity, input, count * sizeof(float));
    }
    double start = tern_monotonic_seconds();
    memcpy(bench->work, input, count * sizeof(float));
    keep_best(best, start);
}

static enum tern_result run_once(const struct tern_codec *codec,
                                 const struct tern_encode_context *context, const float *input,
                                 size_t count, struct workbench *bench, struct measurement *m)
{
    prepare(input, count, bench, &m->best.copy);
    double start = tern_monotonic_seconds();
    TERN_TRY(tern_codec_encode(codec, context, bench->work, count, bench->payload,
                               bench->payload_size, &m->bytes));
    keep_best(&m->best.encode, start);
    start = tern_monotonic_seconds();
    TERN_TRY(tern_codec_accumulate(bench->payload, m->bytes, 0.5f, bench->work, count));
    keep_best(&m->best.accumulate, start);
    start = tern_monotonic_seconds();
    TERN_TRY(tern_codec_decode(bench->payload, m->bytes, bench->work, count));
    keep_best(&m->best.decode, start);
    return TERN_OK;
}

static void add_errors(const float *input, const float *decoded, size_t count,
                       struct measurement *m)
{
    for (size_t i = 0; i < count; i++) {
        double difference = (double)input[i] - (double)decoded[i];
        m->lost += difference * difference;
        m->energy += (double)input[i] * (double)input[i];
    }
}

enum tern_result tern_measure_codec(const struct tern_codec *codec,
                                    const struct tern_parallel *parallel, const float *input,
                                    size_t count, const struct effort *effort,
                                    struct workbench *bench, struct measurement *measurement)
{
    TERN_TRY(make_velocity(codec, bench));
    const struct tern_encode_context context = {
        .round = ROUND, .velocity = bench->velocity, .parallel = parallel};
    *measurement = (struct measurement){.best = {NEVER, NEVER, NEVER, NEVER}};
    double start = tern_monotonic_seconds();
    for (unsigned run = 0;
         run < effort->least ||
         (run < effort->most && tern_monotonic_seconds() - start < effort->seconds);
         run++) {
        TERN_TRY(run_once(codec, &context, input, count, bench, measurement));
    }
    add_errors(input, bench->work, count, measurement);
    return tern_codec_inspect(bench->payload, measurement->bytes, count, &measurement->info);
}

// --- Threads

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
