// The interface between the files of the QEMU board: requests to the debugger, the memory window, settings and faults.
#ifndef TERN_MPS2_H
#define TERN_MPS2_H

#include "board.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Semihosting (semihosting.c): requests that QEMU answers as the debugger. A test passes files and settings to the image
// this way, and ends it. A product has none of this.

// Copies the command line (-semihosting-config arg=...), NUL-terminated. Returns false if there is none or it is too long.
bool tern_semihosting_command_line(char *dst, size_t size);

// Opens a file of the host for reading. Returns a handle, or -1.
int32_t tern_semihosting_open(const char *name);

// Reads exactly len bytes; returns false if there are fewer.
bool tern_semihosting_read(int32_t handle, void *dst, size_t len);

// Returns the file's size in bytes, or -1.
int32_t tern_semihosting_length(int32_t handle);

void tern_semihosting_close(int32_t handle);

// Returns seconds since 1970-01-01 UTC.
uint32_t tern_semihosting_time(void);

_Noreturn void tern_semihosting_exit(int status);

// --- The window: PSRAM that QEMU keeps in a file. It stands for the chips beside a product's microcontroller, and keeps its
// bytes without power.
//   offset 0        the flash chip with Tern's records, FLASH_SIZE bytes
//   offset 64 KiB   the device's settings as text, and its CA (settings.c)
//   offset 1 MiB    the local data set: a struct window_data, features, labels

#define WINDOW_BASE 0x21000000u
#define FLASH_SIZE 0x10000u
#define FLASH_BLOCK 4096u

#define DATA_OFFSET 0x100000u
#define DATA_MAGIC 0x31444454u // "TDD1"

// The header of the data set, as in struct tern_dataset; tests/firmware/device.py writes it.
struct window_data {
    uint32_t magic;
    uint32_t count;
    uint32_t feature_count;
    uint32_t class_count;
    float scale;
    float offset;
    // uint8_t features[count][feature_count], padded to four bytes; uint16_t labels[count]
};

// --- Settings (settings.c)

// Reads the settings; stops the board if one is invalid. Called by tern_board_start().
void tern_board_settings_read(void);

// --- Startup and faults (board.c, startup.c)

// Handles the SysTick interrupt.
void tern_board_tick(void);

// Handles a fault, or an unexpected interrupt: does not return. frame: the eight words that the core pushed, or NULL.
_Noreturn void tern_board_fault(const uint32_t *frame);

// Handles a stack overflow, with the stack pointer reset to the top; does not return.
_Noreturn void tern_board_overflow(void);

#endif
