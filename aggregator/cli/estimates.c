#include "cli/estimates.h"

#include "cli/serve_config.h"
#include "cli/state.h"
#include "codec/plan.h"
#include "hosted/log.h"
#include "meter/meter.h"
#include "rounds/selection.h"
#include "secure/round.h"
#include "store/store.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

// --- Bytes of clients

#define DAY_MS 86400000.0

// HTTP exchanges of a client in a round: a check-in, whose reply includes the downloads of most models, and an upload.
#define EXCHANGES 2
// Bytes of a round's protocol messages: check-in 25, task with one download 82, update 43, reply to the update 6
// (docs/BENCHMARKS.md, "Bytes beside the bodies").
#define MESSAGES 156

// Returns the bytes of a model's tensors with a codec; dense tensors are sent as float32.
static double tensor_bytes(const struct tern_model *model, const struct tern_codec *codec)
{
    double bits = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (tern_segment_is_coded(segment)) {
            bits += segment->count * tern_codec_bits(codec);
        } else if (!tern_segment_is_skipped(segment)) {
            bits += segment->count * 32.0;
        }
    }
    return bits / 8;
}

// Returns the mean bytes of a round from those of early and later rounds. In a federation without end, early rounds do not
// count.
static double mean_over_rounds(const struct tern_federation_config *config, double early,
                               double later)
{
    const double rounds = config->round.rounds;
    const double share = rounds > 0 ? config->early.rounds / rounds : 0;
    return later + (share < 1 ? share : 1) * (early - later);
}

// Returns the bytes of a masked update, in which every value has the same bits whatever the codec.
static double masked_bytes(const struct tern_federation_config *config,
                           const struct tern_model *model)
{
    const struct tern_secure_settings *secure = &config->secure;
    const struct tern_secure_round round = {
        .cohort = tern_cohort_size(config->round.cohort, 0.0, UINT32_MAX),
        .groups = secure->groups,
        .level = 1,
        .noise = secure->noise,
        .places_max = secure->noise > 0 ? tern_secure_places(secure, model->count) : 0,
        .scale_count = tern_masked_tensors(model),
    };
    return (double)model->count * tern_secure_bits(&round) / 8 / secure->share;
}

static double update_bytes(const struct tern_federation_config *config,
                           const struct tern_model *model)
{
    return config->secure.enabled ? masked_bytes(config, model)
                                  : mean_over_rounds(config, tensor_bytes(model, &config->early.up),
                                                     tensor_bytes(model, &config->codec_up));
}

struct tern_spending tern_spending_estimate(const struct tern_aggregator_settings *s,
                                            const struct tern_federation_config *config,
                                            const struct tern_model *model)
{
    struct tern_spending spending = {
        .update_bytes = update_bytes(config, model),
        .download_bytes = mean_over_rounds(config, tensor_bytes(model, &config->early.down),
                                           tensor_bytes(model, &config->downloads.codec)),
        .interval_ms = tern_serve_config_interval_ms(s),
        .rounds = s->round_rounds,
    };
    const bool kept = spending.interval_ms < s->limits_idle;
    const uint32_t exchanges = EXCHANGES + (spending.download_bytes > TERN_PRICE_INLINE_MAX);
    spending.round_bytes =
        (double)tern_price(kept ? TERN_PRICE_KEPT : TERN_PRICE_RESUMED, exchanges,
                           (uint64_t)(spending.update_bytes + spending.download_bytes) + MESSAGES);
    if (spending.interval_ms >= TERN_PAUSE_MS) {
        spending.day_bytes = spending.round_bytes * DAY_MS / (double)spending.interval_ms;
    }
    const bool ends = s->round_rounds > 0 || s->round_patience > 0;
    if (ends && config->final_model == TERN_FINAL_MODEL_ALL) {
        spending.final_model_bytes =
            (double)tern_price(TERN_PRICE_KEPT, 1, 4 * (uint64_t)model->count);
    }
    return spending;
}

