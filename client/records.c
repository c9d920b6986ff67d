// The records of ports.h, byte by byte. All fields are little-endian; a record opens with its
// format number, so that a later version can tell what it reads, and (but for identity and meter)
// with the tag of the enrolment it belongs to. Checksums are the store's.
#include "codec/kernels/kernels.h"
#include "core.h"
#include "util/bytes.h"

#include <string.h>

#define FORMAT_IDENTITY 0x31444954u // "TID1"
#define FORMAT_REPLICA 0x31505254u  // "TRP1"
#define FORMAT_UPLOAD 0x31505554u   // "TUP1"
#define FORMAT_SETTLED 0x31545354u  // "TST1"
#define FORMAT_METER 0x31544d54u    // "TMT1"

#define OWNER_SIZE 8
#define IDENTITY_SIZE (4 + 8 + 1 + TERN_CLIENT_TOKEN_MAX + TERN_CLIENT_SPEC_MAX + 8 + 32)
// With the size of the model's manifest, if it has one.
#define IDENTITY_MAX (IDENTITY_SIZE + (TERN_MANIFESTS ? 4 : 0))
#define REPLICA_HEAD (4 + OWNER_SIZE + 4 + 32 + 4)
#define UPLOAD_HEAD (4 + OWNER_SIZE + 7 * 4)
#define SETTLED_SIZE (4 + OWNER_SIZE + 4 + 4)
#define METER_COUNTERS (TERN_PURPOSE_COUNT * TERN_DIRECTION_COUNT * 4)
#define METER_SIZE (4 + 4 + 8 * 4 + 8 * METER_COUNTERS)

// Names the enrolment: records of a former one are not used, because what its aggregator did with
// a pending update cannot be known.
static void owner_tag(const struct tern_client *client, uint8_t tag[OWNER_SIZE])
{
    static const char domain[] = "tern enrolment";
    uint8_t id[8];
    uint8_t digest[TERN_SHA256_SIZE];
    tern_put_le64(id, client->identity.client_id);
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, domain, sizeof domain - 1);
    tern_sha256_update(&hash, id, sizeof id);
    tern_sha256_update(&hash, client->identity.token, strlen(client->identity.token));
    tern_sha256_update(&hash, client->identity.model_hash, TERN_SHA256_SIZE);
    tern_sha256_final(&hash, digest);
    memcpy(tag, digest, OWNER_SIZE);
}

static enum tern_result load(const struct tern_client *client, enum tern_record record,
                             size_t offset, void *dst, size_t len, size_t *record_len)
{
    const struct tern_store *store = &client->config.ports.store;
    return store->load(store->ctx, record, offset, dst, len, record_len);
}

static enum tern_result save(const struct tern_client *client, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    const struct tern_store *store = &client->config.ports.store;
    return store->save(store->ctx, record, parts, part_count);
}

// Writes what every owned record opens with; returns the bytes written.
static size_t put_head(const struct tern_client *client, uint8_t *dst, uint32_t format)
{
    tern_put_le32(dst, format);
    owner_tag(client, dst + 4);
    return 4 + OWNER_SIZE;
}

static enum tern_result check_head(const struct tern_client *client, const uint8_t *src,
                                   uint32_t format)
{
    uint8_t tag[OWNER_SIZE];
    if (tern_get_le32(src) != format) {
        return TERN_ERR_CORRUPT;
    }
    owner_tag(client, tag);
    return memcmp(tag, src + 4, OWNER_SIZE) == 0 ? TERN_OK : TERN_ERR_STATE;
}

static bool all_finite(const float *values, uint32_t count)
{
    return tern_kernel_peak(values, count) < TERN_INFINITY_BITS;
}

// --- Identity
// ----------------------------------------------------------------------------------------

enum tern_result tern_record_save_identity(struct tern_client *client)
{
    const struct tern_client_identity *identity = &client->identity;
    uint8_t bytes[IDENTITY_MAX];
    uint8_t *at = bytes;
    tern_put_le32(at, FORMAT_IDENTITY);
    tern_put_le64(at += 4, identity->client_id);
    *(at += 8) = identity->evaluator;
    memcpy(at += 1, identity->token, TERN_CLIENT_TOKEN_MAX);
    memcpy(at += TERN_CLIENT_TOKEN_MAX, identity->model_spec, TERN_CLIENT_SPEC_MAX);
    tern_put_le64(at += TERN_CLIENT_SPEC_MAX, identity->model_seed);
    memcpy(at += 8, identity->model_hash, TERN_SHA256_SIZE);
    struct tern_store_part part = {bytes, IDENTITY_SIZE};
#if TERN_MANIFESTS
    if (identity->manifest > 0) {
        tern_put_le32(bytes + IDENTITY_SIZE, identity->manifest);
        part.len = IDENTITY_MAX;
    }
#endif
    return save(client, TERN_RECORD_IDENTITY, &part, 1);
}

