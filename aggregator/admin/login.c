// Authenticates requests of programs, by a token, and of browsers, by a session or by a proxy (sso.h); logs people in and out.
#include "admin/internal.h"

#include "hosted/system.h"
#include "util/bytes.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

// --- Sessions

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
                                     const uint8_t token_sha256[TERN_SHA256_SIZE],
                                     struct tern_session_secrets *secrets)
{
    struct tern_session session = {.open = true, .began_ms = now_ms, .used_ms = now_ms};
    memcpy(session.token_sha256, token_sha256, TERN_SHA256_SIZE);
    TERN_TRY(make_secret(secrets->cookie, session.cookie_sha256));
    TERN_TRY(make_secret(secrets->key, session.key_sha256));
    *find_place(sessions, now_ms) = session;
    return TERN_OK;
}

// Compares the hashes of all sessions, so that the time reveals neither length nor content of the secrets.
static struct tern_session *find_session(struct tern_sessions *sessions, const char *cookie,
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
                       uint64_t now_ms, uint8_t token_sha256[TERN_SHA256_SIZE])
{
    struct tern_session *session = find_session(sessions, cookie, key);
    if (session == NULL || !is_live(session, now_ms)) {
        return false;
    }
    session->used_ms = now_ms;
    memcpy(token_sha256, session->token_sha256, TERN_SHA256_SIZE);
    return true;
}

void tern_sessions_end(struct tern_sessions *sessions, const char *cookie, const char *key)
{
    struct tern_session *session = find_session(sessions, cookie, key);
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

// --- Credentials of a request

#define SCHEME "Session "

// Finds the name and the role of a token. Compares hashes, so that the comparison takes the same time for every length and
// content. False: `why` has the sentence; NULL = an unknown token, which looks like none from outside.
static bool find_caller(const struct tern_admin *admin, const uint8_t sha256[TERN_SHA256_SIZE],
                        struct tern_db_actor *caller, const char **why)
{
    struct tern_db_token token;
    *caller = (struct tern_db_actor){.role = TERN_ROLE_NONE};
    *why = NULL;
    if (tern_equal_constant_time(sha256, admin->token_sha256, TERN_SHA256_SIZE)) {
        snprintf(caller->who, sizeof caller->who, "admin.token");
        caller->role = TERN_ROLE_ADMIN;
        return true;
    }
    if (!tern_service_find_token(admin->config.service, sha256, &token)) {
        return false;
    }
    if (token.revoked) {
        *why = "This token was revoked. `tern-aggregator token add` makes another one.";
        return false;
    }
    if (token.expires_ms <= tern_service_now(admin->config.service)) {
        *why = "This token has expired. `tern-aggregator token add` makes another one.";
        return false;
    }
    snprintf(caller->who, sizeof caller->who, "%s", token.name);
    caller->role = (enum tern_role)token.role;
    return true;
}

// Finds the session's cookie among all cookies of this host; "" = absent.
static void find_cookie(const struct tern_admin *admin, const char *cookies,
                        char value[TERN_SESSION_SECRET])
{
    const size_t name = strlen(admin->cookie_name);
    value[0] = '\0';
    while (*cookies != '\0') {
        cookies += strspn(cookies, "; ");
        const size_t len = strcspn(cookies, ";");
        const bool is_it = strncmp(cookies, admin->cookie_name, name) == 0 && cookies[name] == '=';
        if (is_it && len - name - 1 < TERN_SESSION_SECRET) {
            memcpy(value, cookies + name + 1, len - name - 1);
            value[len - name - 1] = '\0';
            return;
        }
        cookies += len;
    }
}

// Returns the key of "Session KEY"; "" for another scheme.
static const char *find_key(const char *authorization)
{
    const size_t len = strlen(SCHEME);
    return strncasecmp(authorization, SCHEME, len) == 0 ? authorization + len : "";
}

// Whether the request comes from a page of this listener. Browsers send Origin with every request that can change
// something.
static bool is_own_origin(const struct tern_http_request *request)
{
    const char *host = strstr(request->origin, "://");
    return host != NULL && strcasecmp(host + 3, request->host) == 0;
}

// --- Admission

int tern_admin_admit(struct tern_admin *admin, const struct tern_http_request *request,
                     bool changes, struct tern_db_actor *caller, const char **why)
{
    char cookie[TERN_SESSION_SECRET];
    uint8_t sha256[TERN_SHA256_SIZE];
    const char *token = tern_http_bearer(request->authorization);
    *why = NULL;
    if (request->user != NULL) {
        return tern_sso_admit(&admin->sso, request, changes, caller, why);
    }
    if (token != NULL) {
        tern_sha256(token, strlen(token), sha256);
        return find_caller(admin, sha256, caller, why) ? 0 : 401;
    }
    *caller = (struct tern_db_actor){.role = TERN_ROLE_NONE};
    find_cookie(admin, request->cookie, cookie);
    if (!tern_sessions_use(&admin->sessions, cookie, find_key(request->authorization),
                           admin->config.monotonic_ms(), sha256) ||
        !find_caller(admin, sha256, caller, why)) {
        return 401;
    }
    return !changes || is_own_origin(request) ? 0 : 403;
}

// --- Login and logout

// Sets Secure if the browser uses TLS, which a proxy in front of the listener may provide.
static void set_cookie(const struct tern_admin *admin, const struct tern_http_request *request,
                       const char *value, unsigned seconds, struct tern_http_reply *reply)
{
    const bool by_tls = strncasecmp(request->origin, "https:", 6) == 0;
    snprintf(reply->set_cookie, sizeof reply->set_cookie,
             "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%u%s", admin->cookie_name, value,
             seconds, by_tls ? "; Secure" : "");
}

// Hashes the token in the body. False: the body has no token.
static bool read_token(const struct tern_http_request *request, uint8_t sha256[TERN_SHA256_SIZE])
{
    cJSON *json = tern_admin_read_object(request);
    const char *token = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "token"));
    const bool good = token != NULL;
    tern_sha256(good ? token : "", good ? strlen(token) : 0, sha256);
    cJSON_Delete(json);
    return good;
}

