// When all connections are taken: who is displaced for a newcomer, and who keeps the place.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#define ANONYMOUS "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"
#define WITH_TOKEN "GET /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer good\r\n\r\n"
#define WRONG_TOKEN "GET /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n\r\n"

static struct fixture fixture;

// One loop, so that what is asked later is younger.
static void begin(struct tern_http_limits limits)
{
    struct tern_http_config config = {.limits = limits, .threads = 1};
    fixture_start(&fixture, &config, true);
}

// Returns when the listener has the connection.
static struct client open_client(void)
{
    struct client client;
    const uint64_t before = fixture_counters(&fixture).connections_accepted +
                            fixture_counters(&fixture).connections_refused;
    assert_true(client_open(&client, fixture.port, NULL));
    for (int i = 0; i < 5000; i++) {
        if (fixture_counters(&fixture).connections_accepted +
                fixture_counters(&fixture).connections_refused >
            before) {
            return client;
        }
        sleep_ms(1);
    }
    fail_msg("the listener does not accept");
    return client;
}

static struct client open_and_ask(const char *text, int status)
{
    struct client client = open_client();
    assert_int_equal(client_ask(&client, text, NULL), status);
    return client;
}

CASE(test_the_idlest_stranger_makes_room)
{
    begin((struct tern_http_limits){.connections = 4});
    struct client known = open_and_ask(WITH_TOKEN, 200);
    struct client first = open_and_ask(ANONYMOUS, 200);
    struct client silent = open_client();
    struct client wrong = open_and_ask(WRONG_TOKEN, 401);
    assert_int_equal(client_ask(&first, ANONYMOUS, NULL), 200);
    struct client newcomer = open_and_ask(ANONYMOUS, 200);
    assert_true(client_sees_end(&silent, 5000));
    struct client another = open_and_ask(WITH_TOKEN, 200);
    assert_true(client_sees_end(&wrong, 5000));
    assert_int_equal(client_ask(&known, ANONYMOUS, NULL), 200);
    assert_int_equal(client_ask(&first, ANONYMOUS, NULL), 200);
    assert_int_equal(client_ask(&newcomer, ANONYMOUS, NULL), 200);
    assert_int_equal(fixture_counters(&fixture).connections_displaced, 2);
    assert_int_equal(fixture_counters(&fixture).connections_refused, 0);
    assert_int_equal(fixture_counters(&fixture).connections_open, 4);
    struct client *all[] = {&known, &first, &silent, &wrong, &newcomer, &another};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        client_close(all[i]);
    }
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}

// Bytes of a request that never ends do not make a connection less idle.
CASE(test_a_trickle_is_idle)
{
    begin((struct tern_http_limits){.connections = 2});
    struct client trickle = open_client();
    struct client honest = open_and_ask(ANONYMOUS, 200);
    assert_true(client_send_text(&trickle, "GET /echo HTTP/1.1\r\nHost: h\r\n"));
    struct client newcomer = open_and_ask(ANONYMOUS, 200);
    assert_true(client_sees_end(&trickle, 5000));
    assert_int_equal(client_ask(&honest, ANONYMOUS, NULL), 200);
    client_close(&trickle);
    client_close(&honest);
    client_close(&newcomer);
    fixture_stop(&fixture);
}

CASE(test_known_clients_keep_their_places)
{
    begin((struct tern_http_limits){.connections = 2});
    struct client one = open_and_ask(WITH_TOKEN, 200);
    struct client two = open_and_ask(WITH_TOKEN, 200);
    struct client newcomer = open_client();
    assert_true(client_sees_end(&newcomer, 5000));
    assert_int_equal(client_ask(&one, ANONYMOUS, NULL), 200);
    assert_int_equal(client_ask(&two, ANONYMOUS, NULL), 200);
    assert_int_equal(fixture_counters(&fixture).connections_refused, 1);
    assert_int_equal(fixture_counters(&fixture).connections_displaced, 0);
    client_close(&one);
    client_close(&two);
    client_close(&newcomer);
    fixture_stop(&fixture);
}

