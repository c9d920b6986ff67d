// Searches for the cheapest downloads that take one client's replica near enough to the global model, and stores those
// that are chosen. catchup.c begins a search for a client that missed rounds.
//
// tern_search_run() encodes, which takes long: any thread may call it. Until it returns, the search and the merge's
// scratch memory belong to that thread, and nothing changes the merge. It reads the store by a connection
// of its own and writes nothing. All other functions run on the thread that owns the store.
#ifndef TERN_DOWNLOADS_SEARCH_H
#define TERN_DOWNLOADS_SEARCH_H

#include "downloads/abilities.h"
#include "downloads/blobs.h"
#include "downloads/plan.h"
#include "downloads/replicas.h"
#include "merge/merge.h"

// Weights of a replica, model->count values, in memory or in a file without a name.
struct tern_replica_slot {
    uint8_t id[TERN_SHA256_SIZE];
    uint64_t used;  // when a search used the weights last; 0 = the weights are of no replica
    float *weights; // NULL: not allocated yet
    bool in_file;   // the weights are in an unnamed file
};

// The facts about the client and the trunk that determine a search's result.
struct tern_search_question {
    struct tern_abilities able;
    uint8_t replica[TERN_SHA256_SIZE]; // the client's replica
    bool replica_is_newest;            // the client's replica is of the newest version
    bool newest_only;                  // a replica of an older version is never near enough
    double bound;         // largest residual after the downloads, unless rounding alone leaves more
    uint32_t chain;       // deltas of the trunk from the client's replica; 0 = no chain
    uint64_t chain_bytes; // their total size
    struct tern_codec trunk_codec; // of the newest version's delta
};

// A download that a search made, or found in the store. Only chosen ones are stored.
struct tern_draft {
    struct tern_db_download row;
    struct tern_blob *blob;
    double residual; // of the replica that the download makes
};

#define TERN_SEARCH_DRAFTS (TERN_PLAN_STARTS * (TERN_PLAN_PASSES_MAX + 1))

struct tern_search {
    const struct tern_merge *merge;
    struct tern_db *reader;   // the connection of tern_search_run()
    const char *spool_folder; // for unnamed files with large blobs; NULL = in memory
    struct tern_codec codec;  // that the settings name for downloads
    struct tern_replica_reader replicas;
    struct tern_replica_slot *slots;
    uint32_t slot_count;
    uint32_t memory_slots; // number of the first slots that are in memory; the others have files
    uint64_t clock;
    struct tern_codec snapshots[TERN_PLAN_STARTS];

    struct tern_search_question question;
    // The scratch is the merge's. A search makes the blob, which may be freed between searches.
    struct tern_download_buffers buffers;
    double keep_max; // largest residual at which the client keeps its replica
    double bound;    // largest residual after downloads

    // The result of tern_search_run(), from here on.
    struct tern_plan_choice choice;
    uint8_t chosen_id[TERN_SHA256_SIZE];  // the replica that the chosen passes make
    struct tern_replica_slot *slot;       // whose weights the search changes; NULL: no search runs
    float *weights;                       // the slot's, of the replica weights_id
    uint8_t weights_id[TERN_SHA256_SIZE]; // zeros: the weights are of no replica
    struct tern_draft drafts[TERN_SEARCH_DRAFTS];
    uint32_t draft_count;
};

// Prepares searches. The caller has set the merge, the reader, the folder and the codec. memory_bytes: most bytes of replicas'
// weights in memory and of the open round's sums together; file_bytes: of weights in files, none without a folder. One replica
// has a slot at least.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_search_init(struct tern_search *search, uint64_t memory_bytes,
                                                uint64_t file_bytes);
void tern_search_free(struct tern_search *search);

// Whether a search can find downloads that the client decodes. knows_replica: the store has the client's replica, or deltas
// can begin at the seed. trunk_codec: of the newest version's delta
bool tern_search_serves(const struct tern_search *search, const struct tern_abilities *able,
                        bool knows_replica, const struct tern_codec *trunk_codec);

// Answers search->question: sets the choice, and makes its downloads. tern_search_store() or tern_search_free() follows, also
// after an error.
TERN_MUST_USE enum tern_result tern_search_run(struct tern_search *search);

// Ends the search. For a choice of passes it first stores their downloads and replicas, in a transaction, and sets the path's
// downloads and base. Stores up to 1 MiB of bytes at once: *more: some are missing, and the search has not ended; call again
// with an empty path, also in another transaction.
TERN_MUST_USE enum tern_result tern_search_store(struct tern_search *search,
                                                 struct tern_download_store *store,
                                                 struct tern_replica_book *book, uint64_t now,
                                                 struct tern_path *path, bool *more);

#endif