enum tern_result tern_record_load_identity(struct tern_client *client)
{
    uint8_t bytes[IDENTITY_MAX];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_IDENTITY, 0, bytes, IDENTITY_SIZE, &len));
    const uint8_t *at = bytes;
    if (tern_get_le32(at) != FORMAT_IDENTITY || (len != IDENTITY_SIZE && len != IDENTITY_MAX)) {
        return TERN_ERR_CORRUPT;
    }
    struct tern_client_identity identity = {.client_id = tern_get_le64(at += 4)};
    identity.evaluator = *(at += 8) != 0;
    memcpy(identity.token, at += 1, TERN_CLIENT_TOKEN_MAX);
    memcpy(identity.model_spec, at += TERN_CLIENT_TOKEN_MAX, TERN_CLIENT_SPEC_MAX);
    identity.model_seed = tern_get_le64(at += TERN_CLIENT_SPEC_MAX);
    memcpy(identity.model_hash, at += 8, TERN_SHA256_SIZE);
    if (identity.token[TERN_CLIENT_TOKEN_MAX - 1] != '\0' ||
        identity.model_spec[TERN_CLIENT_SPEC_MAX - 1] != '\0') {
        return TERN_ERR_CORRUPT;
    }
#if TERN_MANIFESTS
    if (len == IDENTITY_MAX) {
        TERN_TRY(load(client, TERN_RECORD_IDENTITY, 0, bytes, IDENTITY_MAX, &len));
        identity.manifest = tern_get_le32(bytes + IDENTITY_SIZE);
    }
#endif
    client->identity = identity;
    client->identified = true;
    return TERN_OK;
}

#if TERN_MANIFESTS
// --- Manifest: says itself what it is, and the identity has its hash

enum tern_result tern_record_save_manifest(struct tern_client *client, const uint8_t *manifest,
                                           size_t len)
{
    const struct tern_store_part part = {manifest, len};
    return save(client, TERN_RECORD_MODEL, &part, 1);
}

enum tern_result tern_record_load_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                           size_t *len)
{
    uint8_t digest[TERN_SHA256_SIZE];
    TERN_TRY(load(client, TERN_RECORD_MODEL, 0, dst, 0, len));
    if (*len > size) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(load(client, TERN_RECORD_MODEL, 0, dst, *len, len));
    tern_sha256(dst, *len, digest);
    return memcmp(digest, client->identity.model_hash, TERN_SHA256_SIZE) == 0 ? TERN_OK
                                                                              : TERN_ERR_NOT_FOUND;
}
#endif

// --- Replica
// ----------------------------------------------------------------------------------------

enum tern_result tern_record_save_replica(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    uint8_t head[REPLICA_HEAD];
    uint8_t *at = head + put_head(client, head, FORMAT_REPLICA);
    tern_put_le32(at, client->version);
    memcpy(at += 4, client->replica, TERN_SHA256_SIZE);
    tern_put_le32(at += TERN_SHA256_SIZE, count);
    const struct tern_store_part parts[] = {
        {head, sizeof head},
        {client->work.weights, (size_t)count * sizeof(float)},
    };
    return save(client, TERN_RECORD_REPLICA, parts, 2);
}

enum tern_result tern_record_load_replica(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    const size_t values_len = (size_t)count * sizeof(float);
    uint8_t head[REPLICA_HEAD];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_REPLICA, 0, head, sizeof head, &len));
    TERN_TRY(check_head(client, head, FORMAT_REPLICA));
    const uint8_t *at = head + 4 + OWNER_SIZE;
    if (tern_get_le32(at + 4 + TERN_SHA256_SIZE) != count || len != sizeof head + values_len) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(
        load(client, TERN_RECORD_REPLICA, sizeof head, client->work.weights, values_len, &len));
    if (!all_finite(client->work.weights, count)) {
        return TERN_ERR_CORRUPT;
    }
    client->version = tern_get_le32(at);
    memcpy(client->replica, at + 4, TERN_SHA256_SIZE);
    return TERN_OK;
}

// --- Upload
// -----------------------------------------------------------------------------------------

enum tern_result tern_record_save_upload(struct tern_client *client)
{
    const struct tern_client_workspace *work = &client->work;
    const uint32_t count = work->model->count;
    uint8_t head[UPLOAD_HEAD];
    uint8_t *at = head + put_head(client, head, FORMAT_UPLOAD);
    tern_put_le32(at, client->generation);
    tern_put_le32(at += 4, client->sequence);
    tern_put_le32(at += 4, client->pending.round);
    tern_put_le32(at += 4, client->pending.len);
    tern_put_le32(at += 4, count);
    tern_put_le32(at += 4, (uint32_t)work->error_storage);
    tern_put_le32(at += 4, client->has_velocity);
    const struct tern_store_part parts[] = {
        {head, sizeof head},
        {work->error_buffer, tern_error_storage_bytes(work->error_storage, count)},
        {work->velocity, client->has_velocity ? (size_t)count * sizeof(float) : 0},
        {work->blob, client->pending.len},
    };
    return save(client, TERN_RECORD_UPLOAD, parts, sizeof parts / sizeof parts[0]);
}

