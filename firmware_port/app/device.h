// The client of a device with all of its memory, which the program owns: network, store, identity,
// model, trainer, workspace. Everything here belongs to the main loop. There is one device in an
// image, since lwIP and mbedTLS have static state of their own.
#ifndef TERN_FIRMWARE_DEVICE_H
#define TERN_FIRMWARE_DEVICE_H

#include "board.h"
#include "client.h"
#include "net/link_state.h"
#include "net/tls_state.h"
#include "net/transport.h"
#include "store/flash_store.h"
#include "trainer/trainer.h"

// What one image can train: softmax:64-6 has 390 values. A larger model is a larger number here.
#define TERN_DEVICE_VALUES_MAX 400
#define TERN_DEVICE_EXAMPLES_MAX 512
#define TERN_DEVICE_BATCH_MAX 4 // examples worked on at once

#define TERN_DEVICE_UPDATE_MAX (TERN_WIRE_OVERHEAD + TERN_DEVICE_VALUES_MAX * 4 + 128)
#define TERN_DEVICE_BLOB_SIZE (TERN_DEVICE_UPDATE_MAX + TERN_DEVICE_VALUES_MAX * 4 + 128)
#define TERN_DEVICE_TRAINER_SIZE                                                                   \
    (TERN_DEVICE_VALUES_MAX * 8 + TERN_DEVICE_EXAMPLES_MAX * 4 + TERN_DEVICE_BATCH_MAX * 400 + 1024)
#define TERN_DEVICE_PLATFORM_MAX 64

// All zero at first. What is large comes last, which keeps the offsets of the rest, and with them the
// code, small. Of the fields, client, network, store and rounds are for reading.
struct tern_firmware_device {
    uint32_t rounds; // answered since the start
    const struct tern_board_settings *settings;
    struct tern_tcp tcp;
    struct tern_firmware_transport network; // over tcp, link and tls
    struct tern_client client;
    struct tern_flash_store store;
    struct tern_model model;
    struct tern_builtin_trainer trainer;
    char platform[TERN_DEVICE_PLATFORM_MAX];
    float weights[TERN_DEVICE_VALUES_MAX];
    _Alignas(float) uint8_t
        error_buffer[TERN_ERROR_BYTES(TERN_ERROR_STORAGE, TERN_DEVICE_VALUES_MAX)];
    _Alignas(float) uint8_t blob[TERN_DEVICE_BLOB_SIZE];
    _Alignas(TERN_ARENA_ALIGNMENT) uint8_t arena[TERN_DEVICE_TRAINER_SIZE];
    struct tern_link link;
    struct tern_firmware_tls tls;
};

// Starts the network, opens the store and prepares the client. settings are borrowed for good.
// TERN_ERR_NO_SPACE   the board's flash is smaller than the records
// TERN_ERR_ARGUMENT   no CA and no key, or the CA is no certificate; the settings' name or board is
//                     too long
// TERN_ERR_IO         the board has no link, or no entropy; its flash failed
// TERN_ERR_NO_MEMORY  mbedTLS was given too little
TERN_MUST_USE enum tern_result
tern_firmware_device_start(struct tern_firmware_device *device,
                           const struct tern_board_settings *settings);

// Who the device is: what its flash says, or what it was provisioned with, which is then saved.
// TERN_ERR_NOT_FOUND  neither: it has to enrol
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_firmware_device_identify(struct tern_firmware_device *device);

// Builds the trainer and takes up where the records left off. Then step device->client.
// TERN_ERR_MODEL_MISMATCH  the identity's model is not one that this image has memory for, or not
//                          one for the device's data
// TERN_ERR_NO_SPACE        the data set has more examples than there is memory to shuffle
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_firmware_device_restore(struct tern_firmware_device *device);

#endif
