// The facts of secure rounds: their descriptor, keys, tickets and lists.
#include "secure/round.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <float.h>
#include <math.h>
#include <string.h>

static int start(void **state)
{
    (void)state;
    return tern_secret_start() == TERN_OK ? 0 : -1;
}
CASES_SHARE(start, NULL)

static const float scales[3] = {0.5f, 0.25f, 0.001f};

static struct tern_secure_round example(void)
{
    struct tern_secure_round round = {.round = 7,
                                      .local_steps = 10,
                                      .batch_size = 16,
                                      .learning_rate = 0.1f,
                                      .momentum = 0.9f,
                                      .weight_decay = 1e-4f,
                                      .prox_mu = 0.01f,
                                      .level = 1,
                                      .bits = 8,
                                      .cohort = 100,
                                      .min_clients = 50,
                                      .share = 1,
                                      .places_seed = 1234567890123,
                                      .epoch = 20500,
                                      .scale_count = 3,
                                      .scales = scales};
    memset(round.federation, 1, sizeof round.federation);
    memset(round.replica, 2, sizeof round.replica);
    memset(round.model_hash, 3, sizeof round.model_hash);
    return round;
}

static uint32_t bits_of(uint32_t cohort, uint32_t level)
{
    const struct tern_secure_round round = {.cohort = cohort, .level = level};
    return tern_secure_bits(&round);
}

CASE(bits_are_those_of_the_exact_sum)
{
    assert_int_equal(bits_of(1, 1), 2);
    assert_int_equal(bits_of(10, 1), 5);
    assert_int_equal(bits_of(15, 1), 5);
    assert_int_equal(bits_of(16, 1), 6);
    assert_int_equal(bits_of(100, 1), 8);
    assert_int_equal(bits_of(127, 1), 8);
    assert_int_equal(bits_of(128, 1), 9);
    assert_int_equal(bits_of(1000, 1), 11);
    assert_int_equal(bits_of(100, 3), 10);
    assert_int_equal(bits_of((1u << 23) - 1, 1), 24);
    assert_int_equal(bits_of(1u << 23, 1), 0);
    assert_int_equal(bits_of(0, 1), 0);
    assert_int_equal(bits_of(10, 0), 0);
    assert_int_equal(bits_of(UINT32_MAX, 127), 0);
}

// A group of 150 clients has at most 50 of them, or 51 of 151.
CASE(bits_of_groups_are_those_of_the_largest_group)
{
    struct tern_secure_round round = {.cohort = 150, .level = 1};
    assert_int_equal(tern_secure_bits(&round), 9);
    round.groups = 3;
    assert_int_equal(tern_secure_bits(&round), 7);
    round.cohort = 189; // 63
    assert_int_equal(tern_secure_bits(&round), 7);
    round.cohort = 190; // 64
    assert_int_equal(tern_secure_bits(&round), 8);
}

// A round of three tensors with noise.
static struct tern_secure_round noisy(uint32_t places_max, uint32_t noise)
{
    struct tern_secure_round round = example();
    round.examples_max = 0;
    round.places_max = places_max;
    round.noise = noise;
    round.bits = tern_secure_bits(&round);
    return round;
}

CASE(the_variance_of_the_noise_follows_from_the_largest_norm)
{
    struct tern_secure_round round = noisy(1000, 1000);
    assert_int_equal(tern_secure_counter_max(&round), 3); // 3 * 9 of a squared norm of 1,000
    assert_int_equal(tern_secure_variance(&round), 1027);
    round.noise = 500;
    assert_int_equal(tern_secure_variance(&round), 257); // 256.75, rounded up
    round.places_max = 30000;
    assert_int_equal(tern_secure_counter_max(&round), 20);
    assert_int_equal(tern_secure_variance(&round), 7800);
    round.level = 3;
    assert_int_equal(tern_secure_counter_max(&round), 60);
    assert_int_equal(tern_secure_variance(&round), 9 * 7800);
    round.noise = 0;
    assert_int_equal(tern_secure_variance(&round), 0);
}

CASE(bits_grow_with_the_noise)
{
    assert_int_equal(noisy(1000, 0).bits, 8);
    assert_int_equal(noisy(1, 1).bits, 8);         // 100 + 10
    assert_int_equal(noisy(1000, 1000).bits, 10);  // 100 + 313
    assert_int_equal(noisy(10000, 1000).bits, 12); // 100 + 993 of 2,047
    // Sums of 2^23 wrap: the level is out of reach, so no bits suffice.
    assert_int_equal(tern_secure_bits(&(struct tern_secure_round){
                         .cohort = (1u << 23) - 10, .level = 1, .places_max = 1, .noise = 1000}),
                     0);
}

