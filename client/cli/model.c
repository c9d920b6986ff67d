#include "cli/model.h"

#include "hosted/log.h"
#include "tensor/manifest.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 5     // of a fetch that is not patient
#define LOOK_MS 250 // a signal ends a wait within this time

bool tern_session_builds_spec(void *ctx, const char *spec, const uint8_t *hash)
{
    (void)ctx;
    static struct tern_model model;
    return tern_model_build(&model, spec, NULL, 0, hash) == TERN_OK;
}

bool tern_session_model_is_built_in(const struct session *session)
{
    static struct tern_model model;
    return tern_model_from_spec(&model, tern_client_identity(&session->client)->model_spec) ==
           TERN_OK;
}

// --- Fetching

static bool is_aborted(const struct session *session)
{
    return session->listener.abort != NULL && *session->listener.abort != 0;
}

static void wait_ms(const struct session *session, uint64_t ms)
{
    while (ms > 0 && !is_aborted(session)) {
        const uint64_t slice = ms < LOOK_MS ? ms : LOOK_MS;
        (void)poll(NULL, 0, (int)slice);
        ms -= slice;
    }
}

static bool may_pass(enum tern_result result)
{
    return result == TERN_ERR_NETWORK || result == TERN_ERR_TLS || result == TERN_ERR_BUSY ||
           result == TERN_ERR_HTTP;
}

// How long before the next try, and how long it would be after one more failure. A budget is looked
// at as often as a running client does.
static uint64_t next_pause(const struct session *session, enum tern_result result, uint64_t *pause)
{
    const uint64_t now = *pause;
    if (result == TERN_ERR_BUDGET) {
        return session->settings->budget_look_again;
    }
    *pause = 2 * now < session->settings->retry_max ? 2 * now : session->settings->retry_max;
    return now;
}

static enum tern_result fetch_once(struct session *session, uint8_t *manifest, size_t *len)
{
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = tern_client_manifest(&session->client, manifest, TERN_MANIFEST_MAX, len);
    }
    return result;
}

static enum tern_result fetch(struct session *session, uint8_t *manifest, size_t *len)
{
    uint64_t pause = session->settings->retry_min;
    for (unsigned tries = 1;; tries++) {
        const enum tern_result result = fetch_once(session, manifest, len);
        const bool soon = may_pass(result) && tries < TRIES;
        const bool later = may_pass(result) || result == TERN_ERR_BUDGET;
        if (is_aborted(session) || !(session->listener.patient ? later : soon)) {
            return result;
        }
        const uint64_t ms = next_pause(session, result, &pause);
        tern_log(TERN_LOG_WARN, "model-not-fetched", "result=%s wait_ms=%llu",
                 tern_result_name(result), (unsigned long long)ms);
        wait_ms(session, ms);
    }
}

// --- Explaining

static enum tern_result explain(struct session *session, enum tern_result result)
{
    const char *spec = tern_client_identity(&session->client)->model_spec;
    if (result == TERN_ERR_NOT_FOUND) {
        snprintf(
            session->why, sizeof session->why,
            "the description of the federation's model \"%s\" is not in %s yet: tern-client run"
            " fetches it",
            spec, session->settings->state_dir);
    } else if (result == TERN_ERR_BUDGET) {
        snprintf(session->why, sizeof session->why,
                 "the byte budget has no room now for the description of the federation's model"
                 " \"%s\" (budget.per_round, budget.per_month)",
                 spec);
    } else if (may_pass(result)) {
        snprintf(session->why, sizeof session->why,
                 "the description of the federation's model \"%s\" could not be fetched from %s: %s"
                 " %s",
                 spec, session->settings->server, tern_result_sentence(result),
                 tern_curl_why(session->curl));
    } else {
        snprintf(session->why, sizeof session->why,
                 "the federation's model \"%s\" is none that this version can build: %s", spec,
                 tern_result_sentence(result));
    }
    return result;
}

// --- Building

static enum tern_result build(struct session *session, uint8_t *manifest)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    size_t len = 0;
    TERN_TRY(session->curl != NULL ? fetch(session, manifest, &len)
                                   : tern_client_stored_manifest(&session->client, manifest,
                                                                 TERN_MANIFEST_MAX, &len));
    return tern_model_build(&session->model, identity->model_spec, manifest, len,
                            identity->model_hash);
}

enum tern_result tern_session_build_model(struct session *session)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    if (tern_model_build(&session->model, identity->model_spec, NULL, 0, identity->model_hash) ==
        TERN_OK) {
        return TERN_OK;
    }
    uint8_t *manifest = malloc(TERN_MANIFEST_MAX);
    const enum tern_result result =
        manifest != NULL ? build(session, manifest) : TERN_ERR_NO_MEMORY;
    free(manifest);
    return result == TERN_OK ? TERN_OK : explain(session, result);
}
