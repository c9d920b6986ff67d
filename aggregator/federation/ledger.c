#include "federation/ledger.h"

#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "store/store.h"
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TERN_DIRECTIVE_KEEP == (int)tern_ErrorDirective_ERROR_KEEP &&
                   (int)TERN_DIRECTIVE_DECAY == (int)tern_ErrorDirective_ERROR_DECAY &&
                   (int)TERN_DIRECTIVE_RESET == (int)tern_ErrorDirective_ERROR_RESET &&
                   (int)TERN_DIRECTIVE_STEP_AHEAD == (int)tern_ErrorDirective_ERROR_STEP_AHEAD &&
                   (int)TERN_DIRECTIVE_LIMIT == (int)tern_ErrorDirective_ERROR_LIMIT,
               "directives are sent without a conversion");
_Static_assert(TERN_ERROR_REASON_MAX <= TERN_DB_REASON_MAX, "a reason fits into its column");

// Time in which one kind of anomaly of a client is logged at most once.
#define AGAIN_MS 60000

// --- Rows

static bool has_content(const struct tern_db_ledger *row)
{
    return row->sequence > 0 || row->norm != 0.0F;
}

static struct tern_db_ledger *cached_row(struct tern_federation *federation, uint64_t id)
{
    return &federation->ledger[id % LEDGER_ROWS];
}

enum tern_result tern_ledger_read(struct tern_federation *federation, uint64_t id,
                                  struct tern_db_ledger *row)
{
    struct tern_db_ledger *kept = cached_row(federation, id);
    if (kept->client != id) {
        // A client that has not reported has no stored row.
        *row = (struct tern_db_ledger){.client = id};
        TERN_TRY(tern_db_may_miss(tern_db_ledger_get(federation->db, id, row)));
        *kept = *row;
    }
    *row = *kept;
    return TERN_OK;
}

static enum tern_result write_row(struct tern_federation *federation,
                                  const struct tern_db_ledger *row)
{
    TERN_TRY(tern_db_ledger_put(federation->db, row));
    *cached_row(federation, row->client) = *row;
    return TERN_OK;
}

// Returns the client's state for rounds/error_watch.h. A suspicion is in memory only: after a restart the client's next
// report raises it.
static struct tern_error_watch watch_of(struct tern_federation *federation,
                                        const struct tern_db_ledger *row)
{
    return (struct tern_error_watch){
        .known = row->generation != 0 || has_content(row),
        .last = {row->generation, row->sequence, row->norm != 0.0F},
        .previous_generation = row->previous_generation,
        .anomaly = (enum tern_error_anomaly)row->anomaly,
        .anomaly_generation = row->anomaly_generation,
        .suspicion = client_of(federation, row->client)->suspicion,
    };
}

static void store_watch(struct tern_federation *federation, const struct tern_error_watch *watch,
                        struct tern_db_ledger *row)
{
    row->previous_generation = watch->previous_generation;
    row->anomaly = (uint32_t)watch->anomaly;
    row->anomaly_generation = watch->anomaly_generation;
    client_of(federation, row->client)->suspicion = watch->suspicion;
}

// Whether to log this anomaly of the client: this kind was not logged within the last AGAIN_MS. Anomalies of other
// kinds do not suppress it.
static bool may_log(struct client *client, uint32_t anomaly, uint64_t now)
{
    const uint32_t bit = 1u << anomaly;
    if (now < client->anomalies_logged_ms || now - client->anomalies_logged_ms >= AGAIN_MS) {
        client->anomalies_logged = 0;
        client->anomalies_logged_ms = now;
    }
    const bool may = (client->anomalies_logged & bit) == 0;
    client->anomalies_logged |= bit;
    return may;
}

// Counts the row's anomaly and logs it, at most once a minute: a client that reports another buffer each time must not
// fill the log. before: the client's previous anomaly.
static void log_anomaly(struct tern_federation *federation, struct tern_db_ledger *row,
                        uint32_t before, uint64_t now)
{
    const bool again =
        row->anomaly == before && now >= row->anomaly_ms && now - row->anomaly_ms < AGAIN_MS;
    federation->counts.anomalies[row->anomaly]++;
    if (again || !may_log(client_of(federation, row->client), row->anomaly, now)) {
        return;
    }
    row->anomaly_ms = now;
    tern_log(TERN_LOG_WARN, "error-buffer", "client=%llu anomaly=%s generation=%08x sequence=%u",
             (unsigned long long)row->client, tern_error_anomaly_name(row->anomaly),
             (unsigned)row->generation, (unsigned)row->sequence);
}

