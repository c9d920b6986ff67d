// Encodes and decodes the records of ports.h. All fields are little-endian. A record starts with its format number, and
// (except identity and meter) with the tag of its enrolment. The store adds checksums.
//
// A device's records outlive its program, so no size in them depends on a list or limit of this build: variable parts have a
// count, the texts of an identity have the protocol's largest sizes, and enum values are the protocol's or fixed (meter.h).
// Identity and meter are too important to lose with an older program, so later builds append their fields, and older builds
// ignore them.
#include "codec/kernels/kernels.h"
#include "core.h"
#include "util/bytes.h"

#include <string.h>

#define FORMAT_IDENTITY 0x31444954u // "TID1"
#define FORMAT_REPLICA 0x31505254u  // "TRP1"
#define FORMAT_UPLOAD 0x31505554u   // "TUP1"
#define FORMAT_SETTLED 0x31545354u  // "TST1"
#define FORMAT_METER 0x31544d54u    // "TMT1"
#define FORMAT_SCALING 0x31435354u  // "TSC1"
#define FORMAT_ANCHOR 0x314e4154u   // "TAN1"
#define FORMAT_TICKET 0x314b5454u   // "TTK1"

#define OWNER_SIZE 8

#define HOLDS_VELOCITY 1u
#define HOLDS_LOCAL 2u
#define HOLDS_KNOWN (HOLDS_VELOCITY | (TERN_MANIFESTS ? HOLDS_LOCAL : 0))

// The fields at the start of each record, with fixed widths and without padding.
struct owned_head {
    uint32_t format;
    uint8_t tag[OWNER_SIZE];
};

struct identity_record {
    uint32_t format;
    uint32_t manifest;
    uint64_t client_id;
    uint64_t model_seed;
    uint8_t model_hash[TERN_SHA256_SIZE];
    char token[TERN_CLIENT_TOKEN_MAX]; // ends with a NUL, like model_spec
    char model_spec[TERN_CLIENT_SPEC_MAX];
    uint8_t evaluator;
    uint8_t zero[7];
};

struct replica_head {
    struct owned_head owned;
    uint32_t version;
    uint8_t replica[TERN_SHA256_SIZE];
    uint32_t count;
};

struct anchor_head {
    struct owned_head owned;
    uint32_t round;
    uint32_t version;
    uint32_t count;
    uint32_t has_step;
};

struct upload_head {
    struct owned_head owned;
    uint32_t generation;
    uint32_t sequence;
    uint32_t round;
    uint32_t len; // bytes of the pending update; 0: no update is pending
    uint32_t count;
    uint32_t storage;
    uint32_t holds;  // HOLDS_*
    uint32_t room;   // unused bytes between the head and the update
    uint32_t masked; // bytes of the facts about the last masked update, which follow the update
};

#define TICKET_DUE 0x80000000u // bit of ticket_record.size: the next check-in sends the ticket

struct ticket_record {
    struct owned_head owned;
    uint32_t epoch;
    uint32_t size; // bytes of the ticket, and TICKET_DUE
    uint8_t secret[TERN_SECRET_SIZE];
    uint8_t sealed[TERN_SECURE_TICKET_MAX]; // the ticket, then zeros
};

struct settled_record {
    struct owned_head owned;
    uint32_t generation;
    uint32_t sequence;
    uint32_t settled; // 1: the client knows what became of the update
};

struct meter_head {
    uint32_t format;
    uint32_t month;
    uint64_t month_reserved;
    uint64_t round_mean;
    uint64_t update_mean;
    uint64_t rounds;
    uint32_t purposes; // number of meter entries after the first one
    uint32_t zero;
};

// Bytes of a purpose, up and down. The first entry of a record sums the purposes that the writing build does not know; the next
// entries are those of purpose 0, 1, and so on.
struct meter_entry {
    struct tern_bytes bytes[TERN_DIRECTION_COUNT];
};

// Follows the meter entries in the record.
struct meter_time {
    uint64_t month_ms;
    uint64_t clock_ms;
};

_Static_assert(sizeof(struct identity_record) == 152 && sizeof(struct replica_head) == 52 &&
                   sizeof(struct upload_head) == 48 && sizeof(struct anchor_head) == 28 &&
                   sizeof(struct settled_record) == 24 && sizeof(struct meter_head) == 48 &&
                   sizeof(struct ticket_record) == 196 && sizeof(struct meter_entry) == 64 &&
                   sizeof(struct meter_time) == 16,
               "the sizes of heads on flash must not change");

