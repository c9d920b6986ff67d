// The aggregator's database: the federation, clients, rounds, updates, the error ledger, replicas, downloads, the schedule
// and the meter. This is the port of the round machine, the service and the command line; sql.h has the interface to
// SQLite and PostgreSQL. Members of the structs are the columns of tables/*.def. nodes.h has what aggregators that
// serve one database exchange.
//
// Thread rule: one thread uses a tern_db. Several processes may open the same database, such as the service and the
// command line. Every write is between tern_db_begin() and tern_db_commit(). Once the commit returns TERN_OK, the writes
// survive a power cut.
//
// Every function may return TERN_ERR_IO (disk, damaged file), for which tern_db_error() has the sentence; only other
// results are listed. Times are Unix milliseconds.
//
// A write without a listed result may return before the database has done it. A refusal, such as of a client that does
// not exist, is then TERN_ERR_IO of a later statement of the transaction, at the latest of its commit. Either way the
// transaction cannot be committed.
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

// Returns TERN_OK for TERN_ERR_NOT_FOUND, and any other result unchanged.
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
#define TERN_DB_TOKEN_NAME_MAX 33
#define TERN_DB_WHO_MAX 64
#define TERN_DB_ADDRESS_MAX 64
#define TERN_DB_ACTION_MAX 48
#define TERN_DB_SUBJECT_MAX 160
#define TERN_DB_CHANGED_MAX 256
#define TERN_DB_OUTCOME_MAX 64

// Makes the member of a struct from a line of tables/*.def; tables.h explains the lines.
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

// A column of any bytes. The bytes of a row that was read are valid until the next row is read.
struct tern_blob_column {
    const void *data;
    size_t len;
};

// --- Life

struct tern_db_federation {
#define COLUMN TERN_MEMBER
#include "store/tables/federation.def"
    // The manifest of the model (tensor/manifest.h). NULL: model_spec describes the model. metadata: a JSON object
    // that came with the model, or NULL. The database owns manifest and metadata until it is closed.
    const uint8_t *manifest;
    size_t manifest_len;
    const char *metadata;
    // A safetensors file of the model's tensors that are not trained, or NULL. Only tern_db_create() uses `kept`;
    // tern_db_kept_get() reads the file.
    const uint8_t *kept;
    size_t kept_len;
};

// Whether every client makes version 0 from the seed. Otherwise its weights are stored (TERN_WEIGHTS_INITIAL), and a new
// client needs a snapshot.
static inline bool tern_db_is_seeded(const struct tern_db_federation *federation)
{
    return federation->manifest == NULL;
}

// Whether a path is a URL of PostgreSQL (postgresql://...) and not a file of SQLite. With a URL, "file" below means the
// schema in the database of the URL.
bool tern_db_is_url(const char *path);

// Who makes a database, for the first row of its audit log.
struct tern_db_maker {
    const struct tern_db_actor *actor;
    const char *action; // verb
    const char *after;  // describes the federation
};

// Makes a new file with the newest schema. maker: NULL: the audit log begins without a row. weights: version 0 in layout order, or NULL for a seeded federation. count: values of
// the model
// TERN_ERR_CONFLICT  the file exists already
// TERN_ERR_CONFIG    this build cannot use the URL, or the URL has a password (also when it is opened)
TERN_MUST_USE enum tern_result tern_db_create(const char *path,
                                              const struct tern_db_federation *federation,
                                              const float *weights, uint32_t count,
                                              const struct tern_db_maker *maker, char why[256]);

// Flags of tern_db_open(), which may be added.
enum tern_db_open {
    // Only reads. Also opens a database that cannot be written: a backup, a read-only mount, another user's file.
    // If the file has no log and no file can be made beside it, nobody may write the database meanwhile.
    TERN_DB_READING = 1,
    // Adds a connection to a file that this process has open, for another thread. Without this flag tern_db_open()
    // opens and closes the file itself, which drops the locks of the first connection.
    TERN_DB_SECOND = 2,
    // Implies TERN_DB_SECOND, and reports an unreachable server after 3 s instead of 8 s. Never with
    // tern_db_hold().
    TERN_DB_HURRIED = 4,
    // Also opens a database with an older schema: tern_db_is_older(). Before an upgrade only tern_db_hold(),
    // _nodes(), _upgrade(), _take_upgraded() and _close() may be called. The caller holds the lock beside a file.
    TERN_DB_OLDER = 8,
};
// Opens a database. Nobody changes the schema of one in PostgreSQL until it is closed.
// TERN_ERR_NOT_FOUND  no such file; TERN_ERR_UNKNOWN  the schema is newer than this program; TERN_ERR_STATE  it is
// older, or another program is changing it
TERN_MUST_USE enum tern_result tern_db_open(const char *path, unsigned flags, struct tern_db **db,
                                            char why[256]);
bool tern_db_is_older(const struct tern_db *db);
// Brings an older schema up to date in one transaction. The caller holds the database.
// TERN_ERR_STATE  other programs, which the sentence names, have it open and would continue with another schema
TERN_MUST_USE enum tern_result tern_db_upgrade(struct tern_db *db);
// Continues with the current schema if another program has brought it up to date since the opening.
// TERN_ERR_STATE  the schema is still older, or is being changed
TERN_MUST_USE enum tern_result tern_db_take_upgraded(struct tern_db *db);
// For a service, before it reads: keeps other services away until db is closed, also those on other machines, and waits
// for writes of an earlier service. A file has a lock beside it instead.
// TERN_ERR_STATE   another service still serves it after five seconds
// TERN_ERR_CONFIG  this program may not write it
TERN_MUST_USE enum tern_result tern_db_hold(struct tern_db *db);
// Whether the connection of tern_db_hold() was lost and another service holds the database since. Everything that this
// one does fails from then on.
bool tern_db_is_displaced(const struct tern_db *db);

void tern_db_close(struct tern_db *db);
const char *tern_db_path(const struct tern_db *db); // valid until tern_db_close()
const char *tern_db_error(const struct tern_db *db);

// Whether a TERN_ERR_IO since the opening came from a damaged file, which no repetition mends, and not from a failing
// disk. tern_db_error() then has the sentence. Outside of transactions: it may read the whole database to find out.
bool tern_db_damaged(struct tern_db *db);

