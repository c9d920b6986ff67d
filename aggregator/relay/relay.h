// A gateway: an aggregator whose federation follows an upstream federation, in which it is one client. Devices train with
// the gateway. The exact weighted mean of their updates in a downstream round is what the gateway learns in an upstream
// round, and goes there as one compressed update with an error buffer of its own.
//
// The upstream side is the client core (client.h), whose trainer runs a downstream round. The downstream side is the
// service, whose rounds open when that trainer allows it (federation/gateway.c). State: the downstream database, and the
// upstream client's records in a folder. The record with the error buffer and the pending update names the downstream
// rounds in it, so that each counts once, whenever the gateway is killed.
//
// Called by cli/, on one thread. Between start and stop a relay has a thread of its own.
#ifndef TERN_RELAY_H
#define TERN_RELAY_H

#include "meter/meter.h"
#include "service/service.h"
#include "tensor/model.h"

// The downstream client whose updates bring the upstream model. It never trains.
#define TERN_RELAY_UPSTREAM_CLIENT 1u
#define TERN_RELAY_UPSTREAM_CLIENT_NAME "(upstream aggregator)"

// Strings are borrowed until the relay is closed.
struct tern_relay_config {
    const char *folder;      // of the client's records; made when it is missing
    const char *server;      // "https://host:port" of the upstream aggregator
    const char *ca;          // PEM; "" = the system's certificates
    const char *certificate; // PEM, of this gateway as an upstream client; "" = none
    const char *key;
    const char *tls;  // versions, as client.tls
    const char *name; // shown upstream; "" = the host's
    uint32_t wait_ms; // how long upstream may hold a check-in
    uint64_t budget_per_month;
};

struct tern_relay;

// The upstream model.
struct tern_relay_model {
    char spec[64];
    uint64_t seed;
    uint8_t hash[TERN_SHA256_SIZE];
    uint8_t *manifest; // malloc'ed, the caller's; NULL: the spec gives the model
    size_t manifest_len;
};

// Opens and locks the folder, without a connection. why: a sentence on failure.
// TERN_ERR_CONFIG  the server or a TLS file is invalid
// TERN_ERR_STATE   another process has the folder
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_relay_open(const struct tern_relay_config *config,
                                               struct tern_relay **relay, char why[512]);
void tern_relay_close(struct tern_relay *relay); // NULL is allowed

// Enrols upstream with a join code, unless that was done before, and fills *model.
// TERN_ERR_UNAUTHORIZED    upstream refuses the code
// TERN_ERR_MODEL_MISMATCH  this program cannot build the model
// and the errors of tern_transport.exchange and of the records
TERN_MUST_USE enum tern_result tern_relay_enroll(struct tern_relay *relay, const char *code,
                                                 struct tern_relay_model *model, char why[512]);

// Sets what a gateway's federation cannot choose in config: rounds follow the upstream ones, updates are merged by their
// plain mean, and clients train with the parameters of the last upstream task.
void tern_relay_configure(const struct tern_relay *relay, struct tern_service_config *config);

// Loads the stored state and starts to work. model: of the downstream federation; model, service and db outlive the relay.
// on_stopped: called once, by the relay's thread, when the relay cannot continue; it must not stop the relay.
// TERN_ERR_NOT_FOUND       it has not been enrolled
// TERN_ERR_MODEL_MISMATCH  the downstream federation has another model than the upstream one
TERN_MUST_USE enum tern_result tern_relay_start(struct tern_relay *relay,
                                                struct tern_service *service, struct tern_db *db,
                                                const struct tern_model *model,
                                                void (*on_stopped)(void *ctx), void *ctx,
                                                char why[512]);
// Ends the thread; before the service is stopped.
void tern_relay_stop(struct tern_relay *relay);
// Whether the relay could not continue, and why.
bool tern_relay_ended(struct tern_relay *relay, char why[512]);

// Facts from the records in a folder, which a running gateway may use.
struct tern_relay_facts {
    uint64_t client;         // its upstream id
    struct tern_meter meter; // of the upstream link
    uint64_t rounds;         // updates that were answered
    uint64_t month_spent;    // bytes on the wire in this calendar month
    uint32_t taken;          // the newest downstream round in an update or the error buffer
};
// TERN_ERR_NOT_FOUND  the folder is no gateway's
TERN_MUST_USE enum tern_result tern_relay_read_facts(const char *folder,
                                                     struct tern_relay_facts *facts);

// Reads whether upstream answers, as the gateway on the folder last stored it; answered_ms is 0.
void tern_relay_read_link(const char *folder, struct tern_service_upstream *upstream);

#endif
