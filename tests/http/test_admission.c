// Who may come in, and who goes for it: over the loops, per address and per client.
#include "http/admission.h"
#include "tests/cases.h"
#include <netinet/in.h>

#include <pthread.h>
#include <string.h>

#define PLACES 6

static struct tern_admission *admission;
static struct tern_place_group groups[2];
static uint32_t wakes[2];
static struct tern_place places[PLACES];

static void count_wake(void *ctx)
{
    ++*(uint32_t *)ctx;
}

static void begin(uint32_t connections, uint32_t per_address, uint32_t per_client)
{
    const struct tern_http_limits limits = {.connections = connections,
                                            .connections_per_address = per_address,
                                            .connections_per_client = per_client};
    admission = tern_admission_new(&limits);
    for (int i = 0; i < 2; i++) {
        wakes[i] = 0;
        TAILQ_INIT(&groups[i].displaced);
        groups[i].wake = count_wake;
        groups[i].ctx = &wakes[i];
    }
}

// An IPv6 address in a network of its own.
static struct sockaddr_storage address_of(uint32_t number)
{
    struct sockaddr_storage name = {.ss_family = AF_INET6};
    uint8_t *bytes = ((struct sockaddr_in6 *)&name)->sin6_addr.s6_addr;
    bytes[0] = 1;
    memcpy(bytes + 4, &number, sizeof number);
    return name;
}

static bool enter(int group, uint32_t number, struct tern_place *place)
{
    const struct sockaddr_storage address = address_of(number);
    return tern_admission_enter(admission, &groups[group], &address, place);
}

static struct tern_place *displaced(int group)
{
    return tern_admission_displaced(admission, &groups[group]);
}

