// The decisions of tern-helper: which tickets it admits, and for which lists of clients it returns a sum of masks. Every
// refusal has a name, which the wire, the log and the documents use. The ledger's facts and the time are arguments. Pure;
// reentrant.
#ifndef TERN_HELPER_JUDGE_H
#define TERN_HELPER_JUDGE_H

#include "secure/round.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Refusals

// X(symbol, name on the wire, HTTP status)
#define TERN_HELPER_REFUSALS(X)                                                                    \
    X(TERN_REFUSED_NOT, "admitted", 200)                                                           \
    /* tickets and lists */                                                                        \
    X(TERN_REFUSED_FEDERATION, "other-federation", 403)                                            \
    X(TERN_REFUSED_EPOCH, "wrong-epoch", 409)                                                      \
    X(TERN_REFUSED_REVOKED, "revoked-client", 403)                                                 \
    /* tickets */                                                                                  \
    X(TERN_REFUSED_UNREADABLE, "unreadable-ticket", 422)                                           \
    X(TERN_REFUSED_CODE, "unknown-code", 403)                                                      \
    X(TERN_REFUSED_CODE_USED, "used-code", 403)                                                    \
    X(TERN_REFUSED_CODE_EXPIRED, "expired-code", 403)                                              \
    X(TERN_REFUSED_SECOND_TICKET, "second-ticket", 409)                                            \
    /* lists */                                                                                    \
    X(TERN_REFUSED_FACTS, "wrong-facts", 422)                                                      \
    X(TERN_REFUSED_WEAK, "weak-min-clients", 403)                                                  \
    X(TERN_REFUSED_TOO_FEW, "too-few-clients", 409)                                                \
    X(TERN_REFUSED_TOO_MANY, "too-many-clients", 409)                                              \
    X(TERN_REFUSED_TWICE, "client-twice", 422)                                                     \
    X(TERN_REFUSED_ORDER, "unsorted-list", 422)                                                    \
    X(TERN_REFUSED_TICKET, "unknown-ticket", 409)                                                  \
    X(TERN_REFUSED_ANSWERED, "answered-round", 409)                                                \
    X(TERN_REFUSED_NOISE, "noise-not-kept", 409)                                                   \
    X(TERN_REFUSED_NEAR_LIST, "near-list", 409)                                                    \
    X(TERN_REFUSED_NEWCOMERS, "too-many-newcomers", 409)

enum tern_helper_refusal {
#define X(symbol, name, status) symbol,
    TERN_HELPER_REFUSALS(X)
#undef X
        TERN_HELPER_REFUSALS_COUNT
};

// Returns the name on the wire. Static string.
const char *tern_helper_refusal_name(enum tern_helper_refusal refusal);
// Returns the HTTP status of the reply.
int tern_helper_refusal_status(enum tern_helper_refusal refusal);

// A decision, with a sentence for people.
struct tern_judgement {
    enum tern_helper_refusal refusal;
    char sentence
        [192]; // what was refused, with the values, and what to do; "" if nothing was refused
};

// --- Tickets

// A ticket that was opened, and what the ledger has for its client and code.
struct tern_ticket_facts {
    uint64_t client;
    uint64_t epoch;         // epoch whose key sealed the ticket
    uint64_t current_epoch; // newest epoch of the helper
    bool readable;          // the ticket was opened with the epoch's key
    bool code_found;        // the federation has this code, and the operator did not cancel it
    bool code_expired;
    uint32_t code_uses_left;
    bool client_admitted; // the ledger has the client
    bool client_revoked;
    bool same_code;   // the client was admitted with this code
    bool has_ticket;  // the client has a ticket of this epoch
    bool same_ticket; // the client's ticket of this epoch has the same bytes
};

// Decides whether to admit a ticket. A client needs its code once: in later epochs the same code admits it although the
// code has expired or is used up. A revoked client needs a new code.
struct tern_judgement tern_judge_ticket(const struct tern_ticket_facts *facts);

