// Lists of clients: the replicas they hold, how much they train, and their error buffers.
#include "cli/listing.h"
#include "cli/verbs.h"

#include <inttypes.h>

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
    printf("%" PRIu64 " replicas, %" PRIu64 " of versions; %" PRIu64 " downloads (%s), %" PRIu64
           " kept whole (%s)\n",
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