TERN_MUST_USE enum tern_result tern_db_federation(struct tern_db *db,
                                                  struct tern_db_federation *federation);

// Reads the safetensors file of tensors that are not trained. The caller frees it.
// TERN_ERR_NOT_FOUND  there is none; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_db_kept_get(struct tern_db *db, uint8_t **kept, size_t *len);

// Transactions. begin waits up to 5 s for writes of other processes, then returns TERN_ERR_BUSY. A write outside of a
// transaction, or begin inside of one, is TERN_ERR_STATE. After a write failed by TERN_ERR_IO, _BUSY or _NO_MEMORY, commit
// rolls back and returns TERN_ERR_IO. After other results the transaction may continue.
TERN_MUST_USE enum tern_result tern_db_begin(struct tern_db *db);
TERN_MUST_USE enum tern_result tern_db_commit(struct tern_db *db);
void tern_db_rollback(struct tern_db *db);
// Commits if result is TERN_OK. Otherwise rolls back and returns result.
TERN_MUST_USE enum tern_result tern_db_conclude(struct tern_db *db, enum tern_result result);

// Writes a row unchanged, so that the commit shows whether the disk accepts writes.
TERN_MUST_USE enum tern_result tern_db_touch(struct tern_db *db);

// Begins a snapshot: until tern_db_rollback() all reads see the database as of the first read, while others write.
// TERN_ERR_STATE  within a transaction
TERN_MUST_USE enum tern_result tern_db_begin_reading(struct tern_db *db);

// Whether another process has written since the last call (a revocation, a new code).
bool tern_db_changed_by_others(struct tern_db *db);

// Writes a consistent copy that tern_db_open() opens. The service may write meanwhile.
// TERN_ERR_CONFLICT  the file exists already; TERN_ERR_STATE  within a transaction, or the database is PostgreSQL's
TERN_MUST_USE enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256]);

// Moves the log into the file and keeps others out until db is closed, which must follow.
// TERN_ERR_BUSY  another program has it open
TERN_MUST_USE enum tern_result tern_db_settle(struct tern_db *db);

// Copies a database that nobody has open, such as a backup, into a new file, mode 0600.
// TERN_ERR_NOT_FOUND  there is no file `from`; TERN_ERR_CONFLICT  `to` exists already
// TERN_ERR_STATE      a log is beside `from`: it is in use, or was when it was copied
TERN_MUST_USE enum tern_result tern_db_copy(const char *from, const char *to, char why[256]);

// Replaces the database `path` by `file`, which is settled and closed, at once and durably. The old database and its log
// get names that begin with `kept`. If the old one is settled, a kill or a power cut leaves it or the new one whole.
// TERN_ERR_CONFLICT  a file `kept` exists
TERN_MUST_USE enum tern_result tern_db_replace(const char *file, const char *path, const char *kept,
                                               char why[256]);

// Removes a database file with its log. Nobody has it open.
void tern_db_remove(const char *path);

// Checks every page and index, and everything that has a hash or a checksum.
// TERN_ERR_IO  the file is damaged, or cannot be read: tern_db_damaged()
TERN_MUST_USE enum tern_result tern_db_check(struct tern_db *db);
// Within a transaction: stores the clock (columns clock_*) to which all times stored from now on refer.
TERN_MUST_USE enum tern_result tern_db_set_clock(struct tern_db *db,
                                                 const struct tern_db_federation *clock);
// Reads the latest stored time of a client's request or of the last round. 0 = none.
TERN_MUST_USE enum tern_result tern_db_latest_ms(struct tern_db *db, uint64_t *latest_ms);

// Within a transaction: stores that the federation continues in the database `to` since now_ms. "": it continues in
// this database again.
TERN_MUST_USE enum tern_result tern_db_set_copied(struct tern_db *db, const char *to,
                                                  uint64_t now_ms);
// Within a transaction: stores that the database was restored from a backup.
TERN_MUST_USE enum tern_result tern_db_set_restored(struct tern_db *db, uint64_t now_ms);
// Within a transaction: stores the time of a check that found no problem.
TERN_MUST_USE enum tern_result tern_db_set_checked(struct tern_db *db, uint64_t now_ms);
// Lets long operations fail once *stop is true, which any thread may set.
void tern_db_stop_when(struct tern_db *db, const atomic_bool *stop);

// Checks only the pages, in a fraction of the time. TERN_ERR_IO the file is damaged
TERN_MUST_USE enum tern_result tern_db_quick_check(struct tern_db *db);

// Counts the bytes of the file, without its log.
TERN_MUST_USE enum tern_result tern_db_bytes(struct tern_db *db, uint64_t *bytes);
// Counts the unused bytes of the file, which new rows use first and tern_db_shrink_some() releases.
TERN_MUST_USE enum tern_result tern_db_free_bytes(struct tern_db *db, uint64_t *bytes);

// --- Room on the disk, by which large work is cut into transactions that fit

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
// Between two rows the caller may read from db, and write rows that it is not reading.

struct tern_db_rows;

// Reads the next row into the struct of its table. False: there is none, or opening or reading failed.
bool tern_db_next(struct tern_db_rows *rows, void *row);
// Unless result is TERN_OK, ends the rows: tern_db_end() then returns the result.
void tern_db_check_row(struct tern_db_rows *rows, enum tern_result result);
// Frees the rows, also before all of them were read. Returns the first failure of the query. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_db_end(struct tern_db_rows *rows);

// --- Clients and join codes

// What became of a client's last masked update.
enum tern_db_settlement {
    TERN_SETTLEMENT_NONE = 0,       // its round has no sum yet
    TERN_SETTLEMENT_COUNTED = 1,    // the model has the update
    TERN_SETTLEMENT_GIVEN_BACK = 2, // the client puts the update back into its error buffer
};
#define TERN_LAST_settlement TERN_SETTLEMENT_GIVEN_BACK

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
// Stores the columns that a client's requests change. The client exists. Its revocation stays, because the command line
// may have revoked it a moment ago.
TERN_MUST_USE enum tern_result tern_db_client_update(struct tern_db *db,
                                                     const struct tern_db_client *client);

// Revokes the client and drops its pre-shared key. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id);