// Computes the tag of the current enrolment. Records with another tag are ignored, because nobody knows whether their pending
// update was applied.
static void enrolment_tag(const struct tern_client *client, uint8_t tag[OWNER_SIZE])
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

// Returns the head of a record that belongs to the current enrolment.
static struct owned_head make_owned_head(const struct tern_client *client, uint32_t format)
{
    struct owned_head head = {.format = format};
    enrolment_tag(client, head.tag);
    return head;
}

// Loads and checks the head of a record with an enrolment's tag. head: `size` bytes that begin with a struct owned_head.
// *len: the record's length. TERN_ERR_STATE: the record belongs to another enrolment.
static enum tern_result load_owned(const struct tern_client *client, enum tern_record record,
                                   uint32_t format, void *head, size_t size, size_t *len)
{
    const struct owned_head expected = make_owned_head(client, format);
    struct owned_head found;
    TERN_TRY(load(client, record, 0, head, size, len));
    memcpy(&found, head, sizeof found);
    if (found.format != format) {
        return TERN_ERR_CORRUPT;
    }
    return memcmp(found.tag, expected.tag, OWNER_SIZE) == 0 ? TERN_OK : TERN_ERR_STATE;
}

static bool all_finite(const float *values, uint32_t count)
{
    return tern_kernel_peak(values, count) < TERN_INFINITY_BITS;
}

// --- Identity

enum tern_result tern_record_save_identity(struct tern_client *client)
{
    const struct tern_client_identity *identity = &client->identity;
    struct identity_record record = {
        .format = FORMAT_IDENTITY,
        .manifest = identity->manifest,
        .client_id = identity->client_id,
        .model_seed = identity->model_seed,
        .evaluator = identity->evaluator,
    };
    memcpy(record.model_hash, identity->model_hash, TERN_SHA256_SIZE);
    memcpy(record.token, identity->token, sizeof record.token);
    memcpy(record.model_spec, identity->model_spec, sizeof record.model_spec);
    const struct tern_store_part part = {&record, sizeof record};
    return save(client, TERN_RECORD_IDENTITY, &part, 1);
}

enum tern_result tern_record_load_identity(struct tern_client *client)
{
    struct identity_record record;
    struct tern_client_identity *identity = &client->identity;
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_IDENTITY, 0, &record, sizeof record, &len));
    if (record.format != FORMAT_IDENTITY || record.token[sizeof record.token - 1] != '\0' ||
        record.model_spec[sizeof record.model_spec - 1] != '\0') {
        return TERN_ERR_CORRUPT;
    }
    identity->manifest = record.manifest;
    identity->client_id = record.client_id;
    identity->model_seed = record.model_seed;
    identity->evaluator = record.evaluator != 0;
    memcpy(identity->model_hash, record.model_hash, TERN_SHA256_SIZE);
    memcpy(identity->token, record.token, sizeof record.token);
    memcpy(identity->model_spec, record.model_spec, sizeof record.model_spec);
    client->identified = true;
    return TERN_OK;
}

// --- Manifest: the record is the manifest itself; the identity has its hash

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

// --- Scaling

enum tern_result tern_record_save_scaling(struct tern_client *client, struct tern_span scaling)
{
    const struct owned_head head = make_owned_head(client, FORMAT_SCALING);
    const struct tern_store_part parts[] = {{&head, sizeof head}, {scaling.data, scaling.len}};
    return save(client, TERN_RECORD_SCALING, parts, 2);
}

enum tern_result tern_record_load_scaling(const struct tern_client *client, uint8_t *dst,
                                          size_t size, size_t *len)
{
    struct owned_head head;
    TERN_TRY(load_owned(client, TERN_RECORD_SCALING, FORMAT_SCALING, &head, sizeof head, len));
    const size_t body = *len - sizeof head;
    if (body <= size) {
        TERN_TRY(load(client, TERN_RECORD_SCALING, sizeof head, dst, body, len));
    }
    *len = body;
    return body <= size ? TERN_OK : TERN_ERR_NO_SPACE;
}

// --- Replica

enum tern_result tern_record_save_replica(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    struct replica_head head = {
        .owned = make_owned_head(client, FORMAT_REPLICA),
        .version = client->version,
        .count = count,
    };
    memcpy(head.replica, client->replica, TERN_SHA256_SIZE);
    const struct tern_store_part parts[] = {
        {&head, sizeof head},
        {client->work.weights, (size_t)count * sizeof(float)},
    };
    return save(client, TERN_RECORD_REPLICA, parts, 2);
}