CASE(facts_without_which_there_is_no_noise_are_named)
{
    struct tern_secure_round round = noisy(1000, 1000);
    assert_null(tern_secure_round_check(&round));
    round.examples_max = 100;
    assert_string_equal(tern_secure_round_check(&round), "examples_max");
    round = noisy(0, 1000);
    assert_string_equal(tern_secure_round_check(&round), "places_max");
    round = noisy(1000, 100001);
    assert_string_equal(tern_secure_round_check(&round), "noise");
    round = noisy(UINT32_MAX, 1000); // a variance above 2^26
    assert_string_equal(tern_secure_round_check(&round), "noise");
    round = noisy(1000, 1000);
    round.bits--;
    assert_string_equal(tern_secure_round_check(&round), "bits");
    round.bits += 2;
    assert_string_equal(tern_secure_round_check(&round), "bits");
}

#define REFUSES(field, value, name)                                                                \
    do {                                                                                           \
        struct tern_secure_round changed = example();                                              \
        changed.field = value;                                                                     \
        assert_string_equal(tern_secure_round_check(&changed), name);                              \
    } while (0)

CASE(a_fact_out_of_range_is_named)
{
    const struct tern_secure_round round = example();
    assert_null(tern_secure_round_check(&round));
    REFUSES(round, 0, "round");
    REFUSES(bits, 7, "bits");
    REFUSES(bits, 9, "bits");
    REFUSES(level, 0, "level");
    REFUSES(level, 128, "level");
    REFUSES(cohort, 128, "bits");
    REFUSES(min_clients, 1, "min_clients");
    REFUSES(min_clients, 101, "min_clients");
    REFUSES(groups, 1, "groups");
    REFUSES(groups, 2, "groups");
    REFUSES(groups, 11, "groups");
    REFUSES(groups, UINT32_MAX, "groups");
    REFUSES(share, 3, "share");
    REFUSES(directive, 1, "directive");
    REFUSES(directive, 2, "directive");
    REFUSES(decay, NAN, "decay");
    REFUSES(decay, 0.5f, "decay");
    REFUSES(scale_count, 0, "scales");
    REFUSES(scales, ((const float[]){1, 0, 1}), "scales");
    REFUSES(scales, ((const float[]){1, 1, NAN}), "scales");
    REFUSES(scales, ((const float[]){1, INFINITY, 1}), "scales");
    REFUSES(scales, ((const float[]){-1, 1, 1}), "scales");
}

#define CHANGES(field, value)                                                                      \
    do {                                                                                           \
        struct tern_secure_round changed = example();                                              \
        uint8_t other[TERN_SHA256_SIZE];                                                           \
        changed.field = value;                                                                     \
        tern_secure_round_hash(&changed, other);                                                   \
        assert_memory_not_equal(other, descriptor, sizeof other);                                  \
    } while (0)

CASE(every_fact_changes_the_descriptor)
{
    const struct tern_secure_round round = example();
    uint8_t descriptor[TERN_SHA256_SIZE];
    tern_secure_round_hash(&round, descriptor);
    CHANGES(federation[31], 2);
    CHANGES(round, 8);
    CHANGES(replica[0], 3);
    CHANGES(model_hash[5], 0);
    CHANGES(local_steps, 11);
    CHANGES(batch_size, 17);
    CHANGES(learning_rate, 0.11f);
    CHANGES(momentum, 0);
    CHANGES(weight_decay, 0);
    CHANGES(prox_mu, 0);
    CHANGES(directive, 1);
    CHANGES(decay, 0.5f);
    CHANGES(level, 2);
    CHANGES(bits, 9);
    CHANGES(cohort, 99);
    CHANGES(min_clients, 49);
    CHANGES(groups, 3);
    CHANGES(share, 2);
    CHANGES(places_seed, 1);
    CHANGES(places_max, 5);
    CHANGES(noise, 500);
    CHANGES(examples_max, 1);
    CHANGES(epoch, 20501);
    CHANGES(scale_count, 2);
    CHANGES(scales, ((const float[]){0.5f, 0.25f, 0.0011f}));
}

