// Every refusal of the helper by name, and the cases beside it that are admitted.
#include "helper/judge.h"
#include "tests/cases.h"

#include <string.h>

// --- Tickets

static struct tern_ticket_facts good_ticket(void)
{
    return (struct tern_ticket_facts){.client = 7,
                                      .epoch = 2,
                                      .current_epoch = 2,
                                      .readable = true,
                                      .code_found = true,
                                      .code_uses_left = 1};
}

static void expect_ticket(const struct tern_ticket_facts *facts, const char *name)
{
    const struct tern_judgement judgement = tern_judge_ticket(facts);
    assert_string_equal(tern_helper_refusal_name(judgement.refusal), name);
    if (judgement.refusal != TERN_REFUSED_NOT) {
        assert_non_null(strstr(judgement.sentence, "lient 7"));
        assert_true(strlen(judgement.sentence) + 1 < sizeof judgement.sentence);
        assert_true(tern_helper_refusal_status(judgement.refusal) >= 400);
    }
}

CASE(a_ticket_with_a_fresh_code_is_admitted)
{
    const struct tern_ticket_facts facts = good_ticket();
    expect_ticket(&facts, "admitted");
}

CASE(a_ticket_of_another_epoch_is_refused)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.epoch = 1;
    expect_ticket(&facts, "wrong-epoch");
    facts.epoch = 3;
    expect_ticket(&facts, "wrong-epoch");
}

CASE(a_ticket_that_cannot_be_opened_is_refused)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.readable = false;
    expect_ticket(&facts, "unreadable-ticket");
}

CASE(codes_are_refused_when_unknown_used_or_expired)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.code_found = false;
    expect_ticket(&facts, "unknown-code");
    facts = good_ticket();
    facts.code_uses_left = 0;
    expect_ticket(&facts, "used-code");
    facts = good_ticket();
    facts.code_expired = true;
    expect_ticket(&facts, "expired-code");
}

CASE(a_code_admits_its_client_in_later_epochs_although_it_is_used_and_expired)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.client_admitted = true;
    facts.same_code = true;
    facts.code_uses_left = 0;
    facts.code_expired = true;
    expect_ticket(&facts, "admitted");
    facts.same_code = false; // another client's code
    expect_ticket(&facts, "used-code");
}

CASE(a_client_has_one_ticket_in_an_epoch)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.client_admitted = true;
    facts.same_code = true;
    facts.has_ticket = true;
    expect_ticket(&facts, "second-ticket");
    facts.same_ticket = true; // sent again, because the reply was lost
    expect_ticket(&facts, "admitted");
    facts.same_ticket = false;
    facts.same_code = false; // a fresh code does not replace the ticket either
    expect_ticket(&facts, "second-ticket");
}

CASE(a_revoked_client_needs_a_new_code)
{
    struct tern_ticket_facts facts = good_ticket();
    facts.client_admitted = true;
    facts.client_revoked = true;
    facts.same_code = true;
    facts.has_ticket = true;
    facts.same_ticket = true;
    expect_ticket(&facts, "revoked-client");
    facts.same_code = false;
    facts.same_ticket = false;
    expect_ticket(&facts, "admitted");
}

// --- Lists

#define MOST 120

struct list {
    struct tern_secure_member members[MOST];
    struct tern_known known[MOST];
    struct tern_list_facts facts;
};

// Clients 1 to `count`, all with tickets.
static struct list *good_list(uint32_t count)
{
    static struct list list;
    memset(&list, 0, sizeof list);
    for (uint32_t i = 0; i < count; i++) {
        list.members[i].client = i + 1;
        memset(list.members[i].ticket, (int)i + 1, TERN_SHA256_SIZE);
        memset(list.known[i].ticket, (int)i + 1, TERN_SHA256_SIZE);
        list.known[i].has_ticket = true;
    }
    list.facts = (struct tern_list_facts){.round = 9,
                                          .federation_matches = true,
                                          .epoch = 3,
                                          .oldest_epoch = 2,
                                          .current_epoch = 3,
                                          .cohort = 100,
                                          .min_clients = 50,
                                          .sums = 1,
                                          .min_clients_set = 50,
                                          .list = list.members,
                                          .known = list.known,
                                          .count = count};
    return &list;
}

static void expect_named(const struct tern_judgement *judgement, const char *name)
{
    assert_string_equal(tern_helper_refusal_name(judgement->refusal), name);
    assert_true(strlen(judgement->sentence) + 1 < sizeof judgement->sentence);
    assert_int_equal(judgement->refusal == TERN_REFUSED_NOT, judgement->sentence[0] == '\0');
}

static void expect_list(const struct list *list, const char *name)
{
    const struct tern_judgement judgement = tern_judge_list(&list->facts);
    expect_named(&judgement, name);
}