// Replaces all tags of the client (rounds/tags.h). NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_client_tag(struct tern_db *db, uint64_t id,
                                                  const char tags[TERN_DB_TAGS_MAX]);

// Lists all clients by id.
struct tern_db_rows *tern_db_clients(struct tern_db *db);
// Lists the first `limit` clients with an id above `after`, by id.
struct tern_db_rows *tern_db_clients_after(struct tern_db *db, uint64_t after, uint32_t limit);

// Counts clients that are not revoked and left a share of their tasks unreported: above 0, at least `least` and below
// `below`. sum: of these shares
struct tern_db_unreported {
    uint64_t clients;
    double sum;
};
TERN_MUST_USE enum tern_result tern_db_sum_unreported(struct tern_db *db, double least,
                                                      double below,
                                                      struct tern_db_unreported *unreported);

// Lists and counts clients that are not revoked and whose last training failed, the newest failure first.
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
// Lists the first `limit` clients whose columns have another tag than `usual`, by id.
struct tern_db_rows *tern_db_clients_of_other_columns(struct tern_db *db, uint32_t usual,
                                                      uint32_t limit);

// The pre-shared key of a client. Unlike a token it cannot be stored as a hash, because the handshake needs the key.
struct tern_db_psk {
#define COLUMN TERN_MEMBER
#include "store/tables/psk_keys.def"
};
// TERN_ERR_CONFLICT  the client has one; NOT_FOUND  no such client
TERN_MUST_USE enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                               const uint8_t key[TERN_SHA256_SIZE]);
// Lists all pre-shared keys by client.
struct tern_db_rows *tern_db_psks(struct tern_db *db);

struct tern_db_code {
#define COLUMN TERN_MEMBER
#include "store/tables/codes.def"
};

// TERN_ERR_CONFLICT  the code exists already
TERN_MUST_USE enum tern_result tern_db_code_add(struct tern_db *db,
                                                const struct tern_db_code *code);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_code_get(struct tern_db *db,
                                                const uint8_t hash[TERN_SHA256_SIZE],
                                                struct tern_db_code *code);
// Lists all join codes by the time of their creation.
struct tern_db_rows *tern_db_codes(struct tern_db *db);
// Sets the uses left of the code to 0. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_code_cancel(struct tern_db *db,
                                                   const uint8_t hash[TERN_SHA256_SIZE]);
// Counts the clients that enrolled with the code (column `code` of clients).
TERN_MUST_USE enum tern_result tern_db_clients_of_code(struct tern_db *db, const char *code,
                                                       uint64_t *count);
// Takes one use. NOT_FOUND: no such code, or used up, or expired at now_ms; the caller cannot distinguish them.
TERN_MUST_USE enum tern_result
tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE], uint64_t now_ms);

// --- Rounds, assignments, updates

enum tern_db_round_state {
    TERN_ROUND_OPEN = 0,
    TERN_ROUND_COMMITTED = 1,
    TERN_ROUND_ABANDONED =
        2, // made no version: a secure round without a sum, or one that the operator gave up for a restored one
};
#define TERN_LAST_round_state TERN_ROUND_ABANDONED

enum tern_db_round_mode {
    TERN_ROUND_PLAIN = 0,
    TERN_ROUND_SECURE = 1, // has a row in secure_rounds
    // Without clients: weights that are kept (TERN_WEIGHTS_PINNED) become the next version. `restored` and
    // `strategy_parameters` of the row are their version and their name; `strategy` is the verb that ordered it.
    TERN_ROUND_RESTORED = 2,
};
#define TERN_LAST_round_mode TERN_ROUND_RESTORED

struct tern_db_round {
#define COLUMN TERN_MEMBER
#include "store/tables/rounds.def"
};

// The training loss that ends a federation and chooses its best version: the median, because one report can move the
// mean anywhere; the mean where no update came in time.
static inline float tern_db_round_loss(const struct tern_db_round *round)
{
    return round->median_loss != 0.0F ? round->median_loss : round->mean_loss;
}

// Returns the share of a committed round's time for which the service thread worked, at most 1; 0 = unknown.
static inline double tern_db_round_service_share(const struct tern_db_round *round)
{
    const double ms =
        round->closed_ms > round->opened_ms ? (double)(round->closed_ms - round->opened_ms) : 0;
    const double worked_ms = (double)round->service_us / 1e3;
    return worked_ms < ms ? worked_ms / ms : ms > 0;
}

// Returns the milliseconds of processor time that a committed round's searches took for each of its updates.
static inline double tern_db_round_search_ms(const struct tern_db_round *round)
{
    return round->applied > 0 ? (double)round->search_us / 1e3 / round->applied : 0;
}

// Inserts or replaces a round. TERN_ERR_CONFLICT the stored round is committed or abandoned, and `round` is in another state
TERN_MUST_USE enum tern_result tern_db_round_put(struct tern_db *db,
                                                 const struct tern_db_round *round);
TERN_MUST_USE enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round,
                                                 struct tern_db_round *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_round_last(struct tern_db *db,
                                                  struct tern_db_round *out); // NOT_FOUND
// The newest committed round. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_round_committed(struct tern_db *db,
                                                       struct tern_db_round *out);
struct tern_db_rows *tern_db_rounds(struct tern_db *db); // ascending
// The first `limit` of these above the round `after`.
struct tern_db_rows *tern_db_rounds_after(struct tern_db *db, uint32_t after, uint32_t limit);

enum tern_db_assignment_state {
    TERN_ASSIGNMENT_INVITED = 0,  // the client is selected, and has not fetched its task
    TERN_ASSIGNMENT_TASKED = 1,   // the client has its task
    TERN_ASSIGNMENT_REPORTED = 2, // the client's update is accepted
    TERN_ASSIGNMENT_REPLACED = 3, // the client did not report, and another one was selected instead
};
#define TERN_LAST_assignment_state TERN_ASSIGNMENT_REPLACED

struct tern_db_assignment {
#define COLUMN TERN_MEMBER
#include "store/tables/assignments.def"
};

// Inserts or replaces an assignment of a round and a client that exist. before: its stored state; NULL: it is new.
// TERN_ERR_CONFLICT  its client has reported, and this state is another one
TERN_MUST_USE enum tern_result tern_db_assignment_put(struct tern_db *db,
                                                      const struct tern_db_assignment *assignment,
                                                      const enum tern_db_assignment_state *before);
// NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round,
                                                      uint64_t client,
                                                      struct tern_db_assignment *out);
// Lists the assignments of a round by client.
struct tern_db_rows *tern_db_assignments(struct tern_db *db, uint32_t round);

struct tern_db_update {
#define COLUMN TERN_MEMBER
#include "store/tables/updates.def"
    const uint8_t *body; // the Update message, as received
};

// Value of `merged` for a masked update, which no round merges: its round merges the sum.
#define TERN_DB_MASKED UINT32_MAX

// Stores an update. (round, client) is its key: both exist, and no update is stored under it yet.
// TERN_ERR_TOO_LARGE  above 1,000,000,000 bytes
TERN_MUST_USE enum tern_result tern_db_update_put(struct tern_db *db,
                                                  const struct tern_db_update *update);
// Reads the update of (round, client), without its body. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round,
                                                   uint64_t client, struct tern_db_update *out);
// Visits the updates that count in `round`, in (client, round) order; for a secure round its one sum (struct
// tern_db_secure_sum) as an update of client 0. The body was checked against sha256 and is valid
// during the call only; NULL: tern_db_prune_some() has dropped it. Stops early with the result of visit unless that is
// TERN_OK.
TERN_MUST_USE enum tern_result
tern_db_update_each(struct tern_db *db, uint32_t round,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);
// Visits the update of (round, client), as tern_db_update_each() visits the updates of a round. NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_update_show(struct tern_db *db, uint32_t round, uint64_t client,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);

// --- Secure rounds

enum tern_db_secure_state {
    TERN_SECURE_TRAINING = 0, // clients send masked updates
    TERN_SECURE_ASKED = 1, // no further update counts; the helper is asked for the sum of the masks
    TERN_SECURE_SUMMED = 2, // the sum is stored, and the updates are deleted
    TERN_SECURE_ABANDONED =
        3, // the updates are deleted, and their clients put them back into their error buffers
};
#define TERN_LAST_secure_state TERN_SECURE_ABANDONED

struct tern_db_secure_round {
#define COLUMN TERN_MEMBER
#include "store/tables/secure_rounds.def"
};

struct tern_db_secure_sum {
#define COLUMN TERN_MEMBER
#include "store/tables/secure_sums.def"
};

TERN_MUST_USE enum tern_result tern_db_secure_round_put(struct tern_db *db,
                                                        const struct tern_db_secure_round *row);
// List the one row of a round, and that of the last round whose sum is stored, if there is one.
struct tern_db_rows *tern_db_secure_round(struct tern_db *db, uint32_t round);
struct tern_db_rows *tern_db_secure_last_summed(struct tern_db *db);
// Stores a round's sum, from which its version is made; sets its hash.
TERN_MUST_USE enum tern_result tern_db_secure_sum_put(struct tern_db *db,
                                                      struct tern_db_secure_sum *sum);

// Visits the masked updates of a round by client, as tern_db_update_each() visits others.
TERN_MUST_USE enum tern_result
tern_db_masked_each(struct tern_db *db, uint32_t round,
                    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update),
                    void *ctx);
// Deletes the bodies of a round's masked updates.
TERN_MUST_USE enum tern_result tern_db_masked_drop(struct tern_db *db, uint32_t round);

enum tern_db_ticket_state {
    TERN_TICKET_WAITING = 0, // not passed on to the helper yet
    TERN_TICKET_ADMITTED = 1,
    TERN_TICKET_REFUSED = 2,
};
#define TERN_LAST_ticket_state TERN_TICKET_REFUSED

struct tern_db_ticket {
#define COLUMN TERN_MEMBER
#include "store/tables/tickets.def"
};

TERN_MUST_USE enum tern_result tern_db_ticket_put(struct tern_db *db,
                                                  const struct tern_db_ticket *ticket);
struct tern_db_rows *tern_db_tickets(struct tern_db *db); // by client and epoch
// Lists the client's one ticket of the epoch, if there is one.
struct tern_db_rows *tern_db_ticket(struct tern_db *db, uint64_t client, uint32_t epoch);
// Lists the first tickets in state WAITING.
struct tern_db_rows *tern_db_tickets_waiting(struct tern_db *db, uint32_t limit);
// Counts the clients, without revoked ones, with an admitted ticket of the newest epoch.
TERN_MUST_USE enum tern_result tern_db_tickets_admitted(struct tern_db *db, uint32_t *clients);
// Deletes the tickets of all epochs before `epoch`.
TERN_MUST_USE enum tern_result tern_db_tickets_drop(struct tern_db *db, uint32_t epoch);

// --- Model state

enum tern_db_weights {
    TERN_WEIGHTS_GLOBAL = 0,  // the global model
    TERN_WEIGHTS_REPLICA = 1, // the shared replica
    TERN_WEIGHTS_INITIAL = 2, // version 0 of a federation without a seed, which replays need
    TERN_WEIGHTS_PINNED =
        6, // global weights that labels and restored rounds need; after the kinds of store/tables.h
};

// Stores or reads the weights of a version: count float32 values.
TERN_MUST_USE enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t version, const float *weights,
                                                   uint32_t count);
// NOT_FOUND; TERN_ERR_CORRUPT when count differs. On error weights are unspecified.
TERN_MUST_USE enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                                   uint32_t version, float *weights,
                                                   uint32_t count);

// Stores or reads a state that a strategy carries from round to round, such as a momentum "m": count float32 values of a
// version. get: NOT_FOUND; on error values are unspecified.
TERN_MUST_USE enum tern_result tern_db_state_put(struct tern_db *db, const char *name,
                                                 uint32_t version, const float *values,
                                                 uint32_t count);
TERN_MUST_USE enum tern_result tern_db_state_get(struct tern_db *db, const char *name,
                                                 uint32_t version, float *values, uint32_t count);

// A checkpoint is a version's states, replica and global weights. Several transactions may write it in parts. Part 0 of
// the global weights completes it and is written last. Until then the previous checkpoint is the valid one.
uint32_t tern_db_vector_parts(uint32_t count); // number of parts of a vector of `count` values
// TERN_ERR_ARGUMENT  there is no such part
TERN_MUST_USE enum tern_result tern_db_weights_put_part(struct tern_db *db,
                                                        enum tern_db_weights kind, uint32_t version,
                                                        const float *weights, uint32_t count,
                                                        uint32_t part);
