// Measures the aggregator's memory per idle connection: opens connections, sends one small request on each, leaves
// them open, and reads the process's resident memory.
#include "https.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Returns the resident memory of a process in KB; 0: it has ended.
static long resident_kb(const char *pid)
{
    char path[64];
    char line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtol(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kb;
}

static enum tern_result open_one(struct bench_tls *tls, struct bench_connection *connection)
{
    uint8_t reply[4096];
    size_t len = sizeof reply;
    int status;
    TERN_TRY(bench_connect(tls, connection));
    return bench_exchange(connection, "GET", "/healthz", NULL, NULL, 0, &status, reply, &len);
}

static enum tern_result open_all(struct bench_tls *tls, struct bench_connection *connections,
                                 uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++) {
        TERN_TRY(open_one(tls, &connections[i]));
    }
    usleep(300000); // the listener frees memory once a second; wait for that
    return TERN_OK;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench-idle HOST PORT CA.pem AGGREGATOR_PID CONNECTIONS\n");
        return 2;
    }
    uint32_t count = (uint32_t)strtoul(argv[5], NULL, 10);
    uint32_t warm = count / 10 + 1; // warm-up: excludes what the process allocates once
    struct bench_connection *connections = calloc(warm + count, sizeof *connections);
    struct bench_tls tls;
    enum tern_result result = connections == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
    long before = 0;
    long after = 0;
    if (result == TERN_OK) {
        result = bench_tls_init(&tls, argv[1], argv[2], argv[3]);
    }
    if (result == TERN_OK) {
        result = open_all(&tls, connections, 0, warm);
        before = resident_kb(argv[4]);
    }
    if (result == TERN_OK) {
        result = open_all(&tls, connections, warm, warm + count);
        after = resident_kb(argv[4]);
    }
    if (result != TERN_OK) {
        fprintf(stderr, "bench-idle: %s\n", tern_result_sentence(result));
        return 1;
    }
    printf("{\"idle_connections\": %u, \"resident_kb_before\": %ld, \"resident_kb_after\": %ld,\n"
           " \"bytes_per_idle_connection\": %.0f}\n",
           count, before, after, (double)(after - before) * 1024 / count);
    return 0; // connections close when the process ends
}