bool tern_codecs_are_exact(const struct tern_aggregator_settings *s)
{
    const char *down = s->codec_codec_down[0] != '\0' ? s->codec_codec_down : s->codec_codec;
    return strcmp(s->codec_codec, "float32") == 0 && strcmp(down, "float32") == 0;
}

// Sets *round to the bytes of a round with this codec.accuracy. Returns false if the settings are then refused.
static bool estimate_accuracy(struct tern_cli *cli, const struct tern_federation_config *config,
                              const struct tern_model *model, const char *accuracy, double *round)
{
    struct tern_aggregator_settings other = *tern_state_settings(cli);
    struct tern_federation_config changed = *config;
    snprintf(other.codec_accuracy, sizeof other.codec_accuracy, "%s", accuracy);
    if (tern_serve_config_fill_codecs(cli, &other, model->count, &changed) != TERN_EXIT_OK) {
        return false;
    }
    *round = tern_spending_estimate(&other, &changed, model).round_bytes;
    return true;
}

struct tern_spending_accuracies tern_spending_accuracies(struct tern_cli *cli,
                                                         const struct tern_model *model)
{
    static struct tern_service_config config;
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    struct tern_spending_accuracies all = {.count = 0};
    double least = 0;
    double most = 0;
    memset(&config, 0, sizeof config);
    if (tern_serve_config_read(cli, &config) != TERN_EXIT_OK) {
        return all;
    }
    for (size_t i = 0; tern_serve_config_accuracy(i) != NULL && i < TERN_SPENDING_ACCURACIES; i++) {
        const char *accuracy = tern_serve_config_accuracy(i);
        double round;
        if (!estimate_accuracy(cli, &config.federation, model, accuracy, &round)) {
            return (struct tern_spending_accuracies){.count = 0};
        }
        least = i == 0 || round < least ? round : least;
        most = round > most ? round : most;
        all.list[all.count].accuracy = accuracy;
        all.list[all.count].round_bytes = round;
        all.list[all.count++].is_set = strcmp(accuracy, s->codec_accuracy) == 0;
    }
    all.count = least < most ? all.count : 0;
    return all;
}

// --- Output

const char *tern_spending_accuracies_text(const struct tern_spending_accuracies *all,
                                          char text[TERN_SPENDING_OTHERS])
{
    char size[TERN_TEXT];
    char set[TERN_SPENDING_OTHERS] = "";
    char others[TERN_SPENDING_OTHERS] = "";
    for (size_t i = 0; i < all->count; i++) {
        const size_t len = strlen(others);
        tern_text_bytes(all->list[i].round_bytes, size);
        if (all->list[i].is_set) {
            snprintf(set, sizeof set, "%s, about %s", all->list[i].accuracy, size);
        } else {
            snprintf(others + len, sizeof others - len, "%s%s %s", len > 0 ? ", " : "",
                     all->list[i].accuracy, size);
        }
    }
    text[0] = '\0';
    if (all->count > 0) {
        snprintf(text, TERN_SPENDING_OTHERS, "%.60s a client and round (%.160s)", set, others);
    }
    return text;
}

cJSON *tern_spending_accuracies_json(const struct tern_spending_accuracies *all)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < all->count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "accuracy", all->list[i].accuracy);
        tern_json_u64(one, "round", (uint64_t)all->list[i].round_bytes);
        tern_json_bool(one, "in_force", all->list[i].is_set);
        cJSON_AddItemToArray(list, one);
    }
    return list;
}

void tern_spending_log(const struct tern_spending *spending)
{
    tern_log(TERN_LOG_INFO, "spending",
             "estimate=yes round_bytes=%.0f day_bytes=%.0f min_interval_ms=%" PRIu64
             " rounds=%" PRIu32,
             spending->round_bytes, spending->day_bytes, spending->interval_ms, spending->rounds);
}

// --- Time of a round

