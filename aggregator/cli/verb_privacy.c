// privacy prints epsilon and delta of the federation, or why no epsilon is true.
#include "cli/serve_config.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "views/privacy.h"

int tern_cli_privacy(struct tern_cli *cli)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    const struct tern_privacy_settings settings = tern_serve_config_privacy(s);
    struct tern_privacy_report report;
    struct tern_db *db;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    const enum tern_result result = tern_privacy_load(db, &settings, s->round_rounds, &report);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        TERN_CLI_TRY(tern_json_print(cli, tern_privacy_json(&report)));
    } else {
        tern_privacy_print(&report, stdout);
    }
    return report.refusals == 0 ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}
