// ledger: what compression has not sent yet, per client, what was found out about those error
// buffers, and what clients were told to do with them.
#include "cli/listing.h"
#include "cli/verbs.h"
#include "rounds/error_watch.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <string.h>

struct entry {
    const struct tern_db_ledger *row;
    struct tern_db_client client;
    uint32_t age; // rounds closed since its last update
    bool updated; // there was one
};

// A row without any of this only says that its client had a task.
static bool tells_something(const struct tern_db_ledger *row)
{
    return row->generation != 0 || row->sequence > 0 || row->norm != 0.0F || row->round > 0 ||
           row->finding != TERN_FINDING_NONE;
}

// Rounds that are over: the open one is not.
static enum tern_result closed_rounds(struct tern_db *db, uint32_t *closed)
{
    struct tern_db_round last = {.state = TERN_ROUND_COMMITTED};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &last)));
    *closed = last.state == TERN_ROUND_OPEN ? last.round - 1 : last.round;
    return TERN_OK;
}

static enum tern_result complete(struct tern_db *db, const struct tern_db_ledger *row,
                                 struct entry *entry)
{
    uint32_t closed;
    *entry = (struct entry){.row = row, .updated = row->round > 0};
    TERN_TRY(closed_rounds(db, &closed));
    entry->age = entry->updated && closed > row->round ? closed - row->round : 0;
    return tern_db_client_get(db, row->client, &entry->client);
}

static cJSON *json_of(const struct entry *entry)
{
    static const char *const columns[] = {"name", "replica", "version", NULL};
    cJSON *object = tern_json_ledger(entry->row);
    tern_json_client_columns(object, &entry->client, columns);
    if (entry->updated) {
        tern_json_u64(object, "age", entry->age);
    } else {
        cJSON_AddNullToObject(object, "age");
    }
    return object;
}

// --- For people

static const char *told_of(const struct entry *entry)
{
    return entry->row->reason[0] != '\0' ? entry->row->reason : "-";
}

// The start of the id is enough to tell replicas apart.
static const char *short_replica(const struct entry *entry, char text[TERN_TEXT])
{
    static const uint8_t none[TERN_SHA256_SIZE];
    if (memcmp(entry->client.replica, none, sizeof none) == 0) {
        return "-";
    }
    tern_hex_encode(entry->client.replica, 4, text);
    return text;
}

static void add_row(struct tern_text_table *table, const struct entry *entry)
{
    const struct tern_db_ledger *row = entry->row;
    char text[TERN_TEXT];
    tern_text_cell(table, "%" PRIu64, row->client);
    tern_text_cell(table, "%.4g", (double)row->norm);
    if (entry->updated) {
        tern_text_cell(table, "%" PRIu32, row->round);
        tern_text_cell(table, "%" PRIu32, entry->age);
        tern_text_cell(table, "%s", tern_text_bytes((double)row->update_bytes, text));
    } else {
        tern_text_cell(table, "-");
        tern_text_cell(table, "-");
        tern_text_cell(table, "-");
    }
    tern_text_finding_cell(table, row->finding);
    tern_text_cell(table, "%s", tern_text_name(told_of(entry), text));
}

static void print_one(const struct entry *entry)
{
    const struct tern_db_ledger *row = entry->row;
    char text[TERN_TEXT];
    printf("client       %" PRIu64 " (%s)\n", row->client,
           tern_text_name(entry->client.name, text));
    printf("buffer       generation %08" PRIx32 ", %" PRIu32 " update%s encoded in it\n",
           row->generation, row->sequence, row->sequence == 1 ? "" : "s");
    printf("holds        norm %.6g, largest magnitude %.6g\n", (double)row->norm,
           (double)row->maximum);
    if (entry->updated) {
        printf("last update  round %" PRIu32 ", %" PRIu32 " round%s old, %s, loss %.4f\n",
               row->round, entry->age, entry->age == 1 ? "" : "s",
               tern_text_bytes((double)row->update_bytes, text), (double)row->loss);
    } else {
        printf("last update  none was accepted\n");
    }
    if (entry->updated && row->decay < 1.0F) {
        printf("left         %.4g of what the buffer held before it\n", (double)row->decay);
    }
    printf("replica      %s, version %" PRIu32 "\n", short_replica(entry, text),
           entry->client.version);
    printf("told         %s\n", tern_text_name(told_of(entry), text));
    if (row->finding != TERN_FINDING_NONE) {
        printf("finding      %s, %s\n", tern_error_finding_name(row->finding),
               tern_text_time(row->finding_ms, text));
        printf("             %s\n", tern_error_finding_sentence(row->finding));
    }
}

// --- The verb

static enum tern_result list_row(struct tern_listing *listing, const struct tern_db_ledger *row)
{
    struct entry entry;
    if (!tells_something(row)) {
        return TERN_OK;
    }
    TERN_TRY(complete(listing->db, row, &entry));
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(&entry));
    }
    add_row(&listing->table, &entry);
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct tern_db_ledger row;
    struct tern_db_rows *rows = tern_db_ledgers(listing->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, list_row(listing, &row));
    }
    return tern_db_end(rows);
}

static enum tern_result show_one(struct tern_listing *listing, const struct tern_db_client *client)
{
    struct tern_db_ledger row;
    struct entry entry;
    TERN_TRY(tern_db_ledger_get(listing->db, client->id, &row));
    TERN_TRY(complete(listing->db, &row, &entry));
    if (!tells_something(&row)) {
        return TERN_ERR_NOT_FOUND;
    }
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(&entry));
    }
    print_one(&entry);
    return TERN_OK;
}

int tern_cli_ledger(struct tern_cli *cli)
{
    static const struct tern_text_column columns[] = {
        {"CLIENT", TERN_TEXT_NUMBER}, {"NORM", TERN_TEXT_NUMBER},   {"ROUND", TERN_TEXT_NUMBER},
        {"AGE", TERN_TEXT_NUMBER},    {"UPDATE", TERN_TEXT_NUMBER}, {"FINDING", TERN_TEXT_WORD},
        {"TOLD", TERN_TEXT_LONG},
    };
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns),
        .all = list_all,
        .one = show_one,
        .nothing = "has not told of an error buffer yet",
    };
    return tern_list(cli, &verb, NULL);
}
