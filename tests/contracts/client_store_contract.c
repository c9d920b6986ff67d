#include "contracts/client_store_contract.h"
#include "tests/asserts.h"

#include <string.h>

static const struct store_under_test *under_test;

static int set_up(void **state)
{
    (void)state;
    under_test->open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    under_test->close();
    return 0;
}

static enum tern_result save_text(enum tern_record record, const char *text)
{
    const struct tern_store store = under_test->port();
    const struct tern_store_part part = {text, strlen(text)};
    return store.save(store.ctx, record, &part, 1);
}

static void check_text(enum tern_record record, const char *text)
{
    const struct tern_store store = under_test->port();
    char found[64];
    size_t len = 0;
    assert_int_equal(store.load(store.ctx, record, 0, found, strlen(text), &len), TERN_OK);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(found, text, len);
}

static void what_was_never_saved_is_not_found(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    size_t len = 0;
    for (int r = 0; r < TERN_RECORD_COUNT; r++) {
        assert_int_equal(store.load(store.ctx, (enum tern_record)r, 0, NULL, 0, &len),
                         TERN_ERR_NOT_FOUND);
    }
}

static void records_survive_a_restart(void **state)
{
    (void)state;
    assert_int_equal(save_text(TERN_RECORD_IDENTITY, "who"), TERN_OK);
    assert_int_equal(save_text(TERN_RECORD_UPLOAD, "what"), TERN_OK);
    under_test->reopen();
    check_text(TERN_RECORD_IDENTITY, "who");
    check_text(TERN_RECORD_UPLOAD, "what");
}

static void records_are_replaced_and_do_not_mix(void **state)
{
    (void)state;
    assert_int_equal(save_text(TERN_RECORD_REPLICA, "a long first text"), TERN_OK);
    assert_int_equal(save_text(TERN_RECORD_METER, "meter"), TERN_OK);
    assert_int_equal(save_text(TERN_RECORD_REPLICA, "short"), TERN_OK);
    check_text(TERN_RECORD_REPLICA, "short");
    check_text(TERN_RECORD_METER, "meter");
    under_test->reopen();
    check_text(TERN_RECORD_REPLICA, "short");
}

static void parts_are_put_together(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    static uint8_t large[100000];
    static uint8_t found[100000];
    size_t len = 0;
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (uint8_t)(i * 31 >> 3);
    }
    const struct tern_store_part parts[] = {
        {"head", 4}, {large, sizeof large}, {"", 0}, {"tail", 4}};
    assert_int_equal(store.save(store.ctx, TERN_RECORD_UPLOAD, parts, 4), TERN_OK);
    under_test->reopen();
    const struct tern_store again = under_test->port();
    assert_int_equal(again.load(again.ctx, TERN_RECORD_UPLOAD, 4, found, sizeof found, &len),
                     TERN_OK);
    assert_int_equal(len, sizeof large + 8);
    assert_memory_equal(found, large, sizeof large);
    assert_int_equal(again.load(again.ctx, TERN_RECORD_UPLOAD, 4 + sizeof large, found, 4, &len),
                     TERN_OK);
    assert_memory_equal(found, "tail", 4);
}

static void length_can_be_asked_for(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    size_t len = 0;
    assert_int_equal(save_text(TERN_RECORD_SETTLED, "seven.."), TERN_OK);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, 0, NULL, 0, &len), TERN_OK);
    assert_int_equal(len, 7);
}

static void reading_past_the_end_is_refused(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    char found[16];
    size_t len = 0;
    assert_int_equal(save_text(TERN_RECORD_SETTLED, "seven.."), TERN_OK);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, 0, found, 8, &len),
                     TERN_ERR_CORRUPT);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, 7, found, 1, &len),
                     TERN_ERR_CORRUPT);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, SIZE_MAX, found, 2, &len),
                     TERN_ERR_CORRUPT);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, 7, found, 0, &len), TERN_OK);
}

// --- In pieces, where the store takes them

static bool takes_pieces(void)
{
    return under_test->port().begin != NULL;
}

