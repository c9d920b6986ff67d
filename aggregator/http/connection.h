// The life of one connection: handshake, requests one after the other, orderly end. Made and driven
// by its loop, on the loop's thread only.
#ifndef TERN_HTTP_CONNECTION_H
#define TERN_HTTP_CONNECTION_H

#include "http/loop.h"

struct tern_connection;

// Takes over an accepted socket, which the admission has counted. Closes it when it cannot be
// served.
void tern_connection_open(struct tern_loop *loop, int fd, const struct tern_address *address,
                          const char *peer);

// The next connection of the loop's list.
struct tern_connection *tern_connection_next(const struct tern_connection *connection);

// Acts on a deadline that has passed. May end the connection.
void tern_connection_expire(struct tern_connection *connection);

// The loop stops: ends the connection unless a reply is under way.
void tern_connection_wind_up(struct tern_connection *connection);

// Ends the connection now. Its memory goes when libuv has let go of the handle.
void tern_connection_destroy(struct tern_connection *connection);

// Sends the reply of an exchange, which is the connection's to free. The connection may be gone.
void tern_connection_reply(struct tern_http_exchange *exchange);

#endif
