// probe asks the running service for its health, for containers, which have no other program that could.
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/waiting.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SILENT_MS                                                                                  \
    60000u // longest time of a healthy service without listener from heartbeat to heartbeat

// Returns the time since the last heartbeat, which is the time of the lock file; as long for a time in the future, which a
// clock that was set back leaves. UINT64_MAX: there is no file.
static uint64_t find_silent_ms(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    struct stat status;
    tern_state_path(cli, TERN_STATE_LOCK, path);
    if (stat(path, &status) != 0) {
        return UINT64_MAX;
    }
    const int64_t beat_ms =
        (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
    const int64_t now_ms = (int64_t)tern_now_ms();
    return (uint64_t)(now_ms > beat_ms ? now_ms - beat_ms : beat_ms - now_ms);
}

// Judges a standby, or a service that is starting, by its heartbeat.
static int judge_standby(const struct tern_cli *cli)
{
    const char *state = tern_state_settings(cli)->federation_state;
    char ago[TERN_TEXT];
    if (!tern_state_is_served(cli)) {
        return tern_cli_fail(cli, TERN_ERR_IO, "no service runs on %s, not even a standby", state);
    }
    const uint64_t silent_ms = find_silent_ms(cli);
    if (silent_ms > SILENT_MS) {
        return tern_cli_fail(cli, TERN_ERR_IO,
                             "the service on %s has no listener and has sent no heartbeat for %s: "
                             "it hangs, or no longer watches its leader; restart it",
                             state, tern_text_duration(silent_ms, ago));
    }
    printf("closed\n");
    return TERN_EXIT_OK;
}

// Nothing listens: a standby or a service that is starting, or no service at all.
static int judge_closed(const struct tern_cli *cli, const char *address)
{
    if (tern_cli_flag(cli, "standby")) {
        return judge_standby(cli);
    }
    return tern_cli_fail(cli, TERN_ERR_IO,
                         "no service answers at admin.address = %s: it is starting, stands by "
                         "(--standby allows that) or has ended",
                         address);
}

int tern_cli_probe(struct tern_cli *cli)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const char *address = settings->admin_address;
    const bool alive = strcmp(cli->arguments[0], "alive") == 0;
    char why[256];
    if (!alive && strcmp(cli->arguments[0], "ready") != 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "probe %s: give alive or ready",
                             cli->arguments[0]);
    }
    if (address[0] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "admin.address is empty, so that no listener can be asked: set it, or "
                             "ask /readyz of the clients' port");
    }
    switch (tern_readiness_ask(settings, why)) {
    case TERN_READINESS_UNKNOWN:
        return judge_closed(cli, address);
    case TERN_READINESS_SILENT:
        return tern_cli_fail(cli, TERN_ERR_IO,
                             "the service at admin.address = %s does not answer within %d s: "
                             "restart it",
                             address, TERN_READINESS_PATIENCE_S);
    case TERN_READINESS_BAD:
        if (!alive) {
            return tern_cli_fail(cli, TERN_ERR_IO, "not ready: %s: %s", why,
                                 tern_readiness_advice(why));
        }
        break;
    case TERN_READINESS_GOOD:
        break;
    }
    printf("%s\n", alive ? "alive" : "ready");
    return TERN_EXIT_OK;
}