enum tern_result tern_record_load_replica(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    const size_t values_len = (size_t)count * sizeof(float);
    struct replica_head head;
    size_t len = 0;
    TERN_TRY(load_owned(client, TERN_RECORD_REPLICA, FORMAT_REPLICA, &head, sizeof head, &len));
    if (head.count != count || len != sizeof head + values_len) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(
        load(client, TERN_RECORD_REPLICA, sizeof head, client->work.weights, values_len, &len));
    if (!all_finite(client->work.weights, count)) {
        return TERN_ERR_CORRUPT;
    }
    client->version = head.version;
    memcpy(client->replica, head.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

// --- Anchor: the record has its values and, if has_step is 1, those of its step

enum tern_result tern_record_save_anchor(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    const struct anchor_head head = {
        .owned = make_owned_head(client, FORMAT_ANCHOR),
        .round = client->anchor_round,
        .version = client->anchor_version,
        .count = count,
        .has_step = client->anchor_has_step,
    };
    const size_t vectors = client->anchor_has_step ? 2 : 1;
    const struct tern_store_part parts[] = {
        {&head, sizeof head},
        {client->work.anchor, vectors * count * sizeof(float)},
    };
    return save(client, TERN_RECORD_ANCHOR, parts, 2);
}

enum tern_result tern_record_load_anchor(struct tern_client *client)
{
    const uint32_t count = client->work.model->count;
    const size_t values_len = (size_t)count * sizeof(float);
    struct anchor_head head;
    size_t len = 0;
    TERN_TRY(load_owned(client, TERN_RECORD_ANCHOR, FORMAT_ANCHOR, &head, sizeof head, &len));
    if (head.round == 0 || head.count != count || head.has_step > 1 ||
        len != sizeof head + (1 + head.has_step) * values_len) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(load(client, TERN_RECORD_ANCHOR, sizeof head, client->work.anchor, values_len, &len));
    if (!all_finite(client->work.anchor, count)) {
        return TERN_ERR_CORRUPT;
    }
    client->anchor_round = head.round;
    client->anchor_version = head.version;
    client->anchor_has_step = head.has_step == 1;
    return TERN_OK;
}

enum tern_result tern_record_load_anchor_step(const struct tern_client *client, float *step)
{
    const size_t values_len = (size_t)client->work.model->count * sizeof(float);
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_ANCHOR, sizeof(struct anchor_head) + values_len, step,
                  values_len, &len));
    return all_finite(step, client->work.model->count) ? TERN_OK : TERN_ERR_CORRUPT;
}

#if TERN_SECURE
// --- Ticket of secure rounds

enum tern_result tern_record_save_ticket(struct tern_client *client)
{
    const struct tern_client_ticket *ticket = &client->ticket;
    struct ticket_record record = {
        .owned = make_owned_head(client, FORMAT_TICKET),
        .epoch = ticket->epoch,
        .size = ticket->size | (client->ticket_due ? TICKET_DUE : 0),
    };
    memcpy(record.secret, ticket->secret, sizeof record.secret);
    memcpy(record.sealed, ticket->sealed, ticket->size);
    const struct tern_store_part part = {&record, sizeof record};
    const enum tern_result result = save(client, TERN_RECORD_SECURE, &part, 1);
    tern_secret_erase(&record, sizeof record);
    return result;
}

enum tern_result tern_record_load_ticket(struct tern_client *client)
{
    struct ticket_record record;
    struct tern_client_ticket *ticket = &client->ticket;
    size_t len = 0;
    TERN_TRY(load_owned(client, TERN_RECORD_SECURE, FORMAT_TICKET, &record, sizeof record, &len));
    const uint32_t size = record.size & ~TICKET_DUE;
    if (len != sizeof record || record.epoch == 0 || size > sizeof ticket->sealed) {
        return TERN_ERR_CORRUPT;
    }
    ticket->epoch = record.epoch;
    ticket->size = size;
    client->ticket_due = (record.size & TICKET_DUE) != 0;
    memcpy(ticket->secret, record.secret, sizeof record.secret);
    memcpy(ticket->sealed, record.sealed, size);
    tern_secret_erase(&record, sizeof record);
    return TERN_OK;
}

