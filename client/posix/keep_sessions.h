// Lets a reconnect resume its TLS session whatever ended the connection. Used by transport.c alone.
#ifndef TERN_POSIX_KEEP_SESSIONS_H
#define TERN_POSIX_KEEP_SESSIONS_H

#include <curl/curl.h>

// libcurl switches TLS 1.2 session tickets off in OpenSSL, and OpenSSL 3 throws a session away when
// its connection ends by a bare TCP close, as it does on bad links: each reconnect would then cost
// a full handshake of some 1,100 bytes instead of 500. This switches tickets on and takes such an
// end for an ordinary one; HTTP says how long its bodies are, so a cut is still noticed. A ticket
// makes the ClientHello long enough for OpenSSL to pad it to 512 bytes for the sake of one old load
// balancer; that is switched off too. With any other TLS library it does nothing.
void tern_keep_sessions(CURL *easy);

#endif
