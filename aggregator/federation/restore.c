// The rounds so far, and what is open of the last one, from the store.
#include "federation/internal.h"

static void load_round(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_round_restore(&federation->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    tern_rate_opened(&federation->rate, row->decays);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_round_close(&federation->machine, row->closed_ms);
        federation->last_loss = row->mean_loss;
        tern_round_learnt(&federation->machine, row->base_version, tern_db_round_loss(row));
        tern_drift_follow(federation, row);
    }
    federation->row = *row;
}

// Better told at the start than at the commit. TERN_ERR_UNKNOWN
static enum tern_result check_open_round(const struct tern_db_round *row)
{
    struct tern_codec codec;
    struct tern_strategy_rule rule;
    bool known = tern_rule_read(row, &rule) == TERN_OK &&
                 tern_codec_parse(row->codec_up, &codec, NULL) == TERN_OK &&
                 tern_codec_parse(row->codec_down, &codec, NULL) == TERN_OK;
    return known ? TERN_OK : TERN_ERR_UNKNOWN;
}

// Nothing lies in the future: the clock may have been set while the machine was off, or a time be that of
// another row than the last.
static void bound_clock(struct tern_federation *federation, uint64_t now)
{
    struct clients *clients = &federation->clients;
    tern_round_bound_clock(&federation->machine, now);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        const uint64_t seen = client->row.last_seen_ms;
        tern_clients_move_seen(client, seen < now ? seen : now);
    }
}

static enum tern_result load_open_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    TERN_TRY(check_open_round(&federation->row));
    if (machine->policy.fraction > 0.0 && machine->target > machine->policy.cohort) {
        machine->policy.cohort = machine->target; // the share that it began with
    }
    TERN_TRY(tern_merge_resume(&federation->merge, federation->db, &federation->row,
                               &federation->totals));
    machine->buffers = federation->totals.rule.strategy->takes_late;
    tern_epoch_load(federation);
    TERN_TRY(tern_members_load(federation));
    tern_round_buffered(machine, federation->totals.updates - machine->reported);
    return TERN_OK;
}

enum tern_result tern_restore_rounds(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy policy = federation->config.round;
    policy.seed = federation->about.seed;
    federation->prune_due = true; // what was begun before
    federation->room_due = true;
    tern_steps_course_init(&federation->course, &federation->config.steps);
    tern_round_init(&federation->machine, &policy, federation->machine.members,
                    federation->machine.member_capacity);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        tern_round_joined(&federation->machine, federation->clients.list[i].row.created_ms);
    }
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(federation->db);
    while (tern_db_next(rows, &row)) {
        load_round(federation, &row);
    }
    TERN_TRY(tern_db_end(rows));
    tern_merge_stop(&federation->merge);
    TERN_TRY(federation->machine.open ? load_open_round(federation) : TERN_OK);
    bound_clock(federation, now);
    // Members may not have been able to come while nothing was served.
    federation->loaded_ms = now;
    return TERN_OK;
}

// --- While it runs

// Never a later deadline: memory's may have been bounded since it was stored.
enum tern_result tern_federation_reload_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round stored;
    if (!machine->open) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(federation->db, machine->round, &stored));
    if (stored.deadline_ms >= machine->deadline_ms) {
        return TERN_OK;
    }
    machine->deadline_ms = stored.deadline_ms;
    machine->quorum = stored.quorum;
    federation->row.deadline_ms = stored.deadline_ms;
    federation->row.quorum = stored.quorum;
    tern_log(TERN_LOG_INFO, "round-ended-by-hand", "round=%u updates=%u", machine->round,
             machine->reported);
    return TERN_OK;
}

enum tern_result tern_federation_set_clock(struct tern_federation *federation, int64_t step)
{
    struct clients *clients = &federation->clients;
    tern_round_set_clock(&federation->machine, step);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.closed_ms = tern_round_moved_ms(federation->row.closed_ms, step);
    federation->retry_open_ms = 0;
    federation->look_ms = 0;
    federation->loaded_ms = tern_round_moved_ms(federation->loaded_ms, step);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        tern_clients_move_seen(client, tern_round_moved_ms(client->row.last_seen_ms, step));
        client->absent_ms = tern_round_moved_ms(client->absent_ms, step);
        client->dirty = true;
    }
    TERN_TRY(tern_db_replicas_set_clock(federation->db, step));
    TERN_TRY(tern_db_statistics_set_clock(federation->db, step));
    federation->scaling.first_ms = tern_round_moved_ms(federation->scaling.first_ms, step);
    if (federation->machine.round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return federation->machine.open ? tern_members_store_all(federation) : TERN_OK;
}
