// Measures the cost of storing clients' replicas: bytes in the store and milliseconds per check-in, for a model of
// 101,770 values with one density:p=0.1 download per participation. Prints JSON. Figures for 10,000 clients are
// extrapolated from CLIENTS measured ones, which all reach the same version at once: the worst case, without shared
// replicas and without weights in memory. Peaks cover all participations, before and after the collection.
#include "downloads/replicas.h"
#include "merge/delta.h"
#include "store/store.h"
#include "util/prng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 10
#define PARTICIPATIONS 80
#define SPEC "mlp:784-128-10"

struct bench {
    struct tern_model model;
    struct tern_db *db;
    struct tern_replica_book book;
    struct tern_replica_reader reader;
    struct tern_download_buffers buffers;
    struct tern_codec codec;
    float *global;
    float *weights;
    struct tern_prng rng;
    uint8_t held[CLIENTS][TERN_SHA256_SIZE];
    double rebuild_ms; // sum over all check-ins
    double encode_ms;
    double store_ms;
    double collect_ms_most;
    uint64_t download_bytes;
    uint64_t bytes_most;        // peak after a collection
    uint64_t bytes_most_before; // peak before a collection
    uint32_t checkins;
};

static void must(enum tern_result result)
{
    if (result != TERN_OK) {
        fprintf(stderr, "bench-replicas: %s\n", tern_result_name(result));
        exit(1);
    }
}

static void *memory(size_t size)
{
    void *block = malloc(size);
    if (block == NULL) {
        must(TERN_ERR_NO_MEMORY);
    }
    return block;
}

// Returns processor time, which excludes the disk and other processes.
static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void set_up(struct bench *bench, const char *path)
{
    struct tern_db_federation federation = {.model_spec = SPEC, .seed = 1};
    char why[256];
    must(tern_model_from_spec(&bench->model, SPEC));
    memcpy(federation.model_hash, bench->model.hash, TERN_SHA256_SIZE);
    must(tern_db_create(path, &federation, NULL, 0, NULL, why));
    must(tern_db_open(path, 0, &bench->db, why));
    must(tern_codec_parse("density:p=0.1,coder=range", &bench->codec, NULL));
    size_t count = bench->model.count;
    bench->global = memory(count * sizeof(float));
    bench->weights = memory(count * sizeof(float));
    bench->buffers.scratch = memory(count * sizeof(float));
    bench->buffers.blob_size = tern_download_blob_bound(&bench->codec, &bench->model) + 4096;
    bench->buffers.blob = memory(bench->buffers.blob_size);
    bench->book = (struct tern_replica_book){
        .db = bench->db, .model = &bench->model, .seed = 1, .keep_versions = 1000};
    bench->reader = (struct tern_replica_reader){.db = bench->db,
                                                 .model = &bench->model,
                                                 .seed = 1,
                                                 .blob = memory(bench->buffers.blob_size),
                                                 .blob_size = bench->buffers.blob_size};
    tern_model_init_weights(&bench->model, 1, bench->global);
    tern_prng_init(&bench->rng, 1, TERN_PRNG_TEST, 0, 0);
    must(tern_db_begin(bench->db));
    must(tern_replica_book_load(&bench->book));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        memcpy(bench->held[i], bench->book.seed_id, TERN_SHA256_SIZE);
    }
    must(tern_db_commit(bench->db));
}

static void move_global(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->model.count; i++) {
        float x = tern_prng_float(&bench->rng) - 0.5F;
        bench->global[i] += 0.02F * x * x * x;
    }
}

// One participation: the client's weights are rebuilt from the store, and it receives a download of the difference.
// Each check-in is a transaction of its own.
static void take_part(struct bench *bench, uint32_t client, uint32_t version)
{
    const struct tern_encode_context context = {.seed = 1, .round = version};
    struct tern_download_made made;
    double start = now_ms();
    must(tern_replica_weights(&bench->reader, bench->held[client], bench->weights));
    double rebuilt = now_ms();
    must(tern_download_delta(&bench->model, &bench->codec, &context, bench->global, bench->weights,
                             bench->held[client], &bench->buffers, &made));
    double encoded = now_ms();
    struct tern_db_download row = {
        .to_version = version, .size = (uint32_t)made.len, .payload = (uint32_t)made.payload};
    memcpy(row.sha256, made.sha256, TERN_SHA256_SIZE);
    memcpy(row.from_replica, bench->held[client], TERN_SHA256_SIZE);
    memcpy(row.to_replica, made.replica, TERN_SHA256_SIZE);
    tern_codec_format(&bench->codec, row.codec);
    must(tern_db_begin(bench->db));
    must(tern_replica_add(&bench->book, &row, bench->buffers.blob, bench->weights, 0.0F, false,
                          version, NULL));
    must(tern_db_replica_suspect(bench->db, bench->held[client], true));
    must(tern_db_commit(bench->db));
    bench->store_ms += now_ms() - encoded;
    bench->encode_ms += encoded - rebuilt;
    bench->rebuild_ms += rebuilt - start;
    bench->download_bytes += made.len;
    bench->checkins++;
    memcpy(bench->held[client], made.replica, TERN_SHA256_SIZE);
}

