// What the aggregator keeps: clients, rounds, updates, error ledger, replicas, downloads, schedule
// and meter. Declared for the round machine and the admin side. Behaviour is stated per operation,
// so that another database can take its place: sql.h says what is asked of one. The members of the
// structs are the columns of tables/*.def. What few need stands in headers of its own: nodes.h, parts.h,
// ticket_keys.h, retention.h, copy.h.
//
// Thread rule: one tern_db is used by one thread. Several processes may have the same file open:
// the service and the command line do. Every write happens between tern_db_begin() and
// tern_db_commit(); when commit returns TERN_OK the writes survive a power cut.
//
// Every function may return TERN_ERR_IO (disk, damaged file; tern_db_error() has the sentence);
// only further results are listed. Times are Unix milliseconds.
//
// A write for which no other result is listed may be answered before the database has done it: what it would be refused
// for, such as a client that is not there, then is TERN_ERR_IO of what comes later in the transaction, at the latest of
// its commit; told at once, or later, it cannot be committed.
#ifndef TERN_STORE_H
#define TERN_STORE_H

#include "meter/meter.h"
#include "result.h"
#include "util/sha256.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_db;

// For what need not be there: TERN_OK in place of TERN_ERR_NOT_FOUND.
TERN_MUST_USE static inline enum tern_result tern_db_may_miss(enum tern_result result)
{
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

#define TERN_DB_NAME_MAX 64
#define TERN_DB_TAGS_MAX 256
#define TERN_DB_STRATEGY_MAX 24
#define TERN_DB_CODEC_MAX 64
#define TERN_DB_PARAMETERS_MAX 192
#define TERN_DB_REASON_MAX 160
#define TERN_DB_NODE_MAX 64
#define TERN_DB_PLACE_MAX 512 // a database's path

// The member of a struct that a line of tables/*.def makes; tables.h explains the lines.
#define TERN_MEMBER(kind, name, of, rule, constraint, shown) TERN_MEMBER_##kind(name, of)
#define TERN_MEMBER_U64(name, of) uint64_t name;
#define TERN_MEMBER_U32(name, of) uint32_t name;
#define TERN_MEMBER_BOOL(name, of) bool name;
#define TERN_MEMBER_REAL(name, of) float name;
#define TERN_MEMBER_TEXT(name, of) char name[of];
#define TERN_MEMBER_HASH(name, of) uint8_t name[TERN_SHA256_SIZE];
#define TERN_MEMBER_ENUM(name, of) enum tern_db_##of name;
#define TERN_MEMBER_NAMED(name, of) uint32_t name;
#define TERN_MEMBER_ID(name, of) uint64_t name;
#define TERN_MEMBER_BITS(name, of) uint64_t name;
#define TERN_MEMBER_SIZE(name, of) size_t name;
#define TERN_MEMBER_BLOB(name, of) struct tern_blob_column name;

// Any bytes; those that were read are valid until the next step.
struct tern_blob_column {
    const void *data;
    size_t len;
};

// --- Life

struct tern_db_federation {
#define COLUMN TERN_MEMBER
#include "store/tables/federation.def"
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

// A path is that of a file, SQLite's, or the URL of a database of PostgreSQL: postgresql://... There, what is
// said of a file is meant of the schema of the database that the URL leads to.
bool tern_db_is_url(const char *path);

// Makes a new file with the newest schema. weights: of version 0, in layout order, where the
// federation is not seeded; else NULL.
// TERN_ERR_CONFLICT  the file is there already.
// TERN_ERR_CONFIG    a URL that this build cannot use, or that holds a password; so when it is opened
TERN_MUST_USE enum tern_result tern_db_create(const char *path,
                                              const struct tern_db_federation *federation,
                                              const float *weights, uint32_t count, char why[256]);

// How a database is opened: 0, or a sum of these.
enum tern_db_open {
    // Only reads, and also opens what cannot be written: a backup, a snapshot that is mounted read-only, another user's
    // files. Where the file has no log, and no file can be made beside it, nobody may write it meanwhile.
    TERN_DB_READING = 1,
    // Adds a connection to a file that this process has open, for another thread. Without this flag tern_db_open() looks
    // into the file without SQLite, and the first connection loses its locks.
    TERN_DB_SECOND = 2,
    // The same, and reports an unreachable server within some 3 s instead of 8 s and more. Never with tern_db_hold().
    TERN_DB_HURRIED = 4,
    // Also opens a database with an older schema: tern_db_is_older(). Until it is brought up to date, only
    // tern_db_hold(), _nodes(), _upgrade(), _take_upgraded() and _close() may be called. For callers that keep other
    // programs away by the lock beside a file.
    TERN_DB_OLDER = 8,
};
// Opens a database. Nobody changes the schema of one in PostgreSQL until it is closed.
// TERN_ERR_NOT_FOUND  no such file; TERN_ERR_UNKNOWN  the schema is newer than this program; TERN_ERR_STATE  it is
// older, or another program is changing it
TERN_MUST_USE enum tern_result tern_db_open(const char *path, unsigned flags, struct tern_db **db,
                                            char why[256]);
TERN_MUST_USE static inline enum tern_result tern_db_open_again(const char *path,
                                                                struct tern_db **db, char why[256])
{
    return tern_db_open(path, TERN_DB_SECOND, db, why);
}
TERN_MUST_USE static inline enum tern_result
tern_db_open_hurried(const char *path, struct tern_db **db, char why[256])
{
    return tern_db_open(path, TERN_DB_HURRIED, db, why);
}
bool tern_db_is_older(const struct tern_db *db);
// Brings the schema up to date, if it is older, in one transaction; the caller holds the database.
// TERN_ERR_STATE  other programs have it open, who are named: they would go on in a schema that they do not know
TERN_MUST_USE enum tern_result tern_db_upgrade(struct tern_db *db);
// Whether somebody else has done so since it was opened: it is as one that tern_db_open() opened then.
// TERN_ERR_STATE  it is older still, or is just being changed
TERN_MUST_USE enum tern_result tern_db_take_upgraded(struct tern_db *db);
// For a service, before it reads: keeps other services away until db is closed, also those on other machines,
// and waits until what one before had on its way is done. Nothing for a file, beside which there is a lock.
// TERN_ERR_STATE   another one serves it, also after five seconds
// TERN_ERR_CONFIG  it cannot be written by this one
TERN_MUST_USE enum tern_result tern_db_hold(struct tern_db *db);
// Whether the connection by which it was held was lost, and another service holds it since: this one has no part in
// it any more, and what it does fails.
bool tern_db_is_displaced(const struct tern_db *db);

void tern_db_close(struct tern_db *db);
const char *tern_db_path(const struct tern_db *db); // until it is closed
const char *tern_db_error(const struct tern_db *db);

// Whether a TERN_ERR_IO since the opening was due to a damaged file, which no repetition mends, and
// not to a disk that fails; tern_db_error() says it then. Outside of transactions: it may read all of the
// database to find out.
bool tern_db_damaged(struct tern_db *db);

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
// Commits when the result is TERN_OK; else rolls back and returns it.
TERN_MUST_USE enum tern_result tern_db_conclude(struct tern_db *db, enum tern_result result);

// Writes without changing anything, so that the commit shows whether the disk takes what is written.
TERN_MUST_USE enum tern_result tern_db_touch(struct tern_db *db);

// From here to tern_db_rollback() all reads see the database as it is at the first of them, while
// others go on writing.
// TERN_ERR_STATE  within a transaction
TERN_MUST_USE enum tern_result tern_db_begin_reading(struct tern_db *db);

// Whether another process has written since the last call (a revocation, a new code).
bool tern_db_changed_by_others(struct tern_db *db);

// Writes a consistent copy that tern_db_open() opens; the service may go on writing meanwhile.
// TERN_ERR_CONFLICT  the file is there already; TERN_ERR_STATE  within a transaction, or PostgreSQL's
TERN_MUST_USE enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256]);