CASE(test_both_limits_hold)
{
    begin(5, 2, 8);
    assert_true(enter(0, 1, &places[0]));
    assert_true(enter(0, 1, &places[1]));
    tern_admission_busy(admission, &places[0]);
    tern_admission_busy(admission, &places[1]);
    assert_false(enter(0, 1, &places[2])); // its share is being served
    assert_true(enter(0, 2, &places[2]));
    assert_true(tern_admission_enter(admission, &groups[0], NULL, &places[3]));
    assert_true(tern_admission_enter(admission, &groups[0], NULL, &places[4]));
    for (int i = 0; i < 5; i++) {
        tern_admission_authenticate(admission, &places[i], 0);
    }
    assert_false(enter(0, 2, &places[5])); // nobody here is a stranger
    assert_int_equal(tern_admission_open(admission), 5);
    tern_admission_leave(admission, &places[3]);
    assert_true(enter(0, 1, &places[5])); // what is known counts for no address
    assert_null(displaced(0));
    for (int i = 0; i < PLACES; i++) {
        if (i != 3) {
            tern_admission_leave(admission, &places[i]);
        }
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

CASE(test_the_idlest_stranger_goes_whichever_loop_it_is_on)
{
    begin(3, 8, 8);
    assert_true(enter(1, 1, &places[0]));
    assert_true(enter(1, 2, &places[1]));
    assert_true(enter(0, 3, &places[2]));
    tern_admission_touch(admission, &places[0]);
    assert_true(enter(0, 4, &places[3]));
    assert_ptr_equal(displaced(1), &places[1]);
    assert_null(displaced(0));
    assert_int_equal(wakes[1], 1);
    assert_int_equal(wakes[0], 0);
    assert_int_equal(tern_admission_open(admission), 4); // until its loop has ended it
    tern_admission_leave(admission, &places[1]);
    assert_null(displaced(1));
    assert_int_equal(tern_admission_open(admission), 3);
    assert_true(enter(1, 5, &places[1]));
    assert_ptr_equal(displaced(0), &places[2]);
    for (int i = 0; i < 4; i++) {
        tern_admission_leave(admission, &places[i]);
    }
    tern_admission_free(admission);
}

CASE(test_who_asks_or_is_known_is_spared)
{
    begin(2, 8, 8);
    assert_true(enter(0, 1, &places[0]));
    assert_true(enter(0, 2, &places[1]));
    tern_admission_busy(admission, &places[0]);
    tern_admission_authenticate(admission, &places[1], 7);
    assert_false(enter(0, 3, &places[2]));
    tern_admission_touch(admission, &places[1]); // no stranger by that
    assert_false(enter(0, 3, &places[2]));
    tern_admission_touch(admission, &places[0]); // it is answered
    assert_true(enter(0, 3, &places[2]));
    assert_ptr_equal(displaced(0), &places[0]);
    tern_admission_busy(admission, &places[0]); // its request came just before its end
    assert_null(displaced(0));
    assert_int_equal(tern_admission_open(admission), 3);
    assert_false(enter(0, 4, &places[3])); // one above the limit, and nobody is left but the newest
    assert_ptr_equal(displaced(0), &places[2]);
    for (int i = 0; i < 3; i++) {
        tern_admission_leave(admission, &places[i]);
    }
    tern_admission_free(admission);
}

// Whoever holds all places of an address gives up the longest idle of them to the next of it, also where a proxy names
// the address.
CASE(test_an_address_gives_up_its_own_idlest)
{
    begin(100, 2, 8);
    assert_true(enter(1, 1, &places[0]));
    assert_true(enter(0, 1, &places[1]));
    assert_true(enter(0, 2, &places[2])); // another's, which is idle longer than what follows
    tern_admission_touch(admission, &places[1]);
    tern_admission_touch(admission, &places[0]);
    assert_true(enter(0, 1, &places[3]));
    assert_ptr_equal(displaced(0), &places[1]);
    assert_null(displaced(1));
    tern_admission_leave(admission, &places[1]);
    assert_true(tern_admission_enter(admission, &groups[0], NULL, &places[1]));
    const struct sockaddr_storage address = address_of(1);
    assert_true(tern_admission_move(admission, &places[1], &address));
    assert_ptr_equal(displaced(1), &places[0]);
    assert_null(displaced(0));
    tern_admission_authenticate(admission, &places[3], 7);
    assert_true(
        enter(0, 1, &places[4])); // a known client leaves its place at the address to others
    tern_admission_busy(admission, &places[1]);
    assert_true(enter(0, 1, &places[5]));
    assert_ptr_equal(displaced(0), &places[4]);
    for (int i = 0; i < PLACES; i++) {
        tern_admission_leave(admission, &places[i]);
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

// Who only connects, again and again, does not displace one that shakes hands; and newcomers that are few displace the
// idle, not each other.
CASE(test_newcomers_displace_each_other_where_they_are_many)
{
    begin(100, 4, 8);
    for (int i = 0; i < 4; i++) {
        assert_true(enter(0, 1, &places[i]));
        tern_admission_touch(admission, &places[i]);
    }
    assert_true(enter(0, 1, &places[4]));
    assert_true(enter(0, 1, &places[5]));
    assert_ptr_equal(displaced(0), &places[0]);
    tern_admission_leave(admission, &places[0]);
    assert_ptr_equal(displaced(0), &places[1]);
    tern_admission_leave(admission, &places[1]);
    tern_admission_touch(admission, &places[5]); // an honest one
    assert_true(enter(0, 1, &places[0]));
    assert_ptr_equal(displaced(0), &places[2]);
    tern_admission_leave(admission, &places[2]);
    assert_true(enter(0, 1, &places[1])); // now two have come to stay, and two shake hands
    assert_ptr_equal(displaced(0), &places[3]);
    tern_admission_leave(admission, &places[3]);
    struct tern_place *silent[] = {&places[4], &places[0], &places[1]};
    struct tern_place *next = &places[2];
    for (int i = 0; i < 20; i++) {
        assert_true(enter(0, 1, next));
        assert_ptr_equal(displaced(0), silent[0]);
        tern_admission_leave(admission, silent[0]);
        struct tern_place *gone = silent[0];
        silent[0] = silent[1];
        silent[1] = silent[2];
        silent[2] = next;
        next = gone;
    }
    tern_admission_leave(admission, &places[5]);
    for (int i = 0; i < 3; i++) {
        tern_admission_leave(admission, silent[i]);
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

CASE(test_one_with_a_known_ticket_is_not_displaced_for_strangers)
{
    begin(3, 1, 2);
    assert_true(enter(0, 1, &places[0]));
    tern_admission_recognise(admission, &places[0], 7);
    assert_true(enter(0, 1, &places[1]));
    tern_admission_touch(admission, &places[0]); // its handshake is over
    assert_true(enter(0, 1, &places[2]));
    assert_ptr_equal(displaced(0), &places[1]);
    tern_admission_leave(admission, &places[1]);
    tern_admission_recognise(admission, &places[2], 7);
    assert_true(enter(0, 1, &places[1]));
    tern_admission_recognise(admission, &places[1],
                             7); // more than a client may have: its ticket is no secret
    assert_null(displaced(0));
    assert_true(enter(0, 2, &places[3])); // all are taken, and the oldest is a stranger again
    assert_ptr_equal(displaced(0), &places[0]);
    tern_admission_leave(admission, &places[0]);
    tern_admission_leave(admission, &places[3]);
    tern_admission_unrecognise(admission, &places[2]); // its ticket did not hold
    tern_admission_unrecognise(admission, &places[1]);
    assert_true(enter(0, 1, &places[0]));
    assert_ptr_equal(displaced(0), &places[2]);
    tern_admission_leave(admission, &places[2]);
    assert_ptr_equal(displaced(0), &places[1]); // the address has one place, after all
    tern_admission_leave(admission, &places[1]);
    tern_admission_recognise(admission, &places[0], 7);
    tern_admission_busy(admission, &places[0]); // it asks without a token
    tern_admission_touch(admission, &places[0]);
    assert_true(enter(0, 1, &places[1]));
    assert_ptr_equal(displaced(0), &places[0]);
    tern_admission_leave(admission, &places[0]);
    tern_admission_leave(admission, &places[1]);
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

// Replays of a device's hello cost the device's connection the name that they share, and no more: from another
// address they do not displace it, whether its handshake has finished or not.
CASE(test_replays_do_not_displace_a_device)
{
    struct tern_place finished;
    struct tern_place replays[100];
    begin(1000, 4, 2);
    assert_true(enter(0, 1, &places[0]));
    assert_true(enter(0, 1, &finished));
    tern_admission_recognise(admission, &places[0], 7);
    tern_admission_recognise(admission, &finished, 7);
    tern_admission_authenticate(admission, &finished, 7);
    for (size_t i = 0; i < 100; i++) {
        assert_true(enter(0, 2, &replays[i]));
        tern_admission_recognise(admission, &replays[i], 7);
        struct tern_place *gone = displaced(0);
        while (gone != NULL) {
            assert_true(gone >= replays && gone < replays + 100);
            tern_admission_leave(admission, gone);
            gone->group = NULL;
            gone = displaced(0);
        }
    }
    assert_in_range(tern_admission_open(admission), 2 + 2, 2 + 2 + 5);
    tern_admission_authenticate(admission, &places[0], 7); // its handshake has finished, too
    for (size_t i = 0; i < 100; i++) {
        if (replays[i].group != NULL) {
            tern_admission_leave(admission, &replays[i]);
        }
    }
    tern_admission_leave(admission, &places[0]);
    tern_admission_leave(admission, &finished);
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

CASE(test_a_client_has_its_share)
{
    begin(100, 8, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(enter(i == 0 ? 1 : 0, i, &places[i]));
        tern_admission_authenticate(admission, &places[i], 7);
        tern_admission_authenticate(admission, &places[i], 7); // asked again
    }
    assert_true(enter(0, 3, &places[3]));
    tern_admission_authenticate(admission, &places[3], 8);
    assert_ptr_equal(displaced(1), &places[0]); // its oldest, and none of another's
    assert_null(displaced(0));
    tern_admission_authenticate(admission, &places[0], 7); // it does not come back by asking
    tern_admission_busy(admission, &places[0]);
    tern_admission_touch(admission, &places[0]);
    assert_ptr_equal(displaced(1), &places[0]);
    for (int i = 0; i < 4; i++) {
        tern_admission_leave(admission, &places[i]);
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

// --- Floods

#define CROWD 64 // connections
#define SHARE 8  // of an address
#define ATTACKERS 40
#define REGULARS 20 // known clients that stay
#define HONEST 1000 // the first honest newcomer's address; attackers' are below

static struct tern_place flood[ATTACKERS][SHARE];
static bool is_open[ATTACKERS][SHARE];

// What a loop does once it is woken.
static void end_displaced(void)
{
    struct tern_place *place;
    while ((place = displaced(0)) != NULL) {
        const size_t at = (size_t)(place - &flood[0][0]);
        assert_in_range(at, 0, ATTACKERS * SHARE - 1); // never an honest one
        assert_true(is_open[at / SHARE][at % SHARE]);
        is_open[at / SHARE][at % SHARE] = false;
        tern_admission_leave(admission, place);
    }
}

// Another connection of the attacker, in the place of its own oldest where it has its share.
static void attack(uint32_t attacker)
{
    static uint32_t turns[ATTACKERS];
    const uint32_t slot = turns[attacker]++ % SHARE;
    if (is_open[attacker][slot]) {
        tern_admission_leave(admission, &flood[attacker][slot]);
    }
    is_open[attacker][slot] = enter(0, attacker, &flood[attacker][slot]);
    end_displaced();
}

static void leave_all(struct tern_place *regulars)
{
    for (uint32_t i = 0; i < ATTACKERS * SHARE; i++) {
        if (is_open[i / SHARE][i % SHARE]) {
            tern_admission_leave(admission, &flood[i / SHARE][i % SHARE]);
            is_open[i / SHARE][i % SHARE] = false;
        }
    }
    for (uint32_t i = 0; i < REGULARS; i++) {
        tern_admission_leave(admission, &regulars[i]);
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}

static void begin_crowd(struct tern_place *regulars)
{
    begin(CROWD, SHARE, 8);
    for (uint32_t i = 0; i < REGULARS; i++) {
        assert_true(enter(0, HONEST + 1 + i, &regulars[i]));
        tern_admission_authenticate(admission, &regulars[i], i + 1);
    }
}

// A newcomer's handshake, its request and the answer, with so many attackers' connections in between.
static void visit(uint32_t arrivals, void (*arrive)(uint32_t))
{
    struct tern_place honest;
    assert_true(enter(0, HONEST, &honest));
    end_displaced();
    for (uint32_t step = 0; step < 2; step++) {
        for (uint32_t i = 0; i < arrivals; i++) {
            arrive(i);
        }
        tern_admission_touch(admission, &honest);
    }
    tern_admission_busy(admission, &honest);
    for (uint32_t i = 0; i < arrivals; i++) {
        arrive(i);
    }
    tern_admission_authenticate(admission, &honest, REGULARS + 1);
    tern_admission_leave(admission, &honest);
}

static void attack_from_all(uint32_t arrival)
{
    static uint32_t next;
    (void)arrival;
    attack(next++ % ATTACKERS);
}

// However long it lasts, a newcomer that gets on comes in: each of its steps makes it the last to be
// displaced, after all strangers that the places have room for.
CASE(test_a_flood_of_newcomers_does_not_shut_others_out)
{
    struct tern_place regulars[REGULARS];
    begin_crowd(regulars);
    for (uint32_t i = 0; i < 5 * CROWD; i++) {
        attack_from_all(i);
    }
    assert_int_equal(tern_admission_open(admission), CROWD);
    for (uint32_t i = 0; i < 500; i++) {
        visit(CROWD - REGULARS - 1, attack_from_all);
    }
    leave_all(regulars);
}

static void attack_from_one(uint32_t arrival)
{
    (void)arrival;
    attack(0);
}

// As many as it likes from one address: beyond its share it takes nobody's place.
CASE(test_one_address_does_not_shut_others_out)
{
    struct tern_place regulars[REGULARS];
    begin_crowd(regulars);
    for (uint32_t i = 1; i < ATTACKERS; i++) { // strangers that have all the other places, and stay
        attack(i);
    }
    while (tern_admission_open(admission) < CROWD) {
        attack_from_one(0);
    }
    for (uint32_t i = 0; i < 20; i++) {
        visit(50 * CROWD, attack_from_one);
    }
    leave_all(regulars);
}

CASE(test_many_addresses_come_and_go)
{
    static struct tern_place many[3000];
    begin(100000, 3, 8);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3000; i++) {
            assert_true(enter(0, i / 3, &many[i]));
            if (i % 2 == 0) {
                tern_admission_authenticate(admission, &many[i], 1 + i / 7);
            }
        }
        for (uint32_t i = 0; i < 3000; i++) {
            tern_admission_leave(admission, &many[i]);
        }
    }
    assert_int_equal(tern_admission_open(admission), 0);
    tern_admission_free(admission);
}
