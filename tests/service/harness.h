// A service over a real store in a temporary folder, with a listener that is a function call and a
// clock that the test moves. For the tests of service/ only.
#ifndef TERN_TEST_HARNESS_H
#define TERN_TEST_HARNESS_H

#include "service/service.h"
#include "wire/wire.h"
#include <stdbool.h>

#define MODEL "softmax:64-10"
#define JOIN_CODE "let-me-in-please"
#define MAX_TEST_CLIENTS 1000

struct harness {
    char folder[128];
    char path[192];
    struct tern_db *db;
    struct tern_service *service;
    struct tern_http_handler handler;
    struct tern_service_config config;
    struct tern_model model;
    bool thaws;
    _Atomic uint64_t request_id;            // of the newest request
    uint64_t range_from;                    // of the requests that follow
    bool peer_is_cache;                     // likewise
    struct tern_http_unfinished unfinished; // kept of the body that they ask for; len 0: nothing
    void (*on_reply)(void); // NULL: none; on the thread that answers them, before it does
    char tokens[MAX_TEST_CLIENTS + 1][24]; // by client id
};

// An answer; body is the caller's to free by answer_free().
struct answer {
    int status;
    uint32_t retry_after_s;
    size_t body_from;
    const char *cache; // Cache-Control, NULL = none
    struct tern_blob *body;
    struct tern_http_tag tag;
};
void answer_free(struct answer *answer);

// Fails, at the caller's line, unless the answer has this status; frees its body.
#define answer_expect(answer, expected) answer_expect_at(answer, expected, __FILE__, __LINE__)
void answer_expect_at(struct answer answer, int expected, const char *file, int line);

uint64_t test_now(void);
void test_advance(uint64_t ms);
// Somebody sets the time of day; intervals go on.
void test_set_back(uint64_t ms);
void test_set_forth(uint64_t ms);

// A federation of JOIN_CODE with plenty of uses; min_clients 2, cohort 2, float32 both ways.
void harness_make(struct harness *harness);
// Like harness_make(), with another model than MODEL.
void harness_make_model(struct harness *harness, const char *spec);
// The same for a model that comes with a manifest and these weights.
void harness_make_imported(struct harness *harness, const uint8_t *manifest, size_t len,
                           const float *weights);
void harness_start(struct harness *harness);
// The same, and enrols clients 1 to `count`.
void harness_start_with(struct harness *harness, uint32_t count);
void harness_stop(struct harness *harness);
void harness_restart(struct harness *harness);
void harness_free(struct harness *harness);
// Waits until the service stores again, after what kept it from storing is gone: until then it may answer 503.
void harness_await_store(struct harness *harness);
// A connection of the test's own, since the service's thread uses harness->db; tern_db_close() ends it.
struct tern_db *harness_look(const struct harness *harness);

// Runs a request through on_headers and on_request and waits for its reply.
struct answer call(struct harness *harness, const char *method, const char *path, const char *token,
                   const uint8_t *body, size_t len);
// The same in two steps, for requests that are held.
struct tern_http_exchange *call_begin(struct harness *harness, const char *method, const char *path,
                                      const char *token, const uint8_t *body, size_t len);
bool call_is_done(struct tern_http_exchange *exchange);
struct answer call_end(struct tern_http_exchange *exchange);

// Enrols and remembers the token; returns the id.
uint64_t enroll(struct harness *harness, bool evaluator);

struct answer put_checkin(struct harness *harness, uint64_t client,
                          const tern_CheckinRequest *request);
// Makes the check-in of a client that holds the replica (NULL: none).
tern_CheckinRequest request_from(const uint8_t *replica);
// Checks in and returns the reply; asserts 200.
tern_CheckinReply checkin_with(struct harness *harness, uint64_t client,
                               const tern_CheckinRequest *request);
// The same with that replica (NULL: none) and nothing else.
tern_CheckinReply checkin(struct harness *harness, uint64_t client, const uint8_t *replica);
size_t encode_checkin(const uint8_t *replica, uint32_t wait_ms, uint8_t *body);

// The id that begins with `name`, as messages name replicas; false: nobody knows such a one.
bool whole_id(struct tern_db *db, const uint8_t *name, uint8_t id[TERN_SHA256_SIZE]);

// An update for a task whose every value is `value`; +0 where the model is frozen, unless
// harness->thaws.
size_t encode_update(struct harness *harness, const tern_Task *task, float value,
                     uint32_t num_examples, uint8_t **body);
// An update of these values, of which what the codec left is kept. Callers free the body, here and
// above.
size_t encode_values(struct harness *harness, const tern_Task *task, float *values,
                     uint32_t num_examples, uint8_t **body);
struct answer put_update(struct harness *harness, uint64_t client, uint32_t round,
                         uint32_t sequence, const uint8_t *body, size_t len);
// Puts an update of values that are drawn by the client's number, larger or smaller from one to the next, and of as
// unequal numbers of examples; its first one. Returns the status.
int put_drawn(struct harness *harness, uint64_t client, const tern_Task *task);
// Checks in, trains `value` and uploads; asserts that it is accepted.
tern_UpdateReply do_round(struct harness *harness, uint64_t client, const uint8_t *replica,
                          float value);

// The replica that a fresh client has.
void seed_replica(struct harness *harness, uint8_t replica[TERN_SHA256_SIZE], float *weights);
// What a client does with a task's downloads: fetches each, checks it and applies it; a delta from
// the seed's replica to the seed's weights, whatever it holds.
void apply_downloads(struct harness *harness, const tern_Task *task, float *weights,
                     uint8_t replica[TERN_SHA256_SIZE], const char *token);

// The name in the Error body.
enum tern_result answer_error_name(const struct answer *answer);

// SHA-256 over all that the federation's tables hold but byte counts and when clients were seen.
void store_digest(struct harness *harness, uint8_t digest[TERN_SHA256_SIZE]);

#endif