// --- Reports of clients

// Ends the count of rounds that the client missed before its last decay or reset, if the report shows that the client
// applied that directive: its buffer contains a new update, or is a new buffer. A client that failed before it trained
// has not applied the directive.
static void reset_missed_rounds(struct tern_db_ledger *row, const tern_ErrorFacts *error)
{
    const bool moved = row->generation != error->generation || row->sequence != error->sequence;
    if (moved && row->ordered_round > 0) {
        row->missed_from = row->ordered_round;
        row->ordered_round = 0;
    }
}

static void take_report(struct tern_federation *federation, struct tern_db_ledger *row,
                        const tern_ErrorFacts *error, bool accepted, uint64_t now)
{
    struct tern_error_watch watch = watch_of(federation, row);
    const struct tern_error_report report = {
        .facts = {error->generation, error->sequence, error->norm != 0.0F},
        .accepted = accepted,
        .reset_was_ordered = row->directive == TERN_DIRECTIVE_RESET,
    };
    const uint32_t before = row->anomaly;
    const struct tern_error_verdict verdict = tern_error_watch_add_report(&watch, &report);
    store_watch(federation, &watch, row);
    if (verdict.applied) {
        reset_missed_rounds(row, error);
        row->generation = error->generation;
        row->sequence = error->sequence;
        row->norm = error->norm;
        row->maximum = error->maximum;
    }
    if (verdict.is_new) {
        log_anomaly(federation, row, before, now);
    }
}

static bool is_same(const struct tern_db_ledger *a, const struct tern_db_ledger *b)
{
    return a->generation == b->generation && a->sequence == b->sequence && a->norm == b->norm &&
           a->maximum == b->maximum && a->anomaly == b->anomaly &&
           a->anomaly_generation == b->anomaly_generation && a->anomaly_ms == b->anomaly_ms;
}

enum tern_result tern_ledger_record_checkin(struct tern_federation *federation, uint64_t id,
                                            const tern_ErrorFacts *error, uint64_t now)
{
    struct tern_db_ledger row;
    TERN_TRY(tern_ledger_read(federation, id, &row));
    const struct tern_db_ledger before = row;
    if (row.generation == 0 && !has_content(&row) && error->sequence == 0 && error->norm == 0.0F) {
        return TERN_OK; // a new client with an empty buffer needs no row
    }
    take_report(federation, &row, error, false, now);
    return is_same(&row, &before) ? TERN_OK : write_row(federation, &row);
}

enum tern_result tern_ledger_record_update(struct tern_federation *federation,
                                           const struct tern_incoming_update *update, uint64_t now)
{
    const tern_Update *message = &update->message;
    struct tern_db_ledger row;
    TERN_TRY(tern_ledger_read(federation, update->client, &row));
    if (message->has_error) {
        take_report(federation, &row, &message->error, true, now);
    }
    if (row.round != 0 && row.round != update->round) {
        TERN_TRY(tern_db_prune_last(federation->db, update->client, row.round));
    }
    row.round = update->round;
    // Not update->round, which may be an earlier round.
    row.missed_from = federation->machine.round + 1;
    row.ordered_round = 0;
    row.loss = message->loss;
    row.update_bytes = update->received;
    row.decay = tern_ledger_kept_fraction(message);
    return write_row(federation, &row);
}

enum tern_result tern_ledger_record_conflict(struct tern_federation *federation,
                                             const struct tern_incoming_update *update,
                                             uint64_t now)
{
    struct tern_db_ledger row;
    if (update->parsed != TERN_OK) {
        return TERN_OK; // the body is no update, so it shows nothing about the client's buffer
    }
    TERN_TRY(tern_ledger_read(federation, update->client, &row));
    struct tern_error_watch watch = watch_of(federation, &row);
    const uint32_t before = row.anomaly;
    const bool news = tern_error_watch_add_conflict(&watch);
    store_watch(federation, &watch, &row);
    if (news) {
        log_anomaly(federation, &row, before, now);
    }
    return write_row(federation, &row);
}

// --- Directives for clients