#endif

// --- Upload

// The bytes of struct tern_client_masked before its scales.
#define MASKED_FIXED offsetof(struct tern_client_masked, scales)
_Static_assert(!TERN_SECURE || MASKED_FIXED == 96, "the upload record has these bytes");

// Returns the bytes that the upload record has of the facts about the last masked update.
static size_t masked_bytes(const struct tern_client_masked *masked)
{
    return TERN_SECURE && masked->round != 0 ? MASKED_FIXED + masked->scale_count * sizeof(float)
                                             : 0;
}

static struct tern_store_part masked_part(const struct tern_client *client)
{
    return (struct tern_store_part){&client->masked, masked_bytes(&client->masked)};
}

static struct upload_head upload_head(const struct tern_client *client, size_t room)
{
    return (struct upload_head){
        .owned = make_owned_head(client, FORMAT_UPLOAD),
        .generation = client->generation,
        .sequence = client->sequence,
        .round = client->pending.round,
        .len = client->pending.len,
        .count = client->work.model->count,
        .storage = (uint32_t)client->work.error_storage,
        .holds = (TERN_CLIENT_MOMENTUM && client->has_velocity ? HOLDS_VELOCITY : 0) |
                 (tern_client_has_local(client) ? HOLDS_LOCAL : 0),
        .room = (uint32_t)room,
        .masked = (uint32_t)masked_bytes(&client->masked),
    };
}

// Returns the error buffer as a part of the upload record. The record's parts after the update are the facts about the last
// masked update, error buffer, velocity and local values.
static struct tern_store_part buffer_part(const struct tern_client *client)
{
    const struct tern_client_workspace *work = &client->work;
    return (struct tern_store_part){
        work->error_buffer, tern_error_storage_bytes(work->error_storage, work->model->coded)};
}

static struct tern_store_part velocity_part(const struct tern_client *client)
{
    const struct tern_client_workspace *work = &client->work;
    if (!TERN_CLIENT_MOMENTUM || !client->has_velocity) {
        return (struct tern_store_part){NULL, 0};
    }
    return (struct tern_store_part){work->velocity, (size_t)work->model->count * sizeof(float)};
}

static struct tern_store_part local_part(const struct tern_client *client)
{
    uint32_t first = 0;
    const uint32_t local = tern_model_local(client->work.model, &first);
    if (!tern_client_has_local(client)) {
        return (struct tern_store_part){NULL, 0};
    }
    return (struct tern_store_part){client->work.weights + first, local * sizeof(float)};
}

enum tern_result tern_record_save_upload(struct tern_client *client)
{
    const struct upload_head head = upload_head(client, 0);
    const struct tern_store_part parts[] = {
        {&head, sizeof head},  {client->work.blob, client->pending.len},
        masked_part(client),   buffer_part(client),
        velocity_part(client), local_part(client),
    };
    if (TERN_PARTIALS) {
        client->stored_update = NULL;
    }
    return save(client, TERN_RECORD_UPLOAD, parts, sizeof parts / sizeof parts[0]);
}

// The head of a saved upload record, and the offsets of its parts in bytes.
struct upload {
    struct upload_head head;
    enum tern_error_storage storage;
    size_t pending_at;
    size_t masked_at;
    size_t buffer_at;
    size_t velocity_at;
    size_t local_at;
};

// Returns the number of unused bytes before the update. Only builds that write records block by block leave any.
static uint32_t unused_bytes(const struct upload_head *head)
{
    return TERN_PARTIALS ? head->room : 0;
}

static enum tern_result load_upload_head(const struct tern_client *client, struct upload *upload)
{
    const uint32_t count = client->work.model->count;
    struct upload_head *head = &upload->head;
    size_t len = 0;
    TERN_TRY(load_owned(client, TERN_RECORD_UPLOAD, FORMAT_UPLOAD, head, sizeof *head, &len));
    uint32_t first = 0;
    const uint32_t local = tern_model_local(client->work.model, &first);
    const bool has_local = TERN_MANIFESTS && (head->holds & HOLDS_LOCAL) != 0;
    if (head->count != count || !tern_error_storage_known(head->storage) ||
        head->holds > HOLDS_KNOWN || (has_local && local == 0) ||
        unused_bytes(head) > TERN_WIRE_OVERHEAD) {
        return TERN_ERR_CORRUPT;
    }
    const size_t velocity_len =
        (head->holds & HOLDS_VELOCITY) != 0 ? (size_t)count * sizeof(float) : 0;
    upload->storage = (enum tern_error_storage)head->storage;
    upload->pending_at = sizeof *head + unused_bytes(head);
    upload->masked_at = upload->pending_at + head->len;
    upload->buffer_at = upload->masked_at + head->masked;
    upload->velocity_at =
        upload->buffer_at + tern_error_storage_bytes(upload->storage, client->work.model->coded);
    upload->local_at = upload->velocity_at + velocity_len;
    const size_t end = upload->local_at + (has_local ? local * sizeof(float) : 0);
    return len == end ? TERN_OK : TERN_ERR_CORRUPT;
}

