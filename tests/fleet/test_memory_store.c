// The store port in memory keeps the contract of client/ports.h.
#include "fleet/memory_store.h"
#include "tests/cases.h"
#include <string.h>

CASE(a_record_is_the_concatenation_of_its_parts)
{
    struct tern_memory_store memory = {0};
    struct tern_store store = tern_memory_store_port(&memory);
    const struct tern_store_part parts[] = {{"abc", 3}, {NULL, 0}, {"de", 2}};
    char back[5];
    size_t len = 0;
    assert_int_equal(store.save(store.ctx, TERN_RECORD_UPLOAD, parts, 3), TERN_OK);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_UPLOAD, 0, back, 5, &len), TERN_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(back, "abcde", 5);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_UPLOAD, 3, back, 2, &len), TERN_OK);
    assert_memory_equal(back, "de", 2);
    tern_memory_store_clear(&memory);
}

CASE(a_record_is_replaced_and_others_stay)
{
    struct tern_memory_store memory = {0};
    struct tern_store store = tern_memory_store_port(&memory);
    const struct tern_store_part first = {"first", 5};
    const struct tern_store_part second = {"2", 1};
    char back[1];
    size_t len = 0;
    assert_int_equal(store.save(store.ctx, TERN_RECORD_METER, &first, 1), TERN_OK);
    assert_int_equal(store.save(store.ctx, TERN_RECORD_SETTLED, &first, 1), TERN_OK);
    assert_int_equal(store.save(store.ctx, TERN_RECORD_METER, &second, 1), TERN_OK);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_METER, 0, back, 1, &len), TERN_OK);
    assert_int_equal(len, 1);
    assert_int_equal(back[0], '2');
    assert_int_equal(store.load(store.ctx, TERN_RECORD_SETTLED, 0, NULL, 0, &len), TERN_OK);
    assert_int_equal(len, 5);
    tern_memory_store_clear(&memory);
}

CASE(what_is_not_there_is_not_read)
{
    struct tern_memory_store memory = {0};
    struct tern_store store = tern_memory_store_port(&memory);
    const struct tern_store_part part = {"abc", 3};
    char back[8];
    size_t len = 0;
    assert_int_equal(store.load(store.ctx, TERN_RECORD_REPLICA, 0, back, 1, &len),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(store.save(store.ctx, TERN_RECORD_REPLICA, &part, 1), TERN_OK);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_REPLICA, 1, back, 3, &len),
                     TERN_ERR_CORRUPT);
    assert_int_equal(store.load(store.ctx, TERN_RECORD_REPLICA, 4, back, 0, &len),
                     TERN_ERR_CORRUPT);
    tern_memory_store_clear(&memory);
}
