// Which client a token belongs to, and how many enrolments an address may make.
#include "service/front.h"
#include "tests/cases.h"

#include <string.h>

static struct tern_address address_of(uint32_t number)
{
    struct tern_address address = {{0x20, 0x01}};
    memcpy(address.bytes + 4, &number, sizeof number);
    return address;
}

static uint32_t enrol(struct tern_gate *gate, uint32_t number)
{
    struct tern_address address = address_of(number);
    return tern_gate_enrollment(gate, &address, NULL, 1000);
}

CASE(test_each_address_has_its_own_allowance)
{
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
    assert_int_equal(tern_gate_enrollment(gate, &first, NULL, 31000), 0);
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
CASE(test_shared_slots_cannot_be_foretold)
{
    bool one[CROWD];
    bool two[CROWD];
    find_refused(one);
    find_refused(two);
    assert_memory_not_equal(one, two, sizeof one);
}

static uint64_t bearer_of(struct tern_gate *gate, const char *authorization)
{
    uint64_t client = 0;
    const enum tern_result result = tern_gate_client(gate, authorization, &client);
    assert_int_equal(result, client == 0 ? TERN_ERR_UNAUTHORIZED : TERN_OK);
    return client;
}

CASE(test_the_scheme_is_bearer_in_any_case)
{
    static const char *const others[] = {
        "Basic AAECAwQFBgcICQoLDA0ODw",
        "Bearer  AAECAwQFBgcICQoLDA0ODw",
        "BearerAAECAwQFBgcICQoLDA0ODw",
        "Bearer aaecawqfbgcicqoldA0odw",
        "AAECAwQFBgcICQoLDA0ODw",
        "Bearer",
        "",
    };
    uint8_t token[16];
    uint8_t hash[TERN_SHA256_SIZE];
    for (uint8_t i = 0; i < sizeof token; i++) {
        token[i] = i;
    }
    struct tern_gate *gate = tern_gate_new(0, 1);
    assert_non_null(gate);
    tern_sha256(token, sizeof token, hash);
    assert_int_equal(tern_gate_set_client(gate, 7, hash, "seven", false), TERN_OK);
    assert_int_equal(bearer_of(gate, "Bearer AAECAwQFBgcICQoLDA0ODw"), 7);
    assert_int_equal(bearer_of(gate, "bearer AAECAwQFBgcICQoLDA0ODw"), 7);
    assert_int_equal(bearer_of(gate, "BEARER AAECAwQFBgcICQoLDA0ODw"), 7);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(bearer_of(gate, others[i]), 0);
    }
    tern_gate_free(gate);
}
