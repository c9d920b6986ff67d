// The client of a device with all of its memory, which is static: ports, identity, model, trainer,
// workspace. One client per image; everything here belongs to the main loop.
#ifndef TERN_FIRMWARE_DEVICE_H
#define TERN_FIRMWARE_DEVICE_H

#include "board.h"
#include "client.h"

// Opens the store and prepares the client. rounds: counts those that were answered.
// TERN_ERR_NO_SPACE  the board's flash is smaller than the records
// TERN_ERR_IO, TERN_ERR_ARGUMENT (the settings' name or board is too long)
TERN_MUST_USE enum tern_result device_start(const struct board_settings *settings,
                                            uint32_t *rounds);

// Who the device is: what its flash says, or what it was provisioned with, which is then saved.
// TERN_ERR_NOT_FOUND  neither: it has to enrol
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result device_identify(void);

// Builds the trainer and takes up where the records left off. Then step device_client().
// TERN_ERR_MODEL_MISMATCH  the identity's model is not one that this image has memory for, or not
//                          one for the device's data
// TERN_ERR_NO_SPACE        the data set has more examples than there is memory to shuffle
// TERN_ERR_IO
TERN_MUST_USE enum tern_result device_restore(void);

struct tern_client *device_client(void);

// The most erasures that any block of flash has seen.
uint32_t device_flash_wear(void);

#endif
