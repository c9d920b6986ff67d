#include "rounds/leader.h"

#define WINDOW_SHARE 4 // of the window that the leader has
#define LOOKS 8        // of one who waits, at most about so many

static bool was_first(const struct tern_round_machine *machine, uint32_t i)
{
    return machine->members[i].invited_ms == machine->opened_ms;
}

uint64_t tern_round_leader(const struct tern_round_machine *machine)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        first += was_first(machine, i);
    }
    if (!machine->open || first == 0) {
        return 0;
    }
    uint32_t left = machine->round % first;
    uint32_t i = 0;
    while (!was_first(machine, i) || left-- > 0) {
        i++;
    }
    return machine->members[i].client;
}

uint64_t tern_round_leader_until_ms(const struct tern_round_machine *machine)
{
    return machine->opened_ms + (machine->deadline_ms - machine->opened_ms) / WINDOW_SHARE;
}

uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now)
{
    uint64_t until = tern_round_leader_until_ms(machine);
    uint64_t left = until > now ? until - now : 1;
    uint64_t wait = (until - machine->opened_ms) / LOOKS;
    wait = wait > machine->policy.come_back_min_ms ? wait : machine->policy.come_back_min_ms;
    return wait < left ? wait : left;
}
