// What an operator says of a client.
#include "admin/rows.h"
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tagging {
    struct tern_cli *cli;
    uint64_t id;
    bool sets;
    char tags[TERN_DB_TAGS_MAX];
    struct tern_db_client before;
};

static int take_arguments(struct tern_cli *cli, struct tagging *tagging)
{
    const bool clears = tern_cli_flag(cli, "clear");
    const char *text = cli->argument_count == 2 ? cli->arguments[1] : "";
    if (clears && cli->argument_count == 2) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "tag takes tags or --clear, not both");
    }
    if (cli->argument_count == 2 && text[strspn(text, " ")] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "which tags? e.g. site=a,line=3; --clear leaves the client none");
    }
    tagging->sets = clears || cli->argument_count == 2;
    TERN_CLI_TRY(tern_state_client(cli, &tagging->id));
    return tern_state_tags(cli, text, tagging->tags);
}

static enum tern_result set(struct tagging *tagging, struct tern_db *db)
{
    TERN_TRY(tern_db_client_get(db, tagging->id, &tagging->before));
    return tern_db_client_tag(db, tagging->id, tagging->tags);
}

static enum tern_result apply(struct tagging *tagging, struct tern_db *db)
{
    if (!tagging->sets) {
        return tern_db_client_get(db, tagging->id, &tagging->before);
    }
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, set(tagging, db));
}

static int print_tags(const struct tagging *tagging)
{
    const char *before = tagging->before.tags;
    const char *tags = tagging->sets ? tagging->tags : before;
    char name[TERN_TEXT];
    if (tagging->cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "client", tagging->id);
        tern_json_text(object, "tags", tags);
        tern_json_text(object, "before", before);
        return tern_json_print(tagging->cli, object);
    }
    printf("Client %" PRIu64 " (%s) has %s%s.\n", tagging->id,
           tern_text_name(tagging->before.name, name), tags[0] != '\0' ? tags : "no tag",
           !tagging->sets              ? ""
           : strcmp(before, tags) == 0 ? ", as before"
                                       : " now");
    return TERN_EXIT_OK;
}

int tern_cli_tag(struct tern_cli *cli)
{
    struct tagging tagging = {.cli = cli};
    struct tern_db *db;
    TERN_CLI_TRY(take_arguments(cli, &tagging));
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = apply(&tagging, db);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, tagging.id, result);
    }
    tern_db_close(db);
    return print_tags(&tagging);
}
