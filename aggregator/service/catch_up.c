// The trunk, one replica per version that all clients may share: where a client is on it, and the
// downloads that lead it to the newest version. Who trains may be led to a replica of its own
// instead (own_replicas.c), and is where the trunk has no way for it.
#include "service/internal.h"

#include "service/own_replicas.h"
#include <string.h>

static const uint8_t no_replica[TERN_SHA256_SIZE];

struct reader {
    const struct tern_service *service;
    const struct client *client;
};

// What the planner is told of the delta that makes a version. One from before its codec was
// recorded is taken to be readable, as it was then.
static uint32_t delta_bytes(void *ctx, uint32_t version)
{
    const struct reader *reader = ctx;
    const struct delta *delta = &reader->service->deltas[version - 1];
    bool readable = !delta->codec_known || abilities_decode(&reader->client->able, &delta->codec);
    return readable ? delta->size : 0;
}

uint32_t next_delta(const struct tern_service *service, const struct client *client,
                    const struct tern_plan_client *held)
{
    struct reader reader = {service, client};
    bool behind = held->known && held->version < service->merge.version;
    return behind ? delta_bytes(&reader, held->version + 1) : 0;
}

static bool takes_snapshots(const struct client *client)
{
    return abilities_know(&client->able, TERN_CODEC_FLOAT32);
}

// One that holds nothing yet makes the seed's by itself; without a seed it must be given a
// snapshot.
enum tern_result position_of(struct tern_service *service, const struct client *client,
                             struct tern_plan_client *held)
{
    *held = (struct tern_plan_client){.known = true,
                                      .chain_max = client->able.downloads_max,
                                      .no_snapshots = !takes_snapshots(client)};
    if (memcmp(client->replica, no_replica, TERN_SHA256_SIZE) == 0) {
        held->known = tern_db_is_seeded(&service->federation);
        return TERN_OK;
    }
    if (memcmp(client->replica, service->merge.replica_id, TERN_SHA256_SIZE) == 0) {
        held->version = service->merge.version;
        return TERN_OK;
    }
    enum tern_result found =
        tern_db_version_of_replica(service->db, client->replica, &held->version);
    if (found == TERN_ERR_NOT_FOUND) {
        held->known = false;
        return TERN_OK;
    }
    return found;
}

void add_download(tern_Task *task, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t size)
{
    tern_DownloadRef *ref = &task->downloads[task->downloads_count++];
    ref->sha256.size = TERN_SHA256_SIZE;
    memcpy(ref->sha256.bytes, sha256, TERN_SHA256_SIZE);
    ref->size = size;
}

void set_base(tern_Task *task, const uint8_t replica[TERN_SHA256_SIZE], uint32_t version)
{
    task->base.size = TERN_SHA256_SIZE;
    memcpy(task->base.bytes, replica, TERN_SHA256_SIZE);
    task->base_version = version;
}

// Makes and stores the snapshot of the present version, once.
static enum tern_result make_snapshot(struct tern_service *service)
{
    struct tern_merge *merge = &service->merge;
    struct tern_download_made made;
    if (service->snapshot.size != 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_download_snapshot(&merge->model, merge->replica, merge->replica_id,
                                    merge->version, &merge->buffers, &made));
    struct tern_db_download row = {.snapshot = true,
                                   .to_version = merge->version,
                                   .size = (uint32_t)made.len,
                                   .payload = (uint32_t)made.payload};
    tern_codec_format(&made.codec, row.codec);
    memcpy(row.sha256, made.sha256, TERN_SHA256_SIZE);
    memcpy(row.to_replica, merge->replica_id, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_download_put(service->db, &row, merge->buffers.blob));
    own_replicas_count(service->own_replicas, row.size);
    service->snapshot = row;
    service->snapshots = TRUNK_SNAPSHOT_COMMITS;
    return TERN_OK;
}

// A snapshot's size before it is made: exact but for a few bytes of framing.
static uint32_t snapshot_bytes(const struct tern_service *service)
{
    if (service->snapshot.size != 0) {
        return service->snapshot.size;
    }
    return service->merge.model.count * 4;
}

