// Counts the bytes on the link, and enforces the budgets per round and per month. With a monthly budget, the saved meter counts
// bytes as spent before they are sent; tern_client_end() corrects the saved count.
#include "core.h"
#include "util/date.h"

// A save counts at most this many further bytes as spent, so that the next check-ins need no save and do not wear out the
// flash.
#define COUNT_AHEAD 16384

#define NO_MONTH_YET 0

#define DAY_MS UINT64_C(86400000)
#define LONGEST_MONTH_MS (31 * DAY_MS)

// Returns year * 12 + month - 1.
static uint32_t month_of(uint64_t unix_seconds)
{
    // 32-bit arithmetic suffices up to the year 19,000.
    const struct tern_date date = tern_date_of((uint32_t)(unix_seconds >> 7) / (86400 >> 7));
    return date.year * 12 + date.month;
}

// Adds the time since the last call, which an earlier process may have made. If the monotonic clock shows less than before, it
// was restarted, and its value is the elapsed time. The sum is never too large, because time without power is not counted.
static void add_elapsed_time(struct tern_client *client)
{
    struct tern_client_budget *budget = &client->budget;
    const uint64_t now_ms = tern_client_now_ms(client);
    budget->month_ms += now_ms >= budget->clock_ms ? now_ms - budget->clock_ms : now_ms;
    budget->clock_ms = now_ms;
}

// Saves the elapsed time once a day, because a client that waits for the next month saves the meter for no other reason.
static enum tern_result save_elapsed_time(struct tern_client *client)
{
    const uint64_t unsaved_ms = client->budget.month_ms - client->month_ms_saved;
    return TERN_MONTH_BY_TIME && unsaved_ms >= DAY_MS ? tern_record_save_meter(client) : TERN_OK;
}

static void start_month(struct tern_client *client, uint32_t month)
{
    struct tern_client_budget *budget = &client->budget;
    if (budget->month != NO_MONTH_YET) {
        budget->month_spent = 0;
        budget->month_reserved = 0;
    }
    client->month_exhausted = false;
    budget->month = month;
    budget->month_ms = 0;
}

// Starts counting from zero when the month changes. When the clock shows an earlier month than the counted one (a board boots
// in 1970 before it gets the date, or a clock that was ahead is corrected), the count goes on; it starts from zero when 31 days
// have certainly passed. So the counted month never decreases, and a clock that was never ahead renews the budget at most once
// a month.
static void update_month(struct tern_client *client)
{
    const struct tern_clock *clock = &client->config.ports.clock;
    const uint64_t now = clock->unix_seconds(clock->ctx);
    const uint32_t month = now == 0 ? NO_MONTH_YET : month_of(now);
    const uint32_t counted = client->budget.month;
    if (TERN_MONTH_BY_TIME) {
        add_elapsed_time(client);
    }
    if (month > counted) {
        start_month(client, month);
    } else if (TERN_MONTH_BY_TIME && month < counted &&
               client->budget.month_ms >= LONGEST_MONTH_MS) {
        start_month(client, counted + 1);
    }
}