// An enrolment, say, whose join code would be lost with its answer.
CASE(test_a_request_under_way_is_answered)
{
    begin((struct tern_http_limits){.connections = 1});
    struct client waiting = open_client();
    assert_true(client_send_text(&waiting, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(fixture_wait_held(&fixture));
    struct client newcomer = open_client();
    assert_true(client_sees_end(&newcomer, 5000));
    fixture_release(&fixture);
    struct client_reply reply = client_receive(&waiting, false);
    assert_int_equal(reply.status, 200);
    client_reply_free(&reply);
    client_close(&waiting);
    client_close(&newcomer);
    fixture_stop(&fixture);
}

// An address that has its share gives up a stranger of its own, and keeps its known clients.
CASE(test_an_address_with_its_share_displaces_its_own)
{
    begin((struct tern_http_limits){.connections = 10, .connections_per_address = 2});
    struct client one = open_and_ask(ANONYMOUS, 200);
    struct client two = open_and_ask(ANONYMOUS, 200);
    struct client known = open_and_ask(WITH_TOKEN, 200);
    assert_true(client_sees_end(&one, 5000));
    struct client third =
        open_and_ask(ANONYMOUS, 200); // in the place that the known client does not need
    struct client fourth = open_and_ask(ANONYMOUS, 200);
    assert_true(client_sees_end(&two, 5000));
    assert_int_equal(client_ask(&third, ANONYMOUS, NULL), 200);
    assert_int_equal(client_ask(&known, ANONYMOUS, NULL), 200);
    assert_int_equal(fixture_counters(&fixture).connections_refused, 0);
    assert_int_equal(fixture_counters(&fixture).connections_displaced, 2);
    struct client *all[] = {&one, &two, &known, &third, &fourth};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        client_close(all[i]);
    }
    fixture_stop(&fixture);
}

// A loop whose own connections are all known takes the place of a stranger of another.
CASE(test_newcomers_come_in_on_every_loop)
{
    struct tern_http_config config = {.limits = {.connections = 8}, .threads = 4};
    struct client known[7];
    fixture_start(&fixture, &config, true);
    for (size_t i = 0; i < 7; i++) {
        known[i] = open_and_ask(WITH_TOKEN, 200);
    }
    struct client stranger = open_client();
    for (size_t i = 0; i < 32; i++) { // the system chooses their loops
        struct client newcomer = open_and_ask(ANONYMOUS, 200);
        assert_true(client_sees_end(&stranger, 5000));
        client_close(&stranger);
        stranger = newcomer;
    }
    assert_int_equal(fixture_counters(&fixture).connections_refused, 0);
    assert_int_equal(fixture_counters(&fixture).connections_displaced, 32);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(client_ask(&known[i], ANONYMOUS, NULL), 200);
        client_close(&known[i]);
    }
    client_close(&stranger);
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}

CASE(test_a_client_keeps_its_newest_connections)
{
    begin((struct tern_http_limits){.connections_per_client = 2});
    struct client anonymous = open_and_ask(ANONYMOUS, 200);
    struct client first = open_and_ask(WITH_TOKEN, 200);
    struct client second = open_and_ask(WITH_TOKEN, 200);
    struct client third = open_and_ask(WITH_TOKEN, 200);
    assert_true(client_sees_end(&first, 5000));
    assert_int_equal(client_ask(&second, WITH_TOKEN, NULL), 200);
    assert_int_equal(client_ask(&third, WITH_TOKEN, NULL), 200);
    assert_int_equal(client_ask(&anonymous, ANONYMOUS, NULL), 200);
    assert_int_equal(fixture_counters(&fixture).connections_displaced, 1);
    client_close(&anonymous);
    client_close(&first);
    client_close(&second);
    client_close(&third);
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}
