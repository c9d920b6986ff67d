// Stopping for good. A batch that fails because of the disk, of memory or of another writer is
// tried again by whoever sent it. A damaged file, or updates of the open round that are no longer
// what was acknowledged, does not get better by trying, and going on without them would drop what
// clients have been told is counted. So nothing is written any more, and the operator is told. The same
// where another aggregator serves the database by now.
#include "service/internal.h"

#include <stdio.h>

bool tern_service_is_halted(const struct tern_service *service)
{
    return atomic_load(&service->halted);
}

static void tell(struct tern_service *service)
{
    tern_log(TERN_LOG_ERROR, tern_db_is_displaced(service->db) ? "displaced" : "halted", "why=%s",
             TERN_LOG_TEXT(service->halt_why));
    if (service->config.on_halted != NULL) {
        service->config.on_halted(service->config.halted_ctx);
    }
}

// Empty when nothing is damaged.
static void explain(struct tern_service *service)
{
    const char *damage = tern_federation_damage(service->federation);
    if (damage == NULL && (tern_db_is_displaced(service->db) || tern_db_damaged(service->db))) {
        damage = tern_db_error(service->db);
    }
    snprintf(service->halt_why, sizeof service->halt_why, "%s", damage != NULL ? damage : "");
}

static void (*answer_of(const struct tern_service *service))(struct request *)
{
    return tern_db_is_displaced(service->db) ? tern_answer_displaced : tern_answer_halted;
}

void tern_service_answer_halted(const struct tern_service *service, struct request *request)
{
    answer_of(service)(request);
}

bool tern_service_halt_if_needed(struct tern_service *service)
{
    explain(service);
    if (service->halt_why[0] == '\0') {
        return false;
    }
    tern_service_let_all_go(service);
    tern_service_answer_failed(service, answer_of(service));
    atomic_store(&service->halted, true);
    tell(service);
    return true;
}

bool tern_service_halted(struct tern_service *service, char why[256])
{
    if (!tern_service_is_halted(service)) {
        return false;
    }
    snprintf(why, 256, "%s", service->halt_why);
    return true;
}