// A saved upload record: its fields, and where its parts lie.
struct upload {
    uint32_t generation;
    uint32_t sequence;
    uint32_t round;
    uint32_t len; // of the pending update
    enum tern_error_storage storage;
    bool has_velocity;
    size_t velocity_at;
    size_t pending_at;
};

static enum tern_result open_upload(const struct tern_client *client, struct upload *upload)
{
    const uint32_t count = client->work.model->count;
    uint8_t head[UPLOAD_HEAD];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, 0, head, sizeof head, &len));
    TERN_TRY(check_head(client, head, FORMAT_UPLOAD));
    const uint8_t *at = head + 4 + OWNER_SIZE;
    const uint32_t storage = tern_get_le32(at + 20);
    const uint32_t has_velocity = tern_get_le32(at + 24);
    if (!tern_error_storage_known(storage) || has_velocity > 1) {
        return TERN_ERR_CORRUPT;
    }
    *upload = (struct upload){
        .generation = tern_get_le32(at),
        .sequence = tern_get_le32(at + 4),
        .round = tern_get_le32(at + 8),
        .len = tern_get_le32(at + 12),
        .storage = (enum tern_error_storage)storage,
        .has_velocity = has_velocity == 1,
    };
    const size_t velocity_len = upload->has_velocity ? (size_t)count * sizeof(float) : 0;
    upload->velocity_at = UPLOAD_HEAD + tern_error_storage_bytes(upload->storage, count);
    upload->pending_at = upload->velocity_at + velocity_len;
    return tern_get_le32(at + 16) == count && len == upload->pending_at + upload->len
               ? TERN_OK
               : TERN_ERR_CORRUPT;
}

// Moves `count` values that the blob holds in another storage to the error buffer.
static enum tern_result convert_part(struct tern_client *client, enum tern_error_storage from,
                                     uint32_t first, uint32_t count)
{
    float values[TERN_ERROR_BLOCK];
    const struct tern_client_workspace *work = &client->work;
    TERN_TRY(tern_error_storage_check(from, work->blob, count));
    for (uint32_t done = 0; done < count; done += TERN_ERROR_BLOCK) {
        const uint32_t n = count - done < TERN_ERROR_BLOCK ? count - done : TERN_ERROR_BLOCK;
        tern_error_storage_get(from, work->blob, done, values, n);
        tern_error_storage_put(work->error_storage, values, first + done, work->error_buffer, n);
    }
    return TERN_OK;
}

// Reads an error buffer of another storage through the blob, in as few parts as fit.
static enum tern_result convert_buffer(struct tern_client *client, const struct upload *upload)
{
    const uint32_t count = client->work.model->count;
    const size_t blocks =
        client->work.blob_size / tern_error_storage_bytes(upload->storage, TERN_ERROR_BLOCK);
    size_t len = 0;
    if (blocks == 0) {
        return TERN_ERR_NO_SPACE;
    }
    for (uint32_t done = 0; done < count;) {
        const uint32_t left = count - done;
        const uint32_t n =
            left / TERN_ERROR_BLOCK < blocks ? left : (uint32_t)blocks * TERN_ERROR_BLOCK;
        const size_t at = UPLOAD_HEAD + tern_error_storage_bytes(upload->storage, done);
        TERN_TRY(load(client, TERN_RECORD_UPLOAD, at, client->work.blob,
                      tern_error_storage_bytes(upload->storage, n), &len));
        TERN_TRY(convert_part(client, upload->storage, done, n));
        done += n;
    }
    return TERN_OK;
}

static enum tern_result load_buffer(struct tern_client *client, const struct upload *upload)
{
    const struct tern_client_workspace *work = &client->work;
    if (TERN_ERROR_STORAGE_OF(upload->storage) != TERN_ERROR_STORAGE_OF(work->error_storage)) {
        return convert_buffer(client, upload);
    }
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, UPLOAD_HEAD, work->error_buffer,
                  upload->velocity_at - UPLOAD_HEAD, &len));
    return tern_error_storage_check(work->error_storage, work->error_buffer, work->model->count);
}

