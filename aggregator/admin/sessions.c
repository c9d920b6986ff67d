#include "admin/sessions.h"

#include "hosted/system.h"
#include "util/bytes.h"
#include <string.h>

#define SECRET_BYTES 24

static enum tern_result make_secret(char text[TERN_SESSION_SECRET],
                                    uint8_t sha256[TERN_SHA256_SIZE])
{
    uint8_t bytes[SECRET_BYTES];
    _Static_assert(TERN_BASE64URL_LENGTH(SECRET_BYTES) + 1 == TERN_SESSION_SECRET, "its text");
    TERN_TRY(tern_random_fill(bytes, sizeof bytes));
    tern_base64url_encode(bytes, sizeof bytes, text);
    tern_sha256(text, strlen(text), sha256);
    return TERN_OK;
}

static bool is_live(const struct tern_session *session, uint64_t now_ms)
{
    return session->open && now_ms - session->began_ms < TERN_SESSION_MS &&
           now_ms - session->used_ms < TERN_SESSION_IDLE_MS;
}

static struct tern_session *find_place(struct tern_sessions *sessions, uint64_t now_ms)
{
    struct tern_session *place = &sessions->session[0];
    for (size_t i = 0; i < TERN_SESSIONS; i++) {
        struct tern_session *session = &sessions->session[i];
        if (!is_live(session, now_ms)) {
            return session;
        }
        if (session->used_ms < place->used_ms) {
            place = session;
        }
    }
    return place;
}

enum tern_result tern_sessions_begin(struct tern_sessions *sessions, uint64_t now_ms,
                                     struct tern_session_secrets *secrets)
{
    struct tern_session session = {.open = true, .began_ms = now_ms, .used_ms = now_ms};
    TERN_TRY(make_secret(secrets->cookie, session.cookie_sha256));
    TERN_TRY(make_secret(secrets->key, session.key_sha256));
    *find_place(sessions, now_ms) = session;
    return TERN_OK;
}

// Compares the hashes of all sessions, so that the time reveals neither length nor content of the secrets.
static struct tern_session *find(struct tern_sessions *sessions, const char *cookie,
                                 const char *key)
{
    uint8_t cookie_sha256[TERN_SHA256_SIZE];
    uint8_t key_sha256[TERN_SHA256_SIZE];
    struct tern_session *found = NULL;
    tern_sha256(cookie, strlen(cookie), cookie_sha256);
    tern_sha256(key, strlen(key), key_sha256);
    for (size_t i = 0; i < TERN_SESSIONS; i++) {
        struct tern_session *session = &sessions->session[i];
        const bool cookie_is =
            tern_equal_constant_time(cookie_sha256, session->cookie_sha256, TERN_SHA256_SIZE);
        const bool key_is =
            tern_equal_constant_time(key_sha256, session->key_sha256, TERN_SHA256_SIZE);
        found = session->open & cookie_is & key_is ? session : found;
    }
    return found;
}

bool tern_sessions_use(struct tern_sessions *sessions, const char *cookie, const char *key,
                       uint64_t now_ms)
{
    struct tern_session *session = find(sessions, cookie, key);
    if (session == NULL || !is_live(session, now_ms)) {
        return false;
    }
    session->used_ms = now_ms;
    return true;
}

void tern_sessions_end(struct tern_sessions *sessions, const char *cookie, const char *key)
{
    struct tern_session *session = find(sessions, cookie, key);
    if (session != NULL) {
        memset(session, 0, sizeof *session);
    }
}

uint32_t tern_sessions_wait_s(const struct tern_sessions *sessions, uint64_t now_ms)
{
    const uint64_t since_ms = now_ms - sessions->failures_ms;
    if (sessions->failures < TERN_LOGIN_FAILURES || since_ms >= TERN_LOGIN_MS) {
        return 0;
    }
    return (uint32_t)((TERN_LOGIN_MS - since_ms + 999) / 1000);
}

void tern_sessions_login_failed(struct tern_sessions *sessions, uint64_t now_ms)
{
    if (sessions->failures == 0 || now_ms - sessions->failures_ms >= TERN_LOGIN_MS) {
        sessions->failures = 0;
        sessions->failures_ms = now_ms;
    }
    sessions->failures++;
}
