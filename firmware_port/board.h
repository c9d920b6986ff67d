// What a porter writes for a board: time, entropy, one Ethernet link, one region of flash, and what
// the device was provisioned with. Everything else in firmware_port is the same on every board.
// Nothing here is called from an interrupt, and none of it may take memory from a heap.
// docs/PORTING.md is the checklist, template/ a board to start from, boards/qemu_mps2 one to copy.
#ifndef TERN_BOARD_H
#define TERN_BOARD_H

#include "data/dataset.h"
#include "flash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Start, time, the log

// Called first: clocks, memory, the console. Interrupts may be on afterwards.
void tern_board_start(void);

// Milliseconds since the start. Never goes back and does not wrap.
uint64_t tern_board_monotonic_ms(void);

// Seconds since 1970-01-01 UTC, or 0 while unknown: then monthly byte budgets are refused, and the
// dates of certificates are not looked at (docs/SECURITY.md says what that means).
uint64_t tern_board_unix_seconds(void);

// Sleeps until an interrupt, at most `ms`. May return early, or at once.
void tern_board_idle(uint32_t ms);

// Writes one line, without its end, for a person. May do nothing.
void tern_board_log(const char *line);

// The firmware cannot go on (`why` is a sentence): does not return. A product restarts here; state
// is in flash and nothing is lost.
_Noreturn void tern_board_stop(bool failed, const char *why);

// The most bytes of stack that were in use since the start. *given: how many there are. A board
// that does not paint its stack returns 0.
size_t tern_board_stack_used(size_t *given);

// --- Entropy

// Fills dst with bytes that nobody can guess: from a hardware generator, never from a clock. Keys
// are made of them. false: there is no entropy, and the firmware does not connect.
bool tern_board_entropy(void *dst, size_t len);

// --- The link: Ethernet II frames without preamble and checksum

#define BOARD_FRAME_MAX 1514u

// Switches the link on. false: there is no such device.
bool tern_board_link_start(const uint8_t mac[6]);

// Takes a frame that arrived into frame[0..BOARD_FRAME_MAX); its length, or 0 when none is waiting.
size_t tern_board_link_receive(uint8_t *frame);

// Hands over a frame for sending. false: no room now; TCP sends it again.
bool tern_board_link_send(const uint8_t *frame, size_t len);

// --- Flash

// The region that is Tern's alone; see flash.h. Static.
const struct tern_flash *tern_board_flash(void);

// --- Provisioning: what this device was given before it was shipped

struct tern_board_settings {
    const char *board; // the name of this kind of board, at most 40 bytes
    uint8_t mac[6];
    uint8_t address[4]; // of this device; all zero: by DHCP, when TERN_DHCP is built in
    uint8_t netmask[4];
    uint8_t gateway[4];
    uint8_t server_address[4]; // of the aggregator
    uint16_t server_port;
    const char *server_host; // its name, which its certificate must carry

    // The device's own trainer knows its labels and features; this is the local data set.
    struct tern_dataset data;

    // One of the two ways to verify the aggregator, as TERN_TLS was built:
    const uint8_t *ca; // ecdsa: the only CA that is trusted, DER
    size_t ca_len;

    // And one of the two ways to an identity, which goes into flash at the first start: what
    // `tern-aggregator provision` printed, or a join code.
    uint64_t client_id;  // 0 = it enrols with the join code
    const char *token;   // psk: the key is made of it, too
    const char *model;   // the federation's model spec, e.g. "softmax:64-6"
    uint64_t model_seed; // of its initial weights
    const char *join_code;

    const char *name; // shown by `tern-aggregator clients`
    uint32_t rounds;  // end after so many rounds; 0 = never
};

// Static; valid after tern_board_start().
const struct tern_board_settings *tern_board_settings(void);

#endif
