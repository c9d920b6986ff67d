#include "core.h"
#include "defaults.h"

#include <string.h>

#define LEAVES_PATIENCE_S 10

// Returns whether the port for partial downloads has all functions or none.
static bool partial_complete(const struct tern_ports *ports)
{
    const struct tern_partial *partial = &ports->partial;
    return !TERN_PARTIALS || partial->open == NULL ||
           (partial->append != NULL && partial->view != NULL && partial->drop != NULL);
}

static bool ports_complete(const struct tern_ports *ports)
{
    return partial_complete(ports) && ports->transport.exchange != NULL &&
           ports->transport.collect != NULL && ports->transport.close != NULL &&
           ports->store.save != NULL && ports->store.load != NULL &&
           ports->clock.monotonic_ms != NULL && ports->clock.unix_seconds != NULL &&
           ports->entropy.fill != NULL;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

static void set_defaults(struct tern_client_config *config)
{
    config->name = config->name != NULL ? config->name : "";
    config->platform = config->platform != NULL ? config->platform : "";
    config->timeout_ms = or_default(config->timeout_ms, TERN_CLIENT_TIMEOUT(TERN_AS_MS));
    config->resume_upload_above =
        or_default(config->resume_upload_above, TERN_CLIENT_RESUME_UPLOAD_ABOVE);
    config->retry_min_ms = or_default(config->retry_min_ms, TERN_CLIENT_RETRY_MIN(TERN_AS_MS));
    config->retry_max_ms = or_default(config->retry_max_ms, TERN_CLIENT_RETRY_MAX(TERN_AS_MS));
    config->budget_wait_ms =
        or_default(config->budget_wait_ms, TERN_CLIENT_BUDGET_WAIT(TERN_AS_MS));
    if (!TERN_SMALL && config->leaves_patience_s == 0) {
        config->leaves_patience_s = LEAVES_PATIENCE_S;
    }
    config->look_again_ms = or_default(config->look_again_ms, TERN_CLIENT_LOOK_AGAIN(TERN_AS_MS));
}

enum tern_result tern_client_init(struct tern_client *client,
                                  const struct tern_client_config *config)
{
    // A build without secure rounds must not send the plain updates of a client that wants masked ones.
    if (!ports_complete(&config->ports) || (!TERN_SECURE && config->helper_key != NULL)) {
        return TERN_ERR_ARGUMENT;
    }
    memset(client, 0, sizeof *client);
    client->config = *config;
    set_defaults(&client->config);
    const size_t text_max = sizeof((tern_EnrollRequest *)NULL)->name;
    if (strlen(client->config.name) >= text_max || strlen(client->config.platform) >= text_max) {
        return TERN_ERR_ARGUMENT;
    }
    if (TERN_SECURE && tern_secure_is_on(client)) {
        TERN_TRY(tern_secure_init(client));
    }
    uint64_t seed = 0;
    TERN_TRY(config->ports.entropy.fill(config->ports.entropy.ctx, &seed, sizeof seed));
    tern_prng_init(&client->jitter, seed, TERN_PRNG_BACKOFF, 0, 0);
    return TERN_OK;
}

static enum tern_result run_phase(struct tern_client *client)
{
    switch (client->phase) {
    case TERN_PHASE_CHECKIN:
        return tern_phase_checkin(client);
    case TERN_PHASE_DOWNLOAD:
        return tern_phase_download(client);
    case TERN_PHASE_TRAIN:
        return tern_phase_train(client);
    case TERN_PHASE_ENCODE:
        return tern_phase_encode(client);
    case TERN_PHASE_UPLOAD:
        return tern_phase_upload(client);
    case TERN_PHASE_EVALUATE:
        return tern_phase_evaluate(client);
    case TERN_PHASE_STATISTICS:
        return TERN_STATISTICS ? tern_phase_statistics(client) : TERN_ERR_STATE;
    case TERN_PHASE_FINISHED:
        return TERN_AGAIN;
    case TERN_PHASE_STOPPED:
        return client->stopped_by;
    case TERN_PHASE_NEW:
        break;
    }
    return TERN_ERR_STATE;
}

enum tern_result tern_client_step(struct tern_client *client)
{
    const bool works = client->phase != TERN_PHASE_NEW && client->phase != TERN_PHASE_STOPPED;
    if (!client->in_flight && tern_watch_take_cancel(client)) {
        return TERN_ERR_CANCELLED;
    }
    if (!TERN_SMALL && client->returns) {
        client->returns = false;
        client->due_ms = 0;
    }
    if (works && tern_client_next_ms(client) > 0) {
        return TERN_AGAIN;
    }
    if (works && !client->in_flight) {
        TERN_TRY(tern_client_check_conditions(client));
    }
    enum tern_result result = run_phase(client);
    if (!TERN_SMALL && client->config.leaves && result == TERN_AGAIN) {
        result = client->stopped_by != TERN_OK ? client->stopped_by : TERN_AGAIN;
        client->stopped_by = TERN_OK;
        return result;
    }
    if (works && result != TERN_OK && result != TERN_AGAIN && result != TERN_ERR_CANCELLED) {
        client->stopped_by = result;
        client->phase = TERN_PHASE_STOPPED;
    }
    return result;
}

uint32_t tern_client_next_ms(const struct tern_client *client)
{
    if (tern_watch_is_cancelled(client)) {
        return 0;
    }
    if (client->phase == TERN_PHASE_FINISHED) {
        return UINT32_MAX;
    }
    const uint64_t now = tern_client_now_ms(client);
    if (client->due_ms <= now) {
        return 0;
    }
    const uint64_t left = client->due_ms - now;
    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

enum tern_client_phase tern_client_phase(const struct tern_client *client)
{
    return client->phase;
}

const struct tern_client_identity *tern_client_identity(const struct tern_client *client)
{
    return client->identified ? &client->identity : NULL;
}

const struct tern_meter *tern_client_meter_round(const struct tern_client *client)
{
    return &client->meter_round;
}

const struct tern_meter *tern_client_meter_all(const struct tern_client *client)
{
    return &client->meter_all;
}

const struct tern_bytes *tern_client_meter_other(const struct tern_client *client)
{
    return client->meter_other;
}

const struct tern_client_budget *tern_client_budget(const struct tern_client *client)
{
    return &client->budget;
}

const struct tern_client_masked *tern_client_masked(const struct tern_client *client)
{
    return &client->masked;
}

const uint8_t *tern_client_replica(const struct tern_client *client)
{
    return client->replica;
}

uint32_t tern_client_version(const struct tern_client *client)
{
    return client->version;
}

bool tern_client_is_personal(const struct tern_client *client)
{
    return tern_client_has_local(client);
}

const float *tern_client_weights(const struct tern_client *client)
{
    return client->work.weights;
}

const struct tern_client_pending *tern_client_pending(const struct tern_client *client)
{
    return &client->pending;
}