static void begin(struct tern_admin *admin, const struct tern_http_request *request,
                  const uint8_t token_sha256[TERN_SHA256_SIZE], const struct tern_db_actor *caller,
                  struct tern_http_reply *reply)
{
    struct tern_session_secrets secrets;
    if (tern_sessions_begin(&admin->sessions, admin->config.monotonic_ms(), token_sha256,
                            &secrets) != TERN_OK) {
        tern_admin_reply_error(reply, 503, TERN_ERR_IO, "The system provides no random bytes.");
        return;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", secrets.key);
    cJSON_AddStringToObject(json, "name", caller->who);
    cJSON_AddStringToObject(json, "role", tern_role_name(caller->role));
    cJSON_AddNumberToObject(json, "expires_s", TERN_SESSION_MS / 1000);
    cJSON_AddNumberToObject(json, "idle_s", TERN_SESSION_IDLE_MS / 1000);
    (void)tern_admin_reply_json(reply, 201, json);
    if (reply->status == 201) {
        set_cookie(admin, request, secrets.cookie, TERN_SESSION_MS / 1000, reply);
    }
}

void tern_admin_login(struct tern_admin *admin, const struct tern_http_request *request,
                      struct tern_http_reply *reply)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_db_actor caller;
    const char *why;
    const uint32_t wait_s = tern_sessions_wait_s(&admin->sessions, admin->config.monotonic_ms());
    if (request->user != NULL) {
        tern_admin_reply_error(reply, 400, TERN_ERR_ARGUMENT,
                               "The proxy has logged this user in already (admin.sso).");
        return;
    }
    if (!is_own_origin(request)) {
        tern_admin_reply_error(reply, 403, TERN_ERR_FORBIDDEN,
                               "Only the page of this listener may log in; programs send "
                               "\"Authorization: Bearer TOKEN\".");
        return;
    }
    if (wait_s > 0) {
        tern_admin_reply_error(reply, 429, TERN_ERR_BUSY,
                               "Too many logins have failed; wait a minute.");
        reply->retry_after_s = wait_s;
        return;
    }
    if (!read_token(request, sha256)) {
        tern_admin_reply_error(reply, 422, TERN_ERR_ARGUMENT, "Send {\"token\": text}.");
        return;
    }
    if (!find_caller(admin, sha256, &caller, &why)) {
        tern_sessions_login_failed(&admin->sessions, admin->config.monotonic_ms());
        tern_admin_reply_error(reply, 401, TERN_ERR_UNAUTHORIZED,
                               why != NULL ? why : "No token has this text.");
        return;
    }
    begin(admin, request, sha256, &caller, reply);
}

void tern_admin_logout(struct tern_admin *admin, const struct tern_http_request *request,
                       struct tern_http_reply *reply)
{
    char cookie[TERN_SESSION_SECRET];
    find_cookie(admin, request->cookie, cookie);
    tern_sessions_end(&admin->sessions, cookie, find_key(request->authorization));
    *reply = (struct tern_http_reply){.status = 204};
    set_cookie(admin, request, "", 0, reply);
}
