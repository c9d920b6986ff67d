// The records of ports.h, byte by byte. All fields are little-endian; a record opens with its
// format number, so that a later version can tell what it reads, and (but for identity and meter)
// with the tag of the enrolment it belongs to. Checksums are the store's.
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
#define REPLICA_HEAD (4 + OWNER_SIZE + 4 + 32 + 4)
#define UPLOAD_HEAD (4 + OWNER_SIZE + 4 + 4 + 4 + 4 + 4)
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
    for (uint32_t i = 0; i < count; i++) {
        // NaN and the infinities are the values that subtracting them from themselves does not
        // turn into zero; this needs no libm.
        if (!(values[i] - values[i] == 0.0f)) {
            return false;
        }
    }
    return true;
}

// --- Identity
// ----------------------------------------------------------------------------------------

enum tern_result tern_record_save_identity(struct tern_client *client)
{
    const struct tern_client_identity *identity = &client->identity;
    uint8_t bytes[IDENTITY_SIZE];
    uint8_t *at = bytes;
    tern_put_le32(at, FORMAT_IDENTITY);
    tern_put_le64(at += 4, identity->client_id);
    *(at += 8) = identity->evaluator;
    memcpy(at += 1, identity->token, TERN_CLIENT_TOKEN_MAX);
    memcpy(at += TERN_CLIENT_TOKEN_MAX, identity->model_spec, TERN_CLIENT_SPEC_MAX);
    tern_put_le64(at += TERN_CLIENT_SPEC_MAX, identity->model_seed);
    memcpy(at += 8, identity->model_hash, TERN_SHA256_SIZE);
    const struct tern_store_part part = {bytes, sizeof bytes};
    return save(client, TERN_RECORD_IDENTITY, &part, 1);
}

enum tern_result tern_record_load_identity(struct tern_client *client)
{
    uint8_t bytes[IDENTITY_SIZE];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_IDENTITY, 0, bytes, sizeof bytes, &len));
    const uint8_t *at = bytes;
    if (len != sizeof bytes || tern_get_le32(at) != FORMAT_IDENTITY) {
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
    client->identity = identity;
    client->identified = true;
    return TERN_OK;
}

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
    const uint32_t count = client->work.model->count;
    uint8_t head[UPLOAD_HEAD];
    uint8_t *at = head + put_head(client, head, FORMAT_UPLOAD);
    tern_put_le32(at, client->generation);
    tern_put_le32(at += 4, client->sequence);
    tern_put_le32(at += 4, client->pending.round);
    tern_put_le32(at += 4, client->pending.len);
    tern_put_le32(at += 4, count);
    const struct tern_store_part parts[] = {
        {head, sizeof head},
        {client->work.error_buffer, (size_t)count * sizeof(float)},
        {client->work.blob, client->pending.len},
    };
    return save(client, TERN_RECORD_UPLOAD, parts, 3);
}

enum tern_result tern_record_reload_error_buffer(struct tern_client *client)
{
    const size_t values_len = client->work.model->count * sizeof(float);
    size_t len = 0;
    if (!client->upload_saved) {
        memset(client->work.error_buffer, 0, values_len);
        return TERN_OK;
    }
    return load(client, TERN_RECORD_UPLOAD, UPLOAD_HEAD, client->work.error_buffer, values_len,
                &len);
}

// Reads the pending update and checks that it can be given back if it must.
static enum tern_result load_pending(struct tern_client *client, size_t offset)
{
    struct tern_client_pending *pending = &client->pending;
    if (pending->len == 0) {
        return TERN_OK;
    }
    if (pending->len > client->work.blob_size) {
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
    pending->container = (uint32_t)container.len;
    return TERN_OK;
}

enum tern_result tern_record_load_upload(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    const size_t values_len = (size_t)count * sizeof(float);
    uint8_t head[UPLOAD_HEAD];
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, 0, head, sizeof head, &len));
    TERN_TRY(check_head(client, head, FORMAT_UPLOAD));
    const uint8_t *at = head + 4 + OWNER_SIZE;
    client->generation = tern_get_le32(at);
    client->sequence = tern_get_le32(at += 4);
    client->pending.sequence = client->sequence;
    client->pending.round = tern_get_le32(at += 4);
    client->pending.len = tern_get_le32(at += 4);
    if (tern_get_le32(at += 4) != count || len != sizeof head + values_len + client->pending.len) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(
        load(client, TERN_RECORD_UPLOAD, sizeof head, client->work.error_buffer, values_len, &len));
    if (!all_finite(client->work.error_buffer, count)) {
        return TERN_ERR_CORRUPT;
    }
    return load_pending(client, sizeof head + values_len);
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

static uint8_t *put_bytes(uint8_t *at, const struct tern_bytes *bytes)
{
    tern_put_le64(at, bytes->payload);
    tern_put_le64(at + 8, bytes->http);
    tern_put_le64(at + 16, bytes->tls);
    tern_put_le64(at + 24, bytes->wire);
    return at + 32;
}

static const uint8_t *get_bytes(const uint8_t *at, struct tern_bytes *bytes)
{
    bytes->payload = tern_get_le64(at);
    bytes->http = tern_get_le64(at + 8);
    bytes->tls = tern_get_le64(at + 16);
    bytes->wire = tern_get_le64(at + 24);
    return at + 32;
}

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
    for (int purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
        at = put_bytes(at, &client->meter_all.bytes[purpose][TERN_UP]);
        at = put_bytes(at, &client->meter_all.bytes[purpose][TERN_DOWN]);
    }
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
    for (int purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
        at = get_bytes(at, &client->meter_all.bytes[purpose][TERN_UP]);
        at = get_bytes(at, &client->meter_all.bytes[purpose][TERN_DOWN]);
    }
    return TERN_OK;
}