// A velocity that there is no memory for is let go: the codec that needs it is not used either.
static enum tern_result load_velocity(struct tern_client *client, const struct upload *upload)
{
    const struct tern_client_workspace *work = &client->work;
    size_t len = 0;
    client->has_velocity = TERN_CLIENT_MOMENTUM && upload->has_velocity && work->velocity != NULL;
    if (!client->has_velocity) {
        return TERN_OK;
    }
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, upload->velocity_at, work->velocity,
                  upload->pending_at - upload->velocity_at, &len));
    return all_finite(work->velocity, work->model->count) ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_record_reload_velocity(struct tern_client *client)
{
    struct upload upload;
    if (!TERN_CLIENT_MOMENTUM || !client->has_velocity) {
        return TERN_OK;
    }
    TERN_TRY(open_upload(client, &upload));
    return load_velocity(client, &upload);
}

// Reads the pending update and checks that it can be given back if it must.
static enum tern_result load_pending(struct tern_client *client, size_t offset)
{
    struct tern_client_pending *pending = &client->pending;
    if (pending->len == 0) {
        return TERN_OK;
    }
    if (tern_client_pending_bound(client, pending->len) > client->work.blob_size) {
        return TERN_ERR_NO_SPACE;
    }
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, offset, client->work.blob, pending->len, &len));
    tern_Update update;
    struct tern_span container;
    struct tern_codec_info info;
    if (tern_wire_decode_update(client->work.blob, pending->len, &update, &container) != TERN_OK ||
        tern_container_inspect(client->work.model, container.data, container.len, &info) !=
            TERN_OK) {
        return TERN_ERR_CORRUPT;
    }
    struct tern_span body;
    return tern_share_body(client, &body);
}

enum tern_result tern_record_load_upload(struct tern_client *client)
{
    struct upload upload;
    TERN_TRY(open_upload(client, &upload));
    client->generation = upload.generation;
    client->sequence = upload.sequence;
    client->pending = (struct tern_client_pending){
        .round = upload.round,
        .sequence = upload.sequence,
        .len = upload.len,
    };
    TERN_TRY(load_buffer(client, &upload));
    TERN_TRY(load_velocity(client, &upload));
    return load_pending(client, upload.pending_at);
}

// --- Settled
// ----------------------------------------------------------------------------------------

enum tern_result tern_record_save_settled(struct tern_client *client)
{
    uint8_t bytes[SETTLED_SIZE];
    uint8_t *at = bytes + put_head(client, bytes, FORMAT_SETTLED);
    tern_put_le32(at, client->generation);
    tern_put_le32(at + 4, client->pending.sequence);
    const struct tern_store_part part = {bytes, sizeof bytes};
    return save(client, TERN_RECORD_SETTLED, &part, 1);
}

enum tern_result tern_record_load_settled(struct tern_client *client, uint32_t *generation,
                                          uint32_t *sequence)
{
    uint8_t bytes[SETTLED_SIZE];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_SETTLED, 0, bytes, sizeof bytes, &len));
    TERN_TRY(check_head(client, bytes, FORMAT_SETTLED));
    *generation = tern_get_le32(bytes + 4 + OWNER_SIZE);
    *sequence = tern_get_le32(bytes + 4 + OWNER_SIZE + 4);
    return len == sizeof bytes ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Meter
// ------------------------------------------------------------------------------------------

// Counters by purpose, direction and layer, as they lie in memory.
_Static_assert(sizeof(struct tern_meter) == 8 * METER_COUNTERS, "counters");

enum tern_result tern_record_save_meter(struct tern_client *client)
{
    const struct tern_client_budget *budget = &client->budget;
    uint8_t bytes[METER_SIZE];
    uint8_t *at = bytes;
    tern_put_le32(at, FORMAT_METER);
    tern_put_le32(at += 4, budget->month);
    tern_put_le64(at += 4, budget->month_counted);
    tern_put_le64(at += 8, budget->round_mean);
    tern_put_le64(at += 8, budget->update_mean);
    tern_put_le64(at += 8, budget->rounds);
    at += 8;
    memcpy(at, &client->meter_all, sizeof client->meter_all);
    const struct tern_store_part part = {bytes, sizeof bytes};
    return save(client, TERN_RECORD_METER, &part, 1);
}

enum tern_result tern_record_load_meter(struct tern_client *client)
{
    struct tern_client_budget *budget = &client->budget;
    uint8_t bytes[METER_SIZE];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_METER, 0, bytes, sizeof bytes, &len));
    const uint8_t *at = bytes;
    if (len != sizeof bytes || tern_get_le32(at) != FORMAT_METER) {
        return TERN_ERR_CORRUPT;
    }
    budget->month = tern_get_le32(at += 4);
    budget->month_counted = tern_get_le64(at += 4);
    budget->month_spent = budget->month_counted;
    budget->round_mean = tern_get_le64(at += 8);
    budget->update_mean = tern_get_le64(at += 8);
    budget->rounds = tern_get_le64(at += 8);
    at += 8;
    memcpy(&client->meter_all, at, sizeof client->meter_all);
#if TERN_MANIFESTS
    client->meter_loaded = true;
#endif
    return TERN_OK;
}
