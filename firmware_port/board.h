// The functions that a board implements for the firmware: time, entropy, one Ethernet link, one region of flash, and
// provisioned settings. All other files of firmware_port are the same for every board. The firmware calls these functions from
// its main loop, never from an interrupt. They must not use a heap. docs/PORTING.md has a checklist; template/ is a skeleton of
// a board, boards/qemu_mps2 an example.
#ifndef TERN_BOARD_H
#define TERN_BOARD_H

#include "build.h"
#include "data/dataset.h"
#include "flash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Start, time, the log

// Called first: initialises clocks, memory and the console. May enable interrupts.
void tern_board_start(void);

// Returns milliseconds since the start. The value never decreases or wraps.
uint64_t tern_board_monotonic_ms(void);

// Returns seconds since 1970-01-01 UTC, or 0 while the date is unknown. While it is 0, monthly byte budgets are refused and the
// validity dates of certificates are not checked (docs/SECURITY.md lists the consequences).
uint64_t tern_board_unix_seconds(void);

// Sleeps until an interrupt, for at most `ms` milliseconds. May return earlier, or immediately.
void tern_board_idle(uint32_t ms);

// Writes one line of the log; `line` has no line feed. A product may do nothing here.
void tern_board_log(const char *line);

// Ends the program. failed: whether an error is the reason; why: the reason, a sentence for the log. A product restarts the
// device here, since all of the client's state is in flash.
_Noreturn void tern_board_stop(bool failed, const char *why);

// Returns the peak use of the stack since the start, in bytes; 0 if the board cannot measure it. *given: the size of the stack
// in bytes.
size_t tern_board_stack_used(size_t *given);

// --- Entropy

// Fills dst[0..len) with unpredictable bytes for cryptographic keys, from a hardware generator, never from a clock. Returns
// false if there is no entropy; the firmware then does not connect.
bool tern_board_entropy(void *dst, size_t len);

// --- The link: Ethernet II frames without preamble and checksum

#define BOARD_FRAME_MAX 1514u

// Starts the link. Returns false if the hardware does not respond.
bool tern_board_link_start(const uint8_t mac[6]);

// Copies the oldest received frame to frame[0..BOARD_FRAME_MAX). Returns the frame's length in bytes; 0 if none has arrived.
size_t tern_board_link_receive(uint8_t *frame);

// Sends a frame of `len` bytes, at most BOARD_FRAME_MAX; the buffer may be reused afterwards. Returns false if the hardware is
// busy; TCP later sends the data again.
bool tern_board_link_send(const uint8_t *frame, size_t len);

// --- Flash

// Returns the flash region for the client's records (flash.h), which nothing else may use. The result must stay valid forever.
const struct tern_flash *tern_board_flash(void);

// --- Provisioning: settings that the factory writes to the device

struct tern_board_settings {
    const char *board; // name of this type of board, at most 40 bytes
    uint8_t mac[6];
    uint8_t address
        [4]; // IPv4 address of this device; all zero: by DHCP, in images built with TERN_DHCP
    uint8_t netmask[4];
    uint8_t gateway[4];
    uint8_t server_address[4]; // IPv4 address of the aggregator
    uint16_t server_port;
    const char *server_host; // host name in the aggregator's certificate

    struct tern_dataset data; // the local training data

    // TERN_TLS=ecdsa: the only CA by which the aggregator's certificate is verified, DER.
    const uint8_t *ca;
    size_t ca_len;

    // The client's identity, which the first start saves to flash: either the output of `tern-aggregator provision`, or a join
    // code with which the device enrols.
    uint64_t client_id; // 0: enrol with join_code
    const char *token; // bearer token; with TERN_TLS=psk the pre-shared key is derived from it, too
    const char *model; // the federation's model spec, e.g. "softmax:64-6"
    uint64_t model_seed;   // seed of the model's initial weights
    const char *join_code; // NULL: the device cannot enrol

#if TERN_SECURE
    // Secure rounds: the key that `tern-helper init` prints, TERN_P256_PUBLIC_SIZE bytes, or NULL; a code of `tern-helper code`;
    // and the fewest updates of which the helper may reveal the sum, 0: 50.
    const uint8_t *helper_key;
    const char *helper_code;
    uint32_t secure_min_clients;
#endif

    const char *name; // the device's name in the output of `tern-aggregator clients`
    uint32_t rounds;  // number of rounds after which the firmware stops; 0: it never stops
};

// Returns the settings, which must stay valid and unchanged. Called only after tern_board_start().
const struct tern_board_settings *tern_board_settings(void);

#endif
