// What the aggregator keeps: clients, rounds, updates, error ledger, replicas, downloads, schedule
// and meter. Declared for the round machine and the admin side; store_sqlite*.c implement it and
// are the only files that know SQLite. Behaviour is stated per operation, so that another database
// can take its place.
//
// Thread rule: one tern_db is used by one thread. Several processes may have the same file open:
// the service and the command line do. Every write happens between tern_db_begin() and
// tern_db_commit(); when commit returns TERN_OK the writes survive a power cut.
//
// Every function may return TERN_ERR_IO (disk, damaged file; tern_db_error() has the sentence);
// only further results are listed. Times are Unix milliseconds.
#ifndef TERN_STORE_H
#define TERN_STORE_H

#include "meter/meter.h"
#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_db;

#define TERN_DB_NAME_MAX 64
#define TERN_DB_STRATEGY_MAX 24
#define TERN_DB_CODEC_MAX 64
#define TERN_DB_PARAMETERS_MAX 160
#define TERN_DB_REASON_MAX 160

// --- Life
// -------------------------------------------------------------------------------------------

struct tern_db_federation {
    char model_spec[64];
    uint64_t seed; // of the initial weights, cohorts and batches
    uint8_t model_hash[TERN_SHA256_SIZE];
    uint64_t created_ms;
    // The manifest that the model is built from (tensor/manifest.h), or NULL when its spec alone
    // gives it; and a JSON object for people that came with it, or NULL. What tern_db_federation()
    // returns is the database's until it is closed.
    const uint8_t *manifest;
    size_t manifest_len;
    const char *metadata;
    // Tensors that came with it and are not trained, as a safetensors file, or NULL. Only to make a
    // file with: tern_db_federation() leaves them out, tern_db_kept_get() reads them.
    const uint8_t *kept;
    size_t kept_len;
};

// Whether every client makes version 0 by itself, from the seed. Else its weights are stored
// (TERN_WEIGHTS_INITIAL), and who holds nothing yet must be given a snapshot.
static inline bool tern_db_is_seeded(const struct tern_db_federation *federation)
{
    return federation->manifest == NULL;
}

// Makes a new file with the newest schema. TERN_ERR_CONFLICT  the file is there already.
TERN_MUST_USE enum tern_result
tern_db_create(const char *path, const struct tern_db_federation *federation, char why[256]);

// Likewise, for a federation that is not seeded: with the weights of version 0, in layout order.
TERN_MUST_USE enum tern_result
tern_db_create_with_weights(const char *path, const struct tern_db_federation *federation,
                            const float *weights, uint32_t count, char why[256]);

// Opens a file, bringing an older schema up to date.
// TERN_ERR_NOT_FOUND  no such file; TERN_ERR_UNKNOWN  the schema is newer than this program
TERN_MUST_USE enum tern_result tern_db_open(const char *path, struct tern_db **db, char why[256]);
void tern_db_close(struct tern_db *db);
const char *tern_db_error(const struct tern_db *db);

// Whether a TERN_ERR_IO since the opening was due to a damaged file, which no repetition mends, and
// not to the disk.
bool tern_db_damaged(const struct tern_db *db);

TERN_MUST_USE enum tern_result tern_db_federation(struct tern_db *db,
                                                  struct tern_db_federation *federation);

// Reads the tensors that are kept, a safetensors file: malloc'ed, the caller's.
// TERN_ERR_NOT_FOUND  there are none; TERN_ERR_NO_MEMORY; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_db_kept_get(struct tern_db *db, uint8_t **kept, size_t *len);

// begin waits for other processes' writes for up to 5 s, then TERN_ERR_BUSY.
// A write outside of them, or begin inside of them, is TERN_ERR_STATE. When a write failed by
// TERN_ERR_IO, _BUSY or _NO_MEMORY, commit returns TERN_ERR_IO and rolls back; after other results
// of a write the transaction may go on.
TERN_MUST_USE enum tern_result tern_db_begin(struct tern_db *db);
TERN_MUST_USE enum tern_result tern_db_commit(struct tern_db *db);
void tern_db_rollback(struct tern_db *db);

