// Clients for load tests: they enrol, check in, fetch their downloads, and always send the same update. They neither
// train nor decode. Callable from any thread, one per line; the work is read-only.
#ifndef TERN_BENCH_LOAD_CLIENTS_H
#define TERN_BENCH_LOAD_CLIENTS_H

#include "codec/container.h"
#include "https.h"
#include "tensor/model.h"
#include "wire/wire.h"

// State that all clients of a load share.
struct load_work {
    const char *join_code; // borrowed
    struct tern_codec codec;
    struct tern_model model;
    uint8_t replica[TERN_SHA256_SIZE]; // id of the initial weights' replica
    uint8_t *container;                // container of the update
    size_t container_len;
};

// Makes an update whose container has about update_bytes bytes, by the choice of its density. Memory is freed when
// the process ends.
// TERN_ERR_ARGUMENT  unknown model or codec; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result load_work_make(struct load_work *work, const char *model,
                                              uint64_t seed, const char *codec,
                                              uint32_t update_bytes);

struct load_client {
    char token[24];
    uint32_t round; // round of the client's task; 0: no task
    uint32_t sequence;
    uint32_t fewer_steps;                  // reports so many local steps fewer than its task has
    uint32_t local_steps;                  // local steps that it reports
    uint8_t base[TERN_WIRE_REPLICA_BYTES]; // replica that it reports
};

// A connection and buffers for a client's requests.
struct load_line {
    struct bench_connection *connection;
    uint8_t *body; // buffer for an update and for a reply, of load_body_size() bytes
    size_t body_size;
    int status;                               // HTTP status of the last reply
    char error[sizeof((tern_Error){0}.name)]; // error name in the last reply; empty: none
};

size_t load_body_size(const struct load_work *work);

// Errors of the functions below: TERN_ERR_HTTP: line->status is not 200; errors of the connection.
TERN_MUST_USE enum tern_result load_enroll(const struct load_work *work, struct load_line *line,
                                           struct load_client *client);
// wait_ms: how long the aggregator may hold the check-in.
// TERN_ERR_NOT_IN_COHORT  there is no task
TERN_MUST_USE enum tern_result load_check_in(const struct load_work *work, struct load_line *line,
                                             struct load_client *client, uint32_t wait_ms);
// Sends the update for the client's task.
TERN_MUST_USE enum tern_result load_upload(const struct load_work *work, struct load_line *line,
                                           struct load_client *client);
TERN_MUST_USE enum tern_result load_fetch(struct load_line *line, const struct load_client *client,
                                          const uint8_t sha256[TERN_SHA256_SIZE]);

#endif
