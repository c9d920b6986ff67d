// Updates: read by the thread that received them, then counted in the open round, or compared with
// what is stored.
#include "federation/internal.h"
#include "federation/ledger.h"
#include <stdlib.h>
#include <string.h>

// --- Reading

static enum tern_result read_values(struct tern_federation *federation,
                                    struct tern_incoming *update)
{
    struct tern_codec_info info;
    TERN_TRY(tern_reading_make(&federation->readings, &federation->merge.model,
                               update->container.data, update->container.len, &info,
                               &update->reading));
    update->sum_square = info.sum_square;
    return info.skipped_nonzero == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// What is cheap goes first: the container is read only of an update that may count. One that comes
// again needs its indices back, no more, since it is compared by its hash.
static enum tern_result read_body(struct tern_federation *federation, struct tern_incoming *update)
{
    struct tern_standing standing =
        tern_published_standing(&federation->published, update->client, update->round);
    update->unread = standing.verdict != TERN_OK;
    TERN_TRY(tern_wire_decode_update(update->body.data, update->body.len, &update->message,
                                     &update->container));
    update->payload = (uint32_t)update->container.len;
    if (update->message.shared_indices) {
        bool wanted = !update->unread || standing.reported;
        TERN_TRY(wanted ? tern_share_join(federation, update) : TERN_ERR_STATE);
    }
    return update->unread ? TERN_OK : read_values(federation, update);
}

void tern_federation_read_update(struct tern_federation *federation, struct tern_incoming *update)
{
    update->received = (uint32_t)update->body.len;
    tern_sha256(update->body.data, update->body.len, update->sha256);
    update->parsed = read_body(federation, update);
}

void tern_federation_read_values(struct tern_federation *federation, struct tern_incoming *update)
{
    if (update->parsed == TERN_OK) {
        update->parsed = read_values(federation, update);
    }
}

void tern_incoming_clear(struct tern_incoming *update)
{
    free(update->joined);
    tern_reading_free(update->reading);
    update->joined = NULL;
    update->reading = NULL;
}

bool tern_federation_knows(struct tern_federation *federation, uint32_t round)
{
    return tern_published_standing(&federation->published, 0, round).verdict !=
           TERN_ERR_UNKNOWN_ROUND;
}

enum tern_result tern_federation_expects(struct tern_federation *federation, uint64_t client,
                                         uint32_t round)
{
    const enum tern_result verdict =
        tern_published_standing(&federation->published, client, round).verdict;
    const bool is_for_nothing =
        verdict == TERN_ERR_UNKNOWN_ROUND || verdict == TERN_ERR_NOT_IN_COHORT;
    return is_for_nothing ? verdict : TERN_OK;
}

// --- Counting

static enum tern_result accept(struct tern_federation *federation,
                               const struct tern_incoming *update, struct tern_member *member,
                               uint64_t now)
{
    struct client *client = client_of(federation, update->client);
    TERN_TRY(tern_update_take(federation, update, member, 0, now));
    TERN_TRY(tern_epoch_reported(federation, update->client));
    tern_share_publish(federation, update, now);
    tern_round_reported(&federation->machine, member, now);
    member->decay = tern_ledger_decay(&update->message);
    TERN_TRY(tern_members_store(federation, member));
    if (update->message.has_evaluation) {
        TERN_TRY(
            tern_held_out_take(federation, update->client, member, &update->message.evaluation));
    }
    tern_drift_note(client, &update->message, update->sum_square);
    tern_budgets_spend(client);
    return TERN_OK;
}

// The round is closed, or the client has reported: what is stored under the key decides.
static enum tern_result compare_stored(struct tern_federation *federation,
                                       const struct tern_incoming *update, uint64_t now,
                                       bool *duplicate, struct tern_refusal *refusal)
{
    struct tern_db_update stored;
    enum tern_result found =
        tern_db_update_find(federation->db, update->round, update->client, &stored);
    if (found == TERN_ERR_NOT_FOUND) {
        return tern_update_late(federation, update, now, refusal);
    }
    TERN_TRY(found);
    bool same = memcmp(stored.sha256, update->sha256, TERN_SHA256_SIZE) == 0;
    if (!same) {
        TERN_TRY(tern_share_same(federation, update, &same));
    }
    *duplicate = same;
    if (same) {
        return tern_update_again(federation, update->client, update->round);
    }
    TERN_TRY(tern_ledger_conflict(federation, update, now));
    tern_refusals_refuse(federation, update, TERN_ERR_CONFLICT, refusal);
    return TERN_OK;
}

enum tern_result tern_federation_update(struct tern_federation *federation,
                                        const struct tern_incoming *update, uint64_t now,
                                        bool *duplicate, struct tern_refusal *refusal)
{
    *duplicate = false;
    enum tern_result verdict =
        tern_round_update(&federation->machine, update->client, update->round);
    if (verdict == TERN_ERR_LATE || verdict == TERN_ERR_CONFLICT) {
        return compare_stored(federation, update, now, duplicate, refusal);
    }
    if (verdict == TERN_OK && update->unread) {
        // It guessed what its task would be before the answer with that task was sent.
        tern_refuse(refusal, TERN_ERR_BUSY, NULL);
        return TERN_OK;
    }
    struct tern_member *member = tern_round_member(&federation->machine, update->client);
    if (verdict == TERN_OK) {
        verdict = tern_update_check(federation, update, member);
    }
    if (verdict != TERN_OK) {
        tern_share_refused(federation, update->client);
        tern_refusals_refuse(federation, update, verdict, refusal);
        return tern_refusals_are_of_values(verdict)
                   ? tern_reliability_drop(federation, update->client, update->round,
                                           tern_TrainingFailure_FAILURE_NOT_FINITE)
                   : TERN_OK;
    }
    return accept(federation, update, member, now);
}

enum tern_result tern_federation_stored(struct tern_federation *federation, uint64_t client,
                                        uint32_t round, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db_update stored;
    TERN_TRY(tern_db_update_find(federation->db, round, client, &stored));
    memcpy(sha256, stored.sha256, TERN_SHA256_SIZE);
    return tern_update_again(federation, client, round);
}