// From here to tern_db_rollback() all reads see the database as it is at the first of them, while
// others go on writing. TERN_ERR_STATE  within a transaction
TERN_MUST_USE enum tern_result tern_db_begin_reading(struct tern_db *db);

// Whether another process has written since the last call (a revocation, a new code).
bool tern_db_changed_by_others(struct tern_db *db);

// Writes a consistent copy that tern_db_open() opens; the service may go on writing meanwhile.
// TERN_ERR_CONFLICT  the file is there already; TERN_ERR_STATE  within a transaction
TERN_MUST_USE enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256]);

// Reads every page and index and compares them. TERN_ERR_IO  the file is damaged
TERN_MUST_USE enum tern_result tern_db_check(struct tern_db *db);

// --- Clients and join codes
// -----------------------------------------------------------------------

struct tern_db_client {
    uint64_t id; // set by tern_db_client_add(): 1, 2, ...
    char name[TERN_DB_NAME_MAX];
    char platform[TERN_DB_NAME_MAX];
    uint8_t token_hash[TERN_SHA256_SIZE]; // of the bearer token; the token itself is not kept
    bool evaluator;
    bool revoked;
    uint64_t created_ms;
    uint64_t last_seen_ms;             // 0 = never
    float steps_per_second;            // measured, 0 unknown
    uint8_t replica[TERN_SHA256_SIZE]; // as last reported; zeros = none
    uint32_t version;
    uint32_t codecs;        // as last announced, bit i for codec id i; 0 = has not said
    uint32_t coders;        // likewise, bit i for ternary coder i
    uint32_t downloads_max; // likewise, in one task; 0 = the protocol's limit
    bool from_seed;         // likewise: applies a delta from the seed's replica whatever it holds
    bool step_ahead;        // likewise: can start training ahead of its replica
    bool has_psk;           // it has a pre-shared key; set by tern_db_psk_put() alone
    // Conditions as last reported.
    bool metered;
    bool budgeted;         // budget_left says something
    uint64_t budget_left;  // bytes
    uint64_t budget_spent; // about, in rounds since it said so
    bool budget_renewed;   // it did not shrink over the last round
    uint32_t power;        // tern_Power of tern.proto
};

// TERN_ERR_CONFLICT  another client has this token_hash
TERN_MUST_USE enum tern_result tern_db_client_add(struct tern_db *db,
                                                  struct tern_db_client *client);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_get(struct tern_db *db, uint64_t id,
                                                  struct tern_db_client *client);
// Who has this token: its SHA-256. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_find(struct tern_db *db,
                                                   const uint8_t token_hash[TERN_SHA256_SIZE],
                                                   struct tern_db_client *client);
// Replaces everything but id, token_hash, has_psk and created_ms. A client that is revoked stays
// revoked, whatever client->revoked says: the command line may have revoked it a moment ago.
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_update(struct tern_db *db,
                                                     const struct tern_db_client *client);

// Its pre-shared key is forgotten. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id);

// Calls visit for each client in id order until it returns false. Here and below: visit may read
// from db, and may write what it is not being shown.
TERN_MUST_USE enum tern_result
tern_db_client_each(struct tern_db *db,
                    bool (*visit)(void *ctx, const struct tern_db_client *client), void *ctx);

// The pre-shared key of a client, which the handshake needs as it is: unlike a token it cannot be
// kept as a hash.
// TERN_ERR_CONFLICT  it has one; NOT_FOUND  no such client
TERN_MUST_USE enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                               const uint8_t key[TERN_SHA256_SIZE]);
// Calls visit for each key in the order of the clients' ids until it returns false.
TERN_MUST_USE enum tern_result tern_db_psk_each(struct tern_db *db,
                                                bool (*visit)(void *ctx, uint64_t client,
                                                              const uint8_t key[TERN_SHA256_SIZE]),
                                                void *ctx);

