// Sessions by a clock of the test's own.
#include "admin/sessions.h"
#include "tests/cases.h"

#include <stdio.h>
#include <string.h>

#define NOW 1000000000u

static const uint8_t token[TERN_SHA256_SIZE] = {7}; // hash of the token of all sessions

static struct tern_session_secrets begin(struct tern_sessions *sessions, uint64_t now_ms)
{
    struct tern_session_secrets secrets;
    assert_int_equal(tern_sessions_begin(sessions, now_ms, token, &secrets), TERN_OK);
    assert_int_equal(strlen(secrets.cookie), TERN_SESSION_SECRET - 1);
    assert_int_equal(strlen(secrets.key), TERN_SESSION_SECRET - 1);
    assert_string_not_equal(secrets.cookie, secrets.key);
    return secrets;
}

static bool use(struct tern_sessions *sessions, const struct tern_session_secrets *secrets,
                uint64_t now_ms)
{
    uint8_t token_sha256[TERN_SHA256_SIZE];
    const bool is_open =
        tern_sessions_use(sessions, secrets->cookie, secrets->key, now_ms, token_sha256);
    assert_true(!is_open || memcmp(token_sha256, token, sizeof token) == 0);
    return is_open;
}

CASE(test_both_halves_of_one_session)
{
    struct tern_sessions sessions = {0};
    uint8_t used[TERN_SHA256_SIZE];
    const struct tern_session_secrets one = begin(&sessions, NOW);
    const struct tern_session_secrets other = begin(&sessions, NOW);
    assert_true(use(&sessions, &one, NOW));
    assert_true(use(&sessions, &other, NOW));
    assert_false(tern_sessions_use(&sessions, one.cookie, other.key, NOW, used));
    assert_false(tern_sessions_use(&sessions, one.cookie, "", NOW, used));
    assert_false(tern_sessions_use(&sessions, "", one.key, NOW, used));
    assert_false(tern_sessions_use(&sessions, one.key, one.cookie, NOW, used));
    assert_false(tern_sessions_use(&sessions, "", "", NOW, used));
}

CASE(test_a_session_ends)
{
    struct tern_sessions sessions = {0};
    const struct tern_session_secrets one = begin(&sessions, NOW);
    const struct tern_session_secrets other = begin(&sessions, NOW);
    tern_sessions_end(&sessions, other.cookie, one.key); // of no session
    tern_sessions_end(&sessions, one.cookie, one.key);
    assert_false(use(&sessions, &one, NOW));
    assert_true(use(&sessions, &other, NOW));
}

CASE(test_a_session_expires)
{
    struct tern_sessions sessions = {0};
    const struct tern_session_secrets used = begin(&sessions, NOW);
    const struct tern_session_secrets idle = begin(&sessions, NOW);
    for (uint64_t ms = 0; ms < TERN_SESSION_MS; ms += TERN_SESSION_IDLE_MS - 1) {
        assert_true(use(&sessions, &used, NOW + ms));
    }
    assert_false(use(&sessions, &idle, NOW + TERN_SESSION_IDLE_MS));
    assert_true(use(&sessions, &used, NOW + TERN_SESSION_MS - 1));
    assert_false(use(&sessions, &used, NOW + TERN_SESSION_MS));
}

// The one that was used longest ago makes room, whenever it began.
CASE(test_their_number_is_bounded)
{
    struct tern_sessions sessions = {0};
    struct tern_session_secrets all[TERN_SESSIONS];
    for (uint32_t i = 0; i < TERN_SESSIONS; i++) {
        all[i] = begin(&sessions, NOW + i);
    }
    assert_true(use(&sessions, &all[0], NOW + TERN_SESSIONS));
    const struct tern_session_secrets more = begin(&sessions, NOW + TERN_SESSIONS + 1);
    assert_false(use(&sessions, &all[1], NOW + TERN_SESSIONS + 1));
    assert_true(use(&sessions, &all[0], NOW + TERN_SESSIONS + 1));
    assert_true(use(&sessions, &more, NOW + TERN_SESSIONS + 1));
    for (uint32_t i = 2; i < TERN_SESSIONS; i++) {
        assert_true(use(&sessions, &all[i], NOW + TERN_SESSIONS + 1));
    }
}

CASE(test_failed_logins_are_held_back)
{
    struct tern_sessions sessions = {0};
    for (uint32_t i = 0; i < TERN_LOGIN_FAILURES; i++) {
        assert_int_equal(tern_sessions_wait_s(&sessions, NOW + i), 0);
        tern_sessions_login_failed(&sessions, NOW + i);
    }
    assert_int_equal(tern_sessions_wait_s(&sessions, NOW + 10), TERN_LOGIN_MS / 1000);
    assert_int_equal(tern_sessions_wait_s(&sessions, NOW + TERN_LOGIN_MS - 1), 1);
    assert_int_equal(tern_sessions_wait_s(&sessions, NOW + TERN_LOGIN_MS), 0);
    tern_sessions_login_failed(&sessions, NOW + TERN_LOGIN_MS);
    assert_int_equal(tern_sessions_wait_s(&sessions, NOW + TERN_LOGIN_MS), 0);
}
