// replicas: which weights clients hold, what they are kept as, and what that takes.
#include "cli/state.h"
#include "cli/verbs.h"

#include "util/bytes.h"
#include <inttypes.h>
#include <string.h>

static const char *const forms[] = {"seed", "downloads", "snapshot", "float32"};

struct listing {
    struct tern_db *db;
    cJSON *rows; // NULL: lines for people
    enum tern_result result;
};

// The trunk's replicas have a version of their own; of the others, so many clients hold each.
static const char *kind_of(const struct tern_db_replica *row)
{
    return row->trunk ? "version" : "own";
}

static void short_id(const uint8_t id[TERN_SHA256_SIZE], char text[2 * TERN_SHA256_SIZE + 1])
{
    tern_hex_encode(id, TERN_SHA256_SIZE, text);
    text[12] = '\0';
}

static cJSON *json_of_replica(const struct tern_db_replica *row, uint64_t clients)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_hash(object, "replica", row->id);
    cJSON_AddStringToObject(object, "kind", kind_of(row));
    cJSON_AddStringToObject(object, "kept_as", forms[row->form]);
    tern_json_u64(object, "version", row->version);
    tern_json_u64(object, "downloads", row->depth);
    tern_json_u64(object, "download_bytes", row->bytes);
    tern_json_float(object, "residual", row->residual);
    tern_json_u64(object, "used_ms", row->used_ms);
    tern_json_u64(object, "clients", clients);
    return object;
}

static bool list_replica(void *ctx, const struct tern_db_replica *row, uint64_t clients)
{
    struct listing *listing = ctx;
    char id[2 * TERN_SHA256_SIZE + 1];
    char bytes[TERN_TEXT];
    if (listing->rows != NULL) {
        cJSON_AddItemToArray(listing->rows, json_of_replica(row, clients));
        return true;
    }
    short_id(row->id, id);
    printf("%8" PRIu32 "  %-12s  %-8s  %-10s %9" PRIu32 "  %10s  %10.4g  %7" PRIu64 "\n",
           row->version, id, kind_of(row), forms[row->form], row->depth,
           tern_text_bytes((double)row->bytes, bytes), (double)row->residual, clients);
    return true;
}

// --- What a client holds

// NULL and TERN_OK: nothing is known of its replica.
static enum tern_result held_by(struct tern_db *db, const struct tern_db_client *client,
                                struct tern_db_replica *row, bool *known)
{
    enum tern_result found = tern_db_replica_get(db, client->replica, row);
    *known = found == TERN_OK;
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

static cJSON *json_of_client(const struct tern_db_client *client, const struct tern_db_replica *row,
                             bool known)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "client", client->id);
    cJSON_AddStringToObject(object, "name", client->name);
    tern_json_hash(object, "replica", client->replica);
    tern_json_u64(object, "version", client->version);
    cJSON_AddBoolToObject(object, "known", known);
    if (known) {
        cJSON_AddStringToObject(object, "kind", kind_of(row));
        cJSON_AddStringToObject(object, "kept_as", forms[row->form]);
        tern_json_u64(object, "downloads", row->depth);
        tern_json_u64(object, "download_bytes", row->bytes);
        tern_json_float(object, "residual", row->residual);
    }
    return object;
}

static bool list_client(void *ctx, const struct tern_db_client *client)
{
    struct listing *listing = ctx;
    struct tern_db_replica row;
    bool known = false;
    listing->result = held_by(listing->db, client, &row, &known);
    if (listing->result == TERN_OK && !client->revoked) {
        cJSON_AddItemToArray(listing->rows, json_of_client(client, &row, known));
    }
    return listing->result == TERN_OK;
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
    printf("kept as   %s", forms[row->form]);
    if (row->depth > 0) {
        printf(", %" PRIu32 " since what is kept whole (%s)", row->depth,
               tern_text_bytes((double)row->bytes, text));
    }
    printf("\n");
}

static int show_one(struct tern_cli *cli, struct tern_db *db, uint64_t id)
{
    struct tern_db_client client;
    struct tern_db_replica row;
    bool known = false;
    enum tern_result result = tern_db_client_get(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, id, result);
    }
    result = held_by(db, &client, &row, &known);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        return tern_json_print(cli, json_of_client(&client, &row, known));
    }
    print_client(&client, &row, known);
    return TERN_EXIT_OK;
}

// --- All

static cJSON *json_of_totals(const struct tern_db_replica_totals *totals)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "count", totals->replicas);
    tern_json_u64(object, "of_versions", totals->trunk);
    tern_json_u64(object, "kept_whole", totals->whole);
    tern_json_u64(object, "whole_bytes", totals->whole_bytes);
    tern_json_u64(object, "downloads", totals->downloads);
    tern_json_u64(object, "download_bytes", totals->download_bytes);
    return object;
}

static enum tern_result list_json(struct tern_db *db, cJSON *object)
{
    struct listing replicas = {.db = db, .rows = cJSON_AddArrayToObject(object, "replicas")};
    struct listing clients = {.db = db, .rows = cJSON_AddArrayToObject(object, "clients")};
    TERN_TRY(tern_db_replica_each(db, list_replica, &replicas));
    TERN_TRY(tern_db_client_each(db, list_client, &clients));
    return clients.result;
}

static enum tern_result list_text(struct tern_db *db, const struct tern_db_replica_totals *totals)
{
    struct listing listing = {.db = db};
    char whole[TERN_TEXT];
    char downloads[TERN_TEXT];
    printf("%8s  %-12s  %-8s  %-10s %9s  %10s  %10s  %7s\n", "VERSION", "REPLICA", "KIND",
           "KEPT AS", "DOWNLOADS", "BYTES", "RESIDUAL", "CLIENTS");
    TERN_TRY(tern_db_replica_each(db, list_replica, &listing));
    printf("%" PRIu64 " replicas, %" PRIu64 " of versions; %" PRIu64 " downloads (%s), %" PRIu64
           " kept whole (%s)\n",
           totals->replicas, totals->trunk, totals->downloads,
           tern_text_bytes((double)totals->download_bytes, downloads), totals->whole,
           tern_text_bytes((double)totals->whole_bytes, whole));
    return TERN_OK;
}

static int show_all(struct tern_cli *cli, struct tern_db *db)
{
    struct tern_db_replica_totals totals;
    cJSON *object = NULL;
    enum tern_result result = tern_db_replica_totals(db, &totals);
    if (result == TERN_OK && cli->json) {
        object = json_of_totals(&totals);
        result = list_json(db, object);
    } else if (result == TERN_OK) {
        result = list_text(db, &totals);
    }
    if (result != TERN_OK) {
        cJSON_Delete(object);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return cli->json ? tern_json_print(cli, object) : TERN_EXIT_OK;
}

int tern_cli_replicas(struct tern_cli *cli)
{
    int code;
    uint64_t id;
    if (!tern_state_client(cli, &id, &code)) {
        return code;
    }
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    return id > 0 ? show_one(cli, db, id) : show_all(cli, db);
}
