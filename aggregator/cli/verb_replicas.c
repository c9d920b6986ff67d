// replicas: which weights clients hold, what they are kept as, and what that takes.
#include "cli/listing.h"
#include "cli/verbs.h"

#include "util/bytes.h"
#include <inttypes.h>
#include <string.h>

// The trunk's replicas have a version of their own; of the others, so many clients hold each.
static const char *kind_of(const struct tern_db_replica *row)
{
    return row->trunk ? "version" : "own";
}

static enum tern_result list_replica(struct tern_listing *listing,
                                     const struct tern_db_replica *row)
{
    uint64_t clients;
    char id[2 * TERN_SHA256_SIZE + 1];
    char bytes[TERN_TEXT];
    struct tern_text_table *table = &listing->table;
    TERN_TRY(tern_db_replica_holders(listing->db, row->id, &clients));
    if (listing->json != NULL) {
        cJSON *object = tern_json_replica(row);
        tern_json_u64(object, "clients", clients);
        return tern_listing_add(listing, object);
    }
    tern_hex_encode(row->id, TERN_SHA256_SIZE, id);
    tern_text_cell(table, "%" PRIu32, row->version);
    tern_text_cell(table, "%.12s", id);
    tern_text_cell(table, "%s", kind_of(row));
    tern_text_cell(table, "%s", tern_replica_form_name(row->form));
    tern_text_cell(table, "%" PRIu32, row->depth);
    tern_text_cell(table, "%s", tern_text_bytes((double)row->bytes, bytes));
    tern_text_cell(table, "%.3g", (double)row->residual);
    tern_text_cell(table, "%" PRIu64, clients);
    return TERN_OK;
}

static enum tern_result list_replicas(struct tern_listing *listing)
{
    struct tern_db_replica row;
    struct tern_db_rows *rows = tern_db_replicas(listing->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, list_replica(listing, &row));
    }
    return tern_db_end(rows);
}

// --- What a client holds

// NULL and TERN_OK: nothing is known of its replica.
static enum tern_result held_by(struct tern_db *db, const struct tern_db_client *client,
                                struct tern_db_replica *row, bool *known)
{
    enum tern_result found = tern_db_replica_get(db, client->replica, row);
    *known = found == TERN_OK;
    return tern_db_may_miss(found);
}

// The replica as far as it is known, and who holds it.
static cJSON *json_of_client(const struct tern_db_client *client, const struct tern_db_replica *row,
                             bool known)
{
    static const char *const columns[] = {"name", "replica", "version", NULL};
    static const char *const beside_replica[] = {"name", NULL}; // whose row has the others
    cJSON *object = known ? tern_json_replica(row) : cJSON_CreateObject();
    tern_json_u64(object, "client", client->id);
    tern_json_client_columns(object, client, known ? beside_replica : columns);
    tern_json_bool(object, "known", known);
    return object;
}

static enum tern_result list_client(struct tern_listing *listing,
                                    const struct tern_db_client *client)
{
    struct tern_db_replica row;
    bool known = false;
    TERN_TRY(held_by(listing->db, client, &row, &known));
    return client->revoked ? TERN_OK
                           : tern_listing_add(listing, json_of_client(client, &row, known));
}

static enum tern_result list_clients(struct tern_listing *listing)
{
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients(listing->db);
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, list_client(listing, &client));
    }
    return tern_db_end(rows);
}

static void print_client(const struct tern_db_client *client, const struct tern_db_replica *row,
                         bool known)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    char text[TERN_TEXT];
    char id[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(client->replica, TERN_SHA256_SIZE, id);
    printf("client    %" PRIu64 " (%s)\n", client->id, tern_text_name(client->name, text));
    if (memcmp(client->replica, none, sizeof none) == 0) {
        printf("replica   it has not told of any yet\n");
        return;
    }
    printf("replica   %s\n", id);
    if (!known) {
        printf("          not kept (any more): its next task leads from the seed or a snapshot\n");
        return;
    }
    printf("version   %" PRIu32 "%s\n", row->version,
           row->trunk ? "" : ", a replica of its own or of a group");
    printf("residual  %.4g (Euclidean norm of that version's model minus the replica)\n",
           (double)row->residual);
    printf("kept as   %s", tern_replica_form_name(row->form));
    if (row->depth > 0) {
        printf(", %" PRIu32 " since what is kept whole (%s)", row->depth,
               tern_text_bytes((double)row->bytes, text));
    }
    printf("\n");
}

static enum tern_result show_one(struct tern_listing *listing, const struct tern_db_client *client)
{
    struct tern_db_replica row;
    bool known = false;
    TERN_TRY(held_by(listing->db, client, &row, &known));
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of_client(client, &row, known));
    }
    print_client(client, &row, known);
    return TERN_OK;
}

// --- All

// Both lists, then the totals, in one object.
static enum tern_result list_json(struct tern_listing *listing,
                                  const struct tern_db_replica_totals *totals)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_replica_totals(object, totals);
    enum tern_result result = list_replicas(listing);
    cJSON_AddItemToObject(object, "replicas", listing->json);
    listing->json = cJSON_CreateArray();
    if (result == TERN_OK) {
        result = list_clients(listing);
    }
    cJSON_AddItemToObject(object, "clients", listing->json);
    listing->json = object;
    return result;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct tern_db_replica_totals totals;
    if (!listing->cli->json) {
        return list_replicas(listing);
    }
    TERN_TRY(tern_db_replica_totals(listing->db, &totals));
    return list_json(listing, &totals);
}

static enum tern_result print_totals(struct tern_listing *listing)
{
    struct tern_db_replica_totals totals;
    char whole[TERN_TEXT];
    char downloads[TERN_TEXT];
    TERN_TRY(tern_db_replica_totals(listing->db, &totals));
    printf("%" PRIu64 " replicas, %" PRIu64 " of versions; %" PRIu64 " downloads (%s), %" PRIu64
           " kept whole (%s)\n",
           totals.replicas, totals.trunk, totals.downloads,
           tern_text_bytes((double)totals.download_bytes, downloads), totals.whole,
           tern_text_bytes((double)totals.whole_bytes, whole));
    return TERN_OK;
}

int tern_cli_replicas(struct tern_cli *cli)
{
    static const struct tern_text_column columns[] = {
        {"VERSION", TERN_TEXT_NUMBER},   {"REPLICA", TERN_TEXT_WORD},
        {"KIND", TERN_TEXT_WORD},        {"KEPT AS", TERN_TEXT_WORD},
        {"DOWNLOADS", TERN_TEXT_NUMBER}, {"BYTES", TERN_TEXT_NUMBER},
        {"RESIDUAL", TERN_TEXT_NUMBER},  {"CLIENTS", TERN_TEXT_NUMBER},
    };
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns), .all = list_all, .one = show_one, .nothing = "",
        .below = print_totals,
    };
    return tern_list(cli, &verb, NULL);
}