// Converts `count` values in the blob from the storage `from`, and writes them to the error buffer, starting at value `first`.
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

// Loads an error buffer that was saved in another storage. The blob holds the saved values while they are converted, as many at
// a time as fit.
static enum tern_result convert_buffer(struct tern_client *client, const struct upload *upload)
{
    const uint32_t count = client->work.model->coded;
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
        const size_t at = upload->buffer_at + tern_error_storage_bytes(upload->storage, done);
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
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, upload->buffer_at, work->error_buffer,
                  upload->velocity_at - upload->buffer_at, &len));
    return tern_error_storage_check(work->error_storage, work->error_buffer, work->model->coded);
}

// Loads the facts about the last masked update. A build without secure rounds ignores them.
static enum tern_result load_masked(struct tern_client *client, const struct upload *upload)
{
    struct tern_client_masked *masked = &client->masked;
    size_t len = 0;
    memset(masked, 0, sizeof *masked);
    if (!TERN_SECURE || upload->head.masked == 0) {
        return TERN_OK;
    }
    if (upload->head.masked > sizeof *masked) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(
        load(client, TERN_RECORD_UPLOAD, upload->masked_at, masked, upload->head.masked, &len));
    const bool known = masked->round != 0 && masked_bytes(masked) == upload->head.masked &&
                       masked->scale_count == tern_masked_tensors(client->work.model) &&
                       masked->share != 0 && masked->bits > 1 &&
                       masked->bits <= TERN_SECURE_BITS_MAX;
    return known && all_finite(masked->scales, masked->scale_count) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Ignores a saved velocity if the workspace has no memory for it; codecs that need it are then not used either.
static enum tern_result load_velocity(struct tern_client *client, const struct upload *upload)
{
    const struct tern_client_workspace *work = &client->work;
    size_t len = 0;
    client->has_velocity = TERN_CLIENT_MOMENTUM && (upload->head.holds & HOLDS_VELOCITY) != 0 &&
                           work->velocity != NULL;
    if (!client->has_velocity) {
        return TERN_OK;
    }
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, upload->velocity_at, work->velocity,
                  (size_t)work->model->count * sizeof(float), &len));
    return all_finite(work->velocity, work->model->count) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Loads the values of local tensors. They are newer than those in the replica's record.
static enum tern_result load_local(struct tern_client *client, const struct upload *upload)
{
    uint32_t first = 0;
    const uint32_t count = tern_model_local(client->work.model, &first);
    size_t len = 0;
    if (!TERN_MANIFESTS || (upload->head.holds & HOLDS_LOCAL) == 0) {
        return TERN_OK;
    }
    TERN_TRY(load(client, TERN_RECORD_UPLOAD, upload->local_at, client->work.local,
                  (size_t)count * sizeof(float), &len));
    if (!all_finite(client->work.local, count)) {
        return TERN_ERR_CORRUPT;
    }
    client->has_local = true;
    client->local_is_stashed = true;
    tern_client_unstash_local(client);
    return TERN_OK;
}

enum tern_result tern_record_reload_velocity(struct tern_client *client)
{
    struct upload upload;
    if (!TERN_CLIENT_MOMENTUM || !client->has_velocity) {
        return TERN_OK;
    }
    TERN_TRY(load_upload_head(client, &upload));
    return load_velocity(client, &upload);
}

// Makes tern_client_update() return the pending update, which is at `offset` of the record.
static enum tern_result read_pending_update(struct tern_client *client, size_t offset)
{
    size_t len = 0;
    if (TERN_PARTIALS) {
        client->stored_update = NULL;
    }
    if (tern_record_is_streamed(client)) {
        const struct tern_store *store = &client->config.ports.store;
        return store->view(store->ctx, TERN_RECORD_UPLOAD, offset, client->pending.len,
                           &client->stored_update);
    }
    return load(client, TERN_RECORD_UPLOAD, offset, client->work.blob, client->pending.len, &len);
}

