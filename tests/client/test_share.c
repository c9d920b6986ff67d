// Rounds of scalecom in which another client leads: the update is made at its indices and goes out
// without them, whatever happens on the way.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static float leaders[WORLD_VALUES];

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world.server.codec = "scalecom:p=0.05";
    for (int i = 0; i < WORLD_VALUES; i++) {
        leaders[i] = (float)((i * 37) % 101) - 50;
    }
    fake_server_lead(&world.server, leaders);
    return 0;
}

// All that was applied stands at indices whose magnitude is among the leader's 5 %.
static void check_indices(void)
{
    int others = 0;
    for (int i = 0; i < 600; i++) {
        const float magnitude = leaders[i] < 0 ? -leaders[i] : leaders[i];
        others += world.server.applied[i] != 0 && magnitude < 47;
    }
    assert_int_equal(others, 0);
}

CASE_WITH(values_go_out_without_their_indices, set_up, tear_down)
{
    struct tern_client_event encoded;
    struct tern_client_event uploaded;
    boot();
    run_until(TERN_EVENT_ENCODED, &encoded);
    assert_true(encoded.bytes < tern_client_pending(&world.client)->len);
    run_until(TERN_EVENT_UPLOADED, &uploaded);
    assert_true(world.server.strips);
    assert_int_equal(uploaded.bytes, encoded.bytes);
    // 30 values of the one segment, 1 of the other.
    const struct tern_meter *meter = tern_client_meter_all(&world.client);
    assert_in_range(meter->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload, 4 * 31, 4 * 31 + 6);
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_conservation(&world);
    check_indices();
}

CASE_WITH(faults_and_restarts_lose_nothing, set_up, tear_down)
{
    world.server.faults[2] = FAULT_LOSE_REPLY; // sent again: the same bytes, or it is a conflict
    world.server.faults[3] = FAULT_LATE;
    world.server.faults[5] = FAULT_REJECT;
    world.server.faults[6] = FAULT_BUSY;
    boot();
    for (int i = 0; i < 8; i++) {
        run_until(i % 2 == 0 ? TERN_EVENT_ENCODED : TERN_EVENT_UPLOADED, NULL);
        world_check_conservation(&world);
        boot();
    }
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_conservation(&world);
    world_check_replica(&world);
    check_indices();
}

// Too little memory for both: the client chooses for itself.
CASE_WITH(without_room_it_chooses_its_own_indices, set_up, tear_down)
{
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(world.server.codec, &codec, NULL), TERN_OK);
    world.blob_size = 3 * WORLD_VALUES * sizeof(float);
    world.server.codec = "scalecom:p=0.9";
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_false(world.server.strips);
    world_check_conservation(&world);
}

static void damage_indices(struct world *w, const struct tern_request *request,
                           struct tern_response *response)
{
    if (request->purpose == TERN_PURPOSE_DOWNLOAD && response->body_len == w->server.indices.len) {
        response->body[response->body_len - 1] ^= 1;
    }
}

CASE_WITH(damaged_indices_are_not_used, set_up, tear_down)
{
    boot();
    world.damage = damage_indices;
    run_until(TERN_EVENT_FAILURE, NULL);
    assert_int_equal(world.trainings, 0);
    world.damage = NULL;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(world.server.strips);
    world_check_conservation(&world);
}
