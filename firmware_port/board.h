// The functions that each board implements: time, entropy, one Ethernet link, one region of flash, and provisioned settings.
// The rest of firmware_port is the same on all boards. No function is called from an interrupt or may use a heap.
// docs/PORTING.md has a checklist; template/ is a skeleton of a board, boards/qemu_mps2 an example.
#ifndef TERN_BOARD_H
#define TERN_BOARD_H

#include "data/dataset.h"
#include "flash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Start, time, the log

// Called first: initialises clocks, memory and the console. May enable interrupts.
void tern_board_start(void);

// Returns milliseconds since the start. Never goes back or wraps.
uint64_t tern_board_monotonic_ms(void);

// Returns seconds since 1970-01-01 UTC, or 0 while unknown. Then monthly byte budgets are refused, and the dates of
// certificates are not checked (docs/SECURITY.md has the consequences).
uint64_t tern_board_unix_seconds(void);

// Sleeps until an interrupt, at most `ms`. May return early, or at once.
void tern_board_idle(uint32_t ms);

// Prints one line of the log, given without a line feed. May do nothing.
void tern_board_log(const char *line);

// Stops; does not return. failed: after an error; why: a sentence for the log. A product restarts here; its state is in flash.
_Noreturn void tern_board_stop(bool failed, const char *why);

// Returns the most bytes of stack that were in use since the start, or 0 if the board cannot measure it. *given: size of the
// stack.
size_t tern_board_stack_used(size_t *given);

// --- Entropy

// Fills dst with unpredictable bytes for keys, from a hardware generator, never from a clock. Returns false without entropy;
// then the firmware does not connect.
bool tern_board_entropy(void *dst, size_t len);

// --- The link: Ethernet II frames without preamble and checksum

#define BOARD_FRAME_MAX 1514u

// Starts the link. Returns false if the hardware does not respond.
bool tern_board_link_start(const uint8_t mac[6]);

// Copies a received frame to frame[0..BOARD_FRAME_MAX). Returns its length, or 0 if there is none.
size_t tern_board_link_receive(uint8_t *frame);

// Sends a frame. Returns false if the hardware is busy; TCP sends the data again.
bool tern_board_link_send(const uint8_t *frame, size_t len);

// --- Flash

// Returns the flash region that only Tern uses (flash.h). Static.
const struct tern_flash *tern_board_flash(void);

// --- Provisioning: settings that the factory writes to the device

struct tern_board_settings {
    const char *board; // name of this type of board, at most 40 bytes
    uint8_t mac[6];
    uint8_t address[4]; // of this device; all zero: by DHCP, if built with TERN_DHCP
    uint8_t netmask[4];
    uint8_t gateway[4];
    uint8_t server_address[4]; // of the aggregator
    uint16_t server_port;
    const char *server_host; // host name in the aggregator's certificate

    struct tern_dataset data; // the local data set

    // With TERN_TLS=ecdsa, the aggregator is verified by its certificate.
    const uint8_t *ca; // the only trusted CA, DER
    size_t ca_len;

    // The identity, which is saved to flash at the first start: either the output of `tern-aggregator provision`, or a join
    // code.
    uint64_t client_id;  // 0 = enrol with the join code
    const char *token;   // with TERN_TLS=psk also the source of the key
    const char *model;   // the federation's model spec, e.g. "softmax:64-6"
    uint64_t model_seed; // of its initial weights
    const char *join_code;

    const char *name; // shown by `tern-aggregator clients`
    uint32_t rounds;  // stop after so many rounds; 0 = never
};

// Returns the settings. Static; valid after tern_board_start().
const struct tern_board_settings *tern_board_settings(void);

#endif
