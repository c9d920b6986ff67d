// Lists of bytes and shares (report), replicas, schedules and error buffers (ledger).
#include "cli/figures.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "views/held_out.h"

#include <inttypes.h>
#include <string.h>

// --- Bytes

static const struct {
    const char *by;
    const struct tern_view *view;
} groups[] = {{"purpose", &tern_view_purpose_bytes},
              {"client", &tern_view_client_bytes},
              {"round", &tern_view_round_bytes}};

static enum tern_result add_up(struct tern_db *db, struct tern_db_meter *total)
{
    struct tern_db_meter row;
    struct tern_db_rows *rows = tern_db_meter_sums(db, TERN_METER_BY_PURPOSE);
    *total = (struct tern_db_meter){.client = 0};
    while (tern_db_next(rows, &row)) {
        tern_bytes_add(&total->up, &row.up);
        tern_bytes_add(&total->down, &row.down);
        total->exchanges += row.exchanges;
    }
    return tern_db_end(rows);
}

// Prints the mean bytes of a client in a round, which is what a user pays for.
static void print_mean(const struct tern_figures *figures)
{
    const struct tern_round_bytes *all = &figures->total;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    if (all->participants == 0) {
        return;
    }
    tern_text_bytes(tern_figures_mean(all->up.wire, all->participants), up);
    tern_text_bytes(tern_figures_mean(all->down.wire, all->participants), down);
    printf("Per client and round on the wire: %s up, %s down\n", up, down);
    printf("  all bytes of the clients that train, divided by the %" PRIu32 " accepted updates\n",
           all->participants);
    tern_figures_print_outside(figures, "  ");
}

static enum tern_result print_bytes(struct tern_view_rows *rows)
{
    struct tern_figures figures;
    struct tern_db_meter total;
    TERN_TRY(tern_figures_load(rows->db, &figures));
    TERN_TRY(add_up(rows->db, &total));
    printf("\nIn total on the wire: %" PRIu64 " bytes up, %" PRIu64 " bytes down, in %" PRIu64
           " exchanges\n",
           total.up.wire, total.down.wire, total.exchanges);
    print_mean(&figures);
    return TERN_OK;
}

static enum tern_result add_bytes(cJSON *object, struct tern_view_rows *rows)
{
    struct tern_figures figures;
    struct tern_db_meter total;
    TERN_TRY(tern_figures_load(rows->db, &figures));
    TERN_TRY(add_up(rows->db, &total));
    cJSON *sums = cJSON_AddObjectToObject(object, "total");
    tern_figures_add_totals(sums, &total.up, &total.down);
    tern_json_u64(sums, "exchanges", total.exchanges);
    tern_figures_add_json(object, &figures);
    return TERN_OK;
}

static int report_bytes(struct tern_cli *cli)
{
    static const struct tern_listing_sums sums = {print_bytes, add_bytes};
    const char *by = tern_cli_option(cli, "by", "purpose");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (strcmp(by, groups[i].by) == 0) {
            return tern_list(cli, groups[i].view, &sums);
        }
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "--by must be purpose, client or round, not '%s'",
                         by);
}

// --- Fairness

static void print_fairness(const char *name, const struct tern_fairness *fairness)
{
    printf("%-9s %8" PRIu32 " %8.1f %8" PRIu32 " %8.3f\n", name, fairness->least, fairness->median,
           fairness->most, fairness->jain);
}

static void print_held_out(const struct tern_held_outs *all)
{
    size_t count = 0;
    const uint32_t version = all->count > 0 ? all->list[all->count - 1].version : 0;
    const struct tern_held_out *of = tern_held_outs_of(all, version, &count);
    for (size_t i = 0; i < count; i++) {
        const struct tern_spread *spread = &of[i].spread;
        if (i == 0) {
            printf("\nHeld-out data of %" PRIu32 " clients: metrics of the %s of version %" PRIu32
                   ", before training\n",
                   spread->clients, of->model == TERN_EVALUATED_GLOBAL ? "global model" : "replica",
                   version);
            printf("%-15s %9s %9s %9s %9s %12s\n", "", "WEIGHTED", "MEAN", "DEVIATION", "WORST",
                   "OF CLIENT");
        }
        printf("%-15s %9.4f %9.4f %9.4f %9.4f %12" PRIu64 "\n", of[i].name, spread->weighted_mean,
               spread->mean, tern_spread_deviation(spread), spread->worst, spread->worst_client);
    }
}

