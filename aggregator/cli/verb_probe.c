// probe asks the running service for its health, for containers, which have no other program that could.
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/waiting.h"

#include <stdio.h>
#include <string.h>

// Nothing listens: a standby or a service that is starting, or no service at all.
static int judge_closed(const struct tern_cli *cli, const char *address)
{
    if (tern_cli_flag(cli, "standby")) {
        printf("closed\n");
        return TERN_EXIT_OK;
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