struct tern_db_code {
    uint8_t hash[TERN_SHA256_SIZE]; // of the code; the code itself is not kept
    char label[TERN_DB_NAME_MAX];
    uint32_t uses_left;
    uint64_t expires_ms;
    uint64_t created_ms;
};

// TERN_ERR_CONFLICT  the code is there already
TERN_MUST_USE enum tern_result tern_db_code_add(struct tern_db *db,
                                                const struct tern_db_code *code);
// Takes one use. NOT_FOUND: no such code, used up, or expired at now_ms (which one is not told).
TERN_MUST_USE enum tern_result
tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE], uint64_t now_ms);
// Used-up and expired ones too, oldest first.
TERN_MUST_USE enum tern_result
tern_db_code_each(struct tern_db *db, bool (*visit)(void *ctx, const struct tern_db_code *code),
                  void *ctx);

// --- Rounds, assignments, updates
// ------------------------------------------------------------------------

enum tern_db_round_state {
    TERN_ROUND_OPEN = 0,
    TERN_ROUND_COMMITTED = 1,
};

struct tern_db_round {
    uint32_t round; // 1, 2, ...
    enum tern_db_round_state state;
    uint32_t base_version;
    uint32_t target; // updates wanted
    uint32_t quorum; // updates needed
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint64_t closed_ms; // 0 while open
    uint32_t applied;   // updates aggregated
    float mean_loss;    // num_examples-weighted
    uint32_t attempts;  // cohort draws so far: 1, and one more for each that replaced members
    // What the merge depends on, kept so that a later configuration does not change a replay.
    char strategy[TERN_DB_STRATEGY_MAX];
    float server_learning_rate;
    char codec_up[TERN_DB_CODEC_MAX];   // spec string of the updates
    char codec_down[TERN_DB_CODEC_MAX]; // spec string of the download made at the commit
    float learning_rate;                // of local training
    // The strategy's own numbers, e.g. "beta1=0.9,beta2=0.99,tau=0.001"; "" = it has none.
    char strategy_parameters[TERN_DB_PARAMETERS_MAX];
    // Of its updates, at the commit; 0 = not known.
    float median_loss; // of its members', unweighted
    float variance;    // mean of their squared norms minus the squared norm of their mean
    float local_steps; // mean, weighted by num_examples
};

// Inserts or replaces. TERN_ERR_CONFLICT  the round is committed already, and stays so.
TERN_MUST_USE enum tern_result tern_db_round_put(struct tern_db *db,
                                                 const struct tern_db_round *round);
TERN_MUST_USE enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round,
                                                 struct tern_db_round *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_round_last(struct tern_db *db,
                                                  struct tern_db_round *out); // NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_round_each(struct tern_db *db, bool (*visit)(void *ctx, const struct tern_db_round *round),
                   void *ctx);

enum tern_db_assignment_state {
    TERN_ASSIGNMENT_INVITED = 0,  // sampled, has not come yet
    TERN_ASSIGNMENT_TASKED = 1,   // has its task
    TERN_ASSIGNMENT_REPORTED = 2, // its update is accepted
    TERN_ASSIGNMENT_REPLACED = 3, // did not report; another was invited in its place
};

struct tern_db_assignment {
    uint32_t round;
    uint64_t client;
    enum tern_db_assignment_state state;
    uint32_t local_steps;
    uint64_t invited_ms;
    uint64_t tasked_ms;   // 0 = not yet
    uint64_t reported_ms; // 0 = not yet; in other states than REPORTED: came late, was given back
    // Its task; zeros and "" while it has none.
    uint8_t base[TERN_SHA256_SIZE]; // replica that it trains from
    uint32_t base_version;
    char codec[TERN_DB_CODEC_MAX]; // of its update; "" = the round's
    uint32_t directive;            // for its error buffer: tern_ErrorDirective of tern.proto
    float factor;                  // of the directive
};

