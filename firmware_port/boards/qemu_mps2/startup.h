// Between the startup code and the rest of the board.
#ifndef TERN_BOARD_STARTUP_H
#define TERN_BOARD_STARTUP_H

#include "board.h"

// The SysTick interrupt.
void tern_board_tick(void);

// A fault or an interrupt that nobody expects: does not return. frame: the eight words that the
// core stacked, or NULL.
_Noreturn void tern_board_fault(const uint32_t *frame);

// A fault because the stack is used up. Called on a stack that begins anew; does not return.
_Noreturn void tern_board_overflow(void);

#endif
