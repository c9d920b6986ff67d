// The life of one connection: handshake, requests one after the other, orderly end. Made and driven
// by its loop, on the loop's thread only.
#ifndef TERN_HTTP_CONNECTION_H
#define TERN_HTTP_CONNECTION_H

#include "http/admission.h"
#include "http/exchange.h"
#include "http/handshakes.h"
#include "http/proxy.h"
#include "http/request_reader.h"
#include "http/tickets.h"
#include "http/tls.h"
#include <pthread.h>
#include <sys/queue.h>

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

// What the loops of a server share; it outlives them.
struct tern_server_shared {
    struct tern_http_handler handler;
    pthread_mutex_t limits_lock;
    struct tern_http_limits limits; // under it: loops go by copies of their own
    uint64_t (*monotonic_ms)(void); // NULL = a loop's own
    uint32_t sweep_ms;
    struct tern_admission *admission;
    struct tern_ticket_keys *ticket_keys;     // NULL = none
    struct tern_known_tickets *known_tickets; // NULL = no tickets
    char *ticket_clients;                     // the file of known_tickets; NULL = none
    struct tern_body_room *bodies;
    struct tern_uploads *uploads;
    struct tern_server_counters counters;
    _Atomic uint64_t request_ids; // given so far
    struct tern_networks proxies; // whose connections begin with the header of the PROXY protocol
    struct tern_networks caches;  // tern_http_config.cache_from
    _Atomic uint64_t proxy_logged_ms;    // when one of these was refused last; 0 = never
    _Atomic uint64_t certificate_ends_s; // Unix seconds; 0 = in the clear
    _Atomic uint64_t client_ca_ends_s;   // likewise; 0 = none
};

// The connections of one loop, and what they have of it.
struct tern_connection_group {
    uv_loop_t *uv;
    struct tern_server_shared *shared;
    struct tern_http_limits limits;
    struct tern_tls_context *tls; // NULL = in the clear
    struct tern_mailbox *mailbox;
    bool is_tcp;
    bool stopping; // no new requests
    struct tern_connection *first;
    struct tern_place_group places;
    struct tern_handshakes *handshakes;                    // under way
    TAILQ_HEAD(tern_held_back, tern_connection) held_back; // until one of their turns is free
    uint32_t held_back_count;
    uv_timer_t spare;       // runs while connections are held back
    uint64_t spare_from_us; // when the loop may begin a handshake without a turn
    void (*on_gone)(struct tern_connection_group *group); // one has left the list
    uint8_t read_buffer[TERN_TLS_RECORD_MAX];
    uint8_t write_buffer[TERN_TLS_RECORD_MAX];
};

// Takes over an accepted socket, whose peer has that name. Closes it when it is not admitted, or cannot be served.
void tern_connection_open(struct tern_connection_group *group, int fd,
                          const struct sockaddr_storage *name);

// For the timer of the group: begins a handshake that is held back, if the loop has time to spare.
void tern_connection_use_spare_time(uv_timer_t *timer);

// The next connection of the group's list.
struct tern_connection *tern_connection_next(const struct tern_connection *connection);

// Acts on the deadlines that have passed, and lets handshakes begin whose turn has come with time.
// May end connections. Returns the time that it went by.
uint64_t tern_connection_expire_all(struct tern_connection_group *group);

// Ends the connections of the group whose places others have taken.
void tern_connection_end_displaced(struct tern_connection_group *group);

// The loop stops: ends the connection unless a request's body or a reply is under way.
void tern_connection_wind_up(struct tern_connection *connection);

// Ends the connection now. Its memory goes when libuv has let go of the handle.
void tern_connection_destroy(struct tern_connection *connection);

// Sends the reply of an exchange, which is the connection's to free. The connection may be gone.
void tern_connection_reply(struct tern_http_exchange *exchange);

#endif