TERN_MUST_USE enum tern_result tern_db_state_put_part(struct tern_db *db, const char *name,
                                                      uint32_t version, const float *values,
                                                      uint32_t count, uint32_t part);
// Finds the version of the newest complete checkpoint. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_checkpoint(struct tern_db *db, uint32_t *version);
// Deletes some parts of all older checkpoints. *more: parts may be left
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

// --- Labels, and the weights that are kept for them and for restored rounds

// A name of a version, whose global weights are kept. The service gives the label TERN_LABEL_BEST (federation/best.h).
#define TERN_LABEL_BEST "best"
struct tern_db_label {
#define COLUMN TERN_MEMBER
#include "store/tables/labels.def"
};
// Inserts or replaces a label.
TERN_MUST_USE enum tern_result tern_db_label_put(struct tern_db *db,
                                                 const struct tern_db_label *label);
TERN_MUST_USE enum tern_result tern_db_label_get(struct tern_db *db, const char *name,
                                                 struct tern_db_label *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_label_drop(struct tern_db *db,
                                                  const char *name); // NOT_FOUND
// Lists all labels by version and name.
struct tern_db_rows *tern_db_labels(struct tern_db *db);

// The operator's order that the service executes as a restored round.
struct tern_db_order {
#define COLUMN TERN_MEMBER
#include "store/tables/orders.def"
};
// Inserts or replaces the only order; sets order->id.
TERN_MUST_USE enum tern_result tern_db_order_put(struct tern_db *db, struct tern_db_order *order);
TERN_MUST_USE enum tern_result tern_db_order_get(struct tern_db *db,
                                                 struct tern_db_order *out); // NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_order_drop(struct tern_db *db);

// Pinned weights have a version and a name: "" for the version's own global weights. A label, an order or a restored round
// must name them before the first part is stored, because tern_db_pinned_drop_some() deletes all others. While there are
// evaluators, it leaves the weights of the 16 newest versions of models with at most TERN_DB_RECENT_VALUES values, which are
// stored at once: one of them may prove the best.
#define TERN_DB_RECENT_VALUES (UINT32_C(1) << 18)
//
// Stores the next 1 MiB, from the last part to the first, also in other transactions. *more: parts are missing, and
// nothing finds the weights
TERN_MUST_USE enum tern_result tern_db_pinned_put_some(struct tern_db *db, const char *name,
                                                       uint32_t version, const float *weights,
                                                       uint32_t count, bool *more);
// NOT_FOUND  they are not kept, or not all parts are stored; TERN_ERR_CORRUPT when count differs
TERN_MUST_USE enum tern_result tern_db_pinned_get(struct tern_db *db, const char *name,
                                                  uint32_t version, float *weights, uint32_t count);
// Whether all parts are stored.
TERN_MUST_USE enum tern_result tern_db_pinned_is_whole(struct tern_db *db, const char *name,
                                                       uint32_t version, bool *whole);
// Deletes some parts of pinned weights that no label, no order and no restored round needs. A round that retention has
// pruned needs none. *more: parts may be left
TERN_MUST_USE enum tern_result tern_db_pinned_drop_some(struct tern_db *db, bool *more);

// Updates that `reject` leaves out: those of a client for the rounds first to last.
struct tern_db_rejection {
    uint64_t client;
    uint32_t first;
    uint32_t last;
    const struct tern_db_rejection *next; // of a list; NULL = the last one
};

// This connection reads updates as if those in the list had not been sent. The caller owns the list, and ends this by NULL.
void tern_db_hide_updates(struct tern_db *db, const struct tern_db_rejection *hidden);

// --- Downloads

struct tern_db_download {
#define COLUMN TERN_MEMBER
#include "store/tables/downloads.def"
};

// Stores a download, unless the download is stored already.
TERN_MUST_USE enum tern_result tern_db_download_put(struct tern_db *db,
                                                    const struct tern_db_download *download,
                                                    const uint8_t *blob);
// Stores up to 1 MiB of a download's bytes, those behind what earlier calls have stored, also in other transactions. *more:
// some are missing; until the last call nothing finds the download. view sets *data to `len` bytes from offset `at` on, valid
// until its next call; its error is returned, and nothing was written.
TERN_MUST_USE enum tern_result tern_db_download_put_some(
    struct tern_db *db, const struct tern_db_download *download,
    enum tern_result (*view)(void *ctx, size_t at, size_t len, const uint8_t **data), void *ctx,
    bool *more);
// Deletes up to 4 MiB of bytes of a download, or of a replica's weights, that were deleted, or whose storing was given up. None
// may be stored in part. count: values of the model. *more: bytes may be left
TERN_MUST_USE enum tern_result tern_db_parts_drop_some(struct tern_db *db, uint32_t count,
                                                       bool *more);
// Reads a download, and its bytes into dst unless dst is NULL. NOT_FOUND; TERN_ERR_NO_SPACE dst_size is too small
TERN_MUST_USE enum tern_result tern_db_download_get(struct tern_db *db,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_db_download *out, uint8_t *dst,
                                                    size_t dst_size);
// Passes the bytes of a download to take, piece by piece. They are correct only if the result is TERN_OK. Stops early with
// the result of take unless that is TERN_OK.
TERN_MUST_USE enum tern_result
tern_db_download_stream(struct tern_db *db, const struct tern_db_download *download,
                        enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len),
                        void *ctx);
// The delta (snapshot = false) or the snapshot that ends at to_version on the shared replica. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version,
                                                   bool snapshot, struct tern_db_download *out);
// Drops every snapshot that ends before to_version, except those that opened a replica; deltas stay. *freed: their bytes
TERN_MUST_USE enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version,
                                                      uint64_t *freed);

// --- Replicas

// How a replica's weights are stored.
enum tern_db_replica_form {
    TERN_REPLICA_SEED = 0,     // the seed makes the weights
    TERN_REPLICA_STEP = 1,     // the parent's weights plus the download
    TERN_REPLICA_SNAPSHOT = 2, // the download has the weights
    TERN_REPLICA_WHOLE = 3,    // the weights are stored as float32: tern_db_replica_weights_put()
};
#define TERN_LAST_replica_form TERN_REPLICA_WHOLE

