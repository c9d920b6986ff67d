// The store port on flash. Each record has two slots of whole blocks, and copies of it are appended
// to one until that is full; then the other is erased and takes the next. A copy counts once its
// header is there, which is programmed last and carries a checksum of everything, so that a power
// cut at any instant leaves the old record or the new one, whole. Small records that change often
// cost an erasure every few dozen saves. Nothing is kept in RAM but what struct tern_flash_store
// shows; one store belongs to one thread. ports.h says what save and load return.
#ifndef TERN_FLASH_STORE_H
#define TERN_FLASH_STORE_H

#include "flash.h"
#include "ports.h"

#define TERN_FLASH_UNIT_MAX 64 // bytes, the largest program_size

// Offsets are in the region.
struct tern_flash_record {
    uint32_t start;    // of the two slots
    uint32_t size;     // of one
    uint32_t slot;     // the one in use
    uint32_t next;     // where the next copy goes, when there is room for it behind
    uint32_t data;     // the newest whole copy
    uint32_t len;      // its bytes
    uint32_t sequence; // 0: never saved
    uint32_t erased;   // how often, both slots together
};

// Fields are private.
struct tern_flash_store {
    const struct tern_flash *flash;
    struct tern_flash_record records[TERN_RECORD_COUNT];
};

// Looks through the region for whole records. sizes: the most bytes that each record may hold, by
// enum tern_record. A size that takes more blocks than before moves what lies behind it, which is
// then not found; replica and upload, which grow with the model, lie behind the others. A larger
// size is erased less often.
// TERN_ERR_NO_SPACE  the region is smaller than the slots
// TERN_ERR_ARGUMENT  program_size is above TERN_FLASH_UNIT_MAX or no power of two
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_flash_store_open(struct tern_flash_store *store,
                                                     const struct tern_flash *flash,
                                                     const uint32_t sizes[TERN_RECORD_COUNT]);

// The most erasures that any block of the store has seen, but for those that were followed by a
// power cut before a save was complete: they are counted as one.
uint32_t tern_flash_store_wear(const struct tern_flash_store *store);

struct tern_store tern_flash_store_port(struct tern_flash_store *store);

#endif
