// ledger: what compression has not sent yet, per client, what was found out about those error
// buffers, and what clients were told to do with them.
#include "cli/state.h"
#include "cli/verbs.h"
#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <string.h>

struct listing {
    struct tern_db *db;
    cJSON *rows;     // NULL: lines for people
    uint32_t closed; // rounds so far
    enum tern_result result;
};

// --- What a row says

struct entry {
    struct tern_db_ledger row;
    struct tern_db_client client;
    uint32_t age; // rounds closed since its last update
    bool updated; // there was one
};

static struct entry entry_of(const struct tern_db_ledger *row, const struct tern_db_client *client,
                             uint32_t closed)
{
    return (struct entry){
        .row = *row,
        .client = *client,
        .age = row->round > 0 && closed > row->round ? closed - row->round : 0,
        .updated = row->round > 0,
    };
}

// A row without any of this only says that its client had a task.
static bool tells_something(const struct tern_db_ledger *row)
{
    return row->generation != 0 || row->sequence > 0 || row->norm != 0.0F || row->round > 0 ||
           row->finding != TERN_FINDING_NONE;
}

static const char *told_of(const struct entry *entry)
{
    return entry->row.reason[0] != '\0' ? entry->row.reason : "-";
}

static const char *finding_of(const struct entry *entry)
{
    return entry->row.finding != TERN_FINDING_NONE ? tern_error_finding_name(entry->row.finding)
                                                   : "-";
}

// null: there was no update yet.
static void add_update_number(cJSON *object, const struct entry *entry, const char *name,
                              uint32_t number)
{
    if (entry->updated) {
        tern_json_u64(object, name, number);
    } else {
        cJSON_AddNullToObject(object, name);
    }
}

static cJSON *json_of(const struct entry *entry)
{
    const struct tern_db_ledger *row = &entry->row;
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "client", row->client);
    cJSON_AddStringToObject(object, "name", entry->client.name);
    tern_json_u64(object, "generation", row->generation);
    tern_json_u64(object, "previous_generation", row->previous_generation);
    tern_json_u64(object, "sequence", row->sequence);
    tern_json_float(object, "norm", row->norm);
    tern_json_float(object, "maximum", row->maximum);
    add_update_number(object, entry, "round", row->round);
    add_update_number(object, entry, "age", entry->age);
    tern_json_float(object, "loss", row->loss);
    tern_json_u64(object, "update_bytes", row->update_bytes);
    tern_json_hash(object, "replica", entry->client.replica);
    tern_json_u64(object, "version", entry->client.version);
    cJSON_AddStringToObject(object, "directive", tern_error_directive_name(row->directive));
    tern_json_float(object, "factor", row->factor);
    cJSON_AddStringToObject(object, "reason", row->reason);
    cJSON_AddStringToObject(object, "finding", tern_error_finding_name(row->finding));
    tern_json_u64(object, "finding_ms", row->finding_ms);
    cJSON_AddStringToObject(object, "sentence", tern_error_finding_sentence(row->finding));
    return object;
}

// --- All clients

// The start of the id is enough to tell replicas apart.
static void short_replica(const struct entry *entry, char text[TERN_TEXT])
{
    static const uint8_t none[TERN_SHA256_SIZE];
    if (memcmp(entry->client.replica, none, sizeof none) == 0) {
        memcpy(text, "-", 2);
    } else {
        tern_hex_encode(entry->client.replica, 4, text);
    }
}

static void print_header(void)
{
    printf("%6s %10s %8s %11s %11s %6s %6s %9s %9s %9s %-9s %s\n", "CLIENT", "GENERATION",
           "SEQUENCE", "NORM", "MAXIMUM", "ROUND", "AGE", "BYTES", "LOSS", "REPLICA", "FINDING",
           "TOLD");
}

