#include "cli/body_limit.h"

#include "cli/state.h"
#include "codec/container.h"
#include "wire/wire.h"
#include <inttypes.h>

uint64_t tern_cli_update_max(const struct tern_codec *codec, const struct tern_model *model)
{
    return tern_container_bound(codec, model) + TERN_WIRE_OVERHEAD;
}

// Of PostgreSQL, a value has 1 GB at most, and a row's head and other columns want room in its messages.
#define POSTGRES_VALUE_MAX 1000000000u

static uint64_t default_limit(const struct tern_model *model)
{
    uint64_t needed = tern_container_bound_any(model) + TERN_WIRE_OVERHEAD;
    needed = needed < TERN_WIRE_MESSAGE_MAX ? TERN_WIRE_MESSAGE_MAX : needed;
    return needed < UINT32_MAX ? needed : UINT32_MAX;
}

// A client whose update is refused for its size trains again in vain, round after round.
int tern_cli_body_limit(struct tern_cli *cli, const struct tern_codec *codec,
                        const struct tern_model *model, const char *spec, uint32_t *limit)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    const uint64_t needed = tern_cli_update_max(codec, model);
    *limit = (uint32_t)(s->limits_body_bytes != 0 ? s->limits_body_bytes : default_limit(model));
    if (tern_state_is_postgres(cli) && *limit > POSTGRES_VALUE_MAX) {
        *limit = POSTGRES_VALUE_MAX;
    }
    if (needed <= *limit) {
        return TERN_EXIT_OK;
    }
    if (*limit == POSTGRES_VALUE_MAX && tern_state_is_postgres(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "an update of %s under codec.codec = %s may have %" PRIu64
                             " bytes, and PostgreSQL stores values of 1 GB at most: choose another "
                             "codec, or leave store.url empty",
                             spec, s->codec_codec, needed);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "limits.body_bytes = %" PRIu32 " is too small for an update of %s under "
                         "codec.codec = %s; set it to %" PRIu64 " or more, or to 0",
                         *limit, spec, s->codec_codec, needed);
}
