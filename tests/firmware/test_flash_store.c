// What the flash store does with the flash: the power cut at every unit that it programs and every
// block that it erases, how often blocks are erased, chips that are not empty, bits that flip.
#include "firmware/ram_flash.h"
#include "sanitized.h"
#include "store/flash_store.h"
#include "tests/cases.h"

#include <stdio.h>
#include <string.h>

#define RECORD_MAX 6000
#define SAVES 40
#define TURN 12                      // saves in which each record has its turn
#define USED (RAM_FLASH_SIZE / 8)    // bytes that records of these sizes take at most
#define EVERY (FEWER_TRIALS ? 7 : 1) // the power is cut at each unit, or each seventh

static const uint32_t sizes[TERN_RECORD_COUNT] = {141, 1700, RECORD_MAX, 20, 500, 300};

static struct ram_flash flash;
static struct tern_flash_store store;

// What each record should hold: the number of the save that wrote it, from 1; 0 = nothing.
static uint32_t held[TERN_RECORD_COUNT];

static enum tern_record record_of(uint32_t number)
{
    static const uint8_t turns[] = {0, 1, 2, 3, 2, 4, 3, 1, 4, 3, 2, 3};
    return (enum tern_record)turns[number % sizeof turns];
}

static size_t length_of(uint32_t number)
{
    const enum tern_record record = record_of(number);
    return sizes[record] - (record == TERN_RECORD_UPLOAD ? number * 977 % 5000 : number % 3);
}

// Other bytes for each number: a piece of one sequence.
static const uint8_t *contents_of(uint32_t number)
{
    static uint8_t sequence[RECORD_MAX + 64 * 1009];
    static bool made;
    uint32_t state = 2654435761u;
    for (size_t i = 0; i < sizeof sequence && !made; i++) {
        state = state * 1664525u + 1013904223u;
        sequence[i] = (uint8_t)(state >> 24);
    }
    made = true;
    assert_true(number < 64);
    return sequence + (size_t)number * 1009;
}

static enum tern_result save_number(uint32_t number)
{
    const uint8_t *contents = contents_of(number);
    const size_t len = length_of(number);
    const size_t head = number % 13 < len ? number % 13 : len;
    const struct tern_store_part parts[] = {{contents, head}, {contents + head, len - head}};
    const struct tern_store port = tern_flash_store_port(&store);
    const enum tern_result result = port.save(port.ctx, record_of(number), parts, 2);
    if (result == TERN_OK) {
        held[record_of(number)] = number;
    }
    return result;
}

static bool holds(enum tern_record record, uint32_t number)
{
    uint8_t found[RECORD_MAX];
    size_t len = 0;
    const struct tern_store port = tern_flash_store_port(&store);
    const enum tern_result result = port.load(port.ctx, record, 0, NULL, 0, &len);
    if (number == 0 || result != TERN_OK || len != length_of(number)) {
        return number == 0 && result == TERN_ERR_NOT_FOUND;
    }
    assert_int_equal(port.load(port.ctx, record, 0, found, len, &len), TERN_OK);
    return memcmp(found, contents_of(number), len) == 0;
}

static void check_all(void)
{
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        assert_true(holds((enum tern_record)i, held[i]));
    }
}

static void start(uint32_t program_size, uint8_t filled_with)
{
    memset(held, 0, sizeof held);
    ram_flash_init(&flash, program_size, filled_with);
    assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
}

// The save `number` was cut: its record is what it was, or what it should become.
static void restart_and_check(uint32_t number)
{
    ram_flash_power_on(&flash);
    assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
    if (holds(record_of(number), number)) {
        held[record_of(number)] = number;
    }
    check_all();
}

// Saves until the power goes; the number of the save that was cut, or `end`.
static uint32_t save_until_cut(uint32_t from, uint32_t end)
{
    for (uint32_t number = from; number < end; number++) {
        const enum tern_result result = save_number(number);
        if (flash.power_off) {
            assert_int_equal(result, TERN_ERR_IO);
            return number;
        }
        assert_int_equal(result, TERN_OK);
    }
    return end;
}

// All of it at one moment, to come back to.
struct moment {
    struct ram_flash flash;
    struct tern_flash_store store;
    uint32_t held[TERN_RECORD_COUNT];
};

