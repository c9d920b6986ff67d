// A small HTTP client for tests, in the clear or over TLS, that sends exactly the bytes it is given
// and reads one reply at a time. Blocking, with a ten second limit on every read.
#ifndef TERN_TEST_HTTP_CLIENT_H
#define TERN_TEST_HTTP_CLIENT_H

#include "tls_client.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client {
    int fd;
    struct tls_client *tls; // NULL = in the clear
    uint8_t buffer[20000];  // received, not yet taken
    size_t buffered;
};

struct client_reply {
    int status;  // 0 = the connection ended before a whole reply
    bool closes; // "Connection: close"
    char head[1024];
    uint8_t *body; // malloc'ed
    size_t body_len;
};

// False when the connection is refused or ends during the handshake. settings NULL = in the clear.
bool client_open(struct client *client, uint16_t port, const struct tls_client_settings *settings);
bool client_open_unix(struct client *client, const char *path);
void client_close(struct client *client);

// False when the connection is gone.
bool client_send(struct client *client, const void *data, size_t len);
bool client_send_text(struct client *client, const char *text);

// head_only: the reply to a HEAD request.
struct client_reply client_receive(struct client *client, bool head_only);
void client_reply_free(struct client_reply *reply);

// Sends the text, returns the status of the reply; its body must be expect unless that is NULL.
int client_ask(struct client *client, const char *text, const char *expect);

// True when the server has closed the connection; waits for it at most limit_ms.
bool client_sees_end(struct client *client, unsigned limit_ms);

#endif
