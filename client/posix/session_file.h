// The file in which a TLS session outlives its process. It holds the keys of the connection, so it
// is made readable by its owner only. Used by tls.c alone. Reentrant.
#ifndef TERN_POSIX_SESSION_FILE_H
#define TERN_POSIX_SESSION_FILE_H

#include "posix/tls/backend.h"
#include "util/sha256.h"

// Reads a session that was saved under the same binding and has not expired at now_s. One that is
// missing, damaged, foreign, expired or from the future leaves *session as it is; so does a file
// that others than its owner may write, of another user than this one or root, or no ordinary one.
void tern_session_file_read(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
                            uint64_t now_s, struct tern_curl_tls_session *session);

// Replaces the file at once. What cannot be written is left out: a session is a saving, no state.
void tern_session_file_write(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
                             uint64_t now_s, const struct tern_curl_tls_session *session);

#endif