CASE(canonical_bytes_are_read_as_they_were_written)
{
    const struct tern_secure_round round = example();
    uint8_t bytes[512];
    uint8_t again[512];
    float read_scales[3];
    size_t size = tern_secure_round_size(&round);
    tern_secure_round_encode(&round, bytes);
    struct tern_secure_round read;
    assert_int_equal(tern_secure_round_decode(bytes, size, read_scales, 3, &read), TERN_OK);
    tern_secure_round_encode(&read, again);
    assert_memory_equal(bytes, again, size);
    assert_ptr_equal(read.scales, read_scales);

    uint8_t descriptor[TERN_SHA256_SIZE];
    uint8_t hash[TERN_SHA256_SIZE];
    tern_secure_round_hash(&round, descriptor);
    tern_sha256(bytes, size, hash);
    assert_memory_equal(descriptor, hash, sizeof hash);

    assert_int_equal(tern_secure_round_decode(bytes, size, read_scales, 2, &read),
                     TERN_ERR_TOO_LARGE);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(tern_secure_round_decode(bytes, cut, read_scales, 3, &read),
                         TERN_ERR_CORRUPT);
    }
    bytes[0] ^= 1;
    assert_int_equal(tern_secure_round_decode(bytes, size, read_scales, 3, &read),
                     TERN_ERR_CORRUPT);
}

CASE(each_update_has_a_key_of_its_own)
{
    const uint8_t secret[TERN_SECRET_SIZE] = {9};
    const uint8_t other_secret[TERN_SECRET_SIZE] = {8};
    struct tern_masked_key masked[4] = {
        {.nonce = 2}, {.nonce = 3}, {.nonce = UINT64_C(1) << 32 | 2}, {.nonce = 2}};
    masked[3].descriptor[0] = 1;
    uint8_t keys[5][TERN_SECRET_SIZE];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tern_mask_key(secret, &masked[i], keys[i]), TERN_OK);
    }
    assert_int_equal(tern_mask_key(other_secret, &masked[0], keys[4]), TERN_OK);
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(keys[i], keys[j], TERN_SECRET_SIZE);
        }
    }
}

CASE(a_ticket_opens_only_for_its_client_epoch_and_federation)
{
    uint8_t federation[TERN_SHA256_SIZE] = {1};
    const uint8_t other_federation[TERN_SHA256_SIZE] = {2};
    const uint8_t helper[TERN_SECRET_SIZE] = {3};
    const uint8_t ephemeral[TERN_SECRET_SIZE] = {4};
    const uint8_t secret[TERN_SECRET_SIZE] = {5, 6, 7};
    const struct tern_bytes_view code = {"R7K2-9FQM", 9};
    uint8_t public_key[TERN_X25519_PUBLIC_SIZE];
    uint8_t sealed[TERN_SECURE_TICKET_MAX];
    assert_int_equal(tern_x25519_public(helper, public_key), TERN_OK);
    struct tern_secure_ticket ticket = {federation, 42, 20500};
    assert_int_equal(tern_secure_ticket_seal(&ticket, public_key, ephemeral, secret, code, sealed),
                     TERN_OK);

    const struct tern_bytes_view bytes = {sealed,
                                          TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + code.size};
    uint8_t opened[TERN_SECRET_SIZE];
    char opened_code[TERN_SECURE_CODE_MAX + 1];
    assert_int_equal(tern_secure_ticket_open(&ticket, helper, bytes, opened, opened_code), TERN_OK);
    assert_memory_equal(opened, secret, sizeof opened);
    assert_string_equal(opened_code, "R7K2-9FQM");

    const struct tern_secure_ticket others[] = {
        {federation, 43, 20500}, {federation, 42, 20501}, {other_federation, 42, 20500}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tern_secure_ticket_open(&others[i], helper, bytes, opened, opened_code),
                         TERN_ERR_CORRUPT);
    }
    const struct tern_bytes_view without_code = {sealed, TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE};
    assert_int_equal(tern_secure_ticket_open(&ticket, helper, without_code, opened, opened_code),
                     TERN_ERR_CORRUPT);
    const struct tern_bytes_view no_code = {"", 0};
    assert_int_equal(
        tern_secure_ticket_seal(&ticket, public_key, ephemeral, secret, no_code, sealed),
        TERN_ERR_ARGUMENT);
}

static void hash_list(const struct tern_secure_member *members, size_t count,
                      uint8_t hash[TERN_SHA256_SIZE])
{
    const uint8_t descriptor[TERN_SHA256_SIZE] = {1};
    struct tern_secure_list list;
    tern_secure_list_start(&list, descriptor);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tern_secure_list_add(&list, &members[i]), TERN_OK);
    }
    tern_secure_list_finish(&list, hash);
}

