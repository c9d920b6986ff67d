// The other parties of a secure round, for tests of tern-helper: devices with secrets and tickets, and an aggregator that asks
// the helper over HTTPS with the listener's test client. Fails the test on what cannot happen.
#ifndef TERN_TEST_HELPER_PARTY_H
#define TERN_TEST_HELPER_PARTY_H

#include "http/client.h"
#include "secure/masked.h"
#include "secure/round.h"
#include "wire/helper/messages.h"
#include <stdbool.h>
#include <stdint.h>

#define DEVICES_MAX 1000
#define TOKEN_MAX 24

// A device: client i + 1 of the federation is device i.
struct device {
    uint8_t secret[TERN_SECRET_SIZE];
    uint8_t ticket[TERN_SECURE_TICKET_MAX];
    size_t ticket_len;
};

struct party {
    uint16_t port;
    char root[96];         // PEM file of the CA that signed the helper's certificate
    char token[TOKEN_MAX]; // of the federation
    uint8_t federation[TERN_SHA256_SIZE];
    uint8_t public_key[TERN_P256_PUBLIC_SIZE]; // of the helper
    tern_EpochKey epoch;                       // that devices seal to
    struct device devices[DEVICES_MAX];
};

// --- HTTPS

struct answer {
    int status;    // 0: the connection ended without an answer
    char name[32]; // of the Error message, if status is not 200
    uint8_t *body; // malloc'ed
    size_t body_len;
};

// Sends one request on a connection of its own. body NULL: none.
struct answer party_ask(const struct party *party, const char *method, const char *path,
                        const void *body, size_t len);
void answer_free(struct answer *answer);

// --- Tickets

// Fetches the current epoch's key and checks the helper's signature. Returns the status.
int party_epoch(struct party *party);

// Draws a new secret, seals the device's ticket for client `client` of `epoch`, and sends it. Returns the status; name: of the
// refusal, unless NULL.
int party_admit(struct party *party, uint32_t device, uint64_t client, const char *code,
                char name[32]);
// Sends the device's ticket again.
int party_send_ticket(struct party *party, uint32_t device, uint64_t client, char name[32]);

// --- Sums

// A round of the devices, which an aggregator closes with the list `members`.
struct test_round {
    struct tern_secure_round facts;
    float scales[2];
    uint32_t values;
    struct tern_secure_member members[DEVICES_MAX];
    uint32_t count;
};

// Fills in a round of the first `count` devices, in a federation that allows sums of 3 clients.
void party_round(const struct party *party, uint32_t round, uint32_t count, struct test_round *out);

// Makes it a round with noise.
void party_add_noise(struct test_round *round, uint32_t places_max, uint32_t noise);

// Encodes the request; returns its malloc'ed bytes.
uint8_t *party_sum_request(const struct test_round *round, size_t *len);

// Asks for the sum of masks. On status 200 checks the signature and the list's hash.
struct answer party_ask_sum(const struct party *party, const struct test_round *round);

// Returns the bytes of the sum in an answer of status 200.
struct tern_span answer_sum(const struct answer *answer);

// Subtracts the members' masks from a sum, which leaves the noise, packed. noise: sum.len bytes.
void party_open_noise(const struct party *party, const struct test_round *round,
                      struct tern_span sum, uint8_t *noise);

// Quantises random values for each member, masks them as devices do, adds them as an aggregator does, subtracts the helper's
// sum, and checks that the plain sum of the quantised values remains, bit for bit.
void party_check_sum(const struct party *party, const struct test_round *round,
                     struct tern_span sum);

#endif
