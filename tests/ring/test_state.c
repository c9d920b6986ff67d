// The file of a peer's state, and the model as it is sent: whole and right, or refused.
#include "hosted/files.h"
#include "node/state.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 37u
#define PEERS 3u

static const uint8_t agreement[TERN_SHA256_SIZE] = {1, 2, 3};
static char path[64];

static struct tern_ring_state make(float first)
{
    struct tern_ring_state made;
    assert_int_equal(tern_ring_state_new(&made, COUNT, PEERS), TERN_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        made.weights[i] = first + (float)i;
        made.residual[i] = -first * (float)i;
    }
    made.version = 9;
    made.contributed[0] = 9;
    made.contributed[2] = 4;
    tern_ring_state_hash(&made);
    return made;
}

CASE(a_file_holds_everything)
{
    char why[TERN_RING_STATE_WHY_MAX];
    struct tern_ring_state saved = make(1.5F);
    struct tern_ring_state loaded;
    assert_int_equal(tern_ring_state_new(&loaded, COUNT, PEERS), TERN_OK);
    assert_int_equal(tern_ring_state_load(&loaded, agreement, path, why), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_ring_state_save(&saved, agreement, path), TERN_OK);
    assert_int_equal(tern_ring_state_load(&loaded, agreement, path, why), TERN_OK);
    assert_int_equal(loaded.version, 9);
    assert_memory_equal(loaded.weights, saved.weights, sizeof(float) * COUNT);
    assert_memory_equal(loaded.residual, saved.residual, sizeof(float) * COUNT);
    assert_memory_equal(loaded.contributed, saved.contributed, sizeof saved.contributed);
    assert_memory_equal(loaded.hash, saved.hash, TERN_SHA256_SIZE);
    tern_ring_state_free(&saved);
    tern_ring_state_free(&loaded);
}

CASE(every_damage_is_found)
{
    char why[TERN_RING_STATE_WHY_MAX];
    struct tern_ring_state saved = make(1.5F);
    struct tern_ring_state loaded = make(4.0F);
    uint8_t *file = NULL;
    size_t len = 0;
    assert_int_equal(tern_ring_state_save(&saved, agreement, path), TERN_OK);
    assert_int_equal(tern_file_read(path, 1 << 20, &file, &len), TERN_OK);
    for (size_t at = 0; at < len; at++) {
        file[at] ^= 1;
        assert_int_equal(tern_file_write(path, file, len, 0600), TERN_OK);
        assert_int_equal(tern_ring_state_load(&loaded, agreement, path, why), TERN_ERR_CORRUPT);
        file[at] ^= 1;
    }
    for (size_t cut = 0; cut < len; cut += 7) {
        assert_int_equal(tern_file_write(path, file, cut, 0600), TERN_OK);
        assert_int_not_equal(tern_ring_state_load(&loaded, agreement, path, why), TERN_OK);
    }
    assert_true(loaded.weights[0] == 4.0F); // unchanged by all of it
    free(file);
    tern_ring_state_free(&saved);
    tern_ring_state_free(&loaded);
}

CASE(a_file_of_another_ring_is_refused)
{
    static const uint8_t other[TERN_SHA256_SIZE] = {1, 2, 4};
    char why[TERN_RING_STATE_WHY_MAX];
    struct tern_ring_state saved = make(1.5F);
    assert_int_equal(tern_ring_state_save(&saved, agreement, path), TERN_OK);
    assert_int_equal(tern_ring_state_load(&saved, other, path, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "ring.state_dir"));
    tern_ring_state_free(&saved);
}

CASE(a_model_is_taken_by_its_hash)
{
    struct tern_ring_state sender = make(1.5F);
    struct tern_ring_state receiver = make(4.0F);
    const uint32_t size = tern_ring_model_size(COUNT, PEERS);
    uint8_t *model = malloc(size);
    assert_int_equal(size, 4 + 4 * PEERS + 4 * COUNT);
    tern_ring_model_write(&sender, model);
    for (uint32_t at = 0; at < size; at++) {
        model[at] ^= 0x10;
        assert_int_equal(tern_ring_model_read(&receiver, model, sender.hash), TERN_ERR_CORRUPT);
        model[at] ^= 0x10;
    }
    assert_true(receiver.weights[0] == 4.0F);
    assert_int_equal(tern_ring_model_read(&receiver, model, sender.hash), TERN_OK);
    assert_memory_equal(receiver.weights, sender.weights, sizeof(float) * COUNT);
    assert_true(receiver.residual[1] == -4.0F); // stays its own
    sender.weights[5] = INFINITY;
    tern_ring_state_hash(&sender);
    tern_ring_model_write(&sender, model);
    assert_int_equal(tern_ring_model_read(&receiver, model, sender.hash), TERN_ERR_NON_FINITE);
    free(model);
    tern_ring_state_free(&sender);
    tern_ring_state_free(&receiver);
}

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/tern-ring-state-%ld", (long)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

CASES_SHARE(make_path, remove_path)
