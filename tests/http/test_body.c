// The body of a request, in memory and in a file: the same bytes, and no more quota than there is.
#include "http/body.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG (3u * TERN_BODY_SHORT + 77u)

static char folder[] = "/tmp/tern-body-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

// Nothing with a name was ever in it.
static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

// Appends `len` bytes in pieces; false when one of them had no quota.
static bool fill(struct tern_body *body, size_t len, size_t piece)
{
    uint8_t bytes[5000];
    while (body->len < len) {
        const size_t left = len - body->len;
        const size_t part = left < piece ? left : piece;
        for (size_t i = 0; i < part; i++) {
            bytes[i] = byte_at(body->len + i);
        }
        if (!tern_body_append(body, bytes, part, len)) {
            return false;
        }
    }
    return true;
}

static void expect_content(struct tern_body *body, size_t len)
{
    const uint8_t *view = tern_body_view(body);
    assert_non_null(view);
    assert_int_equal(body->len, len);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(view[i], byte_at(i));
    }
}

CASE(test_long_bodies_are_in_files)
{
    struct tern_body_quota *quota = tern_body_quota_new(folder, 1u << 20, 1u << 20);
    const size_t lengths[] = {1, TERN_BODY_UNCOUNTED, TERN_BODY_SHORT, TERN_BODY_SHORT + 1, LONG};
    assert_non_null(quota);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const bool in_file = lengths[i] > TERN_BODY_SHORT;
        struct tern_body body;
        tern_body_init(&body, quota);
        assert_true(fill(&body, lengths[i], 999));
        assert_int_equal(body.spool.fd >= 0, in_file);
        assert_int_equal(quota->disk_taken, in_file ? lengths[i] : 0);
        assert_true(quota->memory_taken <= TERN_BODY_SHORT);
        assert_true(!in_file || quota->memory_taken == 0);
        expect_content(&body, lengths[i]);
        tern_body_evict(&body);
        expect_content(&body, lengths[i]);
        tern_body_free(&body);
        assert_true(quota->memory_taken == 0 && quota->disk_taken == 0);
    }
    tern_body_quota_release(quota);
}

CASE(test_without_a_folder_all_are_in_memory)
{
    struct tern_body_quota *quota = tern_body_quota_new(NULL, LONG, 0);
    struct tern_body body;
    assert_non_null(quota);
    tern_body_init(&body, quota);
    assert_true(fill(&body, LONG, 4096));
    assert_int_equal(body.spool.fd, -1);
    assert_true(quota->memory_taken == LONG);
    expect_content(&body, LONG);
    tern_body_evict(&body);
    tern_body_free(&body);
    tern_body_quota_release(quota);
}

CASE(test_files_share_the_disk)
{
    struct tern_body_quota *quota = tern_body_quota_new(folder, 1u << 20, LONG + 10);
    struct tern_body first;
    struct tern_body second;
    assert_non_null(quota);
    tern_body_init(&first, quota);
    tern_body_init(&second, quota);
    assert_true(tern_body_fits(&first, LONG + 10));
    assert_false(tern_body_fits(&first, LONG + 11));
    assert_true(fill(&first, LONG, 5000));
    assert_false(tern_body_fits(&second, LONG));
    assert_true(tern_body_fits(&second, TERN_BODY_SHORT)); // that is memory
    assert_false(fill(&second, LONG, 5000));
    tern_body_free(&second);
    assert_true(quota->disk_taken == LONG && quota->memory_taken == 0);
    tern_body_free(&first);
    tern_body_init(&second, quota);
    assert_true(fill(&second, LONG, 5000));
    tern_body_quota_release(quota); // it lives as long as the body
    tern_body_free(&second);
}

static struct tern_body begin_of(struct tern_body_quota *quota, uint64_t owner)
{
    struct tern_body body;
    tern_body_init(&body, quota);
    assert_true(tern_body_set_owner(&body, owner));
    return body;
}

CASE(test_an_owner_has_a_share_of_the_memory)
{
    enum { FITS = TERN_BODY_OWNER_MEMORY / TERN_BODY_SHORT };
    struct tern_body_quota *quota = tern_body_quota_new(folder, 1u << 20, 1u << 20);
    struct tern_body bodies[FITS];
    for (size_t i = 0; i < FITS; i++) {
        bodies[i] = begin_of(quota, 7);
        assert_true(fill(&bodies[i], TERN_BODY_SHORT, 4000));
    }
    struct tern_body more = begin_of(quota, 7);
    assert_false(tern_body_fits(&more, TERN_BODY_UNCOUNTED + 1));
    assert_true(tern_body_fits(&more, TERN_BODY_UNCOUNTED)); // check-ins are heard
    assert_true(tern_body_fits(&more, LONG));                // in a file
    assert_false(fill(&more, TERN_BODY_SHORT, 4000));
    struct tern_body others = begin_of(quota, 8);
    struct tern_body nobodys = begin_of(quota, 0);
    assert_true(fill(&others, TERN_BODY_SHORT, 4000));
    assert_true(fill(&nobodys, TERN_BODY_SHORT, 4000));
    assert_int_equal(quota->memory_taken, (FITS + 2) * TERN_BODY_SHORT);
    tern_body_free(&bodies[0]);
    tern_body_free(&more);
    more = begin_of(quota, 7);
    assert_true(fill(&more, TERN_BODY_SHORT, 4000));
    for (size_t i = 1; i < FITS; i++) {
        tern_body_free(&bodies[i]);
    }
    tern_body_free(&more);
    tern_body_free(&others);
    tern_body_free(&nobodys);
    assert_int_equal(quota->memory_taken, 0);
    assert_null(quota->owner_quotas);
    tern_body_quota_release(quota);
}

CASE(test_a_folder_that_is_gone_is_no_room)
{
    struct tern_body_quota *quota = tern_body_quota_new("/nowhere/at/all", 1u << 20, 1u << 20);
    struct tern_body body;
    assert_non_null(quota);
    tern_body_init(&body, quota);
    assert_false(fill(&body, LONG, 5000));
    tern_body_free(&body);
    assert_true(quota->memory_taken == 0 && quota->disk_taken == 0);
    tern_body_quota_release(quota);
}

CASES_SHARE(make_folder, remove_folder)
