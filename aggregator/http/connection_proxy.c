// A connection of a proxy, until the proxy has said whose it is.
#include "hosted/log.h"
#include "http/connection_steps.h"
#include "http/limits.h"
#include "http/proxy.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LOG_PAUSE_MS 1000u // between two lines about headers, so that they fill no disk

static void log_refusal(struct tern_connection *connection, const char *why)
{
    struct tern_server_shared *shared = connection->group->shared;
    const uint64_t now = tern_connection_now(connection->group);
    uint64_t last = atomic_load(&shared->proxy_logged_ms);
    if ((last == 0 || now - last >= LOG_PAUSE_MS) &&
        atomic_compare_exchange_strong(&shared->proxy_logged_ms, &last, now)) {
        tern_log(TERN_LOG_WARN, "proxy-header",
                 "proxy=%s why=%s advice=\"server.proxy_from names this address: let it send the "
                 "header of "
                 "the PROXY protocol, or take it out\"",
                 connection->peer, TERN_LOG_TEXT(why));
    }
}

static enum step refuse(struct tern_connection *connection, const char *why)
{
    connection->group->shared->counters.connections_refused++;
    if (why != NULL) {
        log_refusal(connection, why);
    }
    return tern_connection_end(connection);
}

// From here on it is the peer's, with the limits of the peer's address.
static enum step take_peer(struct tern_connection *connection, const struct sockaddr_storage *peer)
{
    free(connection->proxy);
    connection->proxy = NULL;
    if (peer->ss_family != AF_UNSPEC) {
        const struct tern_address address = tern_address_of(peer);
        tern_connection_name_peer(connection, peer);
        if (!tern_admission_move(connection->group->shared->admission, &connection->place,
                                 &address)) {
            return refuse(connection, NULL);
        }
    }
    return tern_connection_begin(connection);
}

// False: nothing came; *step says what follows.
static bool receive(struct tern_connection *connection, size_t wants, enum step *step)
{
    struct tern_proxy_header *header = connection->proxy;
    const ssize_t len = recv(connection->stream.fd, header->bytes + header->len, wants, 0);
    if (len > 0) {
        header->len += (size_t)len;
        return true;
    }
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        tern_connection_watch(connection, UV_READABLE);
        *step = STEP_WAIT;
    } else {
        // Who watches over a proxy's backends opens a connection and closes it.
        *step = refuse(connection, header->len == 0 ? NULL : "it is cut");
    }
    return false;
}

enum step tern_connection_step_proxied(struct tern_connection *connection)
{
    struct sockaddr_storage peer;
    const char *why = "";
    enum step step = STEP_ON;
    while (receive(connection, tern_proxy_header_wants(connection->proxy), &step)) {
        const enum tern_result result = tern_proxy_header_parse(connection->proxy, &peer, &why);
        if (result != TERN_AGAIN) {
            return result == TERN_OK ? take_peer(connection, &peer) : refuse(connection, why);
        }
    }
    return step;
}
