// The rounds so far, and what is open of the last one, from the store.
#include "federation/internal.h"

#include <string.h>

static void load_round(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_round_restore(&federation->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_round_close(&federation->machine, row->closed_ms);
        federation->last_loss = row->mean_loss;
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

enum tern_result tern_restore_rounds(struct tern_federation *federation)
{
    struct tern_round_policy policy = federation->config.round;
    policy.seed = federation->about.seed;
    federation->last_loss = 0.0F;
    federation->prune_due = true; // what was begun before
    tern_steps_course_init(&federation->course, &federation->config.steps);
    tern_round_init(&federation->machine, &policy, federation->machine.members,
                    federation->machine.member_capacity);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        tern_round_joined(&federation->machine, federation->clients.list[i].row.created_ms);
    }
    memset(&federation->row, 0, sizeof federation->row);
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(federation->db);
    while (tern_db_next(rows, &row)) {
        load_round(federation, &row);
    }
    TERN_TRY(tern_db_end(rows));
    memset(&federation->totals, 0, sizeof federation->totals);
    tern_merge_stop(&federation->merge);
    if (!federation->machine.open) {
        return TERN_OK;
    }
    TERN_TRY(check_open_round(&federation->row));
    if (policy.fraction > 0.0 && federation->machine.target > policy.cohort) {
        federation->machine.policy.cohort =
            federation->machine.target; // the share that it began with
    }
    TERN_TRY(tern_merge_count(federation->db, &federation->row, &federation->totals));
    tern_merge_open(&federation->merge, &federation->totals.rule);
    federation->machine.buffers = federation->totals.rule.strategy->takes_late;
    TERN_TRY(tern_members_load(federation));
    tern_round_buffered(&federation->machine,
                        federation->totals.updates - federation->machine.reported);
    return TERN_OK;
}