// Nanoseconds of one 3.1 GHz core for each value of one client's downloads (docs/SCALE.md, "Constants").
#define SHARED_NS 10.0  // the client decodes the same downloads as others
#define FLOAT32_NS 68.0 // every value is encrypted and sent
#define SEARCH_NS 25.0  // a search makes the client's own downloads
#define UNIFORM_NS 50.0 // the same with the codec `uniform`

// Returns the codec of downloads in most rounds.
static const struct tern_codec *usual_codec(const struct tern_federation_config *config)
{
    const uint32_t rounds = config->round.rounds;
    return rounds > 0 && config->early.rounds >= rounds ? &config->early.down
                                                        : &config->downloads.codec;
}

static double ns_per_value(const struct tern_codec *codec, bool has_own_replicas)
{
    if (codec->id == TERN_CODEC_FLOAT32) {
        return FLOAT32_NS;
    }
    if (!has_own_replicas) {
        return SHARED_NS;
    }
    return codec->id == TERN_CODEC_UNIFORM ? UNIFORM_NS : SEARCH_NS;
}

// Returns the number of clients that a round selects. enrolled: 0 = unknown
static double selected_clients(const struct tern_round_policy *round, double enrolled)
{
    const double wanted = most(round->cohort, ceil(round->fraction * enrolled));
    const double selected = ceil(wanted * (1 + round->over_selection));
    return enrolled > 0 ? least(selected, enrolled) : selected;
}

struct tern_round_time tern_round_time(const struct tern_federation_config *config,
                                       const struct tern_model *model, uint64_t enrolled,
                                       const struct tern_db_round *committed)
{
    const struct tern_round_policy *round = &config->round;
    const struct tern_codec *codec = usual_codec(config);
    const bool paced = round->min_interval_ms > 0 && round->min_interval_ms < round->deadline_ms;
    struct tern_round_time time = {
        .clients = (uint32_t)least(selected_clients(round, (double)enrolled), UINT32_MAX),
        .values = model->count,
        .limit_ms = paced ? round->min_interval_ms : round->deadline_ms,
        .limit = paced ? "round.min_interval" : "round.deadline",
    };
    time.has_own_replicas = config->downloads.plan == TERN_DOWNLOADS_CHEAPEST &&
                            codec->id != TERN_CODEC_FLOAT32 &&
                            (enrolled == 0 || time.clients < enrolled);
    time.ns = ns_per_value(codec, time.has_own_replicas);
    time.seconds = time.clients * (double)time.values * time.ns / 1e9;
    // The first rounds after a start need few searches.
    if (config->downloads.plan == TERN_DOWNLOADS_CHEAPEST && committed != NULL &&
        committed->search_us > 0) {
        time.measured = true;
        time.seconds = (double)committed->search_us / 1e6;
    }
    return time;
}

bool tern_round_time_is_long(const struct tern_round_time *time, char text[TERN_ROUND_TIME_MAX])
{
    char took[TERN_TEXT];
    char limit[TERN_TEXT];
    char how[128] = "measured in the last committed round";
    if (!time->measured) {
        snprintf(how, sizeof how, "an estimate: %" PRIu32 " clients x %" PRIu32 " values x %g ns",
                 time->clients, time->values, time->ns);
    }
    snprintf(text, TERN_ROUND_TIME_MAX,
             "the clients' downloads keep the aggregator busy for %s in a round (%s), longer than "
             "%s = %s: %slower round.cohort, raise %s, or use gateways (docs/SCALE.md)",
             tern_text_duration((uint64_t)(time->seconds * 1e3), took), how, time->limit,
             tern_text_duration(time->limit_ms, limit),
             time->measured || time->has_own_replicas ? "set downloads.plan = trunk, " : "",
             time->limit);
    return time->seconds * 1e3 > (double)time->limit_ms;
}

void tern_round_time_json(cJSON *object, const struct tern_round_time *time)
{
    char text[TERN_ROUND_TIME_MAX];
    cJSON *row = cJSON_AddObjectToObject(object, "round_time");
    cJSON_AddNumberToObject(row, "seconds", time->seconds);
    tern_json_bool(row, "measured", time->measured);
    tern_json_u64(row, "limit_ms", time->limit_ms);
    tern_json_bool(row, "too_long", tern_round_time_is_long(time, text));
}