static void copy_flash(struct ram_flash *to, const struct ram_flash *from)
{
    memcpy(to->bytes, from->bytes, USED);
    memcpy(to->erased, from->erased, USED * sizeof from->erased[0]);
    memcpy(to->wear, from->wear, sizeof from->wear);
    to->port = from->port;
    to->work = from->work;
    to->cut_at = from->cut_at;
    to->power_off = from->power_off;
    to->random = from->random;
}

static void keep(struct moment *moment)
{
    copy_flash(&moment->flash, &flash);
    moment->store = store;
    memcpy(moment->held, held, sizeof held);
}

static void go_back(const struct moment *moment)
{
    copy_flash(&flash, &moment->flash);
    store = moment->store;
    memcpy(held, moment->held, sizeof held);
}

// The piece of work `cut_at` is within this save. Everything saved before is there at first, and a second cut, some work
// later, changes that not.
static void cut_and_go_on(uint32_t number, uint64_t cut_at, enum ram_flash_cut cut)
{
    flash.random = cut_at;
    flash.cut_at = cut_at;
    flash.cut = cut;
    assert_int_equal(save_until_cut(number, number + 1), number);
    restart_and_check(number);
    flash.cut_at = flash.work + 1 + cut_at * 7919 % 500;
    const uint32_t end = number + TURN;
    number = save_until_cut(number, end);
    if (number < end) {
        restart_and_check(number);
    }
    ram_flash_power_on(&flash);
    assert_int_equal(save_until_cut(number, end + TURN), end + TURN);
    check_all();
}

// After a save that was left as it is, each piece of work of the next one, or each step-th, is tried.
static void try_everywhere(uint32_t program_size, uint64_t step, enum ram_flash_cut cut,
                           void (*try_at)(uint32_t number, uint64_t at, enum ram_flash_cut cut))
{
    static struct moment before;
    static struct moment after;
    uint64_t at = 1;
    start(program_size, 0xff);
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        assert_true(store.records[i].start + 2 * store.records[i].size <= USED);
    }
    for (uint32_t number = 1; number < SAVES; number++) {
        keep(&before);
        assert_int_equal(save_number(number), TERN_OK);
        keep(&after);
        for (; at <= after.flash.work; at += step) {
            go_back(&before);
            try_at(number, at, cut);
        }
        go_back(&after);
    }
    assert_true(at > 500);
}

static void cut_everywhere(uint32_t program_size, uint64_t step)
{
    for (int cut = 0; cut < CUT_KINDS; cut++) {
        try_everywhere(program_size, step, (enum ram_flash_cut)cut, cut_and_go_on);
    }
}

CASE(power_cut_at_every_unit_of_64)
{
    cut_everywhere(64, EVERY);
}

CASE(power_cut_at_every_unit_of_16)
{
    cut_everywhere(16, EVERY);
}

CASE(power_cut_at_units_of_1)
{
    cut_everywhere(1, 61 * EVERY);
}

static void fail_and_go_on(uint32_t number, uint64_t at, enum ram_flash_cut cut)
{
    (void)cut; // each in turn
    flash.cut_at = at;
    flash.cut = (enum ram_flash_cut)(at % CUT_KINDS);
    assert_int_equal(save_until_cut(number, number + 1), number);
    ram_flash_power_on(&flash);
    check_all();
    assert_int_equal(save_until_cut(number, number + TURN), number + TURN);
    check_all();
    assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
    check_all();
}

// As when programming fails and the device goes on: what was saved before is there, and the next
// save works, wherever the failed one got to.
CASE(a_save_that_failed_is_not_built_upon)
{
    try_everywhere(64, EVERY, CUT_BEFORE, fail_and_go_on);
}

CASE(small_records_are_appended)
{
    const struct tern_store port = tern_flash_store_port(&store);
    start(4, 0xff);
    for (uint32_t i = 0; i < 10000; i++) {
        const struct tern_store_part part = {&i, sizeof i};
        assert_int_equal(port.save(port.ctx, TERN_RECORD_SETTLED, &part, 1), TERN_OK);
    }
    // 24 bytes each, 170 in a block, two blocks in turn.
    assert_int_equal(ram_flash_wear(&flash), (10000 / 170 + 2) / 2);
    assert_int_equal(tern_flash_store_wear(&store), ram_flash_wear(&flash));
    assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
    assert_int_equal(tern_flash_store_wear(&store), ram_flash_wear(&flash));
}

CASE(a_chip_with_anything_in_it_is_taken)
{
    start(8, 0x00);
    check_all();
    assert_int_equal(save_until_cut(1, SAVES), SAVES);
    assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
    check_all();
}