// --- Lists

// What the ledger has for a listed client.
struct tern_known {
    bool has_ticket; // the client has a ticket of the list's epoch
    bool revoked;
    bool is_new; // tern_is_newcomer()
    uint8_t ticket[TERN_SHA256_SIZE];
};

// A request for a sum of masks, and what the ledger has for its round.
struct tern_list_facts {
    uint32_t round;
    bool federation_matches; // the request and its token name the same federation
    const char *wrong_fact;  // first fact outside its range (tern_secure_round_check()); NULL: none
    uint64_t epoch;
    uint64_t oldest_epoch;    // oldest epoch whose key the helper has
    uint64_t current_epoch;   // newest epoch of the helper
    uint32_t cohort;          // most clients that the descriptor allows
    uint32_t min_clients;     // fewest clients of one sum that the descriptor allows
    uint32_t sums;            // sums that the list gets: the groups of the descriptor, or 1
    uint32_t min_clients_set; // least value that the helper's settings allow
    const struct tern_secure_member *list;
    const struct tern_known *known; // for each client of the list
    uint32_t count;
    bool answered;      // the helper has answered this round
    bool same_answered; // the answered request had this descriptor, list and number of values
    bool answer_lost;   // same_answered, and the sum had noise that the helper no longer has
};

// Decides about everything but earlier lists of the same replica. A list that was answered is admitted again, even if a
// client of the list was revoked since then: the sum is the same as before. It is refused if a ticket was replaced.
struct tern_judgement tern_judge_list(const struct tern_list_facts *facts);

// An answered list.
struct tern_earlier_list {
    uint32_t round;
    uint32_t sums;
    const uint64_t *clients; // ascending
    uint32_t count;
};

// Compares a list with the earlier answered lists whose rounds had the same replica. All zero: there is no earlier list.
struct tern_earlier_lists {
    uint32_t count;
    bool has_equal;
    // Earlier round with another list or other groups, where one of the two rounds has groups; 0: none.
    uint32_t other_groups;
    // Fewest clients that are in this list or in one that shares clients with it, but not in both; 0: no list shares clients.
    uint32_t differs;
    uint32_t round; // of the list of `differs`
};

// Adds one earlier list to the comparison with facts->list.
void tern_earlier_lists_add(struct tern_earlier_lists *lists, const struct tern_list_facts *facts,
                            const struct tern_earlier_list *earlier);

// Decides about earlier lists. A list that equals one of them is admitted, and one that shares no client with any. Another is
// admitted as the second list of its replica alone, and if the difference of the two sums belongs to at least min_clients
// clients: three sums that share clients could reveal one of them, as those of X and v, of Y, and of X and Y do. Groups of two
// lists may differ by few clients, so with groups the lists must be equal.
struct tern_judgement tern_judge_near_list(const struct tern_list_facts *facts,
                                           const struct tern_earlier_lists *lists);

// Returns how many clients are in one of two lists only. a, b: ascending.
uint32_t tern_lists_differ(const struct tern_secure_member *a, uint32_t a_count, const uint64_t *b,
                           uint32_t b_count);

#define TERN_NEWCOMER_MS UINT64_C(86400000) // a client is a newcomer for at most one day

// When a client was admitted, and when the federation's newest list was answered: numbers of log entries.
struct tern_admission {
    uint64_t admitted;
    uint64_t answered;    // 0: no list was answered
    uint64_t admitted_ms; // Unix time of the admission
};

// Returns whether the client was admitted after the newest answered list, and less than a day ago. Without the second condition,
// a federation that many devices join at once would never get a sum.
bool tern_is_newcomer(const struct tern_admission *admission, uint64_t now_ms);

// Returns the most newcomers in a list of `count` clients: a tenth, and at least one.
uint32_t tern_newcomers_max(uint32_t count);

#endif