// Inserts or replaces. NOT_FOUND: no such round or client.
TERN_MUST_USE enum tern_result tern_db_assignment_put(struct tern_db *db,
                                                      const struct tern_db_assignment *assignment);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round,
                                                      uint64_t client,
                                                      struct tern_db_assignment *out);
// In client order.
TERN_MUST_USE enum tern_result
tern_db_assignment_each(struct tern_db *db, uint32_t round,
                        bool (*visit)(void *ctx, const struct tern_db_assignment *assignment),
                        void *ctx);

struct tern_db_update {
    uint32_t round;
    uint64_t client;
    uint32_t sequence;
    uint8_t sha256[TERN_SHA256_SIZE]; // of body
    const uint8_t *body;              // the Update message as received
    size_t body_len;
    uint64_t received_ms;
    uint32_t merged; // round that it counts in; 0 = its own
};

// Stores an update; (round, client) is its key. TERN_ERR_CONFLICT  one is stored under it already;
// NOT_FOUND  no such round or client; TERN_ERR_TOO_LARGE  above 1,000,000,000 bytes
TERN_MUST_USE enum tern_result tern_db_update_put(struct tern_db *db,
                                                  const struct tern_db_update *update);
// What is stored under (round, client), body NULL. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round,
                                                   uint64_t client, struct tern_db_update *out);
// Those that count in `round`, in (client, round) order; body is valid during the call only, was
// checked against sha256, and is NULL once tern_db_update_prune() has dropped it. Stops early when
// visit is not TERN_OK and returns what it returned.
TERN_MUST_USE enum tern_result
tern_db_update_each(struct tern_db *db, uint32_t round,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);

// Retention: drops the bodies of updates that count in rounds before `before_round`, and in no
// later one. What they were stays on record; those rounds can then no longer be replayed.
TERN_MUST_USE enum tern_result tern_db_update_prune(struct tern_db *db, uint32_t before_round);

// --- Model state
// ----------------------------------------------------------------------------------------

enum tern_db_weights {
    TERN_WEIGHTS_GLOBAL = 0,  // the global model
    TERN_WEIGHTS_REPLICA = 1, // the shared replica
    TERN_WEIGHTS_INITIAL = 2, // version 0 of a federation that is not seeded; kept for replays
};

// Keeps the newest weights of a kind, replacing the one before. count float32 values.
TERN_MUST_USE enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t version, const float *weights,
                                                   uint32_t count);
// NOT_FOUND; TERN_ERR_CORRUPT when count differs. On error weights are unspecified.
TERN_MUST_USE enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t *version, float *weights,
                                                   uint32_t count);

// What a strategy carries from round to round, such as a momentum "m": count float32 values that go
// with a version. keep: forgets those of all other versions.
TERN_MUST_USE enum tern_result tern_db_state_put(struct tern_db *db, const char *name,
                                                 uint32_t version, const float *values,
                                                 uint32_t count);
TERN_MUST_USE enum tern_result tern_db_state_keep(struct tern_db *db, uint32_t version);
// NOT_FOUND: nothing of that name and version. On error values are unspecified.
TERN_MUST_USE enum tern_result tern_db_state_get(struct tern_db *db, const char *name,
                                                 uint32_t version, float *values, uint32_t count);

// One row per version: its replica id and the global model's hash.
struct tern_db_version {
    uint32_t version; // 0 = the seed
    uint32_t round;   // that made it, 0 for the seed
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t model_sha256[TERN_SHA256_SIZE]; // of the global model's little-endian float32
    uint64_t created_ms;
};
TERN_MUST_USE enum tern_result tern_db_version_put(struct tern_db *db,
                                                   const struct tern_db_version *version);
TERN_MUST_USE enum tern_result tern_db_version_get(struct tern_db *db, uint32_t version,
                                                   struct tern_db_version *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_version_last(struct tern_db *db,
                                                    struct tern_db_version *out); // NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_version_each(struct tern_db *db,
                     bool (*visit)(void *ctx, const struct tern_db_version *version), void *ctx);
