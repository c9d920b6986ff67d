// A NOR flash in memory that watches how it is used and loses its power when told to. What breaks
// the rules of flash.h fails the test: programming a unit that was not erased, or in part.
#ifndef TERN_RAM_FLASH_H
#define TERN_RAM_FLASH_H

#include "flash.h"
#include <stdbool.h>

#define RAM_FLASH_SIZE (1u << 20)

// What a unit or a block holds when the power goes while it is worked on.
enum ram_flash_cut {
    CUT_BEFORE, // as before
    CUT_AFTER,  // as it should be
    CUT_TORN,   // some bits one way, some the other
    CUT_KINDS
};

struct ram_flash {
    struct tern_flash port;
    uint8_t bytes[RAM_FLASH_SIZE];
    bool erased[RAM_FLASH_SIZE]; // by unit: may be programmed
    uint32_t wear[RAM_FLASH_SIZE / 4096];
    uint64_t work;   // units programmed and blocks erased
    uint64_t cut_at; // the power goes with this piece of work, counted from 1; 0 = never
    enum ram_flash_cut cut;
    bool power_off;
    uint64_t random;
};

// A chip as it leaves the factory: erased, or with anything in it.
void ram_flash_init(struct ram_flash *flash, uint32_t program_size, uint8_t filled_with);

// The power is back.
void ram_flash_power_on(struct ram_flash *flash);

// The most erasures of any block.
uint32_t ram_flash_wear(const struct ram_flash *flash);

#endif
