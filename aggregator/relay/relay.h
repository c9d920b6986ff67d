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

// Id of the downstream client whose updates bring the upstream model. It never trains.
#define TERN_RELAY_UPSTREAM_CLIENT 1u
#define TERN_RELAY_UPSTREAM_CLIENT_NAME "(upstream aggregator)"

// Settings of a gateway. Strings are borrowed until the relay is closed.
struct tern_relay_config {
    const char *folder; // folder of the upstream client's records; created if it is missing
    const char *server; // "https://host:port" of the upstream aggregator
    // PEM file with the CA of the upstream aggregator; "" = the system's certificates.
    const char *ca;
    const char *certificate; // PEM file with this gateway's client certificate; "" = none
    const char *key;
    const char *tls;   // TLS versions, as in client.tls
    const char *proxy; // as client.proxy; NULL = none
    const char *name;  // name of this gateway upstream; "" = the host's name
    uint32_t wait_ms;  // how long the upstream aggregator may hold a check-in open
    uint64_t budget_per_month;
};

struct tern_relay;

// Description of the upstream model.
struct tern_relay_model {
    char spec[64];
    uint64_t seed;
    uint8_t hash[TERN_SHA256_SIZE];
    uint8_t *manifest; // malloc'ed, freed by the caller; NULL: the spec describes the model
    size_t manifest_len;
};

// Opens and locks the folder, without a connection. why: a sentence on failure.
// TERN_ERR_CONFIG  the server or a TLS file is invalid
// TERN_ERR_STATE   another process has the folder
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_relay_open(const struct tern_relay_config *config,
                                               struct tern_relay **relay, char why[512]);
void tern_relay_close(struct tern_relay *relay); // relay may be NULL

// Enrols upstream with a join code, unless the gateway is enrolled, and sets *model.
// TERN_ERR_UNAUTHORIZED    the upstream aggregator refuses the code
// TERN_ERR_MODEL_MISMATCH  this program cannot build the model
// and the errors of tern_transport.exchange and of the records
TERN_MUST_USE enum tern_result tern_relay_enroll(struct tern_relay *relay, const char *code,
                                                 struct tern_relay_model *model, char why[512]);

// Sets the settings that a gateway's federation takes from upstream: rounds follow the upstream rounds, updates are
// merged by their plain mean, and clients train with the parameters of the last upstream task.
void tern_relay_configure(const struct tern_relay *relay, struct tern_service_config *config);

// Loads the stored state and starts the relay's thread. model: the downstream federation's; model, service and db
// outlive the relay. on_stopped: called once, by the relay's thread, when the relay cannot continue; it must not stop
// the relay.
// TERN_ERR_NOT_FOUND       the gateway has not been enrolled
// TERN_ERR_MODEL_MISMATCH  the downstream federation has another model than the upstream federation
TERN_MUST_USE enum tern_result tern_relay_start(struct tern_relay *relay,
                                                struct tern_service *service, struct tern_db *db,
                                                const struct tern_model *model,
                                                void (*on_stopped)(void *ctx), void *ctx,
                                                char why[512]);
// Ends the relay's thread. Called before the service is stopped.
void tern_relay_stop(struct tern_relay *relay);
// Whether the relay could not continue. why: the reason.
bool tern_relay_ended(struct tern_relay *relay, char why[512]);

// Facts from the records in a gateway's folder, which a running gateway may use at the same time.
struct tern_relay_facts {
    uint64_t client;         // id of this gateway as an upstream client
    struct tern_meter meter; // bytes of the connection to the upstream aggregator
    uint64_t rounds;         // number of updates that the upstream aggregator has answered
    uint64_t month_spent;    // bytes on the wire in this calendar month
    uint32_t included; // number of the newest downstream round in an update or the error buffer
};
// Sets *facts from the folder's records.
// TERN_ERR_NOT_FOUND  the folder is no gateway's
TERN_MUST_USE enum tern_result tern_relay_read_facts(const char *folder,
                                                     struct tern_relay_facts *facts);

// Sets *upstream to what the gateway last stored about whether the upstream aggregator answers; answered_ms is 0.
void tern_relay_read_link(const char *folder, struct tern_service_upstream *upstream);

#endif
