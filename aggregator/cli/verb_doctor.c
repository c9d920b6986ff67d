// doctor: everything that an operator would look at when a service does not do what it should.
#include "cli/doctor_checks.h"
#include "cli/verbs.h"

#include "cli/logging.h"
#include "cli/service_config.h"

// The reason is on stderr already where the settings do not go together.
static void check_settings(struct tern_doctor *doctor, struct tern_cli *cli)
{
    static struct tern_service_config config;
    struct tern_cli_logging logging;
    char why[256] = "";
    static const char advice[] =
        "`tern-aggregator serve --check` says more; `tern-aggregator --settings` lists all";
    if (tern_cli_read_logging(doctor->settings, &logging, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, "settings", advice, "%s", why);
    } else if (tern_cli_fill_service(cli, doctor->settings, &config) != TERN_EXIT_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, "settings", advice,
                          "they do not go together, as was just said");
    } else {
        doctor->has_settings = true;
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, "settings", NULL, "%s",
                          cli->config != NULL ? cli->config : "the defaults");
    }
}

int tern_cli_doctor(struct tern_cli *cli)
{
    static struct tern_doctor doctor;
    doctor = (struct tern_doctor){.cli = cli,
                                  .settings = tern_state_settings(cli),
                                  .now_ms = tern_now_ms(),
                                  .waiting = {.wait = TERN_WAIT_COUNT},
                                  .findings = {.list = cli->json ? cJSON_CreateArray() : NULL}};
    check_settings(&doctor, cli);
    const bool can_look = tern_doctor_state(&doctor);
    tern_doctor_certificate(&doctor);
    if (can_look) {
        tern_doctor_database(&doctor); // first: the checks of the service use its results
        tern_doctor_service(&doctor);
    }
    return tern_doctor_conclude(&doctor);
}
