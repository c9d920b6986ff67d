// A skeleton of a board; docs/PORTING.md explains each step. Copy this folder. In each function put your code in place of the
// line FILL_IN(STEP, ...) and of the lines behind it, which only make the skeleton compile. board.h documents the functions;
// boards/qemu_mps2 is a complete board. Your folder also needs
//
//   board.cmake  sets BOARD_CORE (options of the compiler, e.g. -mcpu=cortex-m4) and BOARD_NAME
//   memory.ld    flash, RAM and stack; boards/qemu_mps2/memory.ld fits any Cortex-M
//   a startup    vector table, .data, .bss; add your interrupts to boards/qemu_mps2/startup.c, which also has
//                tern_board_stack_used()
//
// Build it from the top of the tree with
//
//   cmake -S firmware_port -B build/my-board -DTERN_BOARD_DIR=$PWD/my-board
//         -DCMAKE_TOOLCHAIN_FILE=$PWD/configs/toolchains/arm-none-eabi.cmake
//         -DTERN_SOURCES=$PWD/build/sources -DCMAKE_BUILD_TYPE=Release
#include "board.h"

// The step of docs/PORTING.md that you are at: 4, later 5, 6 and 7. Functions of later steps may stay as they are.
#define STEP 4

// The build of Tern sets this macro to check that the template matches board.h. Your build does not.
#ifdef TERN_TEMPLATE_IS_CHECKED
#define FILL_IN(step, text)
#else
#define FILL_IN(step, text)                                                                        \
    _Static_assert((step) > STEP, "write this function in place of its FILL_IN line: " text)
#endif

void tern_board_start(void)
{
    FILL_IN(4, "clocks, memory, the console, and a timer that interrupts every millisecond");
}

uint64_t tern_board_monotonic_ms(void)
{
    FILL_IN(4,
            "count the timer's interrupts in 64 bits; read them twice, as one may come in between");
    return 0;
}

uint64_t tern_board_unix_seconds(void)
{
    FILL_IN(4, "a real-time clock, or what the network said; 0 while unknown is an answer");
    return 0;
}

void tern_board_idle(uint32_t ms)
{
    FILL_IN(4, "sleep until an interrupt, of the timer or of the link: on a Cortex-M, WFI");
    (void)ms;
}

void tern_board_log(const char *line)
{
    FILL_IN(4, "write it to a UART and end the line, or do nothing in a product");
    (void)line;
}

_Noreturn void tern_board_stop(bool failed, const char *why)
{
    FILL_IN(4, "log why, wait some seconds, restart: all state is in flash");
    (void)failed;
    (void)why;
    for (;;) {
    }
}

size_t tern_board_stack_used(size_t *given)
{
    FILL_IN(4, "search the painted stack for the first word that is no paint, as startup.c does");
    *given = 0;
    return 0;
}

bool tern_board_entropy(void *dst, size_t len)
{
    FILL_IN(5, "the hardware's generator of random numbers, with its health tests on");
    (void)dst;
    (void)len;
    return false;
}

bool tern_board_link_start(const uint8_t mac[6])
{
    FILL_IN(5, "reset the Ethernet controller, set its address, switch receiving and sending on");
    (void)mac;
    return false;
}

size_t tern_board_link_receive(uint8_t *frame)
{
    FILL_IN(5, "take one frame, without its checksum; 0 when there is none");
    (void)frame;
    return 0;
}

bool tern_board_link_send(const uint8_t *frame, size_t len)
{
    FILL_IN(5, "copy the frame to the controller; false when it has no room");
    (void)frame;
    (void)len;
    return false;
}

// The flash functions. The region must be outside the linker's memory. On a chip that runs from the flash that it programs,
// program and erase must run from RAM.

static enum tern_result read_flash(void *ctx, uint32_t offset, void *dst, size_t len)
{
    FILL_IN(7, "copy from the region; most flash is mapped into memory");
    (void)ctx;
    (void)offset;
    (void)dst;
    (void)len;
    return TERN_ERR_IO;
}

static enum tern_result program_flash(void *ctx, uint32_t offset, const void *src, size_t len)
{
    FILL_IN(7, "program unit by unit and wait for each; return when all are in the chip");
    (void)ctx;
    (void)offset;
    (void)src;
    (void)len;
    return TERN_ERR_IO;
}

static enum tern_result erase_flash(void *ctx, uint32_t offset)
{
    FILL_IN(7, "erase one block, and wait");
    (void)ctx;
    (void)offset;
    return TERN_ERR_IO;
}

const struct tern_flash *tern_board_flash(void)
{
    FILL_IN(7, "size, block_size and program_size of the region");
    static const struct tern_flash flash = {
        .size = 0,
        .block_size = 4096,
        .program_size = 8,
        .read = read_flash,
        .program = program_flash,
        .erase = erase_flash,
    };
    return &flash;
}

const struct tern_board_settings *tern_board_settings(void)
{
    FILL_IN(5, "what the factory wrote beside the program, and the sensor's data set");
    static const struct tern_board_settings settings = {.board = TERN_BOARD_NAME};
    return &settings;
}
