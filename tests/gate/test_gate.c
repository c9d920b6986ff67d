// The allowance of an address to enrol.
#include "service/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

static struct tern_address address_of(uint32_t number)
{
    struct tern_address address = {{0x20, 0x01}};
    memcpy(address.bytes + 4, &number, sizeof number);
    return address;
}

static uint32_t enrol(struct tern_gate *gate, uint32_t number)
{
    struct tern_address address = address_of(number);
    return tern_gate_enrollment(gate, &address, 1000);
}

static void test_each_address_has_its_own_allowance(void **state)
{
    (void)state;
    struct tern_gate *gate = tern_gate_new(0, 2);
    assert_non_null(gate);
    assert_int_equal(enrol(gate, 1), 0);
    assert_int_equal(enrol(gate, 1), 0);
    assert_int_equal(enrol(gate, 1), 31);
    uint32_t refused = 0;
    for (uint32_t i = 2; i < 22; i++) {
        refused += enrol(gate, i) != 0;
    }
    assert_true(refused < 4); // sharing a slot is rare
    struct tern_address first = address_of(1);
    assert_int_equal(tern_gate_enrollment(gate, &first, 31000), 0);
    tern_gate_free(gate);
}

#define CROWD 600u

// The addresses of a crowd that found their slot used by another of it, as a set.
static void find_refused(bool refused[CROWD])
{
    struct tern_gate *gate = tern_gate_new(0, 1);
    assert_non_null(gate);
    for (uint32_t i = 0; i < CROWD; i++) {
        refused[i] = enrol(gate, i) != 0;
    }
    tern_gate_free(gate);
}

// Who could tell which addresses share a slot could lock a chosen one out. About 42 of 600 do, and
// other ones in each gate.
static void test_shared_slots_cannot_be_foretold(void **state)
{
    (void)state;
    bool one[CROWD];
    bool two[CROWD];
    find_refused(one);
    find_refused(two);
    assert_memory_not_equal(one, two, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_address_has_its_own_allowance),
        cmocka_unit_test(test_shared_slots_cannot_be_foretold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
