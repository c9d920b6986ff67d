// One connection from accept to close: the header of a proxy, the TLS handshake, requests one after the other, and an
// orderly end. It enforces the deadlines and meters the bytes. The server's loops make and drive connections, each on
// its own thread; nothing here may be called from another.
#ifndef TERN_HTTP_CONNECTION_H
#define TERN_HTTP_CONNECTION_H

#include "http/admission.h"
#include "http/body.h"
#include "http/proxy.h"
#include "http/reply.h"
#include "http/tickets.h"
#include "http/tls_stream.h"
#include <pthread.h>
#include <sys/queue.h>
#include <uv.h>

struct tern_connection;

// Counters that all loops add to.
struct tern_server_counters {
    _Atomic uint64_t connections_accepted;
    _Atomic uint64_t connections_refused;
    _Atomic uint64_t connections_displaced;
    _Atomic uint64_t handshakes_full;
    _Atomic uint64_t handshakes_resumed;
    _Atomic uint64_t handshakes_failed;
    _Atomic uint64_t client_certificates_refused;
    _Atomic uint64_t handshakes_held_back;
    _Atomic uint64_t requests;
    _Atomic uint64_t requests_refused;
    _Atomic uint64_t timeouts;
};

// The state that the loops of a server share; it outlives them.
struct tern_server_shared {
    struct tern_http_handler handler;
    pthread_mutex_t limits_lock;
    struct tern_http_limits limits; // under limits_lock; each loop uses a copy
    uint64_t (*monotonic_ms)(void); // NULL = the loop's clock
    uint32_t sweep_ms;
    struct tern_admission *admission;
    struct tern_ticket_keys *ticket_keys;     // NULL = none
    struct tern_known_tickets *known_tickets; // NULL = no tickets
    char *ticket_clients;                     // the file of known_tickets; NULL = none
    struct tern_body_room *bodies;
    struct tern_uploads *uploads;
    struct tern_server_counters counters;
    _Atomic uint64_t request_ids; // the last one assigned
    struct tern_networks proxies; // their connections begin with the header of the PROXY protocol
    struct tern_networks caches;  // tern_http_config.cache_from
    _Atomic uint64_t
        proxy_logged_ms; // when the refusal of a proxy's header was logged last; 0 = never
    _Atomic uint64_t certificate_ends_s; // Unix seconds; 0 = no TLS
    _Atomic uint64_t client_ca_ends_s;   // Unix seconds; 0 = no CA
};

// The connections of one loop, and the state that they share.
struct tern_connection_group {
    uv_loop_t *uv;
    struct tern_server_shared *shared;
    struct tern_http_limits limits;
    struct tern_tls_context *tls; // NULL = plain TCP
    struct tern_mailbox *mailbox;
    bool is_tcp;
    bool stopping; // no new requests
    struct tern_connection *first;
    struct tern_place_group places;
    struct tern_handshakes *handshakes;                    // turns in use
    TAILQ_HEAD(tern_held_back, tern_connection) held_back; // wait for a turn
    uint32_t held_back_count;
    uv_timer_t spare;       // runs while connections are held back; its data is the group
    uint64_t spare_from_us; // when the loop may begin a handshake without a turn
    void (*on_gone)(
        struct tern_connection_group *group); // called when a connection has left the list
    uint8_t read_buffer[TERN_TLS_RECORD_MAX];
    uint8_t write_buffer[TERN_TLS_RECORD_MAX];
};

// Takes over an accepted socket; name: the peer's address. Closes it when it is not admitted, or cannot be served.
void tern_connection_open(struct tern_connection_group *group, int fd,
                          const struct sockaddr_storage *name);

// Acts on the deadlines that have passed, and begins deferred handshakes that have got a turn. Returns the time that it
// used.
uint64_t tern_connection_expire_all(struct tern_connection_group *group);

// Ends the connections of the group that others have displaced.
void tern_connection_end_displaced(struct tern_connection_group *group);

// Ends the connections that have no request's body and no reply under way, because the loop stops.
void tern_connection_wind_up_all(struct tern_connection_group *group);

// Ends all connections now.
void tern_connection_end_all(struct tern_connection_group *group);

// Sends the reply of an exchange and frees the exchange. The connection may be closed already.
void tern_connection_reply(struct tern_http_exchange *exchange);

#endif
