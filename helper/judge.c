#include "helper/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// --- Refusals

static const struct {
    const char *name;
    int status;
} refusals[TERN_HELPER_REFUSALS_COUNT] = {
#define X(symbol, name, status) [symbol] = {name, status},
    TERN_HELPER_REFUSALS(X)
#undef X
};

const char *tern_helper_refusal_name(enum tern_helper_refusal refusal)
{
    return refusals[refusal].name;
}

int tern_helper_refusal_status(enum tern_helper_refusal refusal)
{
    return refusals[refusal].status;
}

static const struct tern_judgement admitted = {TERN_REFUSED_NOT, ""};

__attribute__((format(printf, 2, 3))) static struct tern_judgement
refuse(enum tern_helper_refusal refusal, const char *format, ...)
{
    struct tern_judgement judgement = {.refusal = refusal};
    va_list values;
    va_start(values, format);
    vsnprintf(judgement.sentence, sizeof judgement.sentence, format, values);
    va_end(values);
    return judgement;
}

// --- Tickets

static struct tern_judgement judge_code(const struct tern_ticket_facts *facts)
{
    if (!facts->code_found) {
        return refuse(TERN_REFUSED_CODE,
                      "Client %" PRIu64 " has a code that this helper did not make for the "
                      "federation, or cancelled. Give the device a code of `tern-helper code`.",
                      facts->client);
    }
    if (facts->client_admitted && facts->same_code) {
        return admitted;
    }
    if (facts->code_uses_left == 0) {
        return refuse(TERN_REFUSED_CODE_USED,
                      "The code of client %" PRIu64 " has admitted all its clients. Make another "
                      "code with `tern-helper code`.",
                      facts->client);
    }
    if (facts->code_expired) {
        return refuse(TERN_REFUSED_CODE_EXPIRED,
                      "The code of client %" PRIu64 " has expired. Make another code with "
                      "`tern-helper code`.",
                      facts->client);
    }
    return admitted;
}

struct tern_judgement tern_judge_ticket(const struct tern_ticket_facts *facts)
{
    if (facts->epoch != facts->current_epoch) {
        return refuse(TERN_REFUSED_EPOCH,
                      "The ticket of client %" PRIu64 " is for epoch %" PRIu64 ", the helper is in "
                      "epoch %" PRIu64 ". The device must seal a ticket to the key of that epoch.",
                      facts->client, facts->epoch, facts->current_epoch);
    }
    if (!facts->readable) {
        return refuse(TERN_REFUSED_UNREADABLE,
                      "The ticket of client %" PRIu64 " cannot be opened: it was sealed to another "
                      "key, federation, client or epoch, or it is damaged.",
                      facts->client);
    }
    if (facts->client_revoked && facts->same_code) {
        return refuse(TERN_REFUSED_REVOKED,
                      "Client %" PRIu64
                      " is revoked. To admit the device again, give it a new code "
                      "of `tern-helper code`.",
                      facts->client);
    }
    const struct tern_judgement of_code = judge_code(facts);
    if (of_code.refusal != TERN_REFUSED_NOT) {
        return of_code;
    }
    if (facts->has_ticket && !facts->same_ticket && !facts->client_revoked) {
        return refuse(TERN_REFUSED_SECOND_TICKET,
                      "Client %" PRIu64 " has another ticket in epoch %" PRIu64 ". If the device "
                      "lost its state, revoke the client and give the device a new code.",
                      facts->client, facts->epoch);
    }
    return admitted;
}

// --- Lists

bool tern_is_newcomer(const struct tern_admission *admission, uint64_t now_ms)
{
    return admission->answered != 0 && admission->admitted > admission->answered &&
           now_ms < admission->admitted_ms + TERN_NEWCOMER_MS;
}

uint32_t tern_newcomers_max(uint32_t count)
{
    return count < 20 ? 1 : count / 10;
}

uint32_t tern_lists_differ(const struct tern_secure_member *a, uint32_t a_count, const uint64_t *b,
                           uint32_t b_count)
{
    uint32_t i = 0;
    uint32_t k = 0;
    uint32_t common = 0;
    while (i < a_count && k < b_count) {
        if (a[i].client == b[k]) {
            common++;
            i++;
            k++;
        } else if (a[i].client < b[k]) {
            i++;
        } else {
            k++;
        }
    }
    return a_count + b_count - 2 * common;
}