CASE(lists_of_the_fewest_and_the_most_clients_are_admitted)
{
    expect_list(good_list(50), "admitted");
    expect_list(good_list(100), "admitted");
}

CASE(lists_of_fewer_or_more_clients_are_refused)
{
    expect_list(good_list(49), "too-few-clients");
    expect_list(good_list(0), "too-few-clients");
    expect_list(good_list(101), "too-many-clients");
}

CASE(each_group_needs_the_fewest_clients)
{
    struct list *list = good_list(90);
    list->facts.min_clients = list->facts.min_clients_set = 30;
    list->facts.sums = 3;
    expect_list(list, "admitted");
    list->facts.count = 89;
    expect_list(list, "too-few-clients");
    list->facts.sums = 143165577; // 30 times this is 2^32 + 14
    expect_list(list, "too-few-clients");
}

CASE(the_descriptor_must_not_go_below_the_helper_s_own_floor)
{
    struct list *list = good_list(60);
    list->facts.min_clients = 49;
    expect_list(list, "weak-min-clients");
    list->facts.min_clients_set = 2;
    expect_list(list, "admitted");
}

CASE(the_token_of_another_federation_is_refused)
{
    struct list *list = good_list(60);
    list->facts.federation_matches = false;
    expect_list(list, "other-federation");
}

CASE(facts_that_no_round_can_have_are_refused_with_their_name)
{
    struct list *list = good_list(60);
    list->facts.wrong_fact = "bits";
    const struct tern_judgement judgement = tern_judge_list(&list->facts);
    expect_named(&judgement, "wrong-facts");
    assert_non_null(strstr(judgement.sentence, "bits"));
}

CASE(the_keys_of_two_epochs_are_there)
{
    struct list *list = good_list(60);
    list->facts.epoch = 2;
    expect_list(list, "admitted");
    list->facts.epoch = 1;
    expect_list(list, "wrong-epoch");
    list->facts.epoch = 4;
    expect_list(list, "wrong-epoch");
}

CASE(a_client_twice_is_refused_wherever_it_is_in_the_list)
{
    struct list *list = good_list(60);
    list->members[59].client = 59;
    expect_list(list, "client-twice");
    list->members[59].client = 3;
    expect_list(list, "unsorted-list");
}

CASE(a_client_without_its_ticket_is_refused)
{
    struct list *list = good_list(60);
    list->known[20].has_ticket = false;
    expect_list(list, "unknown-ticket");
    list = good_list(60);
    list->members[20].ticket[31] ^= 1;
    expect_list(list, "unknown-ticket");
}

CASE(a_revoked_client_is_refused)
{
    struct list *list = good_list(60);
    list->known[59].revoked = true;
    expect_list(list, "revoked-client");
}

CASE(a_round_has_one_sum)
{
    struct list *list = good_list(60);
    list->facts.answered = true;
    expect_list(list, "answered-round");
    list->facts.same_answered = true;
    expect_list(list, "admitted");
    list->facts.answer_lost = true; // another sum would have another noise
    expect_list(list, "noise-not-kept");
}

CASE(the_same_list_is_answered_again_after_a_revocation_but_not_with_another_ticket)
{
    struct list *list = good_list(60);
    list->facts.answered = true;
    list->facts.same_answered = true;
    list->known[0].revoked = true;
    for (uint32_t i = 0; i < 60; i++) {
        list->known[i].is_new = true;
    }
    expect_list(list, "admitted");
    list->known[0].ticket[0] ^= 1; // the client was admitted again, so its mask would differ
    expect_list(list, "unknown-ticket");
}

CASE(at_most_a_tenth_of_a_list_is_new)
{
    struct list *list = good_list(60);
    for (uint32_t i = 0; i < 7; i++) {
        list->known[i].is_new = true;
    }
    expect_list(list, "too-many-newcomers");
    list->known[0].is_new = false;
    expect_list(list, "admitted");
}

CASE(a_small_list_may_have_one_newcomer)
{
    struct list *list = good_list(5);
    list->facts.min_clients = list->facts.min_clients_set = 5;
    list->known[0].is_new = true;
    expect_list(list, "admitted");
    list->known[1].is_new = true;
    expect_list(list, "too-many-newcomers");
    assert_int_equal(tern_newcomers_max(1000), 100);
    assert_int_equal(tern_newcomers_max(29), 2);
}

CASE(a_client_is_a_newcomer_until_an_answer_or_for_a_day)
{
    struct tern_admission admission = {.admitted = 8, .answered = 7, .admitted_ms = 1000};
    assert_true(tern_is_newcomer(&admission, 1000));
    assert_true(tern_is_newcomer(&admission, 1000 + TERN_NEWCOMER_MS - 1));
    assert_false(tern_is_newcomer(&admission, 1000 + TERN_NEWCOMER_MS));
    admission.answered = 9;
    assert_false(tern_is_newcomer(&admission, 1000));
    admission.answered = 0; // before the first answer, all clients are new
    assert_false(tern_is_newcomer(&admission, 1000));
}

