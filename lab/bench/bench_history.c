// Creates the database of a long federation: bench-history FILE UPDATES. All 1,000 clients have reported in every
// round, and the updates' bodies are pruned. Prints one line of JSON: processor time per update, and the time of
// CRC-32C over part of a vector relative to a copy.
#include "store/store.h"
#include "util/crc32c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENTS 1000u
#define PART ((size_t)4 << 20) // bytes
#define REPEATS 40

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// --- The history

static enum tern_result add_clients(struct tern_db *db)
{
    TERN_TRY(tern_db_begin(db));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct tern_db_client client = {.name = "bench", .last_seen_ms = 1};
        memcpy(client.token_hash, &i, sizeof i);
        TERN_TRY(tern_db_client_add(db, &client));
    }
    return tern_db_commit(db);
}

static enum tern_result report(struct tern_db *db, uint32_t round, uint64_t client)
{
    static const enum tern_purpose purposes[] = {TERN_PURPOSE_CHECKIN, TERN_PURPOSE_DOWNLOAD,
                                                 TERN_PURPOSE_UPLOAD};
    const struct tern_db_assignment assignment = {
        .round = round, .client = client, .state = TERN_ASSIGNMENT_REPORTED};
    const struct tern_db_update update = {
        .round = round, .client = client, .sequence = round, .body = (const uint8_t *)""};
    for (size_t i = 0; i < sizeof purposes / sizeof purposes[0]; i++) {
        const struct tern_db_meter meter = {.client = client,
                                            .round = round,
                                            .purpose = purposes[i],
                                            .up = {1000, 1100, 1200, 1300},
                                            .down = {1000, 1100, 1200, 1300},
                                            .exchanges = 1};
        TERN_TRY(tern_db_meter_add(db, &meter));
    }
    TERN_TRY(tern_db_assignment_put(db, &assignment, NULL));
    return tern_db_update_put(db, &update);
}

static enum tern_result add_round(struct tern_db *db, uint32_t number)
{
    const struct tern_db_round round = {
        .round = number, .state = TERN_ROUND_COMMITTED, .applied = CLIENTS};
    TERN_TRY(tern_db_begin(db));
    TERN_TRY(tern_db_round_put(db, &round));
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        TERN_TRY(report(db, number, client));
    }
    bool more = true;
    TERN_TRY(tern_db_prune(db, number));
    while (more) {
        TERN_TRY(tern_db_prune_some(db, UINT64_MAX, UINT32_MAX, &more));
    }
    return tern_db_commit(db);
}

static enum tern_result make(struct tern_db *db, uint32_t rounds)
{
    TERN_TRY(add_clients(db));
    for (uint32_t round = 1; round <= rounds; round++) {
        TERN_TRY(add_round(db, round));
    }
    return TERN_OK;
}

// --- The checksum

static double checksum_ratio(void)
{
    uint8_t *part = malloc(2 * PART);
    uint32_t crc = 0;
    if (part == NULL) {
        return 0;
    }
    memset(part, 1, 2 * PART);
    double started = cpu_seconds();
    for (int i = 0; i < REPEATS; i++) {
        crc = tern_crc32c(crc, part, PART);
    }
    const double checked = cpu_seconds() - started;
    memcpy(part, &crc, sizeof crc); // keeps the compiler from removing the loop
    started = cpu_seconds();
    for (int i = 0; i < REPEATS; i++) {
        memcpy(part + PART, part, PART);
        __asm__ volatile("" ::"r"(part) : "memory");
    }
    const double copied = cpu_seconds() - started;
    free(part);
    return checked / copied;
}

static int run(const char *path, uint32_t updates)
{
    char why[256];
    struct tern_db *db = NULL;
    const struct tern_db_federation federation = {.model_spec = "softmax:4-2"};
    if (tern_db_create(path, &federation, NULL, 0, NULL, why) != TERN_OK ||
        tern_db_open(path, 0, &db, why) != TERN_OK) {
        fprintf(stderr, "bench-history: %s\n", why);
        return 1;
    }
    const double started = cpu_seconds();
    const enum tern_result result = make(db, updates / CLIENTS);
    const double took = cpu_seconds() - started;
    if (result != TERN_OK) {
        fprintf(stderr, "bench-history: %s\n", tern_db_error(db));
    } else {
        printf("{\"history_updates\": %u, \"history_store_cpu_us\": %.1f, "
               "\"crc32c_over_memcpy\": %.2f}\n",
               updates, took * 1e6 / updates, checksum_ratio());
    }
    tern_db_close(db);
    return result == TERN_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    const uint32_t updates = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (updates < CLIENTS) {
        fprintf(stderr, "usage: bench-history FILE UPDATES (1000 or more)\n");
        return 2;
    }
    return run(argv[1], updates);
}