static enum tern_result print_summary(struct tern_view_rows *rows)
{
    const struct tern_fairness_summary *summary = tern_view_fairness_summary(rows);
    printf("\nRounds per client: %" PRIu32 " clients, %" PRIu32 " rounds\n", summary->clients,
           summary->rounds);
    printf("%-9s %8s %8s %8s %8s\n", "", "MIN", "MEDIAN", "MAX", "JAIN");
    print_fairness("invited", &summary->invited);
    print_fairness("reported", &summary->reported);
    printf("  Jain's index: 1 = equal for all clients, 1/clients = one client has all\n");
    print_held_out(summary->held_outs);
    return TERN_OK;
}

static void add_fairness(cJSON *object, const char *name, const struct tern_fairness *fairness)
{
    cJSON *row = cJSON_AddObjectToObject(object, name);
    tern_json_u64(row, "min", fairness->least);
    tern_json_float(row, "median", (float)fairness->median);
    tern_json_u64(row, "max", fairness->most);
    tern_json_float(row, "jain", (float)fairness->jain);
}

static enum tern_result add_summary(cJSON *object, struct tern_view_rows *rows)
{
    const struct tern_fairness_summary *summary = tern_view_fairness_summary(rows);
    const struct tern_held_outs *all = summary->held_outs;
    tern_json_u64(object, "rounds", summary->rounds);
    tern_json_u64(object, "clients", summary->clients);
    add_fairness(object, "invited", &summary->invited);
    add_fairness(object, "reported", &summary->reported);
    if (all->count > 0) {
        const uint32_t newest = all->list[all->count - 1].version;
        tern_json_u64(object, "held_out_version", newest);
        tern_held_outs_json(object, all, newest);
    }
    return TERN_OK;
}

int tern_cli_report(struct tern_cli *cli)
{
    static const struct tern_listing_sums fairness = {print_summary, add_summary};
    const char *what = cli->arguments[0];
    if (strcmp(what, "bytes") == 0) {
        return report_bytes(cli);
    }
    if (strcmp(what, "fairness") == 0) {
        return tern_list(cli, &tern_view_fairness, &fairness);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "there is no report '%s': use bytes or fairness",
                         what);
}

// --- Replicas, schedules and error buffers

int tern_cli_schedule(struct tern_cli *cli)
{
    return tern_list(cli, &tern_view_schedule, NULL);
}

int tern_cli_ledger(struct tern_cli *cli)
{
    return tern_list(cli, &tern_view_ledger, NULL);
}

static enum tern_result print_totals(struct tern_view_rows *rows)
{
    struct tern_db_replica_totals totals;
    char whole[TERN_TEXT];
    char downloads[TERN_TEXT];
    TERN_TRY(tern_db_replica_totals(rows->db, &totals));
    printf("%" PRIu64 " replicas, %" PRIu64 " of them shared by a version; %" PRIu64
           " downloads (%s), %" PRIu64 " stored whole (%s)\n",
           totals.replicas, totals.trunk, totals.downloads,
           tern_text_bytes((double)totals.download_bytes, downloads), totals.whole,
           tern_text_bytes((double)totals.whole_bytes, whole));
    return TERN_OK;
}

static enum tern_result add_totals(cJSON *object, struct tern_view_rows *rows)
{
    struct tern_db_replica_totals totals;
    TERN_TRY(tern_db_replica_totals(rows->db, &totals));
    tern_json_replica_totals(object, &totals);
    return TERN_OK;
}

int tern_cli_replicas(struct tern_cli *cli)
{
    static const struct tern_listing_sums sums = {print_totals, add_totals};
    return tern_cli_flag(cli, "clients") || cli->argument_count > 0
               ? tern_list(cli, &tern_view_held, NULL)
               : tern_list(cli, &tern_view_replicas, &sums);
}