// Where the trunk's chain begins for one whose replica is not on it: at the seed, if it starts over
// from there and there is a delta that does.
static struct tern_plan_client start_of(const struct tern_service *service,
                                        const struct client *client,
                                        const struct tern_plan_client *held)
{
    struct tern_plan_client start = *held;
    if (!held->known && client->able.from_seed && service->merge.version > 0 &&
        tern_model_is_seeded(&service->merge.model)) {
        start.known = true;
        start.version = 0;
    }
    return start;
}

static enum tern_plan plan_from(struct tern_service *service, const struct client *client,
                                const struct tern_plan_client *start)
{
    struct reader reader = {service, client};
    return tern_plan_choose(start, service->merge.version, snapshot_bytes(service), delta_bytes,
                            &reader);
}

static enum tern_plan plan_for(struct tern_service *service, const struct client *client,
                               const struct tern_plan_client *held)
{
    const struct tern_plan_client start = start_of(service, client, held);
    return plan_from(service, client, &start);
}

// Only who takes no snapshots can be left without a way.
enum tern_result is_stranded(struct tern_service *service, const struct client *client,
                             bool *stranded)
{
    struct tern_plan_client held;
    *stranded = false;
    if (takes_snapshots(client)) {
        return TERN_OK;
    }
    TERN_TRY(position_of(service, client, &held));
    *stranded = plan_for(service, client, &held) == TERN_PLAN_NONE;
    return *stranded && !client->evaluator ? own_is_stranded(service, client, stranded) : TERN_OK;
}

enum tern_result add_trunk_way(struct tern_service *service, const struct client *client,
                               const struct tern_plan_client *held, tern_Task *task)
{
    uint32_t version = service->merge.version;
    const struct tern_plan_client start = start_of(service, client, held);
    switch (plan_from(service, client, &start)) {
    case TERN_PLAN_NOTHING:
        break;
    case TERN_PLAN_CHAIN:
        for (uint32_t v = start.version + 1; v <= version; v++) {
            add_download(task, service->deltas[v - 1].sha256, service->deltas[v - 1].size);
        }
        break;
    case TERN_PLAN_SNAPSHOT:
        TERN_TRY(make_snapshot(service));
        add_download(task, service->snapshot.sha256, service->snapshot.size);
        break;
    case TERN_PLAN_NONE:
        return TERN_ERR_STATE;
    }
    set_base(task, service->merge.replica_id, version);
    return TERN_OK;
}

// Under plan = cheapest who has missed no version follows the trunk: its delta is there, and the
// same for all. Under plan = trunk all do whom it has a way for; the others, which take no
// snapshots and hold replicas of their own from before, or are too far behind, are led to one as
// under cheapest.
static bool follows_trunk(struct tern_service *service, const struct client *client,
                          const struct tern_plan_client *held)
{
    uint32_t version = service->merge.version;
    if (service->config.downloads.plan == TERN_DOWNLOADS_TRUNK) {
        return plan_for(service, client, held) != TERN_PLAN_NONE;
    }
    return (held->known && held->version == version) ||
           (held->known && held->version + 1 == version && next_delta(service, client, held) != 0);
}

enum tern_result catch_up_member(struct tern_service *service, uint64_t id,
                                 struct tern_member *member, uint64_t now, tern_Task *task,
                                 bool *found)
{
    struct client *client = client_of(service, id);
    struct tern_plan_client held;
    TERN_TRY(position_of(service, client, &held));
    *found = true;
    if (follows_trunk(service, client, &held)) {
        TERN_TRY(add_trunk_way(service, client, &held, task));
    } else {
        TERN_TRY(add_own_way(service, client, now, task, found));
    }
    if (!*found) {
        return TERN_OK;
    }
    if (member->base_version == task->base_version &&
        memcmp(member->base, task->base.bytes, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    memcpy(member->base, task->base.bytes, TERN_SHA256_SIZE);
    member->base_version = task->base_version;
    return member->state == TERN_MEMBER_TASKED ? store_member(service, member) : TERN_OK;
}
