#include "load_clients.h"

#include "util/prng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Requests

size_t load_body_size(const struct load_work *work)
{
    return work->container_len + 2 * TERN_WIRE_OVERHEAD + TERN_WIRE_MESSAGE_MAX;
}

// Sends a request; the reply is then in line->body[0..*len).
static enum tern_result ask(struct load_line *line, const char *method, const char *path,
                            const char *token, const uint8_t *body, size_t body_len, size_t *len)
{
    tern_Error error;
    *len = line->body_size;
    line->status = 0;
    line->error[0] = '\0';
    TERN_TRY(bench_exchange(line->connection, method, path, token, body, body_len, &line->status,
                            line->body, len));
    if (line->status == 200) {
        return TERN_OK;
    }
    if (tern_wire_decode_error(line->body, *len, &error) == TERN_OK) {
        snprintf(line->error, sizeof line->error, "%s", error.name);
    }
    return TERN_ERR_HTTP;
}

enum tern_result load_enroll(const struct load_work *work, struct load_line *line,
                             struct load_client *client)
{
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    tern_EnrollReply reply;
    uint8_t body[256];
    size_t len;
    snprintf(request.join_code, sizeof request.join_code, "%s", work->join_code);
    TERN_TRY(tern_wire_encode_enroll_request(&request, body, sizeof body, &len));
    TERN_TRY(ask(line, "POST", TERN_PATH_ENROLL, NULL, body, len, &len));
    TERN_TRY(tern_wire_decode_enroll_reply(line->body, len, &reply));
    snprintf(client->token, sizeof client->token, "%s", reply.token);
    memcpy(client->base, work->replica, sizeof client->base);
    return TERN_OK;
}

enum tern_result load_fetch(struct load_line *line, const struct load_client *client,
                            const uint8_t sha256[TERN_SHA256_SIZE])
{
    char path[TERN_PATH_MAX];
    size_t len;
    tern_path_download(sha256, path);
    return ask(line, "GET", path, client->token, NULL, 0, &len);
}

static enum tern_result fetch_all(struct load_line *line, const struct load_client *client,
                                  const tern_Task *task)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        TERN_TRY(load_fetch(line, client, task->downloads[i].sha256.bytes));
    }
    return TERN_OK;
}

enum tern_result load_check_in(const struct load_work *work, struct load_line *line,
                               struct load_client *client, uint32_t wait_ms)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    tern_CheckinReply reply;
    uint8_t body[512];
    size_t len;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, client->base, TERN_WIRE_REPLICA_BYTES);
    request.model_hash.size = TERN_SHA256_SIZE;
    memcpy(request.model_hash.bytes, work->model.hash, TERN_SHA256_SIZE);
    request.codecs = UINT32_MAX; // accepts every codec, as it decodes nothing
    request.wait_ms = wait_ms;
    client->round = 0;
    TERN_TRY(tern_wire_encode_checkin_request(&request, body, sizeof body, &len));
    TERN_TRY(ask(line, "POST", TERN_PATH_CHECKIN, client->token, body, len, &len));
    struct tern_span inline_downloads;
    TERN_TRY(tern_wire_decode_checkin_reply(line->body, len, &reply, &inline_downloads));
    if (!reply.has_task || reply.task.kind != tern_TaskKind_TASK_TRAIN) {
        return TERN_ERR_NOT_IN_COHORT;
    }
    client->round = reply.task.round;
    client->sequence++;
    client->local_steps = reply.task.local_steps > client->fewer_steps
                              ? reply.task.local_steps - client->fewer_steps
                              : 1;
    memcpy(client->base, reply.task.base.bytes, sizeof client->base);
    return inline_downloads.len > 0 ? TERN_OK : fetch_all(line, client, &reply.task);
}

enum tern_result load_upload(const struct load_work *work, struct load_line *line,
                             struct load_client *client)
{
    char path[TERN_PATH_MAX];
    size_t len;
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, client->base, TERN_WIRE_REPLICA_BYTES);
    update.model_hash.size = TERN_SHA256_SIZE;
    memcpy(update.model_hash.bytes, work->model.hash, TERN_SHA256_SIZE);
    update.num_examples = 100;
    update.local_steps = client->local_steps;
    update.has_error = true;
    update.error.generation = 1;
    update.error.sequence = client->sequence;
    struct tern_span container = {work->container, work->container_len};
    TERN_TRY(tern_wire_encode_update(&update, container, line->body, line->body_size, &len));
    tern_path_update(client->round, client->sequence, path);
    return ask(line, "PUT", path, client->token, line->body, len, &len);
}

// --- The update: the density of its values determines the container's size

static size_t encode_with_density(struct load_work *work, float density, float *values,
                                  size_t bound)
{
    struct tern_prng rng;
    size_t len = 0;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < work->model.count; i++) {
        float draw = tern_prng_float(&rng);
        values[i] = draw < density / 2 ? -1e-4f : draw < density ? 1e-4f : 0.0f;
    }
    if (tern_container_encode(&work->codec, NULL, &work->model, values, work->container, bound,
                              &len) != TERN_OK) {
        return 0;
    }
    return len;
}

static enum tern_result make_container(struct load_work *work, uint32_t update_bytes)
{
    size_t bound = tern_container_bound(&work->codec, &work->model);
    float *values = malloc(work->model.count * sizeof *values);
    work->container = malloc(bound);
    if (values == NULL || work->container == NULL) {
        free(values);
        return TERN_ERR_NO_MEMORY;
    }
    float low = 0;
    float high = 1;
    for (int i = 0; i < 12; i++) {
        float middle = (low + high) / 2;
        work->container_len = encode_with_density(work, middle, values, bound);
        *(work->container_len > update_bytes ? &high : &low) = middle;
    }
    free(values);
    return work->container_len > 0 ? TERN_OK : TERN_ERR_ARGUMENT;
}

enum tern_result load_work_make(struct load_work *work, const char *model, uint64_t seed,
                                const char *codec, uint32_t update_bytes)
{
    TERN_TRY(tern_codec_parse(codec, &work->codec, NULL));
    TERN_TRY(tern_model_from_spec(&work->model, model));
    tern_replica_from_seed(work->model.hash, seed, work->replica);
    return make_container(work, update_bytes);
}
