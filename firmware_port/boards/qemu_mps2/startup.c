// Starts the core: vector table, FPU, stack paint, .data and .bss. Works for other Cortex-M boards, which add their interrupts.
#include "boards/qemu_mps2/mps2.h"

#include <string.h>

// Symbols of memory.ld; only their addresses have a meaning.
extern uint32_t tern_board_stack_limit[];
extern uint32_t tern_board_stack_top[];
extern uint8_t tern_board_data_start[];
extern uint8_t tern_board_data_end[];
extern const uint8_t tern_board_data_load[];
extern uint8_t tern_board_bss_start[];
extern uint8_t tern_board_bss_end[];

static size_t bytes_between(const void *start, const void *end)
{
    return (uintptr_t)end - (uintptr_t)start;
}

#define PAINT 0x5ac35ac3u
#define CPACR (*(volatile uint32_t *)0xE000ED88u)
#define CPACR_FULL_FPU (0xFu << 20)

int main(void);
void tern_board_reset(void);

// Fills the stack with the paint pattern. It is written in assembly, without calls or locals, because it overwrites the stack
// that it runs on, and because the FPU is not enabled yet.
__attribute__((naked, noreturn, used)) void tern_board_reset(void)
{
    __asm__ volatile("ldr r0, =tern_board_stack_limit\n"
                     "ldr r1, =tern_board_stack_top\n"
                     "ldr r2, =%c0\n"
                     "1: cmp r0, r1\n"
                     "it lo\n"
                     "strlo r2, [r0], #4\n"
                     "blo 1b\n"
                     "b board_start_c\n"
                     :
                     : "i"(PAINT));
}

__attribute__((noreturn, used)) static void board_start_c(void);
__attribute__((noreturn, used)) static void board_start_c(void)
{
#ifdef __ARM_FP
    CPACR |= CPACR_FULL_FPU;
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    memcpy(tern_board_data_start, tern_board_data_load,
           bytes_between(tern_board_data_start, tern_board_data_end));
    memset(tern_board_bss_start, 0, bytes_between(tern_board_bss_start, tern_board_bss_end));
    main();
    for (;;) {
    }
}

size_t tern_board_stack_used(size_t *given)
{
    *given = bytes_between(tern_board_stack_limit, tern_board_stack_top);
    size_t untouched = 0;
    while (untouched < *given / sizeof(uint32_t) && tern_board_stack_limit[untouched] == PAINT) {
        untouched++;
    }
    return *given - untouched * sizeof(uint32_t);
}

// Passes a fault on. After a stack overflow the core has pushed no frame and there is no stack left, so the stack pointer is
// reset to the top.
__attribute__((naked, used)) static void fault(void)
{
    __asm__ volatile("mrs r0, msp\n"
                     "ldr r1, =tern_board_stack_limit\n"
                     "cmp r0, r1\n"
                     "bhs 1f\n"
                     "ldr r1, =tern_board_stack_top\n"
                     "mov sp, r1\n"
                     "b tern_board_overflow\n"
                     "1: b tern_board_fault\n");
}

static void unexpected(void)
{
    tern_board_fault(NULL);
}

typedef void (*vector)(void);
struct vectors {
    uint32_t *stack;
    vector handlers[15];
};

__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
    .stack = tern_board_stack_top,
    .handlers = {
        tern_board_reset, unexpected, fault, fault, fault,
        fault,                                         // reset, NMI, HardFault to UsageFault
        NULL, NULL, NULL, NULL, unexpected,            // SVC
        unexpected, NULL, unexpected, tern_board_tick, // debug, PendSV, SysTick
    }};