// Moves the log into the file, so that the file is all there is, and keeps others out until db is closed,
// which is all that may follow.
// TERN_ERR_BUSY  another program has it open
TERN_MUST_USE enum tern_result tern_db_settle(struct tern_db *db);

// Copies a database that nobody has open, such as a backup, into a new file, mode 0600.
// TERN_ERR_NOT_FOUND  there is no file `from`; TERN_ERR_CONFLICT  `to` is there already
// TERN_ERR_STATE      it has a log beside it: it is in use, or was when it was copied
TERN_MUST_USE enum tern_result tern_db_copy(const char *from, const char *to, char why[256]);

// Makes `file`, settled and closed, take the place of the database `path` at once and durably. What was
// there, its log included, gets the names that begin with `kept`. Where the old one is settled, a kill or a
// power cut leaves it whole or the new one.
// TERN_ERR_CONFLICT  there is something of the name `kept`
TERN_MUST_USE enum tern_result tern_db_replace(const char *file, const char *path, const char *kept,
                                               char why[256]);

// Removes a database that is not in use.
void tern_db_remove(const char *path);

// Reads every page and index and compares them, and all that is stored with a hash or a checksum with
// that.
// TERN_ERR_IO  the file is damaged, or cannot be read: tern_db_damaged() says which
TERN_MUST_USE enum tern_result tern_db_check(struct tern_db *db);
// Stores which clock times go by from here on, by the columns of that name; within a transaction.
TERN_MUST_USE enum tern_result tern_db_set_clock(struct tern_db *db,
                                                 const struct tern_db_federation *clock);
// The latest time that is stored of a client that came, or of the last round; 0 = none.
TERN_MUST_USE enum tern_result tern_db_latest_ms(struct tern_db *db, uint64_t *latest_ms);

// Stores that the federation was copied, and goes on there, from that time on; "": it goes on here again. Within a
// transaction.
TERN_MUST_USE enum tern_result tern_db_set_copied(struct tern_db *db, const char *to,
                                                  uint64_t now_ms);