static void keep_most(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

// Without enrolled clients a collection would delete all replicas, so each newest one is marked as in use.
static void collect(struct bench *bench, uint32_t version)
{
    const double start = now_ms();
    keep_most(&bench->bytes_most_before, bench->book.bytes);
    must(tern_db_begin(bench->db));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        must(tern_db_replica_suspect(bench->db, bench->held[i], false));
    }
    must(tern_replica_collect(&bench->book, version));
    must(tern_db_commit(bench->db));
    keep_most(&bench->bytes_most, bench->book.bytes);
    const double took = now_ms() - start;
    bench->collect_ms_most = took > bench->collect_ms_most ? took : bench->collect_ms_most;
}

static void print_bytes(const char *what, double bytes)
{
    printf("  \"bytes_per_client_%s\": %.0f,\n", what, bytes / CLIENTS);
    printf("  \"gigabytes_of_10000_clients_%s\": %.3f,\n", what, bytes / CLIENTS * 1e4 / 1e9);
}

static void print(const struct bench *bench, uint32_t participations)
{
    char after[32];
    double n = (double)bench->checkins;
    snprintf(after, sizeof after, "after_%u", participations);
    print_bytes(after, (double)bench->book.bytes);
    printf("  \"rebuild_ms_until_%u\": %.3f,\n", participations, bench->rebuild_ms / n);
    printf("  \"encode_ms_until_%u\": %.3f,\n", participations, bench->encode_ms / n);
    printf("  \"store_ms_until_%u\": %.3f,\n", participations, bench->store_ms / n);
}

// The file does not shrink, so its size is that of the peak.
static void print_peaks(const struct bench *bench, const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        must(TERN_ERR_IO);
    }
    print_bytes("at_most", (double)bench->bytes_most);
    print_bytes("at_most_on_the_way", (double)bench->bytes_most_before);
    print_bytes("of_the_database_file", (double)file.st_size);
    printf("  \"collect_ms_at_most\": %.1f,\n", bench->collect_ms_most);
    printf("  \"float32_bytes\": %u,\n  \"download_bytes\": %.0f\n}\n", bench->model.count * 4,
           (double)bench->download_bytes / ((double)PARTICIPATIONS * CLIENTS));
}

int main(void)
{
    static struct bench bench;
    const char *temporary = getenv("TMPDIR");
    char folder[192];
    char path[256];
    snprintf(folder, sizeof folder, "%s/tern-bench-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL) {
        must(TERN_ERR_IO);
    }
    snprintf(path, sizeof path, "%s/tern.db", folder);
    set_up(&bench, path);
    printf("{\n  \"values\": %u,\n  \"clients\": %d,\n", bench.model.count, CLIENTS);
    for (uint32_t participation = 1; participation <= PARTICIPATIONS; participation++) {
        move_global(&bench);
        for (uint32_t client = 0; client < CLIENTS; client++) {
            take_part(&bench, client, participation * 10 + client);
        }
        collect(&bench, participation * 10 + 9);
        if (participation == 5 || participation == 20 || participation == 40 ||
            participation == PARTICIPATIONS) {
            print(&bench, participation);
            bench.rebuild_ms = bench.encode_ms = bench.store_ms = 0.0;
            bench.checkins = 0;
        }
    }
    tern_db_close(bench.db); // merges the write-ahead log into the file
    print_peaks(&bench, path);
    const char *const left[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char file[300];
        snprintf(file, sizeof file, "%s%s", path, left[i]);
        unlink(file);
    }
    return rmdir(folder) == 0 ? 0 : 1;
}