TERN_MUST_USE enum tern_result tern_db_version_of_replica(struct tern_db *db,
                                                          const uint8_t replica[TERN_SHA256_SIZE],
                                                          uint32_t *version); // NOT_FOUND

// --- Downloads
// --------------------------------------------------------------------------------------------

struct tern_db_download {
    uint8_t sha256[TERN_SHA256_SIZE];
    bool snapshot;
    uint32_t from_version; // 0 for a snapshot
    uint32_t to_version;
    uint32_t size;
    uint32_t payload;                       // bytes of its container
    char codec[TERN_DB_CODEC_MAX];          // spec it was made with
    uint8_t from_replica[TERN_SHA256_SIZE]; // zeros for a snapshot
    uint8_t to_replica[TERN_SHA256_SIZE];
};

// Stores a download; one that is there already is left as it is.
TERN_MUST_USE enum tern_result tern_db_download_put(struct tern_db *db,
                                                    const struct tern_db_download *download,
                                                    const uint8_t *blob);
// The description, and the blob when dst is not NULL (dst_size >= size, else NO_SPACE). NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_download_get(struct tern_db *db,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_db_download *out, uint8_t *dst,
                                                    size_t dst_size);
// The trunk's that end at to_version: the delta (snapshot = false) or the snapshot. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version,
                                                   bool snapshot, struct tern_db_download *out);
// Forgets every snapshot that ends before to_version, but those that opened a replica; deltas stay.
// *freed: their bytes.
TERN_MUST_USE enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version,
                                                      uint64_t *freed);

// --- Replicas
// ---------------------------------------------------------------------------------------------

// How a replica's weights are kept.
enum tern_db_replica_form {
    TERN_REPLICA_SEED = 0,     // the seed makes them
    TERN_REPLICA_STEP = 1,     // the parent's with the download added
    TERN_REPLICA_SNAPSHOT = 2, // the download alone
    TERN_REPLICA_WHOLE = 3,    // tern_db_replica_weights_put()
};

struct tern_db_replica {
    uint8_t id[TERN_SHA256_SIZE];
    enum tern_db_replica_form form;
    bool trunk;                         // the replica of a version
    bool suspect;                       // nobody may need it any more
    uint8_t parent[TERN_SHA256_SIZE];   // of a step; else zeros
    uint8_t download[TERN_SHA256_SIZE]; // of a step and a snapshot; else zeros
    uint32_t version;                   // of the global model that it was made towards
    uint32_t depth;                     // downloads to add to what is kept whole
    uint64_t bytes;                     // of those
    float residual;                     // Euclidean norm of that global model minus the replica
    uint64_t used_ms;                   // somebody moved on from it or to it
    uint32_t children;                  // set by the store: replicas whose parent it is
};

// One that is there already is left as it is; a step's parent has a child more.
// NOT_FOUND  the parent is not there
TERN_MUST_USE enum tern_result tern_db_replica_put(struct tern_db *db,
                                                   const struct tern_db_replica *replica);
TERN_MUST_USE enum tern_result tern_db_replica_get(struct tern_db *db,
                                                   const uint8_t id[TERN_SHA256_SIZE],
                                                   struct tern_db_replica *out); // NOT_FOUND
// The next two do nothing where there is no such replica.
TERN_MUST_USE enum tern_result
tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t now_ms);
TERN_MUST_USE enum tern_result
tern_db_replica_suspect(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], bool suspect);
// Whether a client holds it, as the table of clients says.
TERN_MUST_USE enum tern_result tern_db_replica_held(struct tern_db *db,
                                                    const uint8_t id[TERN_SHA256_SIZE], bool *held);
