// Everything that tern-helper stores, in one SQLite file: its signing key, the federations, their epochs' keys, join codes,
// clients, tickets, answered lists, and a log to which entries are only added. A commit returns when the bytes are on the
// disk, so that an answer that is sent after it survives a power cut. The service and the command line may have the file
// open at once; each connection belongs to one thread.
#ifndef TERN_HELPER_LEDGER_H
#define TERN_HELPER_LEDGER_H

#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_LEDGER_WHY_MAX 512
#define TERN_LEDGER_KEY_SIZE                                                                       \
    32 // bytes of each private and public X25519 key, of the signing key, and of a ticket's secret

struct tern_ledger;

// Makes the file, readable by its owner alone. signing_key: the private P-256 key.
// TERN_ERR_CONFLICT  the file exists already
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_ledger_create(const char *path,
                                                  const uint8_t signing_key[TERN_LEDGER_KEY_SIZE],
                                                  uint64_t now_ms, char why[TERN_LEDGER_WHY_MAX]);
// TERN_ERR_NOT_FOUND  there is no such file
// TERN_ERR_IO         it cannot be read, is damaged, or is no ledger of this version
TERN_MUST_USE enum tern_result tern_ledger_open(const char *path, struct tern_ledger **ledger,
                                                char why[TERN_LEDGER_WHY_MAX]);
void tern_ledger_close(struct tern_ledger *ledger); // NULL is allowed

// Returns why the last call failed.
const char *tern_ledger_why(const struct tern_ledger *ledger);

// Transactions. Each function that changes the ledger needs one. After an error, roll back.
// TERN_ERR_BUSY  another process writes for longer than 5 s
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_ledger_begin(struct tern_ledger *ledger);
TERN_MUST_USE enum tern_result tern_ledger_commit(struct tern_ledger *ledger);
void tern_ledger_rollback(struct tern_ledger *ledger);

// Returns a number that differs after another connection has changed the file.
int64_t tern_ledger_changes(struct tern_ledger *ledger);

TERN_MUST_USE enum tern_result tern_ledger_signing_key(struct tern_ledger *ledger,
                                                       uint8_t signing_key[TERN_LEDGER_KEY_SIZE]);

// --- Federations

#define TERN_FEDERATION_NAME_MAX 33 // bytes with the NUL

struct tern_ledger_federation {
    uint32_t id; // 0: none
    char name[TERN_FEDERATION_NAME_MAX];
    uint8_t token_hash[TERN_SHA256_SIZE];
    bool has_identity;
    uint8_t identity[TERN_SHA256_SIZE]; // tern_federation_id() of the first request with the token
};

// Adds a federation; sets its id.
// TERN_ERR_CONFLICT  the name is taken
TERN_MUST_USE enum tern_result tern_ledger_add_federation(struct tern_ledger *ledger,
                                                          struct tern_ledger_federation *federation,
                                                          uint64_t now_ms);
// Replaces the federation's token.
TERN_MUST_USE enum tern_result
tern_ledger_set_token(struct tern_ledger *ledger, const struct tern_ledger_federation *federation,
                      const uint8_t token_hash[TERN_SHA256_SIZE], uint64_t now_ms);
// Stores the identity of a federation that has none.
TERN_MUST_USE enum tern_result tern_ledger_set_identity(struct tern_ledger *ledger,
                                                        struct tern_ledger_federation *federation,
                                                        const uint8_t identity[TERN_SHA256_SIZE],
                                                        uint64_t now_ms);
// Finds the federation with the smallest id above `after`.
// TERN_ERR_NOT_FOUND  there is none
TERN_MUST_USE enum tern_result
tern_ledger_next_federation(struct tern_ledger *ledger, uint32_t after,
                            struct tern_ledger_federation *federation);
TERN_MUST_USE enum tern_result
tern_ledger_federation_named(struct tern_ledger *ledger, const char *name,
                             struct tern_ledger_federation *federation);

// --- Epochs

struct tern_ledger_epoch {
    uint64_t epoch; // ascending in each federation
    uint64_t begins_ms;
    uint8_t private_key[TERN_LEDGER_KEY_SIZE];
    uint8_t public_key[TERN_LEDGER_KEY_SIZE];
};

