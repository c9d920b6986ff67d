// Mutual TLS for both ends of a ring's connections, over non-blocking sockets. Each end sends a certificate that the ring's CA
// has signed; its common name is the peer's name. Used by one thread.
#ifndef TERN_RING_TLS_H
#define TERN_RING_TLS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_RING_NAME_SIZE 64 // bytes of a peer's name with the terminating NUL
#define TERN_RING_TLS_WHY_MAX 256

struct tern_ring_tls;         // certificate, key, CA, random generator
struct tern_ring_tls_session; // one connection

enum tern_ring_io {
    TERN_RING_IO_DONE,
    TERN_RING_IO_WANT_READ,
    TERN_RING_IO_WANT_WRITE,
    TERN_RING_IO_END,   // the other end has closed
    TERN_RING_IO_FAILED // the connection was cut, or TLS failed
};

// Reads the three PEM files.
// TERN_ERR_CONFIG  a file is unusable; why has its setting and the problem
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_tls_new(const char *ca, const char *certificate,
                                                 const char *key, struct tern_ring_tls **tls,
                                                 char why[TERN_RING_TLS_WHY_MAX]);
void tern_ring_tls_free(struct tern_ring_tls *tls); // close its sessions first; ignores NULL

// Returns the common name of this peer's certificate.
const char *tern_ring_tls_own_name(const struct tern_ring_tls *tls);

// Opens a session on a connected socket, which the caller closes later. Returns NULL without memory.
struct tern_ring_tls_session *tern_ring_tls_open(struct tern_ring_tls *tls, int fd, bool dials);
void tern_ring_tls_close(struct tern_ring_tls_session *session); // ignores NULL

enum tern_ring_io tern_ring_tls_handshake(struct tern_ring_tls_session *session);

// Writes the common name in the other end's certificate, after the handshake; "" unless the certificate has exactly one
// common name, of 1 to 63 bytes of UTF-8.
void tern_ring_tls_peer_name(const struct tern_ring_tls_session *session,
                             char name[TERN_RING_NAME_SIZE]);

// Explains a failed handshake, or a connection that the other end closed before it sent anything. With TLS 1.3 the accepting
// end can reject the dialling end's certificate after the dialling end has completed its handshake.
void tern_ring_tls_explain(const struct tern_ring_tls_session *session,
                           char why[TERN_RING_TLS_WHY_MAX]);

enum tern_ring_io tern_ring_tls_read(struct tern_ring_tls_session *session, uint8_t *dst,
                                     size_t size, size_t *len);

// After TERN_RING_IO_WANT_WRITE repeat the call with the same len.
enum tern_ring_io tern_ring_tls_write(struct tern_ring_tls_session *session, const uint8_t *src,
                                      size_t len, size_t *written);

// Whether the session has received bytes that poll() does not report.
bool tern_ring_tls_has_more(const struct tern_ring_tls_session *session);

// Sends the TLS close notification.
void tern_ring_tls_close_notify(struct tern_ring_tls_session *session);

// Return the received and sent bytes of the TCP stream.
uint64_t tern_ring_tls_received(const struct tern_ring_tls_session *session);
uint64_t tern_ring_tls_sent(const struct tern_ring_tls_session *session);

#endif