// Stores that a check found nothing; within a transaction.
TERN_MUST_USE enum tern_result tern_db_set_checked(struct tern_db *db, uint64_t now_ms);
// From here on whatever takes long fails once *stop is true, which any thread may set.
void tern_db_stop_when(struct tern_db *db, const atomic_bool *stop);

// Reads every page alone, which takes a fraction of that.
// TERN_ERR_IO  the file is damaged
TERN_MUST_USE enum tern_result tern_db_quick_check(struct tern_db *db);

// Bytes of the file, without its log.
TERN_MUST_USE enum tern_result tern_db_bytes(struct tern_db *db, uint64_t *bytes);
// Bytes of the file that hold nothing: what comes is written there first, and a shrink gives them back.
TERN_MUST_USE enum tern_result tern_db_free_bytes(struct tern_db *db, uint64_t *bytes);

// --- Room on the disk: how large work is cut into transactions that fit. For retention, checkpoints and advice

// `disk` and `free` are UINT64_MAX, `log` and `reserve` 0, for a database server or where the disk
// reports no size.
struct tern_db_room {
    uint64_t disk;    // bytes of the file system
    uint64_t free;    // bytes that the database may take besides its file, including its log
    uint64_t log;     // bytes of the log beside the file
    uint64_t reserve; // bytes of the reserve file
};

// Whether less than 1/share of a disk is free, or, on a large one, less than 64 MiB.
static inline bool tern_disk_is_low(uint64_t free, uint64_t disk, uint64_t share)
{
    const uint64_t most = UINT64_C(64) << 20;
    return free < (disk / share < most ? disk / share : most);
}

TERN_MUST_USE enum tern_result tern_db_room(struct tern_db *db, struct tern_db_room *room);

// Limits the bytes that one transaction writes: `most`, or less where the disk has little room.
TERN_MUST_USE enum tern_result tern_db_step_bytes(struct tern_db *db, uint64_t most,
                                                  uint64_t *bytes);

// For a full disk, outside of transactions: writes the log back and removes the reserve file, so that a few
// transactions can drop rows. The service makes the reserve again once there is room. False: there was already room,
// or no reserve.
bool tern_db_make_room(struct tern_db *db);

// --- Rows, one after the other
//
//     struct tern_db_client client;
//     struct tern_db_rows *rows = tern_db_clients(db);
//     while (tern_db_next(rows, &client)) {
//         ...
//     }
//     return tern_db_end(rows);
//
// Between two rows the caller may read from db, and write what it is not being shown.

struct tern_db_rows;

// Reads the next row into the struct of its table. False: there is none, or it cannot be read; what
// opened the rows may have failed.
bool tern_db_next(struct tern_db_rows *rows, void *row);
// Unless result is TERN_OK: no row follows, and tern_db_end() returns it.
void tern_db_check_row(struct tern_db_rows *rows, enum tern_result result);
// Frees the rows, all of which need not have been read. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_db_end(struct tern_db_rows *rows);

// --- Clients and join codes

struct tern_db_client {
#define COLUMN TERN_MEMBER
#include "store/tables/clients.def"
};

// TERN_ERR_CONFLICT  another client has this token_hash
TERN_MUST_USE enum tern_result tern_db_client_add(struct tern_db *db,
                                                  struct tern_db_client *client);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_get(struct tern_db *db, uint64_t id,
                                                  struct tern_db_client *client);
// Stores what may change by what the client says and does; it is there. Whether it is revoked stays as it is:
// the command line may have revoked it a moment ago.
TERN_MUST_USE enum tern_result tern_db_client_update(struct tern_db *db,
                                                     const struct tern_db_client *client);

// Its pre-shared key is forgotten. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id);

// Sets all of its tags (rounds/tags.h). NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_tag(struct tern_db *db, uint64_t id,
                                                  const char tags[TERN_DB_TAGS_MAX]);

// In id order.
struct tern_db_rows *tern_db_clients(struct tern_db *db);
// Of these, the first `limit` behind the id `after`.
struct tern_db_rows *tern_db_clients_after(struct tern_db *db, uint64_t after, uint32_t limit);

// Clients, without revoked ones, of whose tasks a share above 0, at least `least` and below `below` was not
// reported, and the sum of these shares.
struct tern_db_unreported {
    uint64_t clients;
    double sum;
};
TERN_MUST_USE enum tern_result tern_db_unreported(struct tern_db *db, double least, double below,
                                                  struct tern_db_unreported *unreported);

// Clients, without revoked ones, whose last training failed, the newest failure first; and how many there are.
struct tern_db_rows *tern_db_failing(struct tern_db *db, uint32_t limit);
TERN_MUST_USE enum tern_result tern_db_count_failing(struct tern_db *db, uint64_t *clients);

// Counts clients, without revoked ones, by the names of their tables' columns.
struct tern_db_column_names {
    uint32_t usual;   // tag of most clients, in a tie the first; 0: no client has reported one
    uint64_t clients; // clients with the usual tag
    uint64_t others;  // clients with another tag
};
TERN_MUST_USE enum tern_result tern_db_column_names(struct tern_db *db,
                                                    struct tern_db_column_names *names);
