// The store port on flash. Each record has two slots of whole blocks. Copies of the record are appended to one slot until it is
// full; then the other slot is erased and gets the next copies. A copy is valid when its header is programmed, last and with a
// checksum of all bytes. So a power cut at any time leaves the complete old record or the complete new one. One thread per
// store.
#ifndef TERN_FLASH_STORE_H
#define TERN_FLASH_STORE_H

#include "flash.h"
#include "ports.h"

#define TERN_FLASH_UNIT_MAX 64 // bytes, the largest program_size

// All offsets are in the region.
struct tern_flash_record {
    uint32_t start;    // offset of the two slots
    uint32_t size;     // bytes of one slot
    uint32_t slot;     // offset of the slot in use
    uint32_t next;     // offset of the next copy in this slot
    uint32_t data;     // offset of the newest copy's data
    uint32_t len;      // bytes of data
    uint32_t sequence; // number of the newest copy; 0: never saved
    uint32_t erased;   // number of erasures of both slots
};

// Fields are private.
struct tern_flash_store {
    const struct tern_flash *flash;
    struct tern_flash_record records[TERN_RECORD_COUNT];
};

// Finds the valid records in the region. sizes: the largest size of each record, by enum tern_record. A size that takes more
// blocks than before moves the records after it, which are then lost; replica and upload, which grow with the model, come after
// the others. A larger size needs fewer erasures.
// TERN_ERR_NO_SPACE  the region is smaller than the slots
// TERN_ERR_ARGUMENT  program_size is above TERN_FLASH_UNIT_MAX or not a power of two
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_flash_store_open(struct tern_flash_store *store,
                                                     const struct tern_flash *flash,
                                                     const uint32_t sizes[TERN_RECORD_COUNT]);

// Returns the largest number of erasures of any block. Erasures before a save that a power cut interrupts count as one.
uint32_t tern_flash_store_wear(const struct tern_flash_store *store);

struct tern_store tern_flash_store_port(struct tern_flash_store *store);

#endif
