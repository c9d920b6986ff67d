#include "nodes/sharing.h"

#include "nodes/follower.h"
#include "nodes/taker.h"

const struct tern_service_sharing tern_nodes_sharing = {
    .follow = tern_follower_start,
    .turn = tern_follower_turn,
    .idle_ms = tern_follower_idle_ms,
    .expire = tern_follower_expire,
    .stop_following = tern_follower_stop,
    .take = tern_taker_start,
    .store_answers = tern_taker_store_answers,
    .give_back = tern_taker_give_back,
    .await_parts = tern_taker_await_parts,
    .stop_taking = tern_taker_stop,
};