static void print_row(const struct entry *entry)
{
    const struct tern_db_ledger *row = &entry->row;
    char round[TERN_TEXT] = "-";
    char age[TERN_TEXT] = "-";
    char replica[TERN_TEXT];
    if (entry->updated) {
        snprintf(round, sizeof round, "%" PRIu32, row->round);
        snprintf(age, sizeof age, "%" PRIu32, entry->age);
    }
    short_replica(entry, replica);
    printf("%6" PRIu64 "   %08" PRIx32 " %8" PRIu32 " %11.5g %11.5g %6s %6s %9" PRIu32
           " %9.4f %9s %-9s %s\n",
           row->client, row->generation, row->sequence, (double)row->norm, (double)row->maximum,
           round, age, row->update_bytes, (double)row->loss, replica, finding_of(entry),
           told_of(entry));
}

static bool list_row(void *ctx, const struct tern_db_ledger *row)
{
    struct listing *listing = ctx;
    struct tern_db_client client;
    if (!tells_something(row)) {
        return true;
    }
    listing->result = tern_db_client_get(listing->db, row->client, &client);
    if (listing->result != TERN_OK) {
        return false;
    }
    const struct entry entry = entry_of(row, &client, listing->closed);
    if (listing->rows != NULL) {
        cJSON_AddItemToArray(listing->rows, json_of(&entry));
    } else {
        print_row(&entry);
    }
    return true;
}

static int list_all(struct tern_cli *cli, struct tern_db *db, uint32_t closed)
{
    struct listing listing = {.db = db, .closed = closed};
    if (cli->json) {
        listing.rows = cJSON_CreateArray();
    } else {
        print_header();
    }
    enum tern_result result = tern_db_ledger_each(db, list_row, &listing);
    result = result == TERN_OK ? listing.result : result;
    if (result != TERN_OK) {
        cJSON_Delete(listing.rows);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return cli->json ? tern_json_print(cli, listing.rows) : TERN_EXIT_OK;
}

// --- One client

static void print_one(const struct entry *entry)
{
    const struct tern_db_ledger *row = &entry->row;
    char text[TERN_TEXT];
    char replica[TERN_TEXT];
    short_replica(entry, replica);
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
    printf("replica      %s, version %" PRIu32 "\n", replica, entry->client.version);
    printf("told         %s\n", told_of(entry));
    if (row->finding != TERN_FINDING_NONE) {
        printf("finding      %s, %s\n", tern_error_finding_name(row->finding),
               tern_text_time(row->finding_ms, text));
        printf("             %s\n", tern_error_finding_sentence(row->finding));
    }
}

static int show_one(struct tern_cli *cli, struct tern_db *db, uint64_t id, uint32_t closed)
{
    struct tern_db_client client;
    struct tern_db_ledger row;
    enum tern_result result = tern_db_client_get(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, id, result);
    }
    result = tern_db_ledger_get(db, id, &row);
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (result == TERN_ERR_NOT_FOUND || !tells_something(&row)) {
        result = TERN_ERR_NOT_FOUND;
        tern_cli_fail(cli, result, "client %" PRIu64 " has not told of an error buffer yet", id);
        return TERN_EXIT_NOTHING;
    }
    const struct entry entry = entry_of(&row, &client, closed);
    if (cli->json) {
        return tern_json_print(cli, json_of(&entry));
    }
    print_one(&entry);
    return TERN_EXIT_OK;
}

// --- The verb

// The open round is not over.
static enum tern_result closed_rounds(struct tern_db *db, uint32_t *closed)
{
    struct tern_db_round last;
    enum tern_result result = tern_db_round_last(db, &last);
    if (result == TERN_ERR_NOT_FOUND) {
        *closed = 0;
        return TERN_OK;
    }
    TERN_TRY(result);
    *closed = last.state == TERN_ROUND_OPEN ? last.round - 1 : last.round;
    return TERN_OK;
}

int tern_cli_ledger(struct tern_cli *cli)
{
    int code;
    uint64_t id;
    uint32_t closed = 0;
    if (!tern_state_client(cli, &id, &code)) {
        return code;
    }
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    enum tern_result result = closed_rounds(db, &closed);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    return id > 0 ? show_one(cli, db, id, closed) : list_all(cli, db, closed);
}
