// Clients of a load: they enrol, check in, fetch what they are told to, and send one and the same update each
// time. They train nothing and apply nothing: what matters is what the aggregator does for them. Whoever has
// the line may call; the work is read only.
#ifndef TERN_BENCH_LOAD_CLIENTS_H
#define TERN_BENCH_LOAD_CLIENTS_H

#include "codec/container.h"
#include "https.h"
#include "tensor/model.h"
#include "wire/wire.h"

// What all clients of a load have in common.
struct load_work {
    const char *join_code; // borrowed
    struct tern_codec codec;
    struct tern_model model;
    uint8_t replica[TERN_SHA256_SIZE]; // of the seed
    uint8_t *container;                // of the update
    size_t container_len;
};

// The update is of the density that makes a container of about update_bytes. Freed by the end of the process.
// TERN_ERR_ARGUMENT  model or codec is not known; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result load_work_make(struct load_work *work, const char *model,
                                              uint64_t seed, const char *codec,
                                              uint32_t update_bytes);

struct load_client {
    char token[24];
    uint32_t round; // of its task, 0 = none
    uint32_t sequence;
    uint32_t fewer_steps;                  // than its task asks for
    uint32_t local_steps;                  // that it says it did
    uint8_t base[TERN_WIRE_REPLICA_BYTES]; // that it says it holds
};

// Where a client's requests go.
struct load_line {
    struct bench_connection *connection;
    uint8_t *body; // room for an update and for a reply, load_body_size() bytes
    size_t body_size;
    int status;                               // of the last reply
    char error[sizeof((tern_Error){0}.name)]; // that it named; empty = none
};

size_t load_body_size(const struct load_work *work);

// All of them: TERN_ERR_HTTP where line->status is not 200; what the connection returns.
TERN_MUST_USE enum tern_result load_enroll(const struct load_work *work, struct load_line *line,
                                           struct load_client *client);
// wait_ms: that the aggregator may hold the check-in for.
// TERN_ERR_NOT_IN_COHORT  there is no task
TERN_MUST_USE enum tern_result load_check_in(const struct load_work *work, struct load_line *line,
                                             struct load_client *client, uint32_t wait_ms);
// Answers its task.
TERN_MUST_USE enum tern_result load_upload(const struct load_work *work, struct load_line *line,
                                           struct load_client *client);
TERN_MUST_USE enum tern_result load_fetch(struct load_line *line, const struct load_client *client,
                                          const uint8_t sha256[TERN_SHA256_SIZE]);

#endif