// Reads the newest epoch of the federation.
// TERN_ERR_NOT_FOUND  it has none yet
TERN_MUST_USE enum tern_result tern_ledger_newest_epoch(struct tern_ledger *ledger,
                                                        uint32_t federation,
                                                        struct tern_ledger_epoch *epoch);
// Reads the number of the oldest epoch whose key and tickets are stored.
// TERN_ERR_NOT_FOUND  the federation has no epoch
TERN_MUST_USE enum tern_result tern_ledger_oldest_epoch(struct tern_ledger *ledger,
                                                        uint32_t federation, uint64_t *epoch);
// Adds the epoch behind the newest one, and erases the keys and tickets of all but these two: nobody can compute their masks
// again.
TERN_MUST_USE enum tern_result
tern_ledger_add_epoch(struct tern_ledger *ledger, const struct tern_ledger_federation *federation,
                      const struct tern_ledger_epoch *epoch);

// --- Join codes

#define TERN_CODE_LABEL_MAX 65 // bytes with the NUL

struct tern_ledger_code {
    uint32_t id;
    uint32_t federation;
    uint8_t hash[TERN_SHA256_SIZE];
    uint32_t uses_left;
    uint64_t expires_ms;
    bool cancelled;
    char label[TERN_CODE_LABEL_MAX];
};

// Adds a code; sets its id.
TERN_MUST_USE enum tern_result tern_ledger_add_code(struct tern_ledger *ledger,
                                                    const struct tern_ledger_federation *federation,
                                                    struct tern_ledger_code *code, uint64_t now_ms);
// TERN_ERR_NOT_FOUND  no code of any federation has this hash
TERN_MUST_USE enum tern_result tern_ledger_code(struct tern_ledger *ledger,
                                                const uint8_t hash[TERN_SHA256_SIZE],
                                                struct tern_ledger_code *code);
// Cancels a code and revokes all clients that it admitted. *clients: how many were revoked by this call.
// TERN_ERR_NOT_FOUND  the federation has no such code
TERN_MUST_USE enum tern_result
tern_ledger_cancel_code(struct tern_ledger *ledger, const struct tern_ledger_federation *federation,
                        uint32_t code, uint64_t now_ms, uint32_t *clients);
// Finds the code of the federation with the smallest id above `after`. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_next_code(struct tern_ledger *ledger,
                                                     uint32_t federation, uint32_t after,
                                                     struct tern_ledger_code *code);

// --- Clients and tickets

struct tern_ledger_client {
    uint64_t client;
    uint32_t code;        // id of the code that admitted the client
    uint64_t admitted;    // number of the log entry by which the client was admitted
    uint64_t admitted_ms; // Unix time of this entry
    bool revoked;
};

struct tern_ledger_ticket {
    uint64_t client;
    uint64_t epoch;
    uint8_t hash[TERN_SHA256_SIZE];       // SHA-256 of the ticket's bytes
    uint8_t secret[TERN_LEDGER_KEY_SIZE]; // K, from which the client's masks follow
};

// TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_client(struct tern_ledger *ledger, uint32_t federation,
                                                  uint64_t client, struct tern_ledger_client *out);
// TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_ticket(struct tern_ledger *ledger, uint32_t federation,
                                                  uint64_t epoch, uint64_t client,
                                                  struct tern_ledger_ticket *ticket);
// Stores the ticket in place of the client's ticket of this epoch. A client that is new, or was revoked, is admitted by the
// code and takes a use of it.
TERN_MUST_USE enum tern_result tern_ledger_admit(struct tern_ledger *ledger,
                                                 const struct tern_ledger_federation *federation,
                                                 const struct tern_ledger_code *code,
                                                 const struct tern_ledger_ticket *ticket,
                                                 uint64_t now_ms);
// TERN_ERR_NOT_FOUND  the federation has no such client
TERN_MUST_USE enum tern_result tern_ledger_revoke(struct tern_ledger *ledger,
                                                  const struct tern_ledger_federation *federation,
                                                  uint64_t client, uint64_t now_ms);

// --- Answered lists

