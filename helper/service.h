// The service of tern-helper: HTTPS requests of aggregators, decided by helper/judge.h over helper/ledger.h. The listener's
// threads check tokens and limits; one thread owns the ledger, opens tickets and adds masks, and answers in the order of
// arrival. A decision is on the disk before its answer is sent: after a kill the same request gets the same answer. Sums with noise
// are kept in memory alone, the last one of each federation: after a kill the same request is refused, never answered otherwise.
#ifndef TERN_HELPER_SERVICE_H
#define TERN_HELPER_SERVICE_H

#include "helper/ledger.h"
#include "http/http.h"
#include "result.h"
#include "util/join_code.h"
#include <stdint.h>

#define TERN_HELPER_WHY_MAX TERN_LEDGER_WHY_MAX

struct tern_helper_config {
    const char *ledger; // path of the file
    uint32_t min_clients;
    uint64_t epoch_ms;         // how long a key is used
    uint64_t (*unix_ms)(void); // clock of epochs and codes; NULL: the system's
};

struct tern_helper;

// Opens the ledger and starts the thread. why: the reason of an error, a sentence.
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY, TERN_ERR_STATE
TERN_MUST_USE enum tern_result tern_helper_start(const struct tern_helper_config *config,
                                                 struct tern_helper **helper,
                                                 char why[TERN_HELPER_WHY_MAX]);

// Returns the handler of a listener, which must stop before the service does.
struct tern_http_handler tern_helper_handler(struct tern_helper *helper);

// Answers waiting requests with 503, stops the thread and closes the ledger.
void tern_helper_stop(struct tern_helper *helper);

// --- Epochs, codes and tokens, for the command line

// The time at which an epoch begins, and the length of epochs.
struct tern_helper_time {
    uint64_t now_ms;   // since 1970
    uint64_t epoch_ms; // how long a key is used
};

// Begins the epoch behind `epoch`, the federation's newest one (number 0: none), in a transaction of the ledger. epoch: gets the
// new one, whose number is now_ms / epoch_ms, but above the number before.
// TERN_ERR_IO, or an error of the crypto library (secure/secret.h)
TERN_MUST_USE enum tern_result
tern_helper_begin_epoch(struct tern_ledger *ledger, const struct tern_ledger_federation *federation,
                        struct tern_helper_time time, struct tern_ledger_epoch *epoch);

#define TERN_HELPER_TOKEN_TEXT 23 // bytes of a token's text with the NUL

// Makes a token, and the hash that the ledger stores.
// TERN_ERR_IO  no random bytes
TERN_MUST_USE enum tern_result tern_helper_make_token(char text[TERN_HELPER_TOKEN_TEXT],
                                                      uint8_t hash[TERN_SHA256_SIZE]);
// Makes a join code, and the hash that the ledger stores.
// TERN_ERR_IO  no random bytes
TERN_MUST_USE enum tern_result tern_helper_make_code(char text[TERN_JOIN_CODE_TEXT],
                                                     uint8_t hash[TERN_SHA256_SIZE]);

#endif