// Returns the number of rounds that the client missed since its last accepted update, or since its first task if no
// update was accepted. Rounds before a decay or reset that the client applied do not count. A round whose update came
// too late counts as missed, because the client put the update back into its buffer.
static uint32_t count_missed_rounds(const struct tern_federation *federation,
                                    const struct tern_db_ledger *row)
{
    const uint32_t round = federation->machine.round;
    const uint32_t updated = row->round > 0 ? row->round + 1 : 0;
    const uint32_t from = row->missed_from > updated ? row->missed_from : updated;
    return from > 0 && round > from ? round - from : 0;
}

// Whether the buffer may have changes that belong to versions which a restored round undid: the client has neither reported
// an update since, nor applied a reset that was ordered since. Devices of a gateway have buffers of their own, which a reset of
// an empty one reaches.
static bool is_undone(const struct tern_federation *federation, const struct tern_db_ledger *row)
{
    const struct client *client = client_of(federation, row->client);
    const bool passes_on = (client->row.abilities & TERN_WIRE_PASSES_RESETS) != 0 &&
                           (row->round > 0 || row->missed_from > 0);
    return federation->restored_round > 0 && (row->norm != 0.0F || passes_on) &&
           row->round <= federation->restored_round &&
           row->missed_from <= federation->restored_round;
}

// Starts the count of missed rounds at the client's first task, and whenever its buffer is empty. Stores the round of a
// decay or reset, for reset_missed_rounds().
static void note_rounds(const struct tern_federation *federation, struct tern_db_ledger *row,
                        const struct tern_error_buffer_state *state,
                        enum tern_error_directive directive)
{
    const bool first = row->missed_from == 0 && row->round == 0;
    const bool counts = (state->missed > 0 || state->undone) &&
                        (directive == TERN_DIRECTIVE_DECAY || directive == TERN_DIRECTIVE_RESET);
    const bool empty = state->empty && !state->undone; // an undone one of a gateway has devices
    if (first || (empty && state->missed > 0)) {
        row->missed_from = federation->machine.round;
    }
    row->ordered_round = counts && !empty ? federation->machine.round : 0;
}

// Stores the row if the decision changed it. before: the stored row. known: the client has reported a buffer; otherwise
// the row keeps no directive.
static enum tern_result store_decision(struct tern_federation *federation,
                                       const struct tern_db_ledger *before,
                                       const struct tern_error_choice *choice, bool known,
                                       struct tern_db_ledger *row)
{
    const bool same = row->directive == (uint32_t)choice->directive &&
                      row->factor == choice->factor && strcmp(row->reason, choice->reason) == 0;
    if (row->missed_from == before->missed_from && row->ordered_round == before->ordered_round &&
        (!known || same)) {
        return TERN_OK;
    }
    if (known) {
        row->directive = (uint32_t)choice->directive;
        row->factor = choice->factor;
        memcpy(row->reason, choice->reason, sizeof choice->reason);
    }
    return write_row(federation, row);
}

enum tern_result tern_ledger_choose_directive(struct tern_federation *federation,
                                              const struct tern_error_settings *settings,
                                              struct tern_member *member)
{
    struct tern_db_ledger row;
    if (member->state == TERN_MEMBER_TASKED) {
        return TERN_OK;
    }
    TERN_TRY(tern_ledger_read(federation, member->client, &row));
    const struct tern_error_watch watch = watch_of(federation, &row);
    const struct tern_error_buffer_state state = {
        .must_reset = tern_error_watch_must_reset(&watch),
        .undone = is_undone(federation, &row),
        .empty = row.norm == 0.0F,
        .no_step_ahead =
            (client_of(federation, member->client)->row.abilities & TERN_WIRE_STEPS_AHEAD) == 0,
        .missed = count_missed_rounds(federation, &row),
    };
    if (member->local_steps != 0 && !state.must_reset) {
        // The member was replaced and returned in the same round: its task stays the same.
        return TERN_OK;
    }
    const struct tern_error_choice choice = tern_error_policy_choose(settings, &state);
    federation->counts.directives[choice.directive]++;
    member->directive = (uint32_t)choice.directive;
    member->factor = choice.factor;
    const struct tern_db_ledger before = row;
    note_rounds(federation, &row, &state, choice.directive);
    return store_decision(federation, &before, &choice, watch.known, &row);
}