// Lists the clients with another tag, by id.
struct tern_db_rows *tern_db_clients_of_other_columns(struct tern_db *db, uint32_t usual,
                                                      uint32_t limit);

// The pre-shared key of a client, which the handshake needs as it is: unlike a token it cannot be
// kept as a hash.
struct tern_db_psk {
#define COLUMN TERN_MEMBER
#include "store/tables/psk_keys.def"
};
// TERN_ERR_CONFLICT  it has one; NOT_FOUND  no such client
TERN_MUST_USE enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                               const uint8_t key[TERN_SHA256_SIZE]);
// In client order.
struct tern_db_rows *tern_db_psks(struct tern_db *db);

struct tern_db_code {
#define COLUMN TERN_MEMBER
#include "store/tables/codes.def"
};

// TERN_ERR_CONFLICT  the code is there already
TERN_MUST_USE enum tern_result tern_db_code_add(struct tern_db *db,
                                                const struct tern_db_code *code);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_code_get(struct tern_db *db,
                                                const uint8_t hash[TERN_SHA256_SIZE],
                                                struct tern_db_code *code);
// In the order of their making.
struct tern_db_rows *tern_db_codes(struct tern_db *db);
// Nobody enrols with it from here on. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_code_cancel(struct tern_db *db,
                                                   const uint8_t hash[TERN_SHA256_SIZE]);
// How many clients enrolled with the code of that id.
TERN_MUST_USE enum tern_result tern_db_clients_of_code(struct tern_db *db, const char *code,
                                                       uint64_t *count);
// Takes one use. NOT_FOUND: no such code, used up, or expired at now_ms (which one is not told).
TERN_MUST_USE enum tern_result
tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE], uint64_t now_ms);

// --- Rounds, assignments, updates

enum tern_db_round_state {
    TERN_ROUND_OPEN = 0,
    TERN_ROUND_COMMITTED = 1,
};
#define TERN_LAST_round_state TERN_ROUND_COMMITTED

struct tern_db_round {
#define COLUMN TERN_MEMBER
#include "store/tables/rounds.def"
};

// The training loss by which a federation ends, and its best version is known: the median, since one
// report could make the mean anything; the mean where no update came in time.
static inline float tern_db_round_loss(const struct tern_db_round *round)
{
    return round->median_loss != 0.0F ? round->median_loss : round->mean_loss;
}

// Inserts or replaces.
// TERN_ERR_CONFLICT  the round is committed already, and stays so.
TERN_MUST_USE enum tern_result tern_db_round_put(struct tern_db *db,
                                                 const struct tern_db_round *round);
TERN_MUST_USE enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round,
                                                 struct tern_db_round *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_round_last(struct tern_db *db,
                                                  struct tern_db_round *out); // NOT_FOUND
struct tern_db_rows *tern_db_rounds(struct tern_db *db);                      // ascending
// Of these, the first `limit` behind the round `after`.
struct tern_db_rows *tern_db_rounds_after(struct tern_db *db, uint32_t after, uint32_t limit);

enum tern_db_assignment_state {
    TERN_ASSIGNMENT_INVITED = 0,  // sampled, has not come yet
    TERN_ASSIGNMENT_TASKED = 1,   // has its task
    TERN_ASSIGNMENT_REPORTED = 2, // its update is accepted
    TERN_ASSIGNMENT_REPLACED = 3, // did not report; another was invited in its place
};
#define TERN_LAST_assignment_state TERN_ASSIGNMENT_REPLACED

struct tern_db_assignment {
#define COLUMN TERN_MEMBER
#include "store/tables/assignments.def"
};

// Inserts or replaces, of a round and a client that are there. before: the state that is stored of it; NULL: it is new.
// TERN_ERR_CONFLICT  its client has reported, and this one says otherwise
TERN_MUST_USE enum tern_result tern_db_assignment_put(struct tern_db *db,
                                                      const struct tern_db_assignment *assignment,
                                                      const enum tern_db_assignment_state *before);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round,
                                                      uint64_t client,
                                                      struct tern_db_assignment *out);
// Those of a round, in client order.
struct tern_db_rows *tern_db_assignments(struct tern_db *db, uint32_t round);

struct tern_db_update {
#define COLUMN TERN_MEMBER
#include "store/tables/updates.def"
    const uint8_t *body; // the Update message as received
};

// Stores an update; (round, client), which are there, is its key, under which none is stored yet.
// TERN_ERR_TOO_LARGE  above 1,000,000,000 bytes
TERN_MUST_USE enum tern_result tern_db_update_put(struct tern_db *db,
                                                  const struct tern_db_update *update);
// What is stored under (round, client), body NULL. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round,
                                                   uint64_t client, struct tern_db_update *out);
