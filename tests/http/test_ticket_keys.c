// Ticket keys: sealing, forgery, rotation and their file.
#include "http/tickets.h"
#include "tests/cases.h"

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

static void seal(struct tern_ticket_keys *keys, uint64_t now_s, uint8_t ticket[37])
{
    assert_int_equal(tern_ticket_seal(keys, now_s, PLAIN, sizeof PLAIN, ticket), TERN_OK);
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

CASE(test_sealed_ticket_opens_and_a_damaged_one_does_not)
{
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    seal(keys, NOW, ticket);
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

CASE(test_keys_outlive_the_process)
{
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    seal(keys, NOW, ticket);
    tern_ticket_keys_close(keys);
    keys = opened(NOW + 10);
    assert_int_equal(open_ticket(keys, ticket), TERN_OK);
    tern_ticket_keys_close(keys);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

// A ticket must open for as long as it is valid, and its key be gone soon after.
CASE(test_keys_rotate_daily_and_old_ones_go)
{
    struct tern_ticket_keys *keys = opened(NOW);
    uint8_t ticket[37];
    uint8_t next[37];
    assert_int_equal(tern_ticket_keys_rotate(keys, NOW + 2 * DAY), TERN_OK);
    seal(keys, NOW + 2 * DAY, ticket);
    for (uint64_t day = 3; day <= 5; day++) {
        assert_int_equal(tern_ticket_keys_rotate(keys, NOW + day * DAY), TERN_OK);
        assert_int_equal(open_ticket(keys, ticket), TERN_OK);
        seal(keys, NOW + day * DAY, next);
        assert_memory_not_equal(next, ticket, 4); // under another key
        assert_int_equal(tern_ticket_keys_rotate(keys, NOW + day * DAY + 5), TERN_OK);
        uint8_t same[37];
        seal(keys, NOW + day * DAY + 5, same);
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

CASE(test_other_files_are_left_alone)
{
    write_file("an important file of somebody", 0600);
    assert_refused("has no ticket keys");
    char text[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "an important file of somebody");
    write_file("ternkey1", 0600);
    assert_refused("has no ticket keys");
    unlink(path);
    tern_ticket_keys_close(opened(NOW));
    chmod(path, 0644);
    assert_refused("chmod 600");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("regular file");
    rmdir(path);
}

CASE(test_missing_folder_is_explained)
{
    struct tern_ticket_keys *keys = NULL;
    char why[256] = "";
    assert_int_equal(tern_ticket_keys_open("/no/such/folder/keys", NOW, &keys, why),
                     TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "directory"));
}

// --- Keys that several servers share

#define HOUR 3600u

struct shared {
    uint8_t bytes[TERN_TICKET_KEYS_SIZE];
    size_t len;
};

// Two servers, of which the second has taken the first one's keys.
static void open_two(struct tern_ticket_keys *keys[2], struct shared *shared)
{
    char why[256];
    char other[112];
    unlink(path);
    snprintf(other, sizeof other, "%s.other", path);
    keys[0] = opened(NOW);
    assert_int_equal(tern_ticket_keys_open(other, NOW, &keys[1], why), TERN_OK);
    for (int i = 0; i < 2; i++) {
        tern_ticket_keys_share(keys[i]);
    }
    shared->len = tern_ticket_keys_write(keys[0], shared->bytes);
    assert_int_equal(tern_ticket_keys_replace(keys[1], shared->bytes, shared->len), TERN_OK);
}

static void close_two(struct tern_ticket_keys *keys[2])
{
    char other[112];
    snprintf(other, sizeof other, "%s.other", path);
    tern_ticket_keys_close(keys[0]);
    tern_ticket_keys_close(keys[1]);
    unlink(other);
}

static void extend(struct shared *shared, uint64_t now_s)
{
    assert_int_equal(tern_ticket_keys_extend(shared->bytes, &shared->len, now_s), TERN_OK);
}

CASE(test_servers_that_share_keys_open_each_others_tickets)
{
    struct tern_ticket_keys *keys[2];
    struct shared shared;
    uint8_t ticket[37];
    char other[112];
    open_two(keys, &shared);
    for (int i = 0; i < 2; i++) {
        seal(keys[i], NOW, ticket);
        assert_int_equal(open_ticket(keys[1 - i], ticket), TERN_OK);
    }
    close_two(keys);
    snprintf(other, sizeof other, "%s.other", path);
    struct tern_ticket_keys *stranger = NULL;
    char why[256];
    assert_int_equal(tern_ticket_keys_open(other, NOW, &stranger, why), TERN_OK);
    assert_int_equal(open_ticket(stranger, ticket), TERN_ERR_NOT_FOUND);
    tern_ticket_keys_close(stranger);
    unlink(other);
}

// One of them learns of the next key some time after the other, and at no moment does one seal under a key that the
// other has not.
CASE(test_a_shared_key_is_known_before_it_seals)
{
    struct tern_ticket_keys *keys[2];
    struct shared shared;
    uint8_t before[37];
    uint8_t ticket[37];
    open_two(keys, &shared);
    const size_t one = shared.len;
    extend(&shared, NOW + DAY - TERN_TICKET_LEAD_S - 1);
    assert_int_equal(shared.len, one); // is not due
    assert_int_equal(tern_ticket_keys_rotate(keys[0], NOW + 2 * DAY), TERN_OK);
    assert_int_equal(tern_ticket_keys_write(keys[0], shared.bytes),
                     one); // nobody makes a key for itself
    seal(keys[0], NOW, before);
    const uint64_t made = NOW + DAY - TERN_TICKET_LEAD_S;
    extend(&shared, made);
    assert_true(shared.len > one);
    const size_t two = shared.len;
    extend(&shared, made + 1);
    assert_int_equal(shared.len, two); // nor is it made twice
    assert_int_equal(tern_ticket_keys_replace(keys[0], shared.bytes, shared.len), TERN_OK);
    seal(keys[0], made + TERN_TICKET_LEAD_S - 1, ticket);
    assert_memory_equal(ticket, before, 4); // under the old key
    assert_int_equal(open_ticket(keys[1], ticket), TERN_OK);
    assert_int_equal(tern_ticket_keys_replace(keys[1], shared.bytes, shared.len), TERN_OK);
    seal(keys[0], made + TERN_TICKET_LEAD_S, ticket);
    assert_memory_not_equal(ticket, before, 4);
    assert_int_equal(open_ticket(keys[1], ticket), TERN_OK);
    assert_int_equal(open_ticket(keys[1], before), TERN_OK);
    close_two(keys);
}

CASE(test_a_ticket_opens_as_long_as_it_is_valid)
{
    struct tern_ticket_keys *keys[2];
    struct shared shared;
    uint8_t ticket[37];
    open_two(keys, &shared);
    const uint64_t sealed = NOW + DAY - 1; // the last second of its key
    seal(keys[0], sealed, ticket);
    for (uint64_t now = NOW; now <= sealed + TERN_TICKET_LIFETIME_S; now += HOUR / 60) {
        extend(&shared, now);
        assert_int_equal(tern_ticket_keys_replace(keys[1], shared.bytes, shared.len), TERN_OK);
        assert_int_equal(open_ticket(keys[1], ticket), TERN_OK);
    }
    extend(&shared, sealed + TERN_TICKET_LIFETIME_S + DAY);
    assert_int_equal(tern_ticket_keys_replace(keys[1], shared.bytes, shared.len), TERN_OK);
    assert_int_equal(open_ticket(keys[1], ticket), TERN_ERR_NOT_FOUND);
    close_two(keys);
}

CASE(test_a_clock_that_was_set_back_makes_a_new_key)
{
    struct tern_ticket_keys *keys[2];
    struct shared shared;
    open_two(keys, &shared);
    const size_t one = shared.len;
    extend(&shared, NOW - DAY);
    assert_true(shared.len > one);
    uint8_t ticket[37];
    assert_int_equal(tern_ticket_keys_replace(keys[0], shared.bytes, shared.len), TERN_OK);
    seal(keys[0], NOW - DAY, ticket); // which the other has
    assert_int_equal(open_ticket(keys[1], ticket), TERN_OK);
    close_two(keys);
}

CASE(test_what_is_no_key_is_not_taken)
{
    struct tern_ticket_keys *keys[2];
    struct shared shared;
    uint8_t ticket[37];
    open_two(keys, &shared);
    seal(keys[0], NOW, ticket);
    shared.bytes[0] ^= 1;
    assert_int_equal(tern_ticket_keys_replace(keys[0], shared.bytes, shared.len), TERN_ERR_CORRUPT);
    assert_int_equal(tern_ticket_keys_extend(shared.bytes, &shared.len, NOW), TERN_ERR_CORRUPT);
    shared.bytes[0] ^= 1;
    assert_int_equal(tern_ticket_keys_replace(keys[0], shared.bytes, shared.len - 1),
                     TERN_ERR_CORRUPT);
    assert_int_equal(open_ticket(keys[0], ticket), TERN_OK);
    close_two(keys);
}

static void write_key(const char *name, const char *command)
{
    char text[256];
    snprintf(text, sizeof text, command, folder, name);
    assert_int_equal(system(text), 0);
}

#define NEW_KEY "openssl ecparam -name prime256v1 -genkey -noout -out %s/%s 2> /dev/null"
#define SAME_KEY "cd %s && openssl pkcs8 -topk8 -nocrypt -in one.pem -out %s"

static enum tern_result make_sealer(const char *name, struct tern_ticket_sealer *sealer)
{
    char file[128];
    char why[256];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    return tern_ticket_sealer_make(file, sealer, why);
}

// Only who has the private key can open what lies in the database, in whatever form it has that.
CASE(test_keys_are_sealed_by_the_private_key)
{
    struct tern_ticket_sealer one;
    struct tern_ticket_sealer same;
    struct tern_ticket_sealer other;
    const uint8_t plain[100] = "keys";
    uint8_t sealed[sizeof plain + TERN_TICKET_SEALED_OVERHEAD];
    uint8_t opened_[sizeof plain];
    write_key("one.pem", NEW_KEY);
    write_key("same.pem", SAME_KEY);
    write_key("other.pem", NEW_KEY);
    assert_int_equal(make_sealer("one.pem", &one), TERN_OK);
    assert_int_equal(make_sealer("same.pem", &same), TERN_OK);
    assert_int_equal(make_sealer("other.pem", &other), TERN_OK);
    assert_memory_equal(one.id, same.id, sizeof one.id);
    assert_memory_not_equal(one.id, other.id, sizeof one.id);
    assert_memory_not_equal(one.id, one.key, sizeof one.key);
    assert_int_equal(tern_ticket_sealer_seal(&one, plain, sizeof plain, sealed), TERN_OK);
    assert_int_equal(tern_ticket_sealer_open(&same, sealed, sizeof sealed, opened_), TERN_OK);
    assert_memory_equal(opened_, plain, sizeof plain);
    assert_int_equal(tern_ticket_sealer_open(&other, sealed, sizeof sealed, opened_),
                     TERN_ERR_CORRUPT);
    sealed[3] ^= 1;
    assert_int_equal(tern_ticket_sealer_open(&one, sealed, sizeof sealed, opened_),
                     TERN_ERR_CORRUPT);
    assert_int_equal(
        tern_ticket_sealer_open(&one, sealed, TERN_TICKET_SEALED_OVERHEAD - 1, opened_),
        TERN_ERR_CORRUPT);
    assert_int_equal(make_sealer("none.pem", &one), TERN_ERR_CONFIG);
    write_key("one.pem", "cd %s && rm same.pem other.pem %s");
}

CASES_SHARE(make_folder, remove_folder)