// Forgets a replica, its weights and every download from it or to it; its parent has a child less
// and is suspect. *freed: bytes of those weights and downloads.
// TERN_ERR_STATE  it has children; NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_replica_drop(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t *freed);
// Up to `max` ids: of suspects, those of the lowest versions first; of replicas without children
// that were made towards versions before `before`, the least recently used first.
TERN_MUST_USE enum tern_result tern_db_replica_suspects(struct tern_db *db,
                                                        uint8_t (*ids)[TERN_SHA256_SIZE],
                                                        uint32_t max, uint32_t *count);
TERN_MUST_USE enum tern_result tern_db_replica_unused(struct tern_db *db, uint32_t before,
                                                      uint8_t (*ids)[TERN_SHA256_SIZE],
                                                      uint32_t max, uint32_t *count);
// In (version, id) order; clients: how many hold it.
TERN_MUST_USE enum tern_result tern_db_replica_each(
    struct tern_db *db,
    bool (*visit)(void *ctx, const struct tern_db_replica *replica, uint64_t clients), void *ctx);

// The weights of a replica that is kept whole. put: it is one from then on, no step of its parent,
// which has a child less and is suspect. Errors as of the newest weights.
TERN_MUST_USE enum tern_result tern_db_replica_weights_put(struct tern_db *db,
                                                           const uint8_t id[TERN_SHA256_SIZE],
                                                           const float *weights, uint32_t count);
TERN_MUST_USE enum tern_result tern_db_replica_weights_get(struct tern_db *db,
                                                           const uint8_t id[TERN_SHA256_SIZE],
                                                           float *weights, uint32_t count);

// A delta from one replica, made by this codec towards this version. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_edge_find(struct tern_db *db,
                                                 const uint8_t from[TERN_SHA256_SIZE],
                                                 uint32_t to_version, const char *codec,
                                                 struct tern_db_download *out);
// The first `max` deltas from a replica, those towards the newest versions first.
TERN_MUST_USE enum tern_result tern_db_edge_list(struct tern_db *db,
                                                 const uint8_t from[TERN_SHA256_SIZE],
                                                 struct tern_db_download *out, uint32_t max,
                                                 uint32_t *count);
// The snapshot of a version made by this codec that opened a replica of its own. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_snapshot_find(struct tern_db *db, uint32_t to_version,
                                                     const char *codec,
                                                     struct tern_db_download *out);
struct tern_db_replica_totals {
    uint64_t replicas;
    uint64_t trunk;          // of these, those of versions
    uint64_t whole;          // of these, those kept whole
    uint64_t whole_bytes;    // of those
    uint64_t downloads;      // deltas and snapshots
    uint64_t download_bytes; // of those
};
TERN_MUST_USE enum tern_result tern_db_replica_totals(struct tern_db *db,
                                                      struct tern_db_replica_totals *totals);

// --- Error ledger, schedule, evaluations, meter
// -------------------------------------------------------------

struct tern_db_ledger {
    uint64_t client;
    uint32_t generation;
    uint32_t sequence;
    float norm;
    float maximum;
    uint32_t round; // of the last accepted update, like what follows; 0 = none
    float loss;
    uint32_t update_bytes; // of the last accepted update
    // What has become of the buffer (rounds/error_watch.h).
    uint32_t previous_generation; // 0 = none
    uint32_t finding;             // 0 = nothing unusual
    uint64_t finding_ms;
    uint32_t finding_generation; // that was present when it was found
    // The first round that, if missed, no decay or reset was for yet, unless `round` is as late; 0
    // = it has had no task.
    uint32_t missed_from;
    // Of whose task a decay or reset for the rounds before is not known to be done yet; 0 = none.
    uint32_t told_round;
    // What it was last told to do with it, and why, for people.
    uint32_t directive; // tern_ErrorDirective of tern.proto
    float factor;
    char reason[TERN_DB_REASON_MAX]; // "decayed 0.7: 12 rounds missed"
};
// The puts below insert or replace. NOT_FOUND: no such client.
TERN_MUST_USE enum tern_result tern_db_ledger_put(struct tern_db *db,
                                                  const struct tern_db_ledger *ledger);