// --- Earlier lists of the same replica

// Adds an earlier list without groups.
static void add_list(struct tern_earlier_lists *lists, const struct tern_list_facts *facts,
                     uint32_t round, const uint64_t *clients, uint32_t count)
{
    const struct tern_earlier_list earlier = {round, 1, clients, count};
    tern_earlier_lists_add(lists, facts, &earlier);
}

static void expect_near(const struct list *list, const uint64_t *earlier, uint32_t count,
                        const char *name)
{
    struct tern_earlier_lists lists = {0};
    add_list(&lists, &list->facts, 8, earlier, count);
    const struct tern_judgement judgement = tern_judge_near_list(&list->facts, &lists);
    expect_named(&judgement, name);
}

CASE(lists_that_differ_by_few_clients_are_refused)
{
    const struct list *list = good_list(60);
    uint64_t earlier[110];
    for (uint32_t i = 0; i < 110; i++) {
        earlier[i] = i + 1;
    }
    expect_near(list, earlier, 60, "admitted");  // the same clients
    expect_near(list, earlier, 59, "near-list"); // without the last one
    expect_near(list, earlier, 61, "near-list"); // with one more
    expect_near(list, earlier + 1, 59, "near-list");
    expect_near(list, earlier + 1, 60, "near-list"); // one exchanged for another: differs by 2
    expect_near(list, earlier, 109, "near-list");    // differs by 49
    expect_near(list, earlier, 110, "admitted");     // differs by 50
    expect_near(list, earlier, 10, "admitted");
    expect_near(list, earlier, 11, "near-list");
    expect_near(list, earlier + 60, 50, "admitted"); // no client in both
}

// A group that lost or won one client would reveal it, however many clients the lists differ by.
CASE(groups_of_one_replica_need_the_same_list_and_number)
{
    struct list *list = good_list(60);
    uint64_t clients[110];
    for (uint32_t i = 0; i < 110; i++) {
        clients[i] = i + 1;
    }
    list->facts.min_clients = 20;
    const uint32_t sums[][3] = {// before, now, clients before
                                {3, 3, 60},  {1, 3, 60},  {3, 1, 60}, {5, 3, 60},
                                {3, 3, 110}, {1, 3, 110}, {3, 1, 110}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        list->facts.sums = sums[i][1];
        const struct tern_earlier_list before = {8, sums[i][0], clients, sums[i][2]};
        struct tern_earlier_lists lists = {0};
        tern_earlier_lists_add(&lists, &list->facts, &before);
        const struct tern_judgement judgement = tern_judge_near_list(&list->facts, &lists);
        expect_named(&judgement, i == 0 ? "admitted" : "near-list");
    }
}

// The lists are X and v, Y, and X and Y. The first two share no client, and the third differs by enough from each. The sum of
// the first two lists minus that of the third would be v's update.
CASE(three_lists_of_one_replica_do_not_reveal_a_client)
{
    const struct list *list = good_list(110); // X is 1 to 55, Y 56 to 110
    struct tern_earlier_lists lists = {0};
    uint64_t earlier[112];
    for (uint32_t i = 0; i < 112; i++) {
        earlier[i] = i + 1;
    }
    uint64_t with_v[56];
    memcpy(with_v, earlier, 55 * sizeof with_v[0]);
    with_v[55] = 111;
    add_list(&lists, &list->facts, 7, with_v, 56);
    struct tern_judgement judgement = tern_judge_near_list(&list->facts, &lists);
    expect_named(&judgement, "admitted"); // two lists alone
    add_list(&lists, &list->facts, 8, earlier + 55, 55);
    judgement = tern_judge_near_list(&list->facts, &lists);
    expect_named(&judgement, "near-list");
    add_list(&lists, &list->facts, 9, earlier, 110); // the same list again
    judgement = tern_judge_near_list(&list->facts, &lists);
    expect_named(&judgement, "admitted");
    lists = (struct tern_earlier_lists){0};
    add_list(&lists, &list->facts, 7, earlier + 110,
             1); // no client in common with any
    add_list(&lists, &list->facts, 8, earlier + 111, 1);
    judgement = tern_judge_near_list(&list->facts, &lists);
    expect_named(&judgement, "admitted");
}

CASE(every_refusal_has_a_name_of_its_own)
{
    for (unsigned a = 0; a < TERN_HELPER_REFUSALS_COUNT; a++) {
        for (unsigned b = 0; b < a; b++) {
            assert_string_not_equal(tern_helper_refusal_name((enum tern_helper_refusal)a),
                                    tern_helper_refusal_name((enum tern_helper_refusal)b));
        }
    }
}
