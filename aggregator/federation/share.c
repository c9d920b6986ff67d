// ScaleCom's rounds: the leader's indices are taken out of its update, given to the others as a
// download, and put back into their updates before anybody looks at them. Nothing of this is
// stored: after a restart the indices are made out of the leader's stored update again.
#include "federation/internal.h"

#include "codec/sparse_share.h"
#include "rounds/leader.h"
#include <stdlib.h>
#include <string.h>

// --- Waiting for the leader

// The codec of the open round's updates. False: its clients share nothing.
static bool shares(const struct tern_federation *federation, struct tern_codec *codec)
{
    return federation->machine.open &&
           tern_codec_parse(federation->row.codec_up, codec, NULL) == TERN_OK &&
           tern_codec_entry(codec->id)->follows_leader;
}

static bool may_report(const struct tern_federation *federation, const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           client != NULL && !client->row.revoked &&
           !tern_reliability_has_failed(federation, member);
}

// The leader whose update would give the others their indices; 0 once there is no such.
static uint64_t awaited_leader(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_codec codec;
    if (!shares(federation, &codec) || federation->indices.refused == machine->round ||
        now >= tern_round_leader_until_ms(machine)) {
        return 0;
    }
    uint64_t leader = tern_round_leader(machine);
    const struct tern_member *member = tern_round_member(machine, leader);
    return member != NULL && may_report(federation, member) ? leader : 0;
}

bool tern_share_is_on(const struct tern_federation *federation)
{
    struct tern_codec codec;
    return shares(federation, &codec);
}

bool tern_share_waits(const struct tern_federation *federation, uint64_t id, uint64_t now)
{
    uint64_t leader = awaited_leader(federation, now);
    const struct tern_member *member = tern_round_member(&federation->machine, id);
    // A task that was given stays.
    return leader != 0 && leader != id && member != NULL && member->local_steps == 0;
}

void tern_share_watch(struct tern_federation *federation, uint64_t now)
{
    bool awaited = awaited_leader(federation, now) != 0;
    federation->moved = federation->moved || (federation->indices.awaited && !awaited);
    federation->indices.awaited = awaited;
}

void tern_share_refused(struct tern_federation *federation, uint64_t id)
{
    struct tern_codec codec;
    if (shares(federation, &codec) && tern_round_leader(&federation->machine) == id) {
        federation->indices.refused = federation->machine.round;
    }
}

// --- Making the download

// Without memory, or with an update that lists no indices, the round has none to share.
static void make_indices(struct tern_federation *federation, const struct tern_codec *codec,
                         struct tern_span container)
{
    const struct tern_merge *merge = &federation->merge;
    struct tern_download_made made;
    enum tern_result result =
        tern_download_indices(&merge->model, codec, container.data, container.len, merge->version,
                              &merge->buffers, &made);
    struct tern_blob *blob = result == TERN_OK ? tern_blob_new(made.len) : NULL;
    if (blob == NULL) {
        tern_log(TERN_LOG_WARN, "no-indices", "round=%u reason=%s", federation->machine.round,
                 tern_result_name(result != TERN_OK ? result : TERN_ERR_NO_MEMORY));
        return;
    }
    memcpy(blob->data, merge->buffers.blob, made.len);
    memcpy(federation->indices.sha256, made.sha256, TERN_SHA256_SIZE);
    federation->indices.payload = (uint32_t)made.payload;
    tern_published_set_indices(&federation->published, federation->machine.round, blob);
}

void tern_share_publish(struct tern_federation *federation, const struct tern_incoming *update,
                        uint64_t now)
{
    struct tern_codec codec;
    if (shares(federation, &codec) && awaited_leader(federation, now) == update->client) {
        make_indices(federation, &codec, update->container);
    }
}

struct stored_update {
    uint64_t client;
    enum tern_result (*take)(void *ctx, const tern_Update *message, struct tern_span container);
    void *ctx;
};

static enum tern_result take_if_wanted(void *ctx, const struct tern_db_update *row)
{
    const struct stored_update *wanted = ctx;
    tern_Update message;
    struct tern_span container;
    if (row->client != wanted->client || row->body == NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(row->body, row->body_len, &message, &container));
    return wanted->take(wanted->ctx, &message, container);
}

static enum tern_result take_leaders(void *ctx, const tern_Update *message,
                                     struct tern_span container)
{
    struct tern_federation *federation = ctx;
    struct tern_codec codec;
    (void)message;
    if (shares(federation, &codec)) {
        make_indices(federation, &codec, container);
    }
    return TERN_OK;
}

