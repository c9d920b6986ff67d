// What lies in the board's PSRAM, which QEMU keeps in a file: the chips that a device of this kind
// has beside its microcontroller. Their bytes survive the power, and are no part of the image.
//   offset 0          the flash chip with Tern's records, FLASH_SIZE bytes
//   offset 64 KiB     what the device was given: its settings as text, its CA (settings.c)
//   offset 1 MiB      the local data set: a struct window_data, features, labels
#ifndef TERN_WINDOW_H
#define TERN_WINDOW_H

#include <stdint.h>

#define WINDOW_BASE 0x21000000u
#define FLASH_SIZE 0x10000u
#define FLASH_BLOCK 4096u

#define DATA_OFFSET 0x100000u
#define DATA_MAGIC 0x31444454u // "TDD1"

// As struct tern_dataset; written by tests/firmware/device.py.
struct window_data {
    uint32_t magic;
    uint32_t count;
    uint32_t feature_count;
    uint32_t class_count;
    float scale;
    float offset;
    // uint8_t features[count][feature_count], padded to four bytes; uint16_t labels[count]
};

#endif
