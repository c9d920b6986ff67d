#include "cli/waiting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void say(struct tern_waiting *waiting,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(waiting->sentence, sizeof waiting->sentence, format, arguments);
    va_end(arguments);
}

// --- The open round's members

// Keeps the few that were seen longest ago, the longest first.
static void keep(struct tern_waiting *waiting, const struct tern_db_client *client)
{
    uint32_t at = waiting->shown;
    while (at > 0 && waiting->members[at - 1].last_seen_ms > client->last_seen_ms) {
        at--;
    }
    if (at == TERN_WAITING_SHOWN) {
        return;
    }
    waiting->shown += waiting->shown < TERN_WAITING_SHOWN;
    memmove(&waiting->members[at + 1], &waiting->members[at],
            (waiting->shown - at - 1) * sizeof waiting->members[0]);
    waiting->members[at] = *client;
}

static enum tern_result load_members(struct tern_db *db, uint32_t round,
                                     struct tern_waiting *waiting)
{
    struct tern_db_assignment assignment;
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_assignments(db, round);
    while (tern_db_next(rows, &assignment)) {
        if (assignment.state != TERN_ASSIGNMENT_INVITED &&
            assignment.state != TERN_ASSIGNMENT_TASKED) {
            continue;
        }
        const enum tern_result found = tern_db_client_get(db, assignment.client, &client);
        if (found == TERN_OK && !client.revoked) {
            waiting->missing++;
            keep(waiting, &client);
        }
        tern_db_check_row(rows, found);
    }
    return tern_db_end(rows);
}

// --- Between rounds

struct trainers {
    uint32_t enrolled;
    uint32_t recent; // seen within round.eligible_within
};

static enum tern_result count_trainers(struct tern_db *db, uint64_t within_ms, uint64_t now_ms,
                                       struct trainers *trainers)
{
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients(db);
    while (tern_db_next(rows, &client)) {
        const bool trains = !client.evaluator && !client.revoked && client.last_seen_ms != 0;
        trainers->enrolled += trains;
        trainers->recent += trains && (within_ms == 0 || client.last_seen_ms + within_ms >= now_ms);
    }
    return tern_db_end(rows);
}

static enum tern_result between_rounds(const struct tern_aggregator_settings *settings,
                                       struct tern_db *db, const struct tern_status *status,
                                       uint64_t now_ms, struct tern_waiting *waiting)
{
    struct trainers trainers = {0};
    char text[TERN_TEXT];
    TERN_TRY(count_trainers(db, settings->round_eligible_within, now_ms, &trainers));
    const uint64_t opens_ms = status->round.opened_ms + settings->round_min_interval;
    if (settings->round_rounds != 0 && status->counts.rounds_committed >= settings->round_rounds) {
        say(waiting, "finished: round.rounds = %" PRIu32 " are done", settings->round_rounds);
    } else if (trainers.enrolled < settings->round_min_clients) {
        const uint32_t more = settings->round_min_clients - trainers.enrolled;
        say(waiting,
            "waiting for %" PRIu32 " more client%s that train%s: round.min_clients = %" PRIu32,
            more, more == 1 ? "" : "s", more == 1 ? "s" : "", settings->round_min_clients);
    } else if (trainers.recent == 0) {
        say(waiting, "waiting for a client: none was seen within round.eligible_within = %s",
            tern_text_duration(settings->round_eligible_within, text));
    } else if (status->round.round != 0 && opens_ms > now_ms) {
        say(waiting, "the next round opens in %s: round.min_interval",
            tern_text_duration(opens_ms - now_ms, text));
    } else {
        say(waiting, "the next round opens with the next check-in");
    }
    return TERN_OK;
}

// --- Public

enum tern_result tern_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                   const struct tern_status *status, uint64_t now_ms,
                                   struct tern_waiting *waiting)
{
    memset(waiting, 0, sizeof *waiting);
    if (tern_status_is_open(status)) {
        TERN_TRY(load_members(db, status->round.round, waiting));
        say(waiting, "round %" PRIu32 " waits for %" PRIu32 " of its members", status->round.round,
            waiting->missing);
    } else {
        TERN_TRY(between_rounds(tern_state_settings(cli), db, status, now_ms, waiting));
    }
    if (!tern_state_is_served(cli)) {
        char rest[sizeof waiting->sentence];
        memcpy(rest, waiting->sentence, sizeof rest);
        say(waiting, "the service is not running (`tern-aggregator serve`); %.180s", rest);
    }
    return TERN_OK;
}

void tern_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms)
{
    printf("Now         %s\n", waiting->sentence);
    for (uint32_t i = 0; i < waiting->shown; i++) {
        const struct tern_db_client *client = &waiting->members[i];
        char name[TERN_TEXT];
        char seen[TERN_TEXT];
        printf("            client %" PRIu64 " (%s), last seen %s\n", client->id,
               tern_text_name(client->name, name),
               tern_text_ago(client->last_seen_ms, now_ms, seen));
    }
    if (waiting->missing > waiting->shown) {
        printf("            and %" PRIu32 " more\n", waiting->missing - waiting->shown);
    }
}

void tern_waiting_json(cJSON *object, const struct tern_waiting *waiting)
{
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *ids = cJSON_AddArrayToObject(object, "silent_longest");
    for (uint32_t i = 0; i < waiting->shown; i++) {
        cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)waiting->members[i].id));
    }
}
