#include "cli/gateway.h"

#include "admin/above.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void folder_of(const struct tern_cli *cli, char path[PATH_MAX])
{
    tern_state_path(cli, TERN_STATE_ABOVE, path);
}

bool tern_gateway_is_one(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    folder_of(cli, path);
    return access(path, F_OK) == 0;
}

// Another aggregator on the same database would lead the rounds below without the one above.
int tern_gateway_check(struct tern_cli *cli)
{
    if (!tern_state_is_postgres(cli)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "store.url is set, and a gateway's database is the file " TERN_STATE_DATABASE
        " in its state directory: leave store.url empty");
}

int tern_gateway_check_joined(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    tern_state_path(cli, TERN_STATE_DATABASE, path);
    return access(path, F_OK) == 0
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "join has not come to its end in %s: tern-aggregator join CODE goes "
                               "on there",
                               tern_state_settings(cli)->federation_state);
}

int tern_gateway_open(struct tern_cli *cli, int *lock, struct tern_relay **relay)
{
    static char folder[PATH_MAX]; // borrowed by the relay
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    char why[512] = "";
    *lock = -1;
    if (s->relay_server[0] == '\0') {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "relay.server is not set: name the aggregator above with --config FILE "
            "or --set relay.server=https://host:port");
    }
    TERN_CLI_TRY(tern_state_lock(cli, lock));
    folder_of(cli, folder);
    const struct tern_relay_config config = {
        .folder = folder,
        .server = s->relay_server,
        .ca = s->relay_ca,
        .certificate = s->relay_certificate,
        .key = s->relay_key,
        .tls = s->relay_tls,
        .name = s->relay_name,
        .wait_ms = (uint32_t)s->relay_wait,
        .budget_per_month = s->relay_budget_per_month,
    };
    const enum tern_result result = tern_relay_open(&config, relay, why);
    return tern_cli_check(cli, result, "%s", why);
}

void tern_gateway_above(const struct tern_cli *cli, struct tern_service_above *above)
{
    char folder[PATH_MAX];
    *above = (struct tern_service_above){.is_known = false};
    if (tern_gateway_is_one(cli) && tern_state_is_served(cli)) {
        folder_of(cli, folder);
        tern_relay_link_look(folder, above);
    }
}

// --- What status shows

static bool look(const struct tern_cli *cli, struct tern_relay_facts *facts)
{
    char folder[PATH_MAX];
    folder_of(cli, folder);
    return tern_relay_look(folder, facts) == TERN_OK;
}

void tern_gateway_print(const struct tern_cli *cli)
{
    struct tern_relay_facts facts;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    char server[TERN_TEXT];
    if (!look(cli, &facts)) {
        return;
    }
    const char *name = tern_state_settings(cli)->relay_server;
    struct tern_service_above above;
    char silent[TERN_ABOVE_MAX];
    char since[TERN_TEXT];
    tern_gateway_above(cli, &above);
    tern_text_bytes((double)tern_meter_total(&facts.meter, TERN_UP).wire, up);
    tern_text_bytes((double)tern_meter_total(&facts.meter, TERN_DOWN).wire, down);
    printf("Gateway     client %" PRIu64 " of %s: %" PRIu64 " updates answered there;\n"
           "            on that link since it joined: %s up, %s down (the other bytes here are "
           "local)\n",
           facts.client, name[0] != '\0' ? tern_text_name(name, server) : "the aggregator above",
           facts.rounds, up, down);
    if (above.silent_ms != 0) {
        printf("            %s, since %s\n", tern_above_sentence(&above, tern_now_ms(), silent),
               tern_text_time(above.silent_ms, since));
    }
}

// "answers" is null where no gateway runs; the other two where the aggregator above answers.
static void add_above(cJSON *gateway, const struct tern_service_above *above)
{
    if (!above->is_known) {
        cJSON_AddNullToObject(gateway, "answers");
    } else {
        tern_json_bool(gateway, "answers", above->silent_ms == 0);
    }
    if (above->silent_ms == 0) {
        cJSON_AddNullToObject(gateway, "silent_ms");
        cJSON_AddNullToObject(gateway, "silent_why");
    } else {
        tern_json_u64(gateway, "silent_ms", above->silent_ms);
        tern_json_text(gateway, "silent_why", above->why);
    }
}

void tern_gateway_json(const struct tern_cli *cli, cJSON *object)
{
    struct tern_relay_facts facts;
    if (!look(cli, &facts)) {
        cJSON_AddNullToObject(object, "gateway");
        return;
    }
    cJSON *gateway = cJSON_AddObjectToObject(object, "gateway");
    struct tern_service_above above;
    tern_gateway_above(cli, &above);
    tern_json_text(gateway, "server", tern_state_settings(cli)->relay_server);
    tern_json_u64(gateway, "client", facts.client);
    add_above(gateway, &above);
    tern_json_u64(gateway, "updates_answered", facts.rounds);
    tern_json_u64(gateway, "round_taken", facts.taken);
    tern_json_u64(gateway, "wire_up", tern_meter_total(&facts.meter, TERN_UP).wire);
    tern_json_u64(gateway, "wire_down", tern_meter_total(&facts.meter, TERN_DOWN).wire);
    tern_json_u64(gateway, "payload_up", tern_meter_total(&facts.meter, TERN_UP).payload);
    tern_json_u64(gateway, "payload_down", tern_meter_total(&facts.meter, TERN_DOWN).payload);
    tern_json_u64(gateway, "month_wire", facts.month_spent);
}