// One bit that flips in the newest copy brings back the one before it or, alone, nothing: never a
// mixture.
CASE(a_damaged_copy_does_not_count)
{
    for (uint32_t bit = 0; bit < 8 * (20 + 20); bit++) {
        start(4, 0xff);
        assert_int_equal(save_number(3), TERN_OK);
        const uint32_t first = store.records[TERN_RECORD_SETTLED].data;
        if (bit % 2 == 1) {
            assert_int_equal(save_number(6), TERN_OK);
        }
        const uint32_t at = store.records[TERN_RECORD_SETTLED].data - 20 + bit / 8;
        flash.bytes[at] = (uint8_t)(flash.bytes[at] ^ 1u << bit % 8);
        assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
        held[TERN_RECORD_SETTLED] = bit % 2 == 1 ? 3 : 0;
        check_all();
        assert_true(bit % 2 == 0 || store.records[TERN_RECORD_SETTLED].data == first);
        assert_int_equal(save_number(9), TERN_OK);
        check_all();
    }
}

// Its length cannot be trusted, so the copies behind it are looked for.
CASE(a_damaged_copy_hides_no_newer_one)
{
    for (uint32_t bit = 0; bit < 8 * (20 + 20); bit++) {
        start(4, 0xff);
        assert_int_equal(save_number(3), TERN_OK);
        const uint32_t at = store.records[TERN_RECORD_SETTLED].data - 20 + bit / 8;
        assert_int_equal(save_number(6), TERN_OK);
        assert_int_equal(save_number(9), TERN_OK);
        const uint32_t newest = store.records[TERN_RECORD_SETTLED].data;
        flash.bytes[at] = (uint8_t)(flash.bytes[at] ^ 1u << bit % 8);
        assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_OK);
        check_all();
        assert_int_equal(store.records[TERN_RECORD_SETTLED].data, newest);
    }
}

CASE(a_chip_with_odd_units_is_refused)
{
    static const uint32_t units[] = {0, 3, 12, 2 * TERN_FLASH_UNIT_MAX};
    start(4, 0xff);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        flash.port.program_size = units[i];
        assert_int_equal(tern_flash_store_open(&store, &flash.port, sizes), TERN_ERR_ARGUMENT);
    }
}

CASE(what_does_not_fit_is_refused)
{
    static const uint8_t large[3 * 4096];
    start(8, 0xff);
    const struct tern_store port = tern_flash_store_port(&store);
    assert_int_equal(save_number(1), TERN_OK);
    const struct tern_store_part parts[] = {{large, 4096}, {large, sizeof large}};
    assert_int_equal(port.save(port.ctx, TERN_RECORD_REPLICA, parts, 2), TERN_ERR_NO_SPACE);
    const struct tern_store_part no_room_for_a_header = {large, 4096};
    assert_int_equal(port.save(port.ctx, TERN_RECORD_REPLICA, &no_room_for_a_header, 1),
                     TERN_ERR_NO_SPACE);
    check_all();
    const uint32_t too_large[TERN_RECORD_COUNT] = {1, 1, RAM_FLASH_SIZE / 2 - 16384, 1, 1};
    assert_int_equal(tern_flash_store_open(&store, &flash.port, too_large), TERN_ERR_NO_SPACE);
    const uint32_t huge[TERN_RECORD_COUNT] = {1, 1, UINT32_MAX, 1, 1};
    assert_int_equal(tern_flash_store_open(&store, &flash.port, huge), TERN_ERR_NO_SPACE);
}

// As after an update of the firmware, to one for a larger model.
CASE(a_larger_model_loses_neither_identity_nor_meter)
{
    uint32_t larger[TERN_RECORD_COUNT];
    memcpy(larger, sizes, sizeof larger);
    larger[TERN_RECORD_REPLICA] *= 4;
    larger[TERN_RECORD_UPLOAD] *= 2;
    start(4, 0xff);
    assert_int_equal(save_until_cut(1, SAVES), SAVES);
    assert_int_equal(tern_flash_store_open(&store, &flash.port, larger), TERN_OK);
    assert_true(holds(TERN_RECORD_IDENTITY, held[TERN_RECORD_IDENTITY]));
    assert_true(holds(TERN_RECORD_SETTLED, held[TERN_RECORD_SETTLED]));
    assert_true(holds(TERN_RECORD_METER, held[TERN_RECORD_METER]));
}
