#include "store/schema.h"

#include "store/nodes.h"
#include "store/parts.h"
#include "store/ticket_keys.h"

#include <assert.h>
#include <stdio.h>

static const struct tern_column federation_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_federation, __VA_ARGS__)
#include "store/tables/federation.def"
};
static const struct tern_column files_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_file_row, __VA_ARGS__)
#include "store/tables/files.def"
};
static const struct tern_column clients_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_client, __VA_ARGS__)
#include "store/tables/clients.def"
};
static const struct tern_column psk_keys_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_psk, __VA_ARGS__)
#include "store/tables/psk_keys.def"
};
static const struct tern_column ticket_keys_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_ticket_keys, __VA_ARGS__)
#include "store/tables/ticket_keys.def"
};
static const struct tern_column codes_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_code, __VA_ARGS__)
#include "store/tables/codes.def"
};
static const struct tern_column rounds_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_round, __VA_ARGS__)
#include "store/tables/rounds.def"
};
static const struct tern_column assignments_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_assignment, __VA_ARGS__)
#include "store/tables/assignments.def"
};
static const struct tern_column updates_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_update, __VA_ARGS__)
#include "store/tables/updates.def"
};
static const struct tern_column update_bodies_columns[] = {
#define BODIES_OF updates
#define COLUMN(...) TERN_TABLE_COLUMN(tern_body_row, __VA_ARGS__)
#include "store/tables/bodies.def"
};
static const struct tern_column parts_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_part, __VA_ARGS__)
#include "store/tables/parts.def"
};
static const struct tern_column versions_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_version, __VA_ARGS__)
#include "store/tables/versions.def"
};
static const struct tern_column weights_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_part_row, __VA_ARGS__)
#include "store/tables/weights.def"
};
static const struct tern_column downloads_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_download, __VA_ARGS__)
#include "store/tables/downloads.def"
};
static const struct tern_column download_bodies_columns[] = {
#define BODIES_OF downloads
#define COLUMN(...) TERN_TABLE_COLUMN(tern_body_row, __VA_ARGS__)
#include "store/tables/bodies.def"
};
static const struct tern_column replicas_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_replica, __VA_ARGS__)
#include "store/tables/replicas.def"
};
static const struct tern_column ledger_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_ledger, __VA_ARGS__)
#include "store/tables/ledger.def"
};
static const struct tern_column schedule_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_schedule, __VA_ARGS__)
#include "store/tables/schedule.def"
};
static const struct tern_column evaluations_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_evaluation, __VA_ARGS__)
#include "store/tables/evaluations.def"
};
static const struct tern_column metrics_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_metric, __VA_ARGS__)
#include "store/tables/metrics.def"
};
static const struct tern_column statistics_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_statistics, __VA_ARGS__)
#include "store/tables/statistics.def"
};
static const struct tern_column meter_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_meter, __VA_ARGS__)
#include "store/tables/meter.def"
};
static const struct tern_column totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_totals_row, __VA_ARGS__)
#include "store/tables/totals.def"
};
static const struct tern_column purpose_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_purpose_total_row, __VA_ARGS__)
#include "store/tables/purpose_totals.def"
};
static const struct tern_column round_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_round_total, __VA_ARGS__)
#include "store/tables/round_totals.def"
};
static const struct tern_column client_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_client_total, __VA_ARGS__)
#include "store/tables/client_totals.def"
};

static const struct tern_column relayed_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_relayed, __VA_ARGS__)
#include "store/tables/relayed.def"
};
static const struct tern_column answers_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_answer, __VA_ARGS__)
#include "store/tables/answers.def"
};

static const struct tern_column node_settings_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_node_settings, __VA_ARGS__)
#include "store/tables/node_settings.def"
};

#define TABLE(name)                                                                                \
    const struct tern_table tern_table_##name = {                                                  \
        #name, name##_columns, sizeof name##_columns / sizeof name##_columns[0]};
TERN_TABLES(TABLE)

#define LISTED(name) &tern_table_##name,
const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES] = {TERN_TABLES(LISTED)};

static const char indexes[] =
    "CREATE INDEX clients_by_code ON clients (code);"
    "CREATE INDEX clients_by_replica ON clients (replica);"
    "CREATE INDEX clients_revoked ON clients (id) WHERE revoked = 1;"
    "CREATE INDEX clients_evaluating ON clients (id) WHERE evaluator = 1;"
    "CREATE INDEX clients_unreporting ON clients (unreported) WHERE unreported > 0;"
    "CREATE INDEX clients_failing ON clients (failed_round) WHERE failed_round > 0;"
    "CREATE INDEX metrics_by_client ON metrics (client, version);"
    "CREATE INDEX rounds_open ON rounds (round) WHERE state = 0;"
    "CREATE UNIQUE INDEX updates_by_round ON updates (round, client);"
    "CREATE INDEX updates_by_merged ON updates (merged) WHERE merged > 0;"
    "CREATE INDEX versions_by_replica ON versions (replica);"
    "CREATE INDEX downloads_by_end ON downloads (to_version, snapshot);"
    "CREATE INDEX downloads_snapshots ON downloads (to_version) WHERE snapshot = 1;"
    "CREATE INDEX downloads_by_start ON downloads (from_replica, to_version);"
    "CREATE INDEX downloads_by_replica ON downloads (to_replica);"
    "CREATE INDEX replicas_by_use ON replicas (used_ms) WHERE children = 0;"
    "CREATE INDEX replicas_suspect ON replicas (version) WHERE suspect = 1;";

