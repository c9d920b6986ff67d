// Implements the store port (ports.h) on flash (flash.h). Each record has two slots, which consist of whole blocks. Each save
// appends a copy of the record to one slot. When this slot is full, the other slot is erased and gets the following copies. A
// copy is valid once its header is programmed, which comes last and contains a checksum. A power cut at any time therefore
// leaves either the complete old record or the complete new one. One thread per store.
#ifndef TERN_FLASH_STORE_H
#define TERN_FLASH_STORE_H

#include "flash.h"
#include "ports.h"

#define TERN_FLASH_UNIT_MAX 64 // bytes, the largest program_size

// Where a record is in flash. Offsets are relative to the start of the region.
struct tern_flash_record {
    uint32_t start;    // offset of the two slots
    uint32_t size;     // bytes of one slot
    uint32_t slot;     // offset of the slot that gets the next copy
    uint32_t next;     // offset at which the next copy is programmed
    uint32_t data;     // offset of the newest copy's data
    uint32_t len;      // bytes of data
    uint32_t sequence; // number of the newest copy; 0: the record was never saved
    uint32_t erased;   // how often the two slots were erased, added up
};

// Fields are private.
struct tern_flash_store {
    const struct tern_flash *flash;
    struct tern_flash_record records[TERN_RECORD_COUNT];
};

// Finds the valid records in the region. flash: borrowed. sizes: the space for each record in bytes, by enum tern_record: at
// least the record's largest size, 0 for a record that is never saved; a multiple of that reduces erasures. If a later program gives a record more blocks, the
// records behind it move and are lost; replica and upload, which grow with the model, are therefore the last ones.
// TERN_ERR_NO_SPACE  the region is smaller than the slots
// TERN_ERR_ARGUMENT  program_size is above TERN_FLASH_UNIT_MAX or not a power of two
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_flash_store_open(struct tern_flash_store *store,
                                                     const struct tern_flash *flash,
                                                     const uint32_t sizes[TERN_RECORD_COUNT]);

// Returns how often the most erased block was erased. Erasures before a save that was interrupted by a power cut count as one.
uint32_t tern_flash_store_wear(const struct tern_flash_store *store);

// Returns the port for struct tern_ports.
struct tern_store tern_flash_store_port(struct tern_flash_store *store);

#endif