static struct tern_judgement judge_facts(const struct tern_list_facts *facts)
{
    if (!facts->federation_matches) {
        return refuse(TERN_REFUSED_FEDERATION,
                      "The token belongs to another federation than round %" PRIu32
                      ". Set secure.token to the token of this federation.",
                      facts->round);
    }
    if (facts->wrong_fact != NULL) {
        return refuse(TERN_REFUSED_FACTS,
                      "The request for round %" PRIu32 " has a value of %s outside its range.",
                      facts->round, facts->wrong_fact);
    }
    if (facts->min_clients < facts->min_clients_set) {
        return refuse(TERN_REFUSED_WEAK,
                      "Round %" PRIu32 " allows a sum of %" PRIu32 " clients; this helper requires "
                      "%" PRIu32 " or more (helper.min_clients).",
                      facts->round, facts->min_clients, facts->min_clients_set);
    }
    return admitted;
}

static struct tern_judgement judge_epoch(const struct tern_list_facts *facts)
{
    if (facts->epoch < facts->oldest_epoch || facts->epoch > facts->current_epoch) {
        return refuse(TERN_REFUSED_EPOCH,
                      "Round %" PRIu32 " is of epoch %" PRIu64
                      "; the helper has the keys of epochs "
                      "%" PRIu64 " to %" PRIu64 ".",
                      facts->round, facts->epoch, facts->oldest_epoch, facts->current_epoch);
    }
    return admitted;
}

static struct tern_judgement judge_answered(const struct tern_list_facts *facts)
{
    if (facts->answered && !facts->same_answered) {
        return refuse(TERN_REFUSED_ANSWERED,
                      "Round %" PRIu32
                      " was answered for another descriptor or list. One round has "
                      "one sum; abandon this round.",
                      facts->round);
    }
    if (facts->answer_lost) {
        return refuse(TERN_REFUSED_NOISE,
                      "Round %" PRIu32
                      " was answered with noise, which the helper never stores and "
                      "no longer has. Two answers would weaken the noise; abandon this round.",
                      facts->round);
    }
    return admitted;
}

static struct tern_judgement judge_count(const struct tern_list_facts *facts)
{
    const uint64_t least = (uint64_t)facts->min_clients * facts->sums;
    if (facts->count < least) {
        return refuse(TERN_REFUSED_TOO_FEW,
                      "The list of round %" PRIu32 " has %" PRIu32 " clients; its descriptor "
                      "requires %" PRIu64 " or more, %" PRIu32 " for each sum.",
                      facts->round, facts->count, least, facts->min_clients);
    }
    if (facts->count > facts->cohort) {
        return refuse(TERN_REFUSED_TOO_MANY,
                      "The list of round %" PRIu32 " has %" PRIu32
                      " clients; its descriptor allows "
                      "%" PRIu32 ", beyond which sums wrap.",
                      facts->round, facts->count, facts->cohort);
    }
    return admitted;
}

static struct tern_judgement judge_order(const struct tern_list_facts *facts)
{
    for (uint32_t i = 1; i < facts->count; i++) {
        const uint64_t before = facts->list[i - 1].client;
        const uint64_t client = facts->list[i].client;
        if (client == before) {
            return refuse(TERN_REFUSED_TWICE,
                          "The list of round %" PRIu32 " has client %" PRIu64 " twice.",
                          facts->round, client);
        }
        if (client < before) {
            return refuse(TERN_REFUSED_ORDER,
                          "The list of round %" PRIu32 " has client %" PRIu64 " behind client "
                          "%" PRIu64 "; clients must be in ascending order.",
                          facts->round, client, before);
        }
    }
    return admitted;
}

