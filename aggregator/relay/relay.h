// A gateway: an aggregator whose federation follows another one, and which is one client there. Devices train
// against the gateway; of each round below, the exact weighted mean of their updates is what the gateway has learnt
// in one round above, and goes there as one compressed update, out of an error buffer of its own.
//
// Nothing is new on either side. Above it is the client core (client.h), whose trainer runs a round below; below it
// is the service, whose rounds open when that trainer says (federation/gateway.c). State: the database of the
// federation below, and in a folder the records of the client above. The record with its error buffer and pending
// update also says which rounds below are in it, so that each is in it once, whenever the gateway is killed.
//
// Who calls: cli/. A relay has a thread of its own between start and stop; the functions are called by one thread.
#ifndef TERN_RELAY_H
#define TERN_RELAY_H

#include "meter/meter.h"
#include "service/service.h"
#include "tensor/model.h"

// The client of a gateway's federation whose updates bring the model from above. It never trains.
#define TERN_RELAY_FOLLOWER 1u
#define TERN_RELAY_FOLLOWER_NAME "(aggregator above)"

// Strings are borrowed until the relay is closed.
struct tern_relay_config {
    const char *folder;      // of the client's records; made when it is missing
    const char *server;      // "https://host:port", of the aggregator above
    const char *ca;          // PEM; "" = the system's certificates
    const char *certificate; // PEM, of this gateway as a client there, and its key; "" = none
    const char *key;
    const char *tls;  // versions, as client.tls
    const char *name; // shown there; "" = the host's
    uint32_t wait_ms; // that check-ins above may be held
    uint64_t budget_per_month;
};

struct tern_relay;

// What the aggregator above says of its model.
struct tern_relay_model {
    char spec[64];
    uint64_t seed;
    uint8_t hash[TERN_SHA256_SIZE];
    uint8_t *manifest; // malloc'ed, the caller's; NULL: the spec gives the model
    size_t manifest_len;
};

// Opens the folder, and locks it. No connection is made yet. why: a sentence on failure.
// TERN_ERR_CONFIG  the server or a file named for TLS
// TERN_ERR_STATE   another process has the folder
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_relay_open(const struct tern_relay_config *config,
                                               struct tern_relay **relay, char why[512]);
void tern_relay_close(struct tern_relay *relay); // NULL is allowed

// Enrols above with a join code, unless that was done before, and fills *model.
// TERN_ERR_UNAUTHORIZED    the code
// TERN_ERR_MODEL_MISMATCH  this program cannot build the model
// and the errors of tern_transport.exchange and of the records
TERN_MUST_USE enum tern_result tern_relay_enroll(struct tern_relay *relay, const char *code,
                                                 struct tern_relay_model *model, char why[512]);

// Takes what a gateway's federation is not free to set, out of config: rounds follow those above, updates are
// merged by their plain mean, and clients train as the last task from above said.
void tern_relay_adapt(const struct tern_relay *relay, struct tern_service_config *config);

// Loads what is stored and begins to work. model: of the federation below; outlives the relay, as the service
// and db do. on_ended: called once, by the relay's thread, when it cannot go on; it must not stop the relay.
// TERN_ERR_NOT_FOUND       it has not been enrolled
// TERN_ERR_MODEL_MISMATCH  the federation below is of another model than the one above
TERN_MUST_USE enum tern_result tern_relay_start(struct tern_relay *relay,
                                                struct tern_service *service, struct tern_db *db,
                                                const struct tern_model *model,
                                                void (*on_ended)(void *ctx), void *ctx,
                                                char why[512]);
// Ends the thread; before the service is stopped.
void tern_relay_stop(struct tern_relay *relay);
// Whether it could not go on, and why.
bool tern_relay_ended(struct tern_relay *relay, char why[512]);

// What the records in a folder say, also beside a gateway that runs.
struct tern_relay_facts {
    uint64_t client;         // its id above
    struct tern_meter meter; // of the link there
    uint64_t rounds;         // updates that were answered
    uint64_t month_spent;    // bytes on the wire in this calendar month
    uint32_t taken;          // the newest round below that is in an update or the error buffer
};
// TERN_ERR_NOT_FOUND  it is no gateway's
TERN_MUST_USE enum tern_result tern_relay_look(const char *folder, struct tern_relay_facts *facts);

// Whether the aggregator above answers, as the gateway that runs on the folder last kept it; answered_ms is 0.
void tern_relay_link_look(const char *folder, struct tern_service_upstream *above);

#endif
