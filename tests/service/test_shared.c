// An aggregator that shares its database and may not lead any more: it decides nothing by memory that may be older than what
// another one has stored.
#include "harness.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

static int setup_shared(void **state)
{
    (void)state;
    harness_make_model(&harness,
                       "softmax:256-10"); // updates are longer than what is read in any case
    harness.config.shares = true;
    harness_start(&harness);
    enroll(&harness, false);
    return 0;
}

// Another writer keeps the service from the database, as a lost connection does.
static struct tern_db *keep_out(void)
{
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    return other;
}

// --- Tests

static struct tern_http_exchange *begin_unknown_round(void)
{
    static const uint8_t body[TERN_WIRE_MESSAGE_MAX + 1];
    return call_begin(&harness, "PUT", TERN_PATH_UPDATES "7/1", harness.tokens[1], body,
                      sizeof body);
}

static void expect(struct tern_http_exchange *exchange, int status)
{
    answer_expect(call_end(exchange), status);
}

static const char new_token[] = "AAAAAAAAAAAAAAAAAAAAAA"; // 16 bytes 0

static struct tern_http_exchange *begin_checkin(void)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    const size_t len = encode_checkin(NULL, 0, body);
    return call_begin(&harness, "POST", TERN_PATH_CHECKIN, new_token, body, len);
}

#define TEST(name) CASE_WITH(name, setup_shared, teardown)

// The aggregator that leads now may have opened the round and enrolled the client. One that is refused would give its update
// back and train the round again, to another model; one that gets 401 stops for good.
TEST(test_only_a_transaction_refuses_what_is_unknown_here)
{
    struct tern_db *other = keep_out();
    test_advance(5000); // without a transaction
    struct tern_http_exchange *update = begin_unknown_round();
    struct tern_http_exchange *stranger = begin_checkin();
    expect(update, 503);
    expect(stranger, 503);
    tern_db_rollback(other);
    tern_db_close(other);
    harness_await_store(&harness);
    expect(begin_unknown_round(), 422);
    expect(begin_checkin(), 401);
}

TEST(test_a_client_that_enrolled_while_another_one_led_is_admitted)
{
    expect(begin_checkin(), 401);
    struct tern_db *other = keep_out();
    struct tern_db_client client = {.name = "new"};
    tern_sha256((uint8_t[16]){0}, 16, client.token_hash);
    assert_int_equal(tern_db_client_add(other, &client), TERN_OK);
    test_advance(5000);
    expect(begin_checkin(), 503);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
    struct answer known =
        call(&harness, "GET", TERN_PATH_UPDATES "1/1", harness.tokens[1], NULL, 0);
    answer_free(&known); // a transaction was made for it
    harness_await_store(&harness);
    expect(begin_checkin(), 200);
}
