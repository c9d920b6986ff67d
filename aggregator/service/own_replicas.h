// Replicas of single clients and of groups that missed the same rounds: each is led by the cheapest
// way to weights that are near enough to the global model (downloads/plan.h), and what it was given
// stands in the book of replicas (downloads/replicas.h) before it is told. For the files of
// service/ only, on the service thread.
#ifndef TERN_OWN_REPLICAS_H
#define TERN_OWN_REPLICAS_H

#include "downloads/replicas.h"
#include "service/internal.h"

// A way that was found, for others who hold the same replica and for who asks again.
struct known_way {
    uint8_t held[TERN_SHA256_SIZE];
    struct abilities able;
    bool used;
    bool leads; // else there is no way, and what follows is empty
    uint8_t base[TERN_SHA256_SIZE];
    uint32_t base_version;
    uint32_t count;
    uint8_t sha256[TERN_PLAN_MAX][TERN_SHA256_SIZE];
    uint32_t bytes[TERN_PLAN_MAX];
};

// A download that was made or read while the ways of one client are compared.
struct draft {
    struct tern_db_download row;
    struct tern_blob *blob;
    double residual;
};

#define OWN_WAYS 64
#define OWN_DRAFTS 128 // in one search, of which three are for snapshots

// Searches for one client in one version. A search encodes, while everybody waits; an honest client
// needs one, and another for each of its downloads after which its power is cut.
#define OWN_SEARCHES 32

struct own_replicas {
    struct tern_replica_book book;
    float *slot_memory;
    struct tern_codec snapshots[TERN_PLAN_STARTS];

    struct known_way ways[OWN_WAYS]; // to the version of ways_version
    uint32_t next_way;
    uint32_t ways_version;
    double trunk_residual; // of that version
    double global_norm;    // likewise

    // Of the search under way (own_search.c): where the passes have led to.
    float *weights;
    uint8_t at[TERN_SHA256_SIZE];
    struct draft drafts[OWN_DRAFTS];
    uint32_t draft_count;
    struct tern_plan_work work;
};

// Euclidean norm of a - b, added up in double from first to last.
double own_residual(const float *a, const float *b, uint32_t count);

// The codec of a pass. False: there is no such pass, as codec_down cannot be made that much wider.
bool own_codec(const struct tern_service *service, enum tern_plan_pass pass,
               struct tern_codec *codec);
// Whether there is such a pass, and a client of these abilities reads it.
bool own_pass_reads(const struct tern_service *service, const struct abilities *able,
                    enum tern_plan_pass pass);

// Finds the cheapest way from what a client holds, and stores what is new of it (own_search.c);
// way->leads says whether there is one.
TERN_MUST_USE enum tern_result own_search(struct tern_service *service, const struct client *client,
                                          const uint8_t *held, uint64_t now, struct known_way *way);

// Takes memory as the configuration says; NULL without. The merge's model is there.
struct own_replicas *own_replicas_new(struct tern_service *service);
void own_replicas_free(struct own_replicas *own);

// After the store was loaded, within no transaction: the book from the store.
TERN_MUST_USE enum tern_result own_replicas_load(struct tern_service *service);

// The version just made: its row, its download and its residual. Within the commit's transaction.
TERN_MUST_USE enum tern_result own_replicas_version(struct tern_service *service,
                                                    const struct tern_db_download *download,
                                                    uint64_t now);
// Bytes of downloads were stored, or forgotten, elsewhere.
void own_replicas_count(struct own_replicas *own, uint64_t bytes);
void own_replicas_freed(struct own_replicas *own, uint64_t bytes);

// Once after each commit, when the clients' rows say what they hold.
TERN_MUST_USE enum tern_result own_replicas_collect(struct tern_service *service);

// Adds the downloads and sets the base for a client that trains. *found: else it has no way to this
// version, or asked for too many, and the task is as it was.
TERN_MUST_USE enum tern_result add_own_way(struct tern_service *service, struct client *client,
                                           uint64_t now, tern_Task *task, bool *found);
// Whether one that can take neither the trunk's snapshots nor its chain has no way at all, now or
// later, under either plan.
TERN_MUST_USE enum tern_result own_is_stranded(struct tern_service *service,
                                               const struct client *client, bool *stranded);

#endif
