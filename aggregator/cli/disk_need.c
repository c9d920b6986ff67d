#include "cli/disk_need.h"

#include "cli/derived.h"
#include "cli/spending.h"
#include "cli/state.h"
#include "store/store.h"
#include <stdio.h>

// An empty database, and the rows of each round that pruning keeps: the round, its sums, its version.
#define EMPTY_BYTES (512.0 * 1024)
#define ROUND_BYTES 600.0
// Database row of an update and its task, without tensors; number of rounds for which these rows are
// kept.
#define ROW_BYTES 400.0
#define ROW_ROUNDS 16.0
// Clients' own replicas are kept as differences, with their downloads (docs/OPERATIONS.md, "Sizing").
#define REPLICA_SHARE 1.25
// The log and the reserve take at most a fifth of the total.
#define LOG_FACTOR 1.25
// Assumed number of rounds where no setting limits them.
#define ENDLESS_ROUNDS 1000.0

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

// Two checkpoints of the model, the current one and the next: weights, replica and states.
static double of_weights(const struct tern_federation_config *config, double model_bytes)
{
    double vectors = 2;
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        vectors += config->strategy->states[i].name != NULL;
    }
    return 2 * vectors * model_bytes;
}

static double of_updates(const struct tern_aggregator_settings *s,
                         const struct tern_federation_config *config, double update_bytes,
                         double clients)
{
    const double cohort = most(config->round.cohort, config->round.fraction * clients);
    const double round = least(cohort * (1 + config->round.over_selection), clients) * update_bytes;
    const double limit = (double)s->limits_history_bytes;
    double history = s->round_rounds > 0 ? s->round_rounds * round : limit;
    if (limit > 0) {
        history = least(history, limit);
    } else if (s->round_rounds == 0) {
        history = ENDLESS_ROUNDS * round;
    }
    return 2 * round + history;
}

static double of_downloads(const struct tern_aggregator_settings *s, double rounds, double clients,
                           double download_bytes, double model_bytes)
{
    const double trunk = least(rounds, s->limits_keep_versions) * download_bytes;
    const double own = clients * REPLICA_SHARE * model_bytes;
    return least(trunk + own, (double)tern_derived_limits(s).replica_bytes);
}

static enum tern_result measure(struct tern_db *db, uint64_t *has)
{
    struct tern_db_room room;
    uint64_t file = 0;
    TERN_TRY(tern_db_room(db, &room));
    TERN_TRY(tern_db_bytes(db, &file));
    *has = room.free == UINT64_MAX ? UINT64_MAX : room.free + room.reserve + file;
    return TERN_OK;
}

uint64_t tern_disk_need_bytes(const struct tern_aggregator_settings *s,
                              const struct tern_federation_config *config,
                              const struct tern_model *model, uint64_t enrolled)
{
    const struct tern_spending spending = tern_spending_of(s, config, model);
    const double clients = most((double)enrolled, config->min_clients);
    const double rounds = s->round_rounds > 0 ? s->round_rounds : ENDLESS_ROUNDS;
    const double model_bytes = 4.0 * model->count;
    const double cohort = least(clients, most(config->round.cohort, 1));
    const double bytes = EMPTY_BYTES + rounds * ROUND_BYTES + ROW_ROUNDS * cohort * ROW_BYTES +
                         of_weights(config, model_bytes) +
                         of_updates(s, config, spending.up + ROW_BYTES, clients) +
                         of_downloads(s, rounds, clients, spending.down, model_bytes);
    return (uint64_t)least(bytes * LOG_FACTOR, 9e18);
}

enum tern_result tern_disk_need_of(const struct tern_aggregator_settings *s,
                                   const struct tern_federation_config *config,
                                   const struct tern_model *model, struct tern_db *db,
                                   struct tern_disk_need *need)
{
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    need->need = tern_disk_need_bytes(s, config, model, counts.clients);
    return measure(db, &need->has);
}

bool tern_disk_need_is_short(const struct tern_disk_need *need, char text[TERN_DISK_NEED_MAX])
{
    char has[TERN_TEXT];
    char needs[TERN_TEXT];
    snprintf(text, TERN_DISK_NEED_MAX,
             "the disk has %s for the database, and this federation needs about %s by its model, "
             "clients, codecs and limits",
             tern_text_bytes((double)need->has, has), tern_text_bytes((double)need->need, needs));
    return need->need > need->has;
}
