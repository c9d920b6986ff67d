#include "cli/spending.h"

#include "cli/service_config.h"
#include "cli/state.h"
#include "codec/plan.h"
#include "hosted/log.h"
#include "meter/meter.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS 86400000.0

// A shorter pause says little of how many rounds a day has: clients take as long themselves.
#define PAUSE_MS 60000

// A check-in, which brings the downloads of most models, and an update.
#define EXCHANGES 2
// Of both: check-in 25, task 82 with an entry for a download, update 43, its answer 6 (docs/BENCHMARKS.md, "Bytes
// beside the bodies").
#define MESSAGES 156

bool tern_spending_is_unbounded(const struct tern_aggregator_settings *s)
{
    return s->round_rounds == 0 && tern_cli_interval_ms(s) < PAUSE_MS;
}

// Bytes of a model's tensors by a codec; those that are averaged go as float32.
static double tensors(const struct tern_model *model, const struct tern_codec *codec)
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

// A mean of all rounds, of which the early ones have a codec of their own. Those of a federation without an end do not
// count.
static double of_rounds(const struct tern_federation_config *config, double early, double later)
{
    const double rounds = config->round.rounds;
    const double share = rounds > 0 ? config->early.rounds / rounds : 0;
    return later + (share < 1 ? share : 1) * (early - later);
}

struct tern_spending tern_spending_of(const struct tern_aggregator_settings *s,
                                      const struct tern_federation_config *config,
                                      const struct tern_model *model)
{
    struct tern_spending spending = {
        .up =
            of_rounds(config, tensors(model, &config->early.up), tensors(model, &config->codec_up)),
        .down = of_rounds(config, tensors(model, &config->early.down),
                          tensors(model, &config->downloads.codec)),
        .interval_ms = tern_cli_interval_ms(s),
        .rounds = s->round_rounds,
    };
    const bool kept = spending.interval_ms < s->limits_idle;
    const uint32_t exchanges = EXCHANGES + (spending.down > TERN_PRICE_INLINE_MAX);
    spending.round = (double)tern_price(kept ? TERN_PRICE_KEPT : TERN_PRICE_RESUMED, exchanges,
                                        (uint64_t)(spending.up + spending.down) + MESSAGES);
    if (spending.interval_ms >= PAUSE_MS) {
        spending.day = spending.round * DAY_MS / (double)spending.interval_ms;
    }
    const bool ends = s->round_rounds > 0 || s->round_patience > 0;
    if (ends && config->final_model == TERN_FINAL_MODEL_ALL) {
        spending.last = (double)tern_price(TERN_PRICE_KEPT, 1, 4 * (uint64_t)model->count);
    }
    return spending;
}

// Whether the settings with this accuracy are taken; the bytes of a round.
static bool cost_of(struct tern_cli *cli, const struct tern_federation_config *config,
                    const struct tern_model *model, const char *accuracy, double *round)
{
    struct tern_aggregator_settings other = *tern_state_settings(cli);
    struct tern_federation_config its = *config;
    snprintf(other.codec_accuracy, sizeof other.codec_accuracy, "%s", accuracy);
    if (tern_cli_fill_for_model(cli, &other, model->count, &its) != TERN_EXIT_OK) {
        return false;
    }
    *round = tern_spending_of(&other, &its, model).round;
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
    if (tern_cli_fill_service(cli, s, &config) != TERN_EXIT_OK) {
        return all;
    }
    for (size_t i = 0; tern_cli_accuracy(i) != NULL && i < TERN_SPENDING_ACCURACIES; i++) {
        const char *accuracy = tern_cli_accuracy(i);
        double round;
        if (!cost_of(cli, &config.federation, model, accuracy, &round)) {
            return (struct tern_spending_accuracies){.count = 0};
        }
        least = i == 0 || round < least ? round : least;
        most = round > most ? round : most;
        all.of[all.count].accuracy = accuracy;
        all.of[all.count].round = round;
        all.of[all.count++].is_set = strcmp(accuracy, s->codec_accuracy) == 0;
    }
    all.count = least < most ? all.count : 0;
    return all;
}

// --- How it is told

static void print_pace(const struct tern_spending *spending)
{
    char pause[TERN_TEXT];
    if (spending->interval_ms >= PAUSE_MS) {
        printf("At most one round opens every %s",
               tern_text_duration(spending->interval_ms, pause));
    } else {
        printf("Rounds follow each other without a pause");
    }
    if (spending->rounds > 0) {
        printf(", until %" PRIu32 " are done", spending->rounds);
    } else {
        printf(", without end");
    }
    printf(" (round.min_interval, round.rounds).\n");
}

void tern_spending_print(const struct tern_spending *spending)
{
    char round[TERN_TEXT];
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    char sum[TERN_TEXT];
    print_pace(spending);
    printf("A client that takes part in each moves about %s a round (tensors %s up, %s down)",
           tern_text_bytes(spending->round, round), tern_text_bytes(spending->up, up),
           tern_text_bytes(spending->down, down));
    if (spending->day > 0) {
        printf(",\n%s a day", tern_text_bytes(spending->day, sum));
    }
    if (spending->last > 0) {
        printf(",\nand %s at the end for the global model itself (downloads.final_model)",
               tern_text_bytes(spending->last, sum));
    }
    if (spending->rounds > 0) {
        printf(",\n%s in all",
               tern_text_bytes(spending->round * spending->rounds + spending->last, sum));
    }
    printf(":\nan estimate from model, codecs and what TLS and headers were measured to cost;"
           " `tern-aggregator report bytes` has what was metered.\n");
}

const char *tern_spending_accuracies_text(const struct tern_spending_accuracies *all,
                                          char text[TERN_SPENDING_OTHERS])
{
    char size[TERN_TEXT];
    char set[TERN_SPENDING_OTHERS] = "";
    char others[TERN_SPENDING_OTHERS] = "";
    for (size_t i = 0; i < all->count; i++) {
        const size_t len = strlen(others);
        tern_text_bytes(all->of[i].round, size);
        if (all->of[i].is_set) {
            snprintf(set, sizeof set, "%s, about %s", all->of[i].accuracy, size);
        } else {
            snprintf(others + len, sizeof others - len, "%s%s %s", len > 0 ? ", " : "",
                     all->of[i].accuracy, size);
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
        cJSON_AddStringToObject(one, "accuracy", all->of[i].accuracy);
        tern_json_u64(one, "round", (uint64_t)all->of[i].round);
        tern_json_bool(one, "in_force", all->of[i].is_set);
        cJSON_AddItemToArray(list, one);
    }
    return list;
}

static void add_number(cJSON *object, const char *name, double number)
{
    if (number > 0) {
        cJSON_AddNumberToObject(object, name, (double)(uint64_t)number);
    } else {
        cJSON_AddNullToObject(object, name);
    }
}

void tern_spending_json(cJSON *object, const struct tern_spending *spending)
{
    cJSON *row = cJSON_AddObjectToObject(object, "spending");
    add_number(row, "round", spending->round);
    add_number(row, "tensors_up", spending->up);
    add_number(row, "tensors_down", spending->down);
    add_number(row, "day", spending->day);
    add_number(row, "final_model", spending->last);
    tern_json_u64(row, "min_interval_ms", spending->interval_ms);
    tern_json_u64(row, "rounds", spending->rounds);
}

void tern_spending_log(const struct tern_spending *spending)
{
    tern_log(TERN_LOG_INFO, "spending",
             "estimate=yes round_bytes=%.0f day_bytes=%.0f min_interval_ms=%" PRIu64
             " rounds=%" PRIu32,
             spending->round, spending->day, spending->interval_ms, spending->rounds);
}