static uint64_t wire_bytes(const struct tern_meter *meter)
{
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

// Resets the round's meter at the first exchange after an answered round.
static void start_round_account(struct tern_client *client)
{
    if (client->round_done) {
        client->meter_round = (struct tern_meter){0};
        client->round_done = false;
    }
}

void tern_budget_collect(struct tern_client *client)
{
    const struct tern_transport *transport = &client->config.ports.transport;
    struct tern_meter counted = {0};
    transport->collect(transport->ctx, &counted);
    start_round_account(client);
    update_month(client);
    tern_meter_add(&client->meter_round, &counted);
    tern_meter_add(&client->meter_all, &counted);
    client->budget.month_spent += wire_bytes(&counted);
    if (client->budget.month_reserved < client->budget.month_spent) {
        client->budget.month_reserved = client->budget.month_spent;
    }
}

void tern_budget_count_payload(struct tern_client *client, enum tern_purpose purpose,
                               enum tern_direction direction, size_t len)
{
    client->meter_round.bytes[purpose][direction].payload += len;
    client->meter_all.bytes[purpose][direction].payload += len;
}

static uint64_t bytes_left(uint64_t budget, uint64_t spent)
{
    if (budget == 0) {
        return UINT64_MAX;
    }
    return spent < budget ? budget - spent : 0;
}

static uint64_t round_bytes_left(const struct tern_client *client)
{
    const uint64_t spent = client->round_done ? 0 : wire_bytes(&client->meter_round);
    return bytes_left(client->config.budget_per_round, spent);
}

static uint64_t month_bytes_left(struct tern_client *client)
{
    update_month(client);
    return bytes_left(client->config.budget_per_month, client->budget.month_spent);
}

uint64_t tern_budget_left(struct tern_client *client)
{
    const uint64_t round = round_bytes_left(client);
    const uint64_t month = month_bytes_left(client);
    return round < month ? round : month;
}

// Returns how many bytes a save counts as spent in addition to those that are about to be sent.
static uint64_t bytes_counted_ahead(const struct tern_client *client)
{
    const uint64_t ahead = client->config.budget_per_month / 64;
    return ahead < COUNT_AHEAD ? ahead : COUNT_AHEAD;
}

// Returns the bytes for inline downloads that leave enough for the next update. With a monthly budget at most
// bytes_counted_ahead(): a power cut may lose the count of these bytes.
static uint64_t inline_download_bytes(struct tern_client *client, uint64_t left)
{
    const uint64_t update = client->budget.update_mean + client->budget.update_mean / 4;
    const uint64_t kept = tern_budget_cost(update, 2);
    uint64_t bytes = update > 0 && left > kept ? left - kept : 0;
    bytes -= bytes / TERN_PRICE_SHARE; // for the headers of the downloads' segments
    const bool ahead = client->config.budget_per_month > 0 && bytes > bytes_counted_ahead(client);
    return ahead ? bytes_counted_ahead(client) : bytes;
}

// Small builds accept inline downloads only if they have no budget.
uint32_t tern_budget_inline_bytes(struct tern_client *client)
{
    const uint64_t left = tern_budget_left(client);
    if (left == UINT64_MAX) {
        return TERN_PRICE_INLINE_MAX;
    }
    const uint64_t bytes = TERN_SMALL ? 0 : inline_download_bytes(client, left);
    return bytes < TERN_PRICE_INLINE_MAX ? (uint32_t)bytes : TERN_PRICE_INLINE_MAX;
}

// Saves a meter that counts `expected` more bytes as spent, unless the saved one already does.
static enum tern_result count_as_spent(struct tern_client *client, uint64_t expected)
{
    struct tern_client_budget *budget = &client->budget;
    if (client->config.budget_per_month == 0 ||
        budget->month_spent + expected <= budget->month_reserved) {
        return TERN_OK;
    }
    budget->month_reserved = budget->month_spent + expected + bytes_counted_ahead(client);
    return tern_record_save_meter(client);
}

enum tern_result tern_budget_reserve(struct tern_client *client, uint64_t expected,
                                     const char **why)
{
    if (expected > round_bytes_left(client)) {
        *why = TERN_WHY("the next exchange would exceed the byte budget of the round");
        return TERN_ERR_BUDGET;
    }
    if (expected > month_bytes_left(client)) {
        *why = TERN_WHY("the next exchange would exceed the byte budget of the month");
        client->month_exhausted = true;
        return TERN_ERR_BUDGET;
    }
    return count_as_spent(client, expected);
}

bool tern_budget_month_has_round(struct tern_client *client)
{
    const uint64_t left = month_bytes_left(client); // also starts a new month
    return !client->month_exhausted && client->budget.round_mean <= left;
}

enum tern_result tern_budget_wait(struct tern_client *client, uint64_t expected, const char *why)
{
    const struct tern_client_event event = {
        .kind = TERN_EVENT_BUDGET,
        .result = TERN_ERR_BUDGET,
        .round = client->task.round,
        .wait_ms = client->config.budget_wait_ms,
        .why = why,
        .bytes = expected,
        .budget_left = tern_budget_left(client),
    };
    tern_client_emit(client, &event);
    client->round_done = true;
    client->due_ms = tern_client_now_ms(client) + client->config.budget_wait_ms;
    TERN_TRY(save_elapsed_time(client));
    return TERN_AGAIN;
}

enum tern_result tern_budget_reserve_or_wait(struct tern_client *client, uint64_t expected)
{
    const char *why = NULL;
    const enum tern_result result = tern_budget_reserve(client, expected, &why);
    return result == TERN_ERR_BUDGET ? tern_budget_wait(client, expected, why) : result;
}

enum tern_result tern_budget_end_round(struct tern_client *client)
{
    struct tern_client_budget *budget = &client->budget;
    const uint64_t cost = wire_bytes(&client->meter_round);
    // A moving average over about eight rounds, which adapts when the link or the codec changes.
    budget->round_mean =
        budget->rounds == 0 ? cost : budget->round_mean - budget->round_mean / 8 + cost / 8;
    budget->rounds++;
    client->round_done = true;
    return tern_record_save_meter(client);
}

enum tern_result tern_client_save_meter(struct tern_client *client)
{
    client->budget.month_reserved = client->budget.month_spent;
    return tern_record_save_meter(client);
}

enum tern_result tern_client_end(struct tern_client *client)
{
    const struct tern_transport *transport = &client->config.ports.transport;
    transport->close(transport->ctx);
    tern_budget_collect(client);
    if (!TERN_SMALL) {
        client->returns = client->config.leaves;
    }
    return tern_client_save_meter(client);
}

enum tern_result tern_client_load_meter(struct tern_client *client)
{
    return tern_record_load_meter(client);
}