// --- Upload record, written while the container is encoded

// Bytes before the container: the head, unused bytes, and the message, which ends where the container begins.
#define FRONT (sizeof(struct upload_head) + TERN_WIRE_OVERHEAD)

enum tern_result tern_record_begin_upload(struct tern_client *client)
{
    const struct tern_store *store = &client->config.ports.store;
    return store->begin(store->ctx, TERN_RECORD_UPLOAD, FRONT);
}

enum tern_result tern_record_append_upload(struct tern_client *client, const uint8_t *data,
                                           size_t len)
{
    const struct tern_store *store = &client->config.ports.store;
    return store->append(store->ctx, data, len);
}

void tern_record_drop_upload(struct tern_client *client)
{
    const struct tern_store *store = &client->config.ports.store;
    store->drop(store->ctx);
}

enum tern_result tern_record_view_container(const struct tern_client *client, size_t len,
                                            const uint8_t **container)
{
    const struct tern_store *store = &client->config.ports.store;
    return store->view(store->ctx, TERN_RECORD_UPLOAD, FRONT, len, container);
}

enum tern_result tern_record_finish_upload(struct tern_client *client, struct tern_span message)
{
    const struct tern_store *store = &client->config.ports.store;
    const struct tern_store_part behind[] = {masked_part(client), buffer_part(client),
                                             velocity_part(client), local_part(client)};
    const struct upload_head head = upload_head(client, TERN_WIRE_OVERHEAD - message.len);
    uint8_t front[FRONT] = {0};
    memcpy(front, &head, sizeof head);
    memcpy(front + FRONT - message.len, message.data, message.len);
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        TERN_TRY(store->append(store->ctx, behind[i].data, behind[i].len));
    }
    TERN_TRY(store->finish(store->ctx, front));
    return read_pending_update(client, FRONT - message.len);
}

// Checks that the tensors of the pending update can be added to the error buffer again.
static enum tern_result check_container(struct tern_client *client, const tern_Update *update,
                                        struct tern_span container)
{
    struct tern_codec_info info;
#if TERN_SECURE
    client->pending.masked = update->masked;
    if (update->masked) {
        return client->masked.round == client->pending.round &&
                       container.len == tern_secure_packed_size(client, &client->masked)
                   ? TERN_OK
                   : TERN_ERR_CORRUPT;
    }
#else
    (void)update;
#endif
    return tern_container_inspect(client->work.model, container.data, container.len, &info) ==
                   TERN_OK
               ? TERN_OK
               : TERN_ERR_CORRUPT;
}

// Loads the pending update, and checks that it can be added to the error buffer again.
static enum tern_result load_pending(struct tern_client *client, size_t offset)
{
    struct tern_client_pending *pending = &client->pending;
    if (pending->len == 0) {
        return TERN_OK;
    }
    if (tern_client_pending_bound(client, pending->len) > client->work.blob_size) {
        return TERN_ERR_NO_SPACE;
    }
    TERN_TRY(read_pending_update(client, offset));
    tern_Update update;
    struct tern_span container;
    if (tern_wire_decode_update(tern_client_update(client), pending->len, &update, &container) !=
        TERN_OK) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(check_container(client, &update, container));
    struct tern_span body;
    return tern_share_body(client, &body);
}

enum tern_result tern_record_load_upload(struct tern_client *client)
{
    struct upload upload;
    TERN_TRY(load_upload_head(client, &upload));
    client->generation = upload.head.generation;
    client->sequence = upload.head.sequence;
    client->pending = (struct tern_client_pending){
        .round = upload.head.round,
        .sequence = upload.head.sequence,
        .len = upload.head.len,
    };
    TERN_TRY(load_buffer(client, &upload));
    TERN_TRY(load_masked(client, &upload));
    TERN_TRY(load_velocity(client, &upload));
    TERN_TRY(load_local(client, &upload));
    return load_pending(client, upload.pending_at);
}

enum tern_result tern_record_reload_pending(struct tern_client *client)
{
    struct upload upload;
    TERN_TRY(load_upload_head(client, &upload));
    return read_pending_update(client, upload.pending_at);
}

// --- Settled