struct tern_ledger_answer {
    uint32_t round;
    uint64_t entry; // number of the log entry of this answer
    uint8_t descriptor[TERN_SHA256_SIZE];
    uint8_t list_hash[TERN_SHA256_SIZE];
    uint8_t replica[TERN_SHA256_SIZE]; // hash of the weights from which the clients trained
    uint32_t min_clients;
    uint32_t values; // number of values of the sum
    uint32_t sums;   // sums of the round: its groups, or 1
    uint32_t count;
    uint64_t *clients; // ascending; malloc'ed
    // The fewest clients, but not 0, that are in this list or in an earlier one of the epoch, but not in both; 0: there is no such list.
    uint32_t changed;
};

void tern_ledger_answer_free(struct tern_ledger_answer *answer);

// Reads the answer of a round. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_answer(struct tern_ledger *ledger, uint32_t federation,
                                                  uint32_t round,
                                                  struct tern_ledger_answer *answer);
// Reads the newest answer. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_newest_answer(struct tern_ledger *ledger,
                                                         uint32_t federation,
                                                         struct tern_ledger_answer *answer);
// Reads the oldest answer behind the log's entry `after` that was given at since_ms (Unix time) or later. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_next_answer(struct tern_ledger *ledger,
                                                       uint32_t federation, uint64_t since_ms,
                                                       uint64_t after,
                                                       struct tern_ledger_answer *answer);
// Reads the oldest answer behind the log's entry `after` whose round had this replica and was not released.
// TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_ledger_next_of_replica(struct tern_ledger *ledger,
                                                           uint32_t federation,
                                                           const uint8_t replica[TERN_SHA256_SIZE],
                                                           uint64_t after,
                                                           struct tern_ledger_answer *answer);
// Adds an answer; sets its log entry.
TERN_MUST_USE enum tern_result
tern_ledger_add_answer(struct tern_ledger *ledger, const struct tern_ledger_federation *federation,
                       struct tern_ledger_answer *answer, uint64_t now_ms);
// Releases an answered round: later lists are no longer compared with its list. The round keeps its answer.
// TERN_ERR_NOT_FOUND  the round was not answered
TERN_MUST_USE enum tern_result tern_ledger_release(struct tern_ledger *ledger,
                                                   const struct tern_ledger_federation *federation,
                                                   uint32_t round, uint64_t now_ms);

// --- The log

#define TERN_LEDGER_FACT_MAX 512

// One entry. head = SHA-256("tern helper log v1" || head of the entry before, 32 zero bytes for the first ||
// number as 8 bytes little-endian || at_ms as 8 bytes little-endian || the fact's text).
struct tern_ledger_entry {
    uint64_t number; // counts up from 1
    uint64_t at_ms;
    char fact[TERN_LEDGER_FACT_MAX]; // "ticket federation=north epoch=1 client=7 code=2 sha256=..."
    uint8_t head[TERN_SHA256_SIZE];
};

// Reads the number of the last entry, which is the number of entries, and its head. Without an entry: 0 and zero bytes.
TERN_MUST_USE enum tern_result tern_ledger_log_head(struct tern_ledger *ledger, uint64_t *number,
                                                    uint8_t head[TERN_SHA256_SIZE]);
// Reads the entry behind `after`.
// TERN_ERR_NOT_FOUND  there is none
TERN_MUST_USE enum tern_result tern_ledger_next_entry(struct tern_ledger *ledger, uint64_t after,
                                                      struct tern_ledger_entry *entry);
// Computes the head that an entry must have behind the head before it.
void tern_ledger_chain(const uint8_t before[TERN_SHA256_SIZE],
                       const struct tern_ledger_entry *entry, uint8_t head[TERN_SHA256_SIZE]);

// --- Figures

struct tern_ledger_figures {
    uint32_t clients; // admitted and not revoked
    uint32_t revoked;
    uint32_t tickets; // clients with a ticket of the newest epoch
    uint32_t answers;
    uint32_t last_round; // round of the newest answer
    // Answers whose list differs from an earlier one of its epoch by at least one client and fewer than min_clients.
    uint32_t small_changes;
};
TERN_MUST_USE enum tern_result tern_ledger_figures(struct tern_ledger *ledger, uint32_t federation,
                                                   struct tern_ledger_figures *figures);

#endif