struct tern_db_replica {
#define COLUMN TERN_MEMBER
#include "store/tables/replicas.def"
};

// Adds a replica; one that exists stays unchanged. A step's parent gets one more child.
// NOT_FOUND  there is no parent
TERN_MUST_USE enum tern_result tern_db_replica_put(struct tern_db *db,
                                                   const struct tern_db_replica *replica);
TERN_MUST_USE enum tern_result tern_db_replica_get(struct tern_db *db,
                                                   const uint8_t id[TERN_SHA256_SIZE],
                                                   struct tern_db_replica *out); // NOT_FOUND
// The least id that begins with `start`, of a replica, or of a version whose replica was dropped. len: at most
// TERN_SHA256_SIZE
TERN_MUST_USE enum tern_result tern_db_replica_id(struct tern_db *db, const uint8_t *start,
                                                  size_t len,
                                                  uint8_t id[TERN_SHA256_SIZE]); // NOT_FOUND
// Notes the use of a replica. This and tern_db_replica_suspect() do nothing without such a replica.
TERN_MUST_USE enum tern_result
tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t now_ms);
// Adds step ms to the times of use after the clock was set, which keeps the order of use.
TERN_MUST_USE enum tern_result tern_db_replicas_set_clock(struct tern_db *db, int64_t step);
TERN_MUST_USE enum tern_result
tern_db_replica_suspect(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], bool suspect);
// Whether a client that is not revoked reported that it holds the replica.
TERN_MUST_USE enum tern_result tern_db_replica_held(struct tern_db *db,
                                                    const uint8_t id[TERN_SHA256_SIZE], bool *held);
// Drops a replica, its weights and every download from it or to it. Its parent loses a child and becomes suspect.
// *freed: bytes of these weights and downloads
// TERN_ERR_STATE  it has children; NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_replica_drop(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t *freed);
// Lists up to `max` ids: suspects, the lowest versions first; or replicas without children of versions before `before`,
// the least recently used first.
TERN_MUST_USE enum tern_result tern_db_replica_suspects(struct tern_db *db,
                                                        uint8_t (*ids)[TERN_SHA256_SIZE],
                                                        uint32_t max, uint32_t *count);
TERN_MUST_USE enum tern_result tern_db_replica_unused(struct tern_db *db, uint32_t before,
                                                      uint8_t (*ids)[TERN_SHA256_SIZE],
                                                      uint32_t max, uint32_t *count);
// Counts the clients that are not revoked and hold the replica.
TERN_MUST_USE enum tern_result
tern_db_replica_holders(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE], uint64_t *clients);
// Lists all replicas by version and id.
struct tern_db_rows *tern_db_replicas(struct tern_db *db);

// The weights of a replica that is stored whole. put makes it one: it is no step of its parent any more, which loses a
// child and becomes suspect. Errors of tern_db_weights_get()
TERN_MUST_USE enum tern_result tern_db_replica_weights_put(struct tern_db *db,
                                                           const uint8_t id[TERN_SHA256_SIZE],
                                                           const float *weights, uint32_t count);
// Stores up to 1 MiB of such weights before the call of put, those behind what earlier calls have stored, also in other
// transactions; nothing of weights of 4 MiB or fewer. *more: some are missing
TERN_MUST_USE enum tern_result tern_db_replica_weights_put_some(struct tern_db *db,
                                                                const uint8_t id[TERN_SHA256_SIZE],
                                                                const float *weights,
                                                                uint32_t count, bool *more);
TERN_MUST_USE enum tern_result tern_db_replica_weights_get(struct tern_db *db,
                                                           const uint8_t id[TERN_SHA256_SIZE],
                                                           float *weights, uint32_t count);

// Finds the delta from a replica to a version that this codec encoded. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_delta_find(struct tern_db *db,
                                                  const uint8_t from[TERN_SHA256_SIZE],
                                                  uint32_t to_version, const char *codec,
                                                  struct tern_db_download *out);
// Finds the snapshot of a version that this codec encoded and from which a replica was made. NOT_FOUND
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
// The puts below insert or replace a row of a client that exists.
TERN_MUST_USE enum tern_result tern_db_ledger_put(struct tern_db *db,
                                                  const struct tern_db_ledger *ledger);
TERN_MUST_USE enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client,
                                                  struct tern_db_ledger *out); // NOT_FOUND
// In client order, behind the client `after`.
struct tern_db_rows *tern_db_ledgers_after(struct tern_db *db, uint64_t after);

struct tern_db_schedule {
#define COLUMN TERN_MEMBER
#include "store/tables/schedule.def"
};
TERN_MUST_USE enum tern_result tern_db_schedule_put(struct tern_db *db,
                                                    const struct tern_db_schedule *schedule);
TERN_MUST_USE enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                                    struct tern_db_schedule *out); // NOT_FOUND
struct tern_db_rows *tern_db_schedules(struct tern_db *db);                        // by client
struct tern_db_rows *tern_db_schedules_after(struct tern_db *db,
                                             uint64_t after); // clients above `after`, by client