// Those that count in `round`, in (client, round) order; body is valid during the call only, was
// checked against sha256, and is NULL once tern_db_prune_some() has dropped it. Stops early when
// visit is not TERN_OK and returns what it returned.
TERN_MUST_USE enum tern_result
tern_db_update_each(struct tern_db *db, uint32_t round,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);
// Shows the update under (round, client), as tern_db_update_each() shows those of a round. NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_update_show(struct tern_db *db, uint32_t round, uint64_t client,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);

// --- Model state

enum tern_db_weights {
    TERN_WEIGHTS_GLOBAL = 0,  // the global model
    TERN_WEIGHTS_REPLICA = 1, // the shared replica
    TERN_WEIGHTS_INITIAL = 2, // version 0 of a federation that is not seeded; kept for replays
};

// Weights of a version: count float32 values.
TERN_MUST_USE enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t version, const float *weights,
                                                   uint32_t count);
// NOT_FOUND; TERN_ERR_CORRUPT when count differs. On error weights are unspecified.
TERN_MUST_USE enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t version, float *weights,
                                                   uint32_t count);

// What a strategy carries from round to round, such as a momentum "m": count float32 values that go
// with a version. get: NOT_FOUND; on error values are unspecified.
TERN_MUST_USE enum tern_result tern_db_state_put(struct tern_db *db, const char *name,
                                                 uint32_t version, const float *values,
                                                 uint32_t count);
TERN_MUST_USE enum tern_result tern_db_state_get(struct tern_db *db, const char *name,
                                                 uint32_t version, float *values, uint32_t count);

// A checkpoint is a version's states, replica and global weights. It may be written in parts, by
// several transactions: it is there with part 0 of the global weights, so that this is written last.
// Until then the one before counts, and is there as it was.
uint32_t tern_db_vector_parts(uint32_t count); // of a vector of that many values
// TERN_ERR_ARGUMENT  there is no such part
TERN_MUST_USE enum tern_result tern_db_weights_put_part(struct tern_db *db,
                                                        enum tern_db_weights kind, uint32_t version,
                                                        const float *weights, uint32_t count,
                                                        uint32_t part);
TERN_MUST_USE enum tern_result tern_db_state_put_part(struct tern_db *db, const char *name,
                                                      uint32_t version, const float *values,
                                                      uint32_t count, uint32_t part);
// The version of the newest one. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_checkpoint(struct tern_db *db, uint32_t *version);
// Drops some parts of all others, whole or not. *more: some may be left.
TERN_MUST_USE enum tern_result tern_db_checkpoint_drop_some(struct tern_db *db, bool *more);

// One row per version: its replica id and the global model's hash.
struct tern_db_version {
#define COLUMN TERN_MEMBER
#include "store/tables/versions.def"
};
TERN_MUST_USE enum tern_result tern_db_version_put(struct tern_db *db,
                                                   const struct tern_db_version *version);
TERN_MUST_USE enum tern_result tern_db_version_get(struct tern_db *db, uint32_t version,
                                                   struct tern_db_version *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_version_last(struct tern_db *db,
                                                    struct tern_db_version *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_version_of_replica(struct tern_db *db,
                                                          const uint8_t replica[TERN_SHA256_SIZE],
                                                          uint32_t *version); // NOT_FOUND

// --- Downloads

struct tern_db_download {
#define COLUMN TERN_MEMBER
#include "store/tables/downloads.def"
};

// Stores a download; one that is there already is left as it is.
TERN_MUST_USE enum tern_result tern_db_download_put(struct tern_db *db,
                                                    const struct tern_db_download *download,
                                                    const uint8_t *blob);
// Likewise of bytes that are looked at piece by piece, where they lie: view points *data at `len` of them
// from `at` on, valid until its next call. On an error the transaction must be rolled back.
TERN_MUST_USE enum tern_result tern_db_download_put_pieces(
    struct tern_db *db, const struct tern_db_download *download,
    enum tern_result (*view)(void *ctx, size_t at, size_t len, const uint8_t **data), void *ctx);
// The description, and the blob when dst is not NULL (dst_size >= size, else NO_SPACE). NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_download_get(struct tern_db *db,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_db_download *out, uint8_t *dst,
                                                    size_t dst_size);
// Shows the bytes of a download, piece by piece in order. They are what its name says only if all
// of it is TERN_OK. Stops early when take is not TERN_OK and returns what it returned.
TERN_MUST_USE enum tern_result
tern_db_download_stream(struct tern_db *db, const struct tern_db_download *download,
                        enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len),
                        void *ctx);
// The trunk's that end at to_version: the delta (snapshot = false) or the snapshot. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version,
                                                   bool snapshot, struct tern_db_download *out);
// Forgets every snapshot that ends before to_version, but those that opened a replica; deltas stay.
// *freed: their bytes.
TERN_MUST_USE enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version,
                                                      uint64_t *freed);

// --- Replicas

// How a replica's weights are kept.
enum tern_db_replica_form {
    TERN_REPLICA_SEED = 0,     // the seed makes them
    TERN_REPLICA_STEP = 1,     // the parent's with the download added
    TERN_REPLICA_SNAPSHOT = 2, // the download alone
    TERN_REPLICA_WHOLE = 3,    // tern_db_replica_weights_put()
};
#define TERN_LAST_replica_form TERN_REPLICA_WHOLE