enum tern_result tern_share_load(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_codec codec;
    federation->indices.awaited = false;
    tern_published_set_indices(&federation->published, 0, NULL);
    if (!shares(federation, &codec)) {
        return TERN_OK;
    }
    const struct tern_member *leader = tern_round_member(machine, tern_round_leader(machine));
    if (leader == NULL || leader->state != TERN_MEMBER_REPORTED ||
        leader->reported_ms >= tern_round_leader_until_ms(machine)) {
        return TERN_OK;
    }
    struct stored_update wanted = {leader->client, take_leaders, federation};
    return tern_db_update_each(federation->db, machine->round, take_if_wanted, &wanted);
}

void tern_share_add(struct tern_federation *federation, uint64_t id, tern_Task *task)
{
    struct tern_blob *blob =
        tern_published_indices(&federation->published, federation->machine.round);
    if (blob == NULL || id == tern_round_leader(&federation->machine)) {
        tern_blob_release(blob);
        return;
    }
    task->has_indices = true;
    task->indices.sha256.size = TERN_SHA256_SIZE;
    memcpy(task->indices.sha256.bytes, federation->indices.sha256, TERN_SHA256_SIZE);
    task->indices.size = (uint32_t)blob->len;
    tern_blob_release(blob);
}

// --- Putting the indices back

// Encodes the update again around the joined container.
static enum tern_result rebuild(struct tern_incoming *update, struct tern_span container)
{
    size_t size = container.len + TERN_WIRE_OVERHEAD;
    size_t len = 0;
    update->joined = malloc(size);
    if (update->joined == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_wire_encode_update(&update->message, container, update->joined, size, &len));
    update->body = (struct tern_span){update->joined, len};
    tern_sha256(update->joined, len, update->sha256);
    return tern_wire_decode_update(update->joined, len, &update->message, &update->container);
}

static enum tern_result join(const struct tern_model *model, struct tern_span indices,
                             struct tern_incoming *update)
{
    size_t bound = tern_sparse_join_bound(model, indices.len, update->container.len);
    struct tern_span joined = {NULL, 0};
    uint8_t *container = malloc(bound);
    if (container == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result =
        tern_sparse_join(model, indices.data, indices.len, update->container.data,
                         update->container.len, container, bound, &joined.len);
    joined.data = container;
    if (result == TERN_OK) {
        result = rebuild(update, joined);
    }
    free(container);
    return result;
}

enum tern_result tern_share_join(struct tern_federation *federation, struct tern_incoming *update)
{
    tern_Download message;
    struct tern_span indices;
    struct tern_blob *blob = tern_published_indices(&federation->published, update->round);
    if (blob == NULL) {
        return TERN_ERR_STATE;
    }
    enum tern_result result = tern_wire_decode_download(blob->data, blob->len, &message, &indices);
    if (result == TERN_OK) {
        result = join(&federation->merge.model, indices, update);
    }
    tern_blob_release(blob);
    return result;
}

// --- An update that comes again after its round

struct comparison {
    const struct tern_model *model;
    const struct tern_incoming *update;
    bool same;
};

static enum tern_result compare_stripped(void *ctx, const tern_Update *message,
                                         struct tern_span container)
{
    struct comparison *comparison = ctx;
    const struct tern_incoming *update = comparison->update;
    uint8_t *stripped = malloc(container.len);
    size_t len = 0;
    if (stripped == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_sparse_strip(comparison->model, container.data, container.len,
                                                stripped, container.len, &len);
    comparison->same = result == TERN_OK && message->shared_indices &&
                       message->num_examples == update->message.num_examples &&
                       message->local_steps == update->message.local_steps &&
                       len == update->container.len &&
                       memcmp(stripped, update->container.data, len) == 0;
    free(stripped);
    return TERN_OK;
}

// One whose body is no longer kept is known by its sequence number alone.
enum tern_result tern_share_same(struct tern_federation *federation,
                                 const struct tern_incoming *update, bool *same)
{
    struct tern_db_update stored;
    *same = false;
    if (update->parsed != TERN_ERR_STATE || !update->message.shared_indices) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_update_find(federation->db, update->round, update->client, &stored));
    if (stored.sequence != update->sequence) {
        return TERN_OK;
    }
    struct comparison comparison = {&federation->merge.model, update, true};
    struct stored_update wanted = {update->client, compare_stripped, &comparison};
    TERN_TRY(tern_db_update_each(federation->db, update->round, take_if_wanted, &wanted));
    *same = comparison.same;
    return TERN_OK;
}
