// How many durable updates of 10 KB a second the store takes: bench_store FILE COUNT BATCH.
// Every update is looked up, inserted and entered into the error ledger, as the service does.
// Prints one line of JSON. FILE must not exist; it is removed.
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 1000
#define BODY 10240

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum tern_result prepare(struct tern_db *db, uint32_t rounds)
{
    TERN_TRY(tern_db_begin(db));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct tern_db_client client = {.name = "bench"};
        memcpy(client.token_hash, &i, sizeof i);
        TERN_TRY(tern_db_client_add(db, &client));
    }
    for (uint32_t i = 1; i <= rounds; i++) {
        struct tern_db_round round = {.round = i};
        TERN_TRY(tern_db_round_put(db, &round));
    }
    return tern_db_commit(db);
}

static enum tern_result store_one(struct tern_db *db, uint32_t i, uint8_t *body)
{
    memcpy(body, &i, sizeof i);
    struct tern_db_update found;
    struct tern_db_update update = {.round = i / CLIENTS + 1,
                                    .client = (uint64_t)i * 7 % CLIENTS + 1,
                                    .sequence = 1,
                                    .body = body,
                                    .body_len = BODY};
    struct tern_db_ledger ledger = {.client = update.client, .round = update.round};
    enum tern_result result = tern_db_update_find(db, update.round, update.client, &found);
    if (result != TERN_ERR_NOT_FOUND) {
        return result == TERN_OK ? TERN_ERR_CONFLICT : result;
    }
    TERN_TRY(tern_db_update_put(db, &update));
    return tern_db_ledger_put(db, &ledger);
}

static enum tern_result store_all(struct tern_db *db, uint32_t count, uint32_t batch)
{
    static uint8_t body[BODY];
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i % batch == 0) {
            TERN_TRY(tern_db_begin(db));
        }
        TERN_TRY(store_one(db, i, body));
        if (i % batch == batch - 1 || i == count - 1) {
            TERN_TRY(tern_db_commit(db));
        }
    }
    return TERN_OK;
}

static int run(const char *path, uint32_t count, uint32_t batch)
{
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation federation = {.model_spec = "softmax:4-2"};
    if (tern_db_create(path, &federation, NULL, 0, why) != TERN_OK ||
        tern_db_open(path, &db, why) != TERN_OK) {
        fprintf(stderr, "bench_store: %s\n", why);
        return 1;
    }
    enum tern_result result = prepare(db, count / CLIENTS + 1);
    double start = seconds();
    if (result == TERN_OK) {
        result = store_all(db, count, batch);
    }
    double took = seconds() - start;
    if (result != TERN_OK) {
        fprintf(stderr, "bench_store: %s\n", tern_db_error(db));
    } else {
        printf("{\"updates\": %u, \"bytes\": %d, \"batch\": %u, \"updates_per_second\": %.0f}\n",
               count, BODY, batch, count / took);
    }
    tern_db_close(db);
    unlink(path);
    return result == TERN_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint32_t count = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t batch = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    if (count == 0 || batch == 0) {
        fprintf(stderr, "usage: bench_store FILE COUNT BATCH\n");
        return 2;
    }
    return run(argv[1], count, batch);
}