struct tern_db_replica {
#define COLUMN TERN_MEMBER
#include "store/tables/replicas.def"
};

// One that is there already is left as it is; a step's parent has a child more.
// NOT_FOUND  the parent is not there
TERN_MUST_USE enum tern_result tern_db_replica_put(struct tern_db *db,
                                                   const struct tern_db_replica *replica);
TERN_MUST_USE enum tern_result tern_db_replica_get(struct tern_db *db,
                                                   const uint8_t id[TERN_SHA256_SIZE],
                                                   struct tern_db_replica *out); // NOT_FOUND
// The id that starts so, of a replica or of a version's whose replica was forgotten; the least of
// them. len: at most TERN_SHA256_SIZE
TERN_MUST_USE enum tern_result tern_db_replica_id(struct tern_db *db, const uint8_t *start,
                                                  size_t len,
                                                  uint8_t id[TERN_SHA256_SIZE]); // NOT_FOUND
// This and tern_db_replica_suspect() do nothing where there is no such replica.
TERN_MUST_USE enum tern_result
tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t now_ms);
// The time of day was set forth by step ms, or back: the order of use stays.
TERN_MUST_USE enum tern_result tern_db_replicas_set_clock(struct tern_db *db, int64_t step);
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
// How many clients hold it.
TERN_MUST_USE enum tern_result
tern_db_replica_holders(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t *clients);
// In (version, id) order.
struct tern_db_rows *tern_db_replicas(struct tern_db *db);

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
// The snapshot of a version made by this codec that opened a replica of its own. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_snapshot_find(struct tern_db *db, uint32_t to_version,
                                                     const char *codec,
                                                     struct tern_db_download *out);
struct tern_db_replica_totals {
#define TOTAL(name, text, json) uint64_t name;
#include "store/tables/replica_totals.def"
};
TERN_MUST_USE enum tern_result tern_db_replica_totals(struct tern_db *db,
                                                      struct tern_db_replica_totals *totals);

// --- Error ledger, schedule, evaluations, meter

struct tern_db_ledger {
#define COLUMN TERN_MEMBER
#include "store/tables/ledger.def"
};
// The puts below insert or replace, of a client that is there.
TERN_MUST_USE enum tern_result tern_db_ledger_put(struct tern_db *db,
                                                  const struct tern_db_ledger *ledger);
TERN_MUST_USE enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client,
                                                  struct tern_db_ledger *out); // NOT_FOUND
struct tern_db_rows *tern_db_ledgers(struct tern_db *db);                      // in client order
struct tern_db_rows *tern_db_ledgers_after(struct tern_db *db,
                                           uint64_t after); // behind that client

struct tern_db_schedule {
#define COLUMN TERN_MEMBER
#include "store/tables/schedule.def"
};
TERN_MUST_USE enum tern_result tern_db_schedule_put(struct tern_db *db,
                                                    const struct tern_db_schedule *schedule);
TERN_MUST_USE enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                                    struct tern_db_schedule *out); // NOT_FOUND
struct tern_db_rows *tern_db_schedules(struct tern_db *db); // in client order
struct tern_db_rows *tern_db_schedules_after(struct tern_db *db,
                                             uint64_t after); // behind that client

// Which weights of a version were evaluated.
enum tern_db_evaluated {
    TERN_EVALUATED_REPLICA = 0, // what the evaluator holds by compressed downloads
    TERN_EVALUATED_GLOBAL = 1,  // the global model itself
};
#define TERN_LAST_evaluated TERN_EVALUATED_GLOBAL

// Static string: "replica" or "global".
const char *tern_evaluated_name(enum tern_db_evaluated model);

struct tern_db_evaluation {
#define COLUMN TERN_MEMBER
#include "store/tables/evaluations.def"
};
TERN_MUST_USE enum tern_result tern_db_evaluation_put(struct tern_db *db,
                                                      const struct tern_db_evaluation *evaluation);
// Evaluations from that version on, of evaluators that are not revoked. Sorted by version, model, lateness and client.
struct tern_db_rows *tern_db_evaluations_from(struct tern_db *db, uint32_t version);
// The same of that version alone.
struct tern_db_rows *tern_db_evaluations_of(struct tern_db *db, uint32_t version);
// The newest version that any evaluator reported, revoked or not. NOT_FOUND: there is none
TERN_MUST_USE enum tern_result tern_db_evaluated_last(struct tern_db *db, uint32_t *version);

// How many evaluators that are not revoked reported on a version's replica, or on its global model.
struct tern_db_reports {
    uint32_t version;
    enum tern_db_evaluated model;
    uint64_t created_ms; // of the version; 0 where it is unknown
    uint32_t reports;
    uint32_t in_time; // of these, by evaluators that had enrolled before the version was made
};
// Counts of the reports on versions first to last. Sorted by version and model.
struct tern_db_rows *tern_db_reports(struct tern_db *db, uint32_t first, uint32_t last);

