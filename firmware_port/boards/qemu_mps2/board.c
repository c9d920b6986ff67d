// Time, log, entropy and stopping of the QEMU board: 25 MHz, with a CMSDK UART as the console.
#include "board.h"
#include "boards/qemu_mps2/mps2.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_COUNT REGISTER(0xE000E018u)
#define SYSTICK_ON 7u // from the processor's clock, with an interrupt
#define CLOCK_HZ 25000000u

#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u)
#define UART_CONTROL REGISTER(0x40004008u)
#define UART_DIVIDER REGISTER(0x40004010u)
#define UART_FULL 1u
#define UART_SEND 1u

static volatile uint32_t ticks;      // milliseconds, counted by the interrupt
static volatile uint32_t tick_wraps; // how often `ticks` has wrapped
static uint32_t started_at;          // Unix time of tick 0

void tern_board_tick(void)
{
    if (++ticks == 0) {
        tick_wraps++;
    }
}

uint64_t tern_board_monotonic_ms(void)
{
    uint32_t high = 0;
    uint32_t low = 0;
    do { // repeats if an interrupt came between the reads
        high = tick_wraps;
        low = ticks;
    } while (high != tick_wraps || low > ticks);
    return (uint64_t)high << 32 | low;
}

uint64_t tern_board_unix_seconds(void)
{
    return started_at + tern_board_monotonic_ms() / 1000;
}

void tern_board_idle(uint32_t ms)
{
    if (ms > 0) {
        __asm__ volatile(
            "wfi"); // the next tick is at most 1 ms away, and frames are looked for then
    }
}

static void write_character(char c)
{
    while ((UART_STATE & UART_FULL) != 0) {
    }
    UART_DATA = (uint8_t)c;
}

void tern_board_log(const char *line)
{
    while (*line != '\0') {
        write_character(*line++);
    }
    write_character('\n');
}

_Noreturn void tern_board_stop(bool failed, const char *why)
{
    tern_board_log(why);
    tern_semihosting_exit(failed ? 1 : 0);
}

_Noreturn void tern_board_fault(const uint32_t *frame)
{
    char text[] = "fault at 00000000";
    uint32_t at = frame != NULL ? frame[6] : 0; // the pushed program counter
    for (size_t i = sizeof text - 2; at != 0; i--, at >>= 4) {
        text[i] = "0123456789abcdef"[at & 15];
    }
    tern_board_stop(true, text);
}

_Noreturn void tern_board_overflow(void)
{
    tern_board_stop(true, "the stack overflowed");
}

// Uses the host's generator; a product needs one in hardware.
bool tern_board_entropy(void *dst, size_t len)
{
    static int32_t source = -1;
    if (source < 0) {
        source = tern_semihosting_open("/dev/urandom");
    }
    return source >= 0 && tern_semihosting_read(source, dst, len);
}

void tern_board_start(void)
{
    UART_DIVIDER = 16;
    UART_CONTROL = UART_SEND;
    started_at = tern_semihosting_time();
    SYSTICK_RELOAD = CLOCK_HZ / 1000 - 1;
    SYSTICK_COUNT = 0;
    SYSTICK_CONTROL = SYSTICK_ON;
    tern_board_settings_read();
}