static struct tern_judgement judge_tickets(const struct tern_list_facts *facts)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct tern_secure_member *listed = &facts->list[i];
        const struct tern_known *known = &facts->known[i];
        if (!known->has_ticket || memcmp(known->ticket, listed->ticket, TERN_SHA256_SIZE) != 0) {
            return refuse(TERN_REFUSED_TICKET,
                          "Client %" PRIu64 " in the list of round %" PRIu32 " has %s in epoch "
                          "%" PRIu64 ".",
                          listed->client, facts->round,
                          known->has_ticket ? "another ticket" : "no ticket", facts->epoch);
        }
    }
    return admitted;
}

static struct tern_judgement judge_revoked(const struct tern_list_facts *facts)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        if (facts->known[i].revoked) {
            return refuse(TERN_REFUSED_REVOKED,
                          "Client %" PRIu64 " in the list of round %" PRIu32 " is revoked.",
                          facts->list[i].client, facts->round);
        }
    }
    return admitted;
}

static struct tern_judgement judge_newcomers(const struct tern_list_facts *facts)
{
    uint32_t newcomers = 0;
    for (uint32_t i = 0; i < facts->count; i++) {
        newcomers += facts->known[i].is_new;
    }
    if (newcomers > tern_newcomers_max(facts->count)) {
        return refuse(TERN_REFUSED_NEWCOMERS,
                      "%" PRIu32 " of %" PRIu32 " clients in the list of round %" PRIu32
                      " joined since the last answered round; at most %" PRIu32
                      " may. All may after a day, or after a round without them.",
                      newcomers, facts->count, facts->round, tern_newcomers_max(facts->count));
    }
    return admitted;
}

typedef struct tern_judgement (*judge)(const struct tern_list_facts *facts);

// Returns the first refusal.
static struct tern_judgement judge_all(const judge *judges, size_t count,
                                       const struct tern_list_facts *facts)
{
    struct tern_judgement judgement = admitted;
    for (size_t i = 0; judgement.refusal == TERN_REFUSED_NOT && i < count; i++) {
        judgement = judges[i](facts);
    }
    return judgement;
}

struct tern_judgement tern_judge_list(const struct tern_list_facts *facts)
{
    static const judge always[] = {judge_facts, judge_epoch, judge_answered, judge_order,
                                   judge_tickets};
    static const judge at_first[] = {judge_count, judge_revoked, judge_newcomers};
    const struct tern_judgement judgement =
        judge_all(always, sizeof always / sizeof always[0], facts);
    if (judgement.refusal != TERN_REFUSED_NOT || facts->same_answered) {
        return judgement;
    }
    return judge_all(at_first, sizeof at_first / sizeof at_first[0], facts);
}

void tern_earlier_lists_add(struct tern_earlier_lists *lists, const struct tern_list_facts *facts,
                            const struct tern_earlier_list *earlier)
{
    const uint32_t differ =
        tern_lists_differ(facts->list, facts->count, earlier->clients, earlier->count);
    const bool shares = differ < facts->count + earlier->count;
    const bool has_groups = facts->sums > 1 || earlier->sums > 1;
    lists->count++;
    lists->has_equal |= differ == 0;
    if (has_groups && (differ > 0 || facts->sums != earlier->sums)) {
        lists->other_groups = earlier->round;
    }
    if (shares && (lists->differs == 0 || differ < lists->differs)) {
        lists->differs = differ;
        lists->round = earlier->round;
    }
}

struct tern_judgement tern_judge_near_list(const struct tern_list_facts *facts,
                                           const struct tern_earlier_lists *lists)
{
    const bool is_second = lists->count == 1 && lists->differs >= facts->min_clients;
    if (lists->other_groups != 0) {
        return refuse(TERN_REFUSED_NEAR_LIST,
                      "Round %" PRIu32 " has the replica of round %" PRIu32 ", and other groups. "
                      "Sums of groups that overlap would reveal the clients that differ.",
                      facts->round, lists->other_groups);
    }
    if (lists->has_equal || lists->differs == 0 || is_second) {
        return admitted;
    }
    return refuse(TERN_REFUSED_NEAR_LIST,
                  "Round %" PRIu32 " has the model of round %" PRIu32 ", and its list shares "
                  "clients (differs by %" PRIu32 "). Wait for all its clients, or use "
                  "`tern-helper release`.",
                  facts->round, lists->round, lists->differs);
}