TERN_MUST_USE enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client,
                                                  struct tern_db_ledger *out); // NOT_FOUND
// In client order.
TERN_MUST_USE enum tern_result
tern_db_ledger_each(struct tern_db *db,
                    bool (*visit)(void *ctx, const struct tern_db_ledger *ledger), void *ctx);

struct tern_db_schedule {
    uint64_t client;
    uint32_t local_steps;
    char reason[TERN_DB_REASON_MAX]; // "deadline: 41 steps/s x 30 s x 0.5"
    uint64_t updated_ms;
    char codec[TERN_DB_CODEC_MAX]; // of its updates; "" = the round's
    char policy[TERN_DB_NAME_MAX]; // that said so
    uint64_t bytes;                // that a round is expected to take; 0 = not known
    uint64_t least_bytes;          // that it could be brought down to; 0 = not known
};
TERN_MUST_USE enum tern_result tern_db_schedule_put(struct tern_db *db,
                                                    const struct tern_db_schedule *schedule);
TERN_MUST_USE enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                                    struct tern_db_schedule *out); // NOT_FOUND
// In client order.
TERN_MUST_USE enum tern_result
tern_db_schedule_each(struct tern_db *db,
                      bool (*visit)(void *ctx, const struct tern_db_schedule *schedule), void *ctx);

struct tern_db_evaluation {
    uint32_t version;
    uint64_t client;
    uint32_t num_examples;
    float loss;
    float accuracy;
};
TERN_MUST_USE enum tern_result tern_db_evaluation_put(struct tern_db *db,
                                                      const struct tern_db_evaluation *evaluation);
TERN_MUST_USE enum tern_result
tern_db_evaluation_each(struct tern_db *db,
                        bool (*visit)(void *ctx, const struct tern_db_evaluation *evaluation),
                        void *ctx);

struct tern_db_meter {
    uint64_t client; // 0 = peers that never authenticated
    uint32_t round;  // 0 = outside any round
    enum tern_purpose purpose;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// Adds to the row (client, round, purpose).
TERN_MUST_USE enum tern_result tern_db_meter_add(struct tern_db *db,
                                                 const struct tern_db_meter *meter);
// In (round, client, purpose) order.
TERN_MUST_USE enum tern_result
tern_db_meter_each(struct tern_db *db, bool (*visit)(void *ctx, const struct tern_db_meter *meter),
                   void *ctx);

// Sums over the rows (client, round, any purpose), purpose 0; zeros when there are
// none.
TERN_MUST_USE enum tern_result tern_db_meter_of(struct tern_db *db, uint64_t client, uint32_t round,
                                                struct tern_db_meter *out);

enum tern_db_meter_group {
    TERN_METER_BY_PURPOSE = 0,
    TERN_METER_BY_CLIENT = 1,
    TERN_METER_BY_ROUND = 2,
};
// Sums over all rows that agree in one field, in its order; the two other fields are 0.
TERN_MUST_USE enum tern_result
tern_db_meter_sum(struct tern_db *db, enum tern_db_meter_group group,
                  bool (*visit)(void *ctx, const struct tern_db_meter *meter), void *ctx);

// --- Totals
// ---------------------------------------------------------------------------------------------

struct tern_db_counts {
    uint64_t clients; // revoked ones and evaluators included
    uint64_t clients_revoked;
    uint64_t evaluators;
    uint64_t code_uses_left; // of codes that have not expired
    uint64_t rounds_open;
    uint64_t rounds_committed;
    uint64_t updates_applied;
    uint64_t updates;       // ever stored
    uint64_t update_bytes;  // of them, as received
    uint64_t update_bodies; // still kept
    uint64_t downloads;
    uint64_t file_bytes;
};
TERN_MUST_USE enum tern_result tern_db_counts(struct tern_db *db, uint64_t now_ms,
                                              struct tern_db_counts *counts);

#endif
