// Counts the instructions for encoding and decoding on a Cortex-M in QEMU, whose clock advances by one nanosecond per
// instruction (-icount shift=0). Prints a line per codec over the UART: name, then instructions per 100 values to
// encode, decode and accumulate, then bytes of the payload.
#include "boards/qemu_mps2/mps2.h"
#include "codec/codec.h"
#include "util/prng.h"

#include <string.h>

enum { VALUES = 4096, ROOM = 5 * VALUES, INSTRUCTIONS_PER_TICK = 40 }; // 1 GHz / 25 MHz

static const char *const specs[] = {
    "float32",
    "3lc:s=1",
    "3lc:s=1,coder=range",
    "density:p=0.05,coder=gaps",
    "density:p=0.05,coder=range",
    "uniform:error=0.1",
};

static float values[VALUES];
static uint8_t payload[ROOM];

// --- The board

struct systick {
    uint32_t control, reload, current;
};
#define SYSTICK ((volatile struct systick *)0xE000E010u)
#define SYSTICK_ON_CPU_CLOCK 5u
#define SYSTICK_BITS 0x00ffffffu

struct uart {
    uint32_t data, state, control, interrupts, divider;
};
#define UART ((volatile struct uart *)0x40004000u)
#define UART_SENDS 1u

void tern_board_tick(void)
{
}

_Noreturn void tern_board_fault(const uint32_t *frame)
{
    (void)frame;
    tern_semihosting_exit(3);
}

_Noreturn void tern_board_overflow(void)
{
    tern_semihosting_exit(4);
}

static uint32_t ticks(void)
{
    return SYSTICK_BITS - SYSTICK->current;
}

static void put_text(const char *text)
{
    for (; *text != '\0'; text++) {
        UART->data = (uint8_t)*text;
    }
}

static void put_number(uint32_t number)
{
    char digits[12];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_text(" ");
    put_text(at);
}

// --- The measurement

// Generates about normally distributed values, the same each time.
static void fill(void)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < VALUES; i++) {
        float sum = -2;
        for (unsigned k = 0; k < 4; k++) {
            sum += tern_prng_float(&rng);
        }
        values[i] = sum;
    }
}

static void put_cost(uint32_t started)
{
    put_number((uint32_t)((uint64_t)(ticks() - started) * INSTRUCTIONS_PER_TICK * 100 / VALUES));
}

static bool measure(const char *spec)
{
    struct tern_codec codec;
    size_t len = 0;
    if (tern_codec_parse(spec, &codec, NULL) != TERN_OK ||
        tern_codec_bound(&codec, VALUES) > ROOM) {
        return false;
    }
    fill();
    put_text(spec);
    uint32_t started = ticks();
    bool well = tern_codec_encode(&codec, NULL, values, VALUES, payload, ROOM, &len) == TERN_OK;
    put_cost(started);
    started = ticks();
    well = well && tern_codec_decode(payload, len, values, VALUES) == TERN_OK;
    put_cost(started);
    started = ticks();
    well = well && tern_codec_accumulate(payload, len, 1, values, VALUES) == TERN_OK;
    put_cost(started);
    put_number((uint32_t)len);
    put_text("\n");
    return well;
}

int main(void)
{
    bool well = true;
    UART->divider = 16;
    UART->control = UART_SENDS;
    SYSTICK->reload = SYSTICK_BITS;
    SYSTICK->current = 0;
    SYSTICK->control = SYSTICK_ON_CPU_CLOCK;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        well = measure(specs[i]) && well;
    }
    tern_semihosting_exit(well ? 0 : 1);
}