enum tern_result tern_record_save_settled(struct tern_client *client, uint32_t sequence,
                                          bool settled)
{
    const struct settled_record record = {
        .owned = make_owned_head(client, FORMAT_SETTLED),
        .generation = client->generation,
        .sequence = sequence,
        .settled = settled,
    };
    const struct tern_store_part part = {&record, sizeof record};
    return save(client, TERN_RECORD_SETTLED, &part, 1);
}

enum tern_result tern_record_load_settled(struct tern_client *client, uint32_t *generation,
                                          uint32_t *sequence, bool *settled)
{
    struct settled_record record;
    size_t len = 0;
    TERN_TRY(load_owned(client, TERN_RECORD_SETTLED, FORMAT_SETTLED, &record, sizeof record, &len));
    *generation = record.generation;
    *sequence = record.sequence;
    *settled = record.settled != 0;
    return len == sizeof record ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Meter

enum tern_result tern_record_save_meter(struct tern_client *client)
{
    const struct tern_client_budget *budget = &client->budget;
    const struct meter_head head = {
        .format = FORMAT_METER,
        .month = budget->month,
        .month_reserved = budget->month_reserved,
        .round_mean = budget->round_mean,
        .update_mean = budget->update_mean,
        .rounds = budget->rounds,
        .purposes = TERN_PURPOSE_COUNT,
    };
    const struct meter_time time = {.month_ms = budget->month_ms, .clock_ms = budget->clock_ms};
    const struct tern_store_part parts[] = {
        {&head, sizeof head},
        {client->meter_other, sizeof client->meter_other},
        {client->meter_all.bytes, sizeof client->meter_all.bytes},
        {&time, sizeof time},
    };
    client->month_ms_saved = budget->month_ms;
    return save(client, TERN_RECORD_METER, parts, TERN_MONTH_BY_TIME ? 4 : 3);
}

// Adds the entry of `purpose` to its counters, or to client->meter_other if this build does not know the purpose.
static enum tern_result load_entry(struct tern_client *client, uint32_t purpose)
{
    struct meter_entry entry;
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_METER,
                  sizeof(struct meter_head) + (1 + (size_t)purpose) * sizeof entry, &entry,
                  sizeof entry, &len));
    struct tern_bytes *into =
        purpose < TERN_PURPOSE_COUNT ? client->meter_all.bytes[purpose] : client->meter_other;
    for (int direction = 0; direction < TERN_DIRECTION_COUNT; direction++) {
        tern_bytes_add(&into[direction], &entry.bytes[direction]);
    }
    return TERN_OK;
}

// Loads the time that has passed in the month. A record without it, which a small build has written, counts as no time passed.
static enum tern_result load_time(struct tern_client *client, size_t at, size_t len)
{
    struct meter_time time = {.clock_ms = tern_client_now_ms(client)};
    if (len >= at + sizeof time) {
        TERN_TRY(load(client, TERN_RECORD_METER, at, &time, sizeof time, &len));
    }
    client->budget.month_ms = time.month_ms;
    client->budget.clock_ms = time.clock_ms;
    client->month_ms_saved = time.month_ms;
    return TERN_OK;
}

enum tern_result tern_record_load_meter(struct tern_client *client)
{
    struct tern_client_budget *budget = &client->budget;
    struct meter_head head;
    size_t len = 0;
    TERN_TRY(load(client, TERN_RECORD_METER, 0, &head, sizeof head, &len));
    if (head.format != FORMAT_METER ||
        head.purposes >= (len - sizeof head) / sizeof(struct meter_entry)) {
        return TERN_ERR_CORRUPT;
    }
    memset(&client->meter_all, 0, sizeof client->meter_all);
    TERN_TRY(load(client, TERN_RECORD_METER, sizeof head, client->meter_other,
                  sizeof client->meter_other, &len));
    for (uint32_t i = 0; i < head.purposes; i++) {
        TERN_TRY(load_entry(client, i));
    }
    if (TERN_MONTH_BY_TIME) {
        TERN_TRY(load_time(
            client, sizeof head + (1 + (size_t)head.purposes) * sizeof(struct meter_entry), len));
    }
    budget->month = head.month;
    budget->month_reserved = head.month_reserved;
    budget->month_spent = head.month_reserved;
    budget->round_mean = head.round_mean;
    budget->update_mean = head.update_mean;
    budget->rounds = head.rounds;
    client->meter_loaded = true;
    return TERN_OK;
}