static void expect_view(size_t offset, const char *text)
{
    const struct tern_store store = under_test->port();
    const uint8_t *found = NULL;
    assert_int_equal(store.view(store.ctx, TERN_RECORD_UPLOAD, offset, strlen(text), &found),
                     TERN_OK);
    assert_memory_equal(found, text, strlen(text));
}

static void begin_text(size_t front, const char *text)
{
    const struct tern_store store = under_test->port();
    assert_int_equal(store.begin(store.ctx, TERN_RECORD_UPLOAD, front), TERN_OK);
    assert_int_equal(store.append(store.ctx, text, strlen(text)), TERN_OK);
}

static void pieces_and_front_are_put_together(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    if (!takes_pieces()) {
        return;
    }
    assert_int_equal(save_text(TERN_RECORD_UPLOAD, "old"), TERN_OK);
    begin_text(5, "middle");
    assert_int_equal(store.append(store.ctx, NULL, 0), TERN_OK);
    check_text(TERN_RECORD_UPLOAD, "old"); // until it is finished
    assert_int_equal(save_text(TERN_RECORD_METER, "meter"), TERN_OK);
    expect_view(5, "middle");
    assert_int_equal(store.append(store.ctx, "end", 3), TERN_OK);
    expect_view(8, "dleen");
    assert_int_equal(store.finish(store.ctx, "front"), TERN_OK);
    check_text(TERN_RECORD_UPLOAD, "frontmiddleend");
    expect_view(3, "ntmid");
    under_test->reopen();
    check_text(TERN_RECORD_UPLOAD, "frontmiddleend");
    check_text(TERN_RECORD_METER, "meter");
    expect_view(0, "frontmiddleend");
}

static void what_is_begun_ends_without_a_trace(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    if (!takes_pieces()) {
        return;
    }
    store.drop(store.ctx); // nothing was begun
    begin_text(2, "one");
    store.drop(store.ctx);
    const uint8_t *found = NULL;
    size_t len = 0;
    assert_int_equal(store.load(store.ctx, TERN_RECORD_UPLOAD, 0, NULL, 0, &len),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(store.view(store.ctx, TERN_RECORD_UPLOAD, 0, 1, &found), TERN_ERR_NOT_FOUND);
    assert_int_equal(store.append(store.ctx, "two", 3), TERN_ERR_IO);
    begin_text(2, "three");
    begin_text(1, "four");
    expect_view(1, "four");
    assert_int_equal(save_text(TERN_RECORD_UPLOAD, "saved"), TERN_OK);
    assert_int_equal(store.append(store.ctx, "five", 4), TERN_ERR_IO);
    expect_view(0, "saved");
    begin_text(1, "six");
    under_test->reopen();
    check_text(TERN_RECORD_UPLOAD, "saved");
}

static void views_past_the_end_are_refused(void **state)
{
    (void)state;
    const struct tern_store store = under_test->port();
    const uint8_t *found = NULL;
    if (!takes_pieces()) {
        return;
    }
    begin_text(2, "one");
    assert_int_equal(store.view(store.ctx, TERN_RECORD_UPLOAD, 2, 4, &found), TERN_ERR_CORRUPT);
    assert_int_equal(store.view(store.ctx, TERN_RECORD_UPLOAD, SIZE_MAX, 2, &found),
                     TERN_ERR_CORRUPT);
    assert_int_equal(store.finish(store.ctx, "12"), TERN_OK);
    assert_int_equal(store.view(store.ctx, TERN_RECORD_UPLOAD, 5, 1, &found), TERN_ERR_CORRUPT);
    expect_view(2, "one");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int run_store_contract(const struct store_under_test *implementation)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_never_saved_is_not_found),
        TEST(records_survive_a_restart),
        TEST(records_are_replaced_and_do_not_mix),
        TEST(parts_are_put_together),
        TEST(length_can_be_asked_for),
        TEST(reading_past_the_end_is_refused),
        TEST(pieces_and_front_are_put_together),
        TEST(what_is_begun_ends_without_a_trace),
        TEST(views_past_the_end_are_refused),
    };
    under_test = implementation;
    return cmocka_run_group_tests_name("client store contract", tests, NULL, NULL);
}