// When an evaluator that is not revoked enrolled, and when it came last.
struct tern_db_evaluator {
    uint64_t created_ms;
    uint64_t last_seen_ms;
};
// Those that came at least once, in no order.
struct tern_db_rows *tern_db_evaluators(struct tern_db *db);

#define TERN_DB_METRIC_MAX 16
struct tern_db_metric {
#define COLUMN TERN_MEMBER
#include "store/tables/metrics.def"
};
TERN_MUST_USE enum tern_result tern_db_metric_put(struct tern_db *db,
                                                  const struct tern_db_metric *metric);
// Drops the client's metrics of the version: the next set replaces them.
TERN_MUST_USE enum tern_result tern_db_metrics_drop(struct tern_db *db, uint32_t version,
                                                    uint64_t client);
// Lists the names of all kept metrics of the client, sorted, `most` at most. *count: their number.
TERN_MUST_USE enum tern_result tern_db_metric_names(struct tern_db *db, uint64_t client,
                                                    char names[][TERN_DB_METRIC_MAX], uint32_t most,
                                                    uint32_t *count);
// Of clients that train, from that version on, by version, name and client.
struct tern_db_rows *tern_db_metrics_from(struct tern_db *db, uint32_t version);
// Metrics from that version on, of evaluators that are not revoked. Sorted by version, model, lateness, client and
// name.
struct tern_db_rows *tern_db_evaluation_metrics_from(struct tern_db *db, uint32_t version);
// The same of that version alone.
struct tern_db_rows *tern_db_evaluation_metrics_of(struct tern_db *db, uint32_t version);

// --- Statistics of columns, and the scaling that is made of them

struct tern_db_statistics {
#define COLUMN TERN_MEMBER
#include "store/tables/statistics.def"
};

// Its hash is filled in.
// TERN_ERR_CONFLICT  the client's are there already; NOT_FOUND  no such client
TERN_MUST_USE enum tern_result tern_db_statistics_add(struct tern_db *db,
                                                      struct tern_db_statistics *statistics);
// In client order. Whether a body is what its hash says is the caller's to look at.
struct tern_db_rows *tern_db_statistics(struct tern_db *db);
// The clock was set forth by step ms, or back.
TERN_MUST_USE enum tern_result tern_db_statistics_set_clock(struct tern_db *db, int64_t step);

// Stores the scaling for good, and drops the statistics that it was made of.
// TERN_ERR_CONFLICT  there is one
TERN_MUST_USE enum tern_result tern_db_scaling_fix(struct tern_db *db, const uint8_t *body,
                                                   size_t len);
// *body: malloc'ed, the caller's. NOT_FOUND; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_db_scaling_get(struct tern_db *db, uint8_t **body, size_t *len);

