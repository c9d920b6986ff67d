// The store port on flash: each record has two slots, and a save writes the one that is not in use,
// so that a power cut at any instant leaves the old record or the new one, whole. Slots carry a
// checksum, a sequence number and how often they were erased. Nothing is kept in RAM but what
// struct tern_flash_store shows; one store belongs to one thread.
#ifndef TERN_FLASH_STORE_H
#define TERN_FLASH_STORE_H

#include "flash.h"
#include "ports.h"

struct tern_flash_slot {
    uint32_t offset;
    uint32_t sequence; // 0: holds no whole record
    uint32_t len;
    uint32_t erased; // how often
};

// Fields are private.
struct tern_flash_store {
    const struct tern_flash *flash;
    uint32_t size[TERN_RECORD_COUNT]; // of one slot, a multiple of the block size
    struct tern_flash_slot slot[TERN_RECORD_COUNT][2];
};

// Looks through the region for whole records. sizes: the most bytes that each record may hold; the
// slots are laid out in this order, so changing a size moves what lies behind it.
// TERN_ERR_NO_SPACE  the region is smaller than the slots
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_flash_store_open(struct tern_flash_store *store,
                                                     const struct tern_flash *flash,
                                                     const uint32_t sizes[TERN_RECORD_COUNT]);

// The most erasures that any block of the store has seen.
uint32_t tern_flash_store_wear(const struct tern_flash_store *store);

struct tern_store tern_flash_store_port(struct tern_flash_store *store);

#endif