// Which weights of a version were evaluated.
enum tern_db_evaluated {
    TERN_EVALUATED_REPLICA = 0, // the evaluator's replica, from compressed downloads
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
// Lists the evaluations of one version, as tern_db_evaluations_from().
struct tern_db_rows *tern_db_evaluations_of(struct tern_db *db, uint32_t version);
// Finds the newest version that any evaluator reported on, also a revoked one. NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_evaluated_last(struct tern_db *db, uint32_t *version);

// How many evaluators that are not revoked reported on a version's replica, or on its global model.
struct tern_db_reports {
    uint32_t version;
    enum tern_db_evaluated model;
    uint64_t created_ms; // when the version was made; 0 = not known
    uint32_t reports;
    uint32_t in_time; // reports of evaluators that had enrolled before the version was made
};
// Counts of the reports on versions first to last. Sorted by version and model.
struct tern_db_rows *tern_db_reports(struct tern_db *db, uint32_t first, uint32_t last);

// Times of an evaluator that is not revoked: its enrolment and its last request.
struct tern_db_evaluator {
    uint64_t created_ms;
    uint64_t last_seen_ms;
};
// Evaluators with at least one request, in no order.
struct tern_db_rows *tern_db_evaluators(struct tern_db *db);

#define TERN_DB_METRIC_MAX 16
struct tern_db_metric {
#define COLUMN TERN_MEMBER
#include "store/tables/metrics.def"
};
TERN_MUST_USE enum tern_result tern_db_metric_put(struct tern_db *db,
                                                  const struct tern_db_metric *metric);
// Deletes the client's metrics of the version, before new ones replace them.
TERN_MUST_USE enum tern_result tern_db_metrics_drop(struct tern_db *db, uint32_t version,
                                                    uint64_t client);
// Lists the names of all kept metrics of the client, sorted, `most` at most. *count: their number.
TERN_MUST_USE enum tern_result tern_db_metric_names(struct tern_db *db, uint64_t client,
                                                    char names[][TERN_DB_METRIC_MAX], uint32_t most,
                                                    uint32_t *count);
// Metrics of clients that train from that version on. Sorted by version, name and client.
struct tern_db_rows *tern_db_metrics_from(struct tern_db *db, uint32_t version);
// Metrics from that version on, of evaluators that are not revoked. Sorted by version, model, lateness, client and
// name.
struct tern_db_rows *tern_db_evaluation_metrics_from(struct tern_db *db, uint32_t version);
// Lists the metrics of one version, as tern_db_evaluation_metrics_from().
struct tern_db_rows *tern_db_evaluation_metrics_of(struct tern_db *db, uint32_t version);

// --- Privacy

// The client with the largest privacy_loss, and what clients ever sent without noise.
struct tern_db_exposure {
    uint64_t worst_client; // 0 = no client has a loss
    float worst_loss;
    uint64_t plain_round; // first plain round; 0 = none
    uint64_t bare_round;  // first secure round whose sum was released without noise; 0 = none
    // Rounds whose sum the helper was asked for, with noise: their number, least noise in thousandths, and most updates.
    uint64_t rounds;
    uint64_t least_noise;
    uint64_t most_updates;
    uint64_t statistics;  // clients whose statistics of columns are stored
    bool has_evaluations; // results of evaluators are stored
    bool has_metrics;     // metrics of clients that train are stored
};
TERN_MUST_USE enum tern_result tern_db_exposure(struct tern_db *db,
                                                struct tern_db_exposure *exposure);

// --- Statistics of columns, and the scaling from them

struct tern_db_statistics {
#define COLUMN TERN_MEMBER
#include "store/tables/statistics.def"
};

// Adds a client's statistics and sets their hash.
// TERN_ERR_CONFLICT  the client has some already; NOT_FOUND  no such client
TERN_MUST_USE enum tern_result tern_db_statistics_add(struct tern_db *db,
                                                      struct tern_db_statistics *statistics);
// Lists all statistics by client. The caller checks the hashes.
struct tern_db_rows *tern_db_statistics(struct tern_db *db);
// Adds step ms to the times of receipt after the clock was set.
TERN_MUST_USE enum tern_result tern_db_statistics_set_clock(struct tern_db *db, int64_t step);

// Stores the final scaling and drops the statistics.
// TERN_ERR_CONFLICT  there is one already
TERN_MUST_USE enum tern_result tern_db_scaling_fix(struct tern_db *db, const uint8_t *body,
                                                   size_t len);
// Reads the final scaling. The caller frees *body. NOT_FOUND; TERN_ERR_NO_MEMORY
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
// Adds to the row (client, round) and to all sums. When the round's rows were dropped, only the sums grow.
TERN_MUST_USE enum tern_result tern_db_meter_add(struct tern_db *db,
                                                 const struct tern_db_meter *meter);
// Reads the row (client, round), with purpose 0. Zeros without a row.
TERN_MUST_USE enum tern_result tern_db_meter_of(struct tern_db *db, uint64_t client, uint32_t round,
                                                struct tern_db_meter *out);

enum tern_db_meter_group {
    TERN_METER_BY_PURPOSE = 0,
    TERN_METER_BY_CLIENT = 1,
    TERN_METER_BY_ROUND = 2,
};
// Sums over all rows with one value of the group's field, in its order. The two other fields are 0.
struct tern_db_rows *tern_db_meter_sums(struct tern_db *db, enum tern_db_meter_group group);
// Sums over all rows of clients that train, without evaluators and peers that never authenticated. outside: the part
// outside any round.
TERN_MUST_USE enum tern_result tern_db_meter_training(struct tern_db *db, struct tern_db_meter *all,
                                                      struct tern_db_meter *outside);

// Totals of a round: of the clients that train, or of the others, which are no participants.
struct tern_db_round_total {
    uint32_t round;
    bool trains;
    uint32_t participants;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// Rounds above `after`, in order, with bytes or participants of clients that train.
struct tern_db_rows *tern_db_round_totals_after(struct tern_db *db, uint32_t after);

// Totals of a client over all rounds.
struct tern_db_client_total {
    uint64_t client;
    uint32_t invited;
    uint32_t reported;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};
// In client order from `first` on: clients whose bytes were stored, and client 0, which stands for peers that never
// authenticated.
struct tern_db_rows *tern_db_client_totals_from(struct tern_db *db, uint64_t first);

// --- Totals

struct tern_db_counts {
#define TOTAL(name, text, json) uint64_t name;
#include "store/tables/counts.def"
    uint64_t file_bytes;
};
TERN_MUST_USE enum tern_result tern_db_counts(struct tern_db *db, uint64_t now_ms,
                                              struct tern_db_counts *counts);

// --- Retention: drops the bodies of old rounds' updates, then rows that no sum needs any more

// Counts the bytes of all update bodies received so far, also of dropped ones.
TERN_MUST_USE enum tern_result tern_db_received_bytes(struct tern_db *db, uint64_t *bytes);
// The first round at whose commit `received` bytes had arrived, or the last committed round; at least the last pruned
// one. 0 = none.
TERN_MUST_USE enum tern_result tern_db_prune_goal(struct tern_db *db, uint64_t received,
                                                  uint32_t *round);
// Marks the rounds up to `last` as pruned: they cannot be replayed any more. Rounds after the checkpoint stay, because
// later versions are made from them. Bodies exist until tern_db_prune_some() drops them.
TERN_MUST_USE enum tern_result tern_db_prune(struct tern_db *db, uint32_t last);
// Drops bodies of updates in pruned rounds, the oldest first, up to `bytes` bytes or 1,000 bodies. Without bodies left, it
// drops rows of one pruned round that is not among the `newest` rounds: up to 1,000 each of metrics, updates, assignments
// and the meter. Rows of a client whose last update in the error ledger was for the round stay. *more: some may be left
TERN_MUST_USE enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes,
                                                  uint32_t newest, bool *more);
// Drops the rows of a client's update for `round`, if the other rows of the round were dropped. Called when a later
// update of the client is accepted, which shows that the client has the answer to the earlier one.
TERN_MUST_USE enum tern_result tern_db_prune_last(struct tern_db *db, uint64_t client,
                                                  uint32_t round);
// Gives up to `bytes` of unused space of the file back to the file system. *more: more can be given back
TERN_MUST_USE enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more);