#define TERN_LAST_purpose (TERN_PURPOSE_COUNT - 1)
struct tern_db_meter {
    uint64_t client; // 0 = peers that never authenticated
    uint32_t round;  // 0 = outside any round
    enum tern_purpose purpose;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// Adds to the row (client, round, purpose). Of a round whose rows were dropped only the sums grow.
TERN_MUST_USE enum tern_result tern_db_meter_add(struct tern_db *db,
                                                 const struct tern_db_meter *meter);
// In (round, client, purpose) order.
struct tern_db_rows *tern_db_meters(struct tern_db *db);
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
struct tern_db_rows *tern_db_meter_sums(struct tern_db *db, enum tern_db_meter_group group);
// Sums over all rows of clients that train: not of evaluators, nor of peers that never
// authenticated. outside: of these, those outside any round.
TERN_MUST_USE enum tern_result tern_db_meter_training(struct tern_db *db, struct tern_db_meter *all,
                                                      struct tern_db_meter *outside);

// What the clients that train had of a round; or the others, who are no participants.
struct tern_db_round_total {
    uint32_t round;
    bool trains;
    uint32_t participants;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// Of clients that train, in round order, with bytes or participants; bytes outside any round not.
struct tern_db_rows *tern_db_round_totals(struct tern_db *db);
// Of these, those behind the round `after`.
struct tern_db_rows *tern_db_round_totals_after(struct tern_db *db, uint32_t after);

// What a client had of all rounds.
struct tern_db_client_total {
    uint64_t client;
    uint32_t invited;
    uint32_t reported;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// In client order; of clients that were invited or sent something, and of client 0.
struct tern_db_rows *tern_db_client_totals(struct tern_db *db);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_total_get(struct tern_db *db, uint64_t client,
                                                        struct tern_db_client_total *out);

// --- Totals

struct tern_db_counts {
#define TOTAL(name, text, json) uint64_t name;
#include "store/tables/counts.def"
    uint64_t file_bytes;
};
TERN_MUST_USE enum tern_result tern_db_counts(struct tern_db *db, uint64_t now_ms,
                                              struct tern_db_counts *counts);

// --- Retention: the bodies of old rounds' updates are dropped, then rows that no sum needs any more

// Bytes of the bodies of all updates received so far, dropped or not.
TERN_MUST_USE enum tern_result tern_db_received_bytes(struct tern_db *db, uint64_t *bytes);
// The first round until whose commit `received` bytes had come, or the last committed one; not
// before the last that is pruned. 0 = none.
TERN_MUST_USE enum tern_result tern_db_prune_goal(struct tern_db *db, uint64_t received,
                                                  uint32_t *round);
// From here on the rounds up to `last` are pruned: they cannot be replayed any more. Those after the
// version that the global model is kept of are not, since later versions are made from it. Bodies
// are there until tern_db_prune_some() has dropped them.
TERN_MUST_USE enum tern_result tern_db_prune(struct tern_db *db, uint32_t last);
// Drops bodies of updates that count in pruned rounds, the oldest first, until they had `bytes` or
// were 1,000. When none are left: of one pruned round, unless it is among the `newest` rounds, up to
// 1,000 each of metrics, updates, assignments and rows of the meter, except those of a client whose last update in
// the error ledger was for the round. *more: there may be others.
TERN_MUST_USE enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes,
                                                  uint32_t newest, bool *more);
// Drops what is still kept of a client's update for `round`, if the other rows of that round were
// dropped. For when a later one of the client is accepted: it has the answer to the one before.
TERN_MUST_USE enum tern_result tern_db_prune_last(struct tern_db *db, uint64_t client,
                                                  uint32_t round);
// Gives up to `bytes` of the space that was freed in the file back to the file system. *more: there
// is more of it, and it can be given back.
TERN_MUST_USE enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more);

// --- Partial sums of the open round, made by follower nodes (merge/part.h), in pieces

#define TERN_DB_PIECE_BYTES (UINT32_C(4) << 20) // of a part, at most

// A piece of a part.
struct tern_db_part {
#define COLUMN TERN_MEMBER
#include "store/tables/parts.def"
};
// Forgets the node's part of that round, whole or not.
TERN_MUST_USE enum tern_result tern_db_part_drop(struct tern_db *db, uint32_t round,
                                                 const char *node);
// Inserts or replaces a piece.
// TERN_ERR_CONFLICT  the round is not open; TERN_ERR_TOO_LARGE  above TERN_DB_PIECE_BYTES
TERN_MUST_USE enum tern_result tern_db_part_put(struct tern_db *db,
                                                const struct tern_db_part *piece);
// Up to `most` of the parts of a round that are whole, in node order: their pieces 0 without the body.
TERN_MUST_USE enum tern_result tern_db_parts(struct tern_db *db, uint32_t round,
                                             struct tern_db_part *parts, size_t most,
                                             size_t *count);
// Shows one piece; its body is valid during the call only. Returns what show returned. NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_part_show(struct tern_db *db, uint32_t round, const char *node, uint32_t piece,
                  enum tern_result (*show)(void *ctx, const struct tern_db_part *piece), void *ctx);
// A round was closed: forgets its parts, and what came of earlier rounds after their close.
TERN_MUST_USE enum tern_result tern_db_parts_drop(struct tern_db *db, uint32_t round);

// --- Keys of TLS session tickets that several services share, sealed by a private key (http/ticket_sealer.h)

struct tern_db_ticket_keys {
#define COLUMN TERN_MEMBER
#include "store/tables/ticket_keys.def"
};
// The first `size` bytes of them. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_ticket_keys_get(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       uint8_t *sealed, size_t size, size_t *len);
// In the place of those that there are.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_put(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       const uint8_t *sealed, size_t len,
                                                       uint64_t now_ms);
// Forgets those that nobody has put since.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_drop(struct tern_db *db, uint64_t before_ms);

// --- A copy of all that a database holds at one moment, in a database of the same kind or another

// What tern_db_copy_state() made of a table.
struct tern_db_copied_table {
    const char *name;
    uint64_t rows;
    uint64_t bytes; // of their values
    uint8_t
        sha256[TERN_SHA256_SIZE]; // of all rows in the order of their keys, in any database alike
};
struct tern_db_copying {
    // Of a table that is being copied, or compared; NULL: nobody looks
    void (*progress)(void *ctx, const char *doing, const char *table, uint64_t rows);
    // Looks at the copy, before it appears; NULL: nobody does. why: a sentence on any failure
    enum tern_result (*check)(void *ctx, struct tern_db *copy, char why[256]);
    // Once it has appeared, of each table; NULL: nobody asks
    void (*made)(void *ctx, const struct tern_db_copied_table *table);
    void *ctx;
};
// Copies all that the database holds, as it is at one moment, into a new one at `path`, of the same kind or another,
// which appears at the end: whole, and compared, or not at all. Takes the memory of one row, of a part of weights, or
// of 4 MiB of a body. `from`: outside of transactions
// TERN_ERR_CONFLICT  there is something at `path` already
// TERN_ERR_STATE     others wrote to `from` meanwhile; TERN_ERR_CORRUPT  what was written is read otherwise
// Errors of how->check()
TERN_MUST_USE enum tern_result tern_db_copy_state(struct tern_db *from, const char *path,
                                                  const struct tern_db_copying *how, char why[256]);

#endif
