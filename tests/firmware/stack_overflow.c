// Calls itself until the stack of the board is used up, or returns early when it is to be well.
#include "boards/qemu_mps2/mps2.h"

enum { FRAME = 100, WELL_DEPTH = 8, VARIABLES = 8 << 10 };

// What an overflow would damage without a fault, if it did not lie behind the stack.
static volatile uint8_t variables[VARIABLES];

static uint32_t go_deeper(uint32_t depth, uint32_t deepest)
{
    volatile uint8_t frame[FRAME];
    for (unsigned i = 0; i < FRAME; i++) {
        frame[i] = (uint8_t)depth;
    }
    const uint32_t below = depth < deepest ? go_deeper(depth + 1, deepest) : 0;
    return below + frame[depth % FRAME];
}

static bool is_damaged(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        if (variables[i] != 0) {
            return true;
        }
    }
    return false;
}

int main(void)
{
    tern_board_start();
    const struct tern_board_settings *settings = tern_board_settings();
    const uint32_t deepest = settings->rounds != 0 ? settings->rounds : WELL_DEPTH;
    tern_board_log("going deeper");
    const uint32_t sum = go_deeper(1, deepest);
    size_t given = 0;
    if (is_damaged()) {
        tern_board_stop(true, "variables are damaged");
    }
    if (sum == 0 || tern_board_stack_used(&given) >= given) {
        tern_board_stop(true, "the paint does not tell how deep it was");
    }
    tern_board_stop(false, "back again");
}
