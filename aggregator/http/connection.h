// One connection from accept to close: the PROXY header, the TLS handshake, requests one after the other, and the closing
// handshake. It enforces the deadlines and meters the bytes. Each event loop of the server opens and drives its own
// connections; all functions must run on that loop's thread.
#ifndef TERN_HTTP_CONNECTION_H
#define TERN_HTTP_CONNECTION_H

#include "http/admission.h"
#include "http/body.h"
#include "http/proxy.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/tickets.h"
#include "http/tls_stream.h"
#include <pthread.h>
#include <sys/queue.h>
#include <uv.h>

struct tern_connection;
struct tern_mailbox;

// Counters that all loops increment.
struct tern_server_counters {
#define COUNT(name) _Atomic uint64_t name;
    TERN_HTTP_COUNTS(COUNT)
#undef COUNT
};

// The state that the loops of a server share; it outlives them.
struct tern_server_shared {
    struct tern_http_handler handler;
    pthread_mutex_t limits_lock;
    struct tern_http_limits limits; // guarded by limits_lock; each loop uses a copy
    uint64_t (*monotonic_ms)(void); // clock of the deadlines; NULL = the loop's clock
    uint32_t sweep_ms;
    struct tern_admission *admission;
    struct tern_ticket_keys *ticket_keys;     // NULL = the server issues no tickets
    struct tern_known_tickets *known_tickets; // NULL = the server issues no tickets
    char *ticket_clients; // path of the file that stores known_tickets; NULL = none
    struct tern_uploads *uploads;
    struct tern_server_counters counters;
    _Atomic uint64_t request_ids; // the last id assigned
    struct tern_networks proxies; // tern_http_config.proxy_from
    struct tern_networks caches;  // tern_http_config.cache_from
    const char *user_header;      // tern_http_config.user_header
    const char *groups_header;    // tern_http_config.groups_header
    _Atomic uint64_t
        proxy_logged_ms; // time of the last log line about a bad PROXY header; 0 = none yet
    _Atomic uint64_t certificate_ends_s; // expiry in Unix seconds; 0 = no TLS
    _Atomic uint64_t client_ca_ends_s;   // expiry in Unix seconds; 0 = no CA
};

// The connections of one loop, and the state that these connections share.
struct tern_connection_group {
    uv_loop_t *uv;
    struct tern_server_shared *shared;
    struct tern_http_limits limits;
    struct tern_tls_context *tls; // NULL = plain TCP
    struct tern_mailbox *mailbox; // replies for the loop to send; NULL once closed
    uv_async_t *wake;             // wakes the loop for replies and displaced connections
    bool is_tcp;
    bool stopping; // the loop stops: no connection may begin a new request
    LIST_HEAD(tern_open_connections, tern_connection) open;
    struct tern_place_group places;
    struct tern_handshakes handshakes; // handshake slots of this loop
    TAILQ_HEAD(tern_deferred_connections, tern_connection)
    deferred; // connections that wait for a handshake slot
    uint32_t deferred_count;
    uv_timer_t spare; // runs while connections wait for a handshake slot; its data is the group
    uint64_t spare_from_us; // when the loop may begin a handshake without a slot
    void (*on_gone)(struct tern_connection_group *group); // called after a connection left `open`
    uint8_t read_buffer[TERN_TLS_RECORD_MAX];
    uint8_t write_buffer[TERN_TLS_RECORD_MAX];
};

// Prepares the group. The caller has set `shared`, `tls` and `is_tcp`, and sets `limits`, handshakes.per_address and on_gone
// before the loop runs. Initializes the timer `spare`, which the caller closes. False: memory is short.
bool tern_connections_init(struct tern_connection_group *group, uv_loop_t *uv, uv_async_t *wake);
// Refuses replies from now on and stops using `wake`. All connections are closed.
void tern_connections_close(struct tern_connection_group *group);

// Takes over an accepted socket. Closes the socket if the admission refuses the connection, or memory is short. name:
// the peer's address.
void tern_connection_open(struct tern_connection_group *group, int fd,
                          const struct sockaddr_storage *name);

// Sends the replies in the mailbox. After a reply the connection can read the peer's next request; the reply to that
// request waits for the loop's next iteration, so that a peer that pipelines requests does not starve other peers.
void tern_connections_deliver(struct tern_connection_group *group);

// Ends connections and requests that have passed their deadline, and begins deferred handshakes for which a slot is
// free. Returns the time of the deadlines' clock in ms.
uint64_t tern_connections_expire(struct tern_connection_group *group);

// Closes the group's connections that admission has displaced for newcomers.
void tern_connections_end_displaced(struct tern_connection_group *group);

// Closes all connections, or only those that neither receive a body nor send a reply.
void tern_connections_end(struct tern_connection_group *group, bool only_idle);

#endif