// Sums over history are kept as it is written, so that nobody has to count rows that only become
// more: those of what changes a few times in a round by the database itself, those of every update
// and every exchange once in a transaction (store_totals.c), since a statement with a trigger costs
// as much as three without: SQLite keeps a copy of each page that it changes. A round's states are those
// of store.h.
static_assert(TERN_ROUND_COMMITTED == 1, "the triggers say so");
#define IS_COMMITTED(row) "CASE " row ".state WHEN 1 THEN 1 ELSE 0 END"
static const struct {
    const char *name;
    const char *event;
    const char *statement;
} triggers[] = {
    {"totals_of_new_rounds", "INSERT ON rounds",
     "UPDATE totals SET rounds_committed = rounds_committed + " IS_COMMITTED(
         "NEW") ","
                " updates_applied = updates_applied + NEW.applied,"
                " updates_scaled_down = updates_scaled_down + NEW.scaled_down"},
    {"totals_of_rounds", "UPDATE ON rounds",
     "UPDATE totals SET rounds_committed = rounds_committed + " IS_COMMITTED(
         "NEW") " - " IS_COMMITTED("OLD") ","
                                          " updates_applied = updates_applied + NEW.applied - "
                                          "OLD.applied,"
                                          " updates_scaled_down = updates_scaled_down + "
                                          "NEW.scaled_down - OLD.scaled_down"},
    {"totals_of_dropped_bodies", "DELETE ON update_bodies",
     "UPDATE totals SET update_bodies = update_bodies - 1"},
    {"totals_of_new_downloads", "INSERT ON downloads",
     "UPDATE totals SET downloads = downloads + 1"},
    {"totals_of_dropped_downloads", "DELETE ON downloads",
     "UPDATE totals SET downloads = downloads - 1"},
};

static enum tern_result create_triggers(struct tern_sql *sql)
{
    char text[1024];
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++) {
        tern_sql_dialect(sql)->trigger(text, sizeof text, triggers[i].name, triggers[i].event,
                                       triggers[i].statement);
        TERN_TRY(tern_sql_run(sql, text));
    }
    return TERN_OK;
}

const char *const tern_schema_steps[] = {NULL};

// The version that the last step leads to.
static int newest(const char *const *steps)
{
    int version = 1;
    while (steps[version - 1] != NULL) {
        version++;
    }
    return version;
}

enum tern_result tern_schema_create(struct tern_sql *sql)
{
    TERN_TRY(tern_schema_create_tables(sql));
    TERN_TRY(tern_sql_run(sql, "INSERT INTO totals DEFAULT VALUES"));
    return tern_schema_complete(sql);
}

enum tern_result tern_schema_create_tables(struct tern_sql *sql)
{
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        TERN_TRY(tern_table_create(sql, tern_schema_tables[i]));
    }
    return TERN_OK;
}

enum tern_result tern_schema_complete(struct tern_sql *sql)
{
    TERN_TRY(tern_sql_run(sql, indexes));
    TERN_TRY(create_triggers(sql));
    return tern_sql_set_version(sql, newest(tern_schema_steps));
}

enum tern_result tern_schema_known(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    TERN_TRY(tern_sql_version(sql, &version));
    if (version >= 1 && version <= newest(steps)) {
        return TERN_OK;
    }
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "the database has version %lld, this program knows 1 to %d; install a newer Tern",
             (long long)version, newest(steps));
    return tern_sql_fail(sql, TERN_ERR_UNKNOWN, sentence);
}

enum tern_result tern_schema_current(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    char sentence[200];
    TERN_TRY(tern_schema_known(sql, steps));
    TERN_TRY(tern_sql_version(sql, &version));
    if (version == newest(steps)) {
        return TERN_OK;
    }
    snprintf(sentence, sizeof sentence,
             "the database has version %lld, this program works with %d: `tern-aggregator serve` "
             "brings it up to date at its start, once no older one has it open",
             (long long)version, newest(steps));
    return tern_sql_fail(sql, TERN_ERR_STATE, sentence);
}

static enum tern_result apply_each(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0; // read inside the transaction: another process may have been first
    TERN_TRY(tern_sql_version(sql, &version));
    for (int i = (int)version; i < newest(steps); i++) {
        TERN_TRY(tern_sql_run(sql, steps[i - 1]));
        TERN_TRY(tern_sql_set_version(sql, i + 1));
    }
    return TERN_OK;
}

static enum tern_result apply(struct tern_sql *sql, const char *const *steps)
{
    TERN_TRY(tern_sql_begin(sql));
    const enum tern_result result = apply_each(sql, steps);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    return tern_sql_commit(sql);
}

enum tern_result tern_schema_migrate(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    TERN_TRY(tern_schema_known(sql, steps));
    TERN_TRY(tern_sql_version(sql, &version));
    if (version == newest(steps)) { // somebody else has done it
        return tern_sql_use(sql, TERN_SQL_SHARED);
    }
    TERN_TRY(tern_sql_use(sql, TERN_SQL_ALONE));
    TERN_TRY(apply(sql, steps)); // what fails is closed next, which gives the database back
    return tern_sql_use(sql, TERN_SQL_SHARED);
}
