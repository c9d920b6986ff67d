#include "cli/manager.h"

#include "hosted/clock.h"
#include "hosted/notify.h"
#include <inttypes.h>
#include <stdio.h>

#define DAY_MS 86400000u
#define STATUS_MS 30000u

uint64_t tern_manager_wait_ms(void)
{
    const uint64_t watchdog_ms = tern_notify_watchdog_ms();
    const uint64_t wait_ms = tern_notify_is_wanted() ? STATUS_MS : DAY_MS;
    return watchdog_ms != 0 && watchdog_ms / 3 < wait_ms ? watchdog_ms / 3 : wait_ms;
}

static void say_status(const struct tern_service_facts *facts, char text[256])
{
    const struct tern_round_machine *round = &facts->federation.machine;
    if (!facts->stores) {
        snprintf(text, 256, "nothing can be stored, see the log");
    } else if (round->open) {
        snprintf(text, 256,
                 "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates; %" PRIu64 " clients",
                 round->round, round->reported, round->target, (uint64_t)facts->federation.clients);
    } else {
        snprintf(text, 256, "no round is open; version %" PRIu32 ", %" PRIu64 " clients",
                 facts->federation.version, (uint64_t)facts->federation.clients);
    }
}

bool tern_manager_lives(struct tern_manager *manager)
{
    const uint64_t service_turns = tern_service_turns(manager->service);
    const uint64_t server_turns = tern_http_turns(manager->server);
    const bool lives =
        service_turns != manager->service_turns && server_turns != manager->server_turns;
    if (lives) {
        manager->service_turns = service_turns;
        manager->server_turns = server_turns;
    }
    return lives;
}

void tern_manager_tell(struct tern_manager *manager)
{
    struct tern_service_facts facts;
    char text[256];
    if (!tern_notify_is_wanted()) {
        return;
    }
    tern_service_facts(manager->service, &facts);
    say_status(&facts, text);
    tern_notify("STATUS=%s\n%s", text, tern_manager_lives(manager) ? "WATCHDOG=1\n" : "");
}

void tern_manager_ready(struct tern_manager *manager)
{
    tern_notify("READY=1\n");
    tern_manager_tell(manager);
}

void tern_manager_reloading(void)
{
    tern_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", tern_monotonic_ms() * 1000);
}

void tern_manager_reloaded(void)
{
    tern_notify("READY=1\n");
}

void tern_manager_stopping(void)
{
    tern_notify("STOPPING=1\nSTATUS=finishes what is under way\n");
}