CASE(a_list_has_each_client_once_and_in_order)
{
    struct tern_secure_member members[3] = {{.client = 1}, {.client = 5}, {.client = 6}};
    uint8_t all[TERN_SHA256_SIZE];
    uint8_t fewer[TERN_SHA256_SIZE];
    hash_list(members, 3, all);
    hash_list(members, 2, fewer);
    assert_memory_not_equal(all, fewer, sizeof all);
    members[1].nonce = 1;
    hash_list(members, 3, fewer);
    assert_memory_not_equal(all, fewer, sizeof all);

    struct tern_secure_list list;
    tern_secure_list_start(&list, all);
    assert_int_equal(tern_secure_list_add(&list, &members[1]), TERN_OK);
    assert_int_equal(tern_secure_list_add(&list, &members[1]), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_secure_list_add(&list, &members[0]), TERN_ERR_ARGUMENT);
}

// --- Groups

#define MEMBERS_MAX 200

// Divides clients with these ids, in another order, too, and checks that each is in one group, in the order of the keys.
static void expect_groups(const uint64_t *ids, uint32_t count, uint32_t groups)
{
    const struct tern_secure_round round = {.groups = groups};
    struct tern_secure_member members[MEMBERS_MAX] = {{0}};
    struct tern_secure_groups made;
    struct tern_secure_groups other;
    uint32_t sizes[TERN_SECURE_GROUPS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct tern_secure_member){.client = ids[i]};
    }
    tern_secure_divide(&round, members, count, &made);
    assert_int_equal(made.count, groups);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = 0;
        for (uint32_t k = 0; k < count; k++) {
            rank += ids[k] * UINT64_C(0x9e3779b97f4a7c15) < ids[i] * UINT64_C(0x9e3779b97f4a7c15);
        }
        const uint32_t group = tern_secure_group_of(&made, ids[i]);
        assert_int_equal(group, (uint64_t)rank * groups / count);
        sizes[group]++;
        members[i].client = ids[count - 1 - i];
    }
    tern_secure_divide(&round, members, count, &other);
    assert_memory_equal(&other, &made, sizeof made);
    for (uint32_t i = 0; i < groups; i++) {
        assert_int_equal(sizes[i], made.sizes[i]);
        assert_in_range(sizes[i], count / groups, count / groups + (count % groups != 0));
    }
}

CASE(a_list_is_divided_into_groups_of_equal_size)
{
    const uint64_t largest[] = {INT64_MAX, INT64_MAX - 1, 1, 2, UINT64_C(1) << 62, 7, 8};
    uint64_t ids[MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t groups = 3; groups <= TERN_SECURE_GROUPS_MAX; groups += 2) {
        count = 0;
        for (uint64_t id = 1; count < MEMBERS_MAX; id += 1 + id % 3) {
            ids[count++] = id;
            if (count >= groups) {
                expect_groups(ids, count, groups);
            }
        }
    }
    expect_groups(largest, 7, 3);
    expect_groups(largest, 7, 7);
}

CASE(one_sum_is_a_group_of_all)
{
    const struct tern_secure_member members[3] = {{.client = 1}, {.client = 5}, {.client = 6}};
    struct tern_secure_groups groups;
    tern_secure_divide(&(struct tern_secure_round){.groups = 0}, members, 3, &groups);
    assert_int_equal(groups.count, 1);
    assert_int_equal(groups.sizes[0], 3);
    assert_int_equal(tern_secure_group_of(&groups, 1), 0);
    assert_int_equal(tern_secure_group_of(&groups, UINT64_MAX), 0);
}

// Without one client, no other moves by more than the border that it crosses: at most one client at each border.
CASE(without_one_client_others_stay_in_their_groups)
{
    const struct tern_secure_round round = {.groups = 5};
    struct tern_secure_member members[150];
    struct tern_secure_groups before;
    struct tern_secure_groups after;
    for (uint64_t i = 0; i < 150; i++) {
        members[i] = (struct tern_secure_member){.client = i + 1};
    }
    tern_secure_divide(&round, members, 150, &before);
    for (uint64_t gone = 1; gone <= 150; gone++) {
        uint32_t moved = 0;
        members[gone - 1].client = 150;
        tern_secure_divide(&round, members, 149, &after);
        for (uint64_t id = 1; id <= 150; id++) {
            moved +=
                id != gone && tern_secure_group_of(&before, id) != tern_secure_group_of(&after, id);
        }
        members[gone - 1].client = gone;
        assert_in_range(moved, 0, 4);
    }
}
