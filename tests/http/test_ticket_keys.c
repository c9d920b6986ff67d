// Ticket keys: sealing, forgery, rotation and their file.
#include "http/ticket_keys.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY 86400u
#define NOW 1700000000u

static char folder[64];
static char path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tern-keys-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/keys", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); // fails when something temporary was left
}

static struct tern_ticket_keys *opened(uint64_t now_s)
{
    struct tern_ticket_keys *keys = NULL;
    char why[256];
    assert_int_equal(tern_ticket_keys_open(path, now_s, &keys, why), TERN_OK);
    return keys;
}

static const uint8_t PLAIN[5] = "hello";

static void seal(struct tern_ticket_keys *keys, uint8_t ticket[37])
{
    assert_int_equal(tern_ticket_seal(keys, PLAIN, sizeof PLAIN, ticket), TERN_OK);
}

static enum tern_result open_ticket(struct tern_ticket_keys *keys, const uint8_t ticket[37])
{
    uint8_t plain[5] = {0};
    enum tern_result result = tern_ticket_open(keys, ticket, 37, plain);
    if (result == TERN_OK) {
        assert_memory_equal(plain, PLAIN, sizeof PLAIN);
    }
    return result;
}

static void test_sealed_ticket_opens_and_a_damaged_one_does_not(void **state)
{
    (void)state;
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    seal(keys, ticket);
    assert_int_equal(open_ticket(keys, ticket), TERN_OK);
    for (size_t bit = 0; bit < sizeof ticket * 8; bit++) {
        ticket[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_not_equal(open_ticket(keys, ticket), TERN_OK);
        ticket[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    uint8_t plain[8];
    for (size_t len = 0; len < sizeof ticket; len++) {
        assert_int_not_equal(tern_ticket_open(keys, ticket, len, plain), TERN_OK);
    }
    tern_ticket_keys_close(keys);
}

static void test_keys_outlive_the_process(void **state)
{
    (void)state;
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    seal(keys, ticket);
    tern_ticket_keys_close(keys);
    keys = opened(NOW + 10);
    assert_int_equal(open_ticket(keys, ticket), TERN_OK);
    tern_ticket_keys_close(keys);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

// A ticket must open for as long as it is valid, and its key be gone soon after.
static void test_keys_rotate_daily_and_old_ones_go(void **state)
{
    (void)state;
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    uint8_t next[37];
    assert_int_equal(tern_ticket_keys_rotate(keys, NOW + 2 * DAY), TERN_OK);
    seal(keys, ticket);
    for (uint64_t day = 3; day <= 5; day++) {
        assert_int_equal(tern_ticket_keys_rotate(keys, NOW + day * DAY), TERN_OK);
        assert_int_equal(open_ticket(keys, ticket), TERN_OK);
        seal(keys, next);
        assert_memory_not_equal(next, ticket, 4); // under another key
        assert_int_equal(tern_ticket_keys_rotate(keys, NOW + day * DAY + 5), TERN_OK);
        uint8_t same[37];
        seal(keys, same);
        assert_memory_equal(same, next, 4); // once a day
    }
    assert_int_equal(tern_ticket_keys_rotate(keys, NOW + 6 * DAY), TERN_OK);
    assert_int_equal(open_ticket(keys, ticket), TERN_ERR_NOT_FOUND);
    tern_ticket_keys_close(keys);
    keys = opened(NOW + 6 * DAY + 1);
    assert_int_equal(open_ticket(keys, next), TERN_OK);
    tern_ticket_keys_close(keys);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static void assert_refused(const char *reason)
{
    struct tern_ticket_keys *keys = NULL;
    char why[256] = "";
    assert_int_equal(tern_ticket_keys_open(path, NOW, &keys, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, reason));
}

static void test_other_files_are_left_alone(void **state)
{
    (void)state;
    write_file("an important file of somebody", 0600);
    assert_refused("something else");
    char text[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "an important file of somebody");
    write_file("ternkey1", 0600);
    assert_refused("something else");
    unlink(path);
    tern_ticket_keys_close(opened(NOW));
    chmod(path, 0644);
    assert_refused("chmod 600");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("regular file");
    rmdir(path);
}

static void test_missing_folder_is_explained(void **state)
{
    (void)state;
    struct tern_ticket_keys *keys = NULL;
    char why[256] = "";
    assert_int_equal(tern_ticket_keys_open("/no/such/folder/keys", NOW, &keys, why),
                     TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sealed_ticket_opens_and_a_damaged_one_does_not),
        cmocka_unit_test(test_keys_outlive_the_process),
        cmocka_unit_test(test_keys_rotate_daily_and_old_ones_go),
        cmocka_unit_test(test_other_files_are_left_alone),
        cmocka_unit_test(test_missing_folder_is_explained),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