// --- Keys of TLS session tickets that several services share, sealed by a private key (http/tickets.h)

struct tern_db_ticket_keys {
#define COLUMN TERN_MEMBER
#include "store/tables/ticket_keys.def"
};
// Reads the first `size` bytes of the keys. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_ticket_keys_get(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       uint8_t *sealed, size_t size, size_t *len);
// Inserts or replaces the sealed keys of `sealer`.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_put(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       const uint8_t *sealed, size_t len,
                                                       uint64_t now_ms);
// Deletes keys that were last stored before before_ms.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_drop(struct tern_db *db, uint64_t before_ms);

// --- A copy of all that a database holds at one moment, in a database of the same kind or another

// One copied table.
struct tern_db_copied_table {
    const char *name;
    uint64_t rows;
    uint64_t bytes; // bytes of the rows' values
    // of all rows in the order of their keys; equal in every database
    uint8_t sha256[TERN_SHA256_SIZE];
};
struct tern_db_copying {
    // Reports progress while a table is copied or compared. NULL: no report
    void (*progress)(void *ctx, const char *doing, const char *table, uint64_t rows);
    // Checks the copy before it appears. NULL: no check. why: a sentence on any failure
    enum tern_result (*check)(void *ctx, struct tern_db *copy, char why[256]);
    // Called for each table once the copy has appeared. NULL: no call
    void (*made)(void *ctx, const struct tern_db_copied_table *table);
    void *ctx;
};
// Copies the whole database, as of one moment, into a new one at `path`, of the same kind or another. The copy is compared
// and appears whole at the end, or not at all. Takes the memory of one row, of a part of weights, or of 4 MiB of a body.
// from: outside of transactions
// TERN_ERR_CONFLICT  `path` exists already
// TERN_ERR_STATE     others wrote to `from` meanwhile; TERN_ERR_CORRUPT  the copy reads differently
// Errors of how->check()
TERN_MUST_USE enum tern_result tern_db_copy_state(struct tern_db *from, const char *path,
                                                  const struct tern_db_copying *how, char why[256]);

// --- Roles, tokens of the admin listener, and the audit log (store_audit.c)

// Roles of tokens and users, each with the permissions of the roles before it.
enum tern_role {
    TERN_ROLE_NONE, // no token; of a route: it needs no credentials
    TERN_ROLE_VIEWER,
    TERN_ROLE_OPERATOR,
    TERN_ROLE_ADMIN,
    TERN_ROLES,
};
// Returns "viewer", "operator", "admin", or "none" for other numbers. Static string.
const char *tern_role_name(uint32_t role);

struct tern_db_token {
#define COLUMN TERN_MEMBER
#include "store/tables/tokens.def"
};

// TERN_ERR_CONFLICT  a token, perhaps a revoked one, has this name
TERN_MUST_USE enum tern_result tern_db_token_add(struct tern_db *db,
                                                 const struct tern_db_token *token);
// TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_token_get(struct tern_db *db, const char *name,
                                                 struct tern_db_token *token);
TERN_MUST_USE enum tern_result tern_db_token_revoke(struct tern_db *db, const char *name);
// Lists all tokens by name.
struct tern_db_rows *tern_db_tokens(struct tern_db *db);

// Who changes the database through this connection.
struct tern_db_actor {
    char who[TERN_DB_WHO_MAX];
    enum tern_role role;
    char address[TERN_DB_ADDRESS_MAX];
};
// Sets the actor of the rows that tern_db_audit() adds, and returns the previous one. A new connection has none.
struct tern_db_actor tern_db_act_as(struct tern_db *db, const struct tern_db_actor *actor);

struct tern_db_audit {
#define COLUMN TERN_MEMBER
#include "store/tables/audit.def"
};

// Within a transaction: adds a row of the audit log about a change of this transaction. The row has the actor of the connection
// and the result "done". format: of the subject. Texts that are too long are cut.
TERN_MUST_USE enum tern_result tern_db_audit(struct tern_db *db, uint64_t now_ms,
                                             const char *action, const char *before,
                                             const char *after, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
// Writes a text as tern_db_audit() stores it in `before` and `after`: cut, and without malformed characters.
void tern_db_audit_text(char to[TERN_DB_CHANGED_MAX], const char *text);
// Like tern_db_audit() for a request that changed nothing. result: the reason.
TERN_MUST_USE enum tern_result tern_db_audit_refusal(struct tern_db *db, uint64_t now_ms,
                                                     const char *action, const char *subject,
                                                     const char *result);
// Lists the rows whose number is above `after`, oldest first.
struct tern_db_rows *tern_db_audits_after(struct tern_db *db, uint64_t after);
// Reads the newest row. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_audit_last(struct tern_db *db, struct tern_db_audit *row);

struct tern_db_audit_check {
    uint64_t rows;   // that were read
    uint64_t broken; // number of the first row that does not follow from the previous one; 0 = none
    uint8_t chain[TERN_SHA256_SIZE]; // of the last row that was read
};
// Reads the audit log up to its end, or its first broken row. Rows missing at the end cannot be found.
TERN_MUST_USE enum tern_result tern_db_audit_verify(struct tern_db *db,
                                                    struct tern_db_audit_check *check);

#endif