// --- Disk space

#define EMPTY_BYTES (512.0 * 1024) // bytes of an empty database
#define ROUND_BYTES 600.0          // bytes of a round's rows that pruning keeps
#define ROW_BYTES 400.0            // bytes of the rows of an update and its task, without tensors
#define ROW_ROUNDS 16.0            // rounds for which rows of updates and tasks are kept
#define CHAIN_DOWNLOADS                                                                            \
    8.0 // downloads of a client that the store keeps beside whole weights (downloads/replicas.c)
#define LOG_FACTOR 1.25       // the log and the reserve take at most a fifth of the total
#define ENDLESS_ROUNDS 1000.0 // assumed if no setting limits the rounds

// Returns the bytes of two checkpoints, the current one and the next: weights, replica and the strategy's states.
static double checkpoint_bytes(const struct tern_federation_config *config, double model_bytes)
{
    double vectors = 2;
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        vectors += config->strategy->states[i].name != NULL;
    }
    return 2 * vectors * model_bytes;
}

static double stored_update_bytes(const struct tern_aggregator_settings *s,
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

static double stored_download_bytes(const struct tern_aggregator_settings *s, double rounds,
                                    double clients, double download_bytes, double model_bytes)
{
    const double trunk = least(rounds, s->limits_keep_versions) * download_bytes;
    const double chain = most(CHAIN_DOWNLOADS * download_bytes, model_bytes / 8);
    const double own = clients * (model_bytes + least(chain, model_bytes));
    return least(trunk + own, (double)tern_derived_limits(s).replica_bytes);
}

// Returns the bytes of the files with replicas for which the cache in memory has no room.
static double replica_file_bytes(const struct tern_aggregator_settings *s, double clients,
                                 double model_bytes)
{
    const struct tern_derived_limits derived = tern_derived_limits(s);
    const double beyond = clients * model_bytes - (double)derived.replica_cache;
    return least(most(beyond, 0), (double)derived.replica_files);
}

static enum tern_result measure_disk(struct tern_db *db, uint64_t *has)
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
    const struct tern_spending spending = tern_spending_estimate(s, config, model);
    const double clients = most((double)enrolled, config->min_clients);
    const double rounds = s->round_rounds > 0 ? s->round_rounds : ENDLESS_ROUNDS;
    const double model_bytes = 4.0 * model->count;
    const double cohort = least(clients, most(config->round.cohort, 1));
    const double bytes =
        EMPTY_BYTES + rounds * ROUND_BYTES + ROW_ROUNDS * cohort * ROW_BYTES +
        checkpoint_bytes(config, model_bytes) +
        stored_update_bytes(s, config, spending.update_bytes + ROW_BYTES, clients) +
        stored_download_bytes(s, rounds, clients, spending.download_bytes, model_bytes) +
        replica_file_bytes(s, clients, model_bytes);
    return (uint64_t)least(bytes * LOG_FACTOR, 9e18);
}

enum tern_result tern_disk_need_measure(const struct tern_aggregator_settings *s,
                                        const struct tern_federation_config *config,
                                        const struct tern_model *model, struct tern_db *db,
                                        struct tern_disk_need *need)
{
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    need->needed = tern_disk_need_bytes(s, config, model, counts.clients);
    return measure_disk(db, &need->available);
}

bool tern_disk_need_is_short(const struct tern_disk_need *need, char text[TERN_DISK_NEED_MAX])
{
    char has[TERN_TEXT];
    char needs[TERN_TEXT];
    snprintf(text, TERN_DISK_NEED_MAX,
             "the disk has %s for the database, and this federation needs about %s by its model, "
             "clients, codecs and limits",
             tern_text_bytes((double)need->available, has),
             tern_text_bytes((double)need->needed, needs));
    return need->needed > need->available;
}
