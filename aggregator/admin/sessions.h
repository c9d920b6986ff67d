// Sessions of people at a browser, in memory: a restart ends all sessions. A session has two halves. The cookie is sent
// by the browser to every port of this machine's names, and no script reads it; the key is known to scripts of the
// page's own origin alone, port included, and is sent by them in the header Authorization. Neither opens anything
// without the other. Who calls: admin/, on the one thread of the admin listener. Times are milliseconds that never go
// back.
#ifndef TERN_ADMIN_SESSIONS_H
#define TERN_ADMIN_SESSIONS_H

#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_SESSIONS                                                                              \
    16 // most sessions at once; a further session replaces the least recently used one
#define TERN_SESSION_MS 43200000u     // longest duration of a session
#define TERN_SESSION_IDLE_MS 3600000u // longest time without a request
#define TERN_SESSION_SECRET 33        // bytes of a cookie's or key's text, with the NUL

// Most failed logins in TERN_LOGIN_MS; further attempts are refused without a check.
#define TERN_LOGIN_FAILURES 10
#define TERN_LOGIN_MS 60000u

struct tern_session {
    bool open;
    uint8_t cookie_sha256[TERN_SHA256_SIZE];
    uint8_t key_sha256[TERN_SHA256_SIZE];
    uint8_t token_sha256[TERN_SHA256_SIZE]; // of the token that logged in
    uint64_t began_ms;
    uint64_t used_ms;
};

// Initialize all members with zeros: no session is open.
struct tern_sessions {
    struct tern_session session[TERN_SESSIONS];
    uint32_t failures; // failed logins since failures_ms
    uint64_t failures_ms;
};

struct tern_session_secrets {
    char cookie[TERN_SESSION_SECRET];
    char key[TERN_SESSION_SECRET];
};

// TERN_ERR_IO  the system provides no random bytes
TERN_MUST_USE enum tern_result tern_sessions_begin(struct tern_sessions *sessions, uint64_t now_ms,
                                                   const uint8_t token_sha256[TERN_SHA256_SIZE],
                                                   struct tern_session_secrets *secrets);

// Whether cookie and key belong to one session that has not expired; records the session's use. Takes the same time for
// every fault. token_sha256: the session's.
bool tern_sessions_use(struct tern_sessions *sessions, const char *cookie, const char *key,
                       uint64_t now_ms, uint8_t token_sha256[TERN_SHA256_SIZE]);

// Ends the session of cookie and key, if there is one.
void tern_sessions_end(struct tern_sessions *sessions, const char *cookie, const char *key);

// Returns the seconds until the next login may be tried; 0 = now.
uint32_t tern_sessions_wait_s(const struct tern_sessions *sessions, uint64_t now_ms);
void tern_sessions_login_failed(struct tern_sessions *sessions, uint64_t now_ms);

#endif
