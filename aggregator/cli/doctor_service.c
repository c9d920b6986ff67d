#include "admin/above.h"
#include "cli/doctor_checks.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SERVICE "service"
#define LIMITS "limits"
#define ABOVE "above"

// --- What it says of itself

static void check_ready(struct tern_doctor *doctor, long process)
{
    char why[256];
    char name[48] = "it runs";
    if (process != 0) {
        snprintf(name, sizeof name, "it runs as process %ld", process);
    }
    switch (tern_readiness_ask(doctor->settings, why)) {
    case TERN_READINESS_BAD:
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
                          tern_readiness_advice(why), "%s, but %s", name, why);
        break;
    case TERN_READINESS_GOOD:
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s, and stores what comes", name);
        break;
    case TERN_READINESS_SILENT:
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, SERVICE,
                          "ask again; if it stays so, look into the log and restart it",
                          "%s, but admin.address does not answer within %d s", name,
                          TERN_READINESS_PATIENCE_S);
        break;
    case TERN_READINESS_UNKNOWN:
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s; admin.address says no more of it", name);
        break;
    }
}

// Of a gateway that runs.
static void check_above(struct tern_doctor *doctor)
{
    struct tern_service_above above;
    char text[TERN_ABOVE_MAX];
    tern_gateway_above(doctor->cli, &above);
    if (above.silent_ms != 0) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, ABOVE, tern_above_advice(&above),
                          "%s", tern_above_sentence(&above, doctor->now_ms, text));
    } else if (above.is_known) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, ABOVE, NULL,
                          "the aggregator above answers this gateway");
    }
}

// --- What it may have

// The hard limit of open files of a process; of this one where that cannot be read.
static uint64_t file_limit(long process)
{
    char path[64];
    char line[256];
    unsigned long long hard = 0;
    struct rlimit own;
    snprintf(path, sizeof path, "/proc/%ld/limits", process);
    FILE *limits = process != 0 ? fopen(path, "re") : NULL;
    while (limits != NULL && hard == 0 && fgets(line, sizeof line, limits) != NULL) {
        (void)sscanf(line, "Max open files %*s %llu", &hard);
    }
    if (limits != NULL) {
        fclose(limits);
    }
    if (hard == 0 && getrlimit(RLIMIT_NOFILE, &own) == 0) {
        hard = own.rlim_max;
    }
    return hard;
}

static void check_files(struct tern_doctor *doctor, long process)
{
    const uint64_t clients = doctor->status.counts.clients;
    const uint64_t needed = tern_cli_files_needed(doctor->settings, clients);
    const uint64_t limit = file_limit(process);
    const char *whose = process != 0 ? "the service" : "a service that is started from here";
    if (limit < needed) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_WARNING, LIMITS,
            "raise LimitNOFILE of the unit or ulimit -Hn, or lower limits.connections",
            "%s may have %" PRIu64 " files open, and %" PRIu64 " client%s need%s %" PRIu64, whose,
            limit, clients, clients == 1 ? "" : "s", clients == 1 ? "s" : "", needed);
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, LIMITS, NULL,
                          "%s may have as many files open as its clients need", whose);
    }
}

// The rounds are done, or losses have ended the federation: only a client that arrives late needs the
// service.
static bool is_over(const struct tern_doctor *doctor)
{
    return doctor->waiting.wait == TERN_WAIT_FINISHED || doctor->waiting.wait == TERN_WAIT_ENDED;
}

void tern_doctor_service(struct tern_doctor *doctor)
{
    const long process = tern_state_server(doctor->cli);
    const bool gateway = tern_gateway_is_one(doctor->cli);
    if (!tern_state_is_served(doctor->cli) && is_over(doctor)) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "the service is not running, and nothing needs it: %s",
                          doctor->waiting.sentence);
    } else if (!tern_state_is_served(doctor->cli)) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
            gateway ? "`tern-aggregator relay`; why it ended is in its log"
                    : "systemctl start tern-aggregator, or `tern-aggregator serve`; why it ended "
                      "is in its log: journalctl -u tern-aggregator",
            "the %s is not running", gateway ? "gateway" : "service");
    } else {
        check_ready(doctor, process);
        check_above(doctor);
    }
    check_files(doctor, process);
}
