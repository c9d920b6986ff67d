// Views: one definition of columns behind JSON, CSV and the table, and what the options of a list select.
#include "store/fixture.h"
#include "views/view.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tern_view *const views[] = {
    &tern_view_clients,       &tern_view_client_rounds, &tern_view_schedule,    &tern_view_ledger,
    &tern_view_codes,         &tern_view_replicas,      &tern_view_held,        &tern_view_rounds,
    &tern_view_purpose_bytes, &tern_view_client_bytes,  &tern_view_round_bytes, &tern_view_fairness,
};
#define VIEWS (sizeof views / sizeof views[0])

// --- A federation with a row in each list

static void add_client(struct fixture *f, uint8_t token, const char *name, const char *tags)
{
    struct tern_db_client client = {.last_seen_ms = 1000,
                                    .scaled_down = 10U - token,
                                    .budgeted = token == 2,
                                    .budget_left = 5000,
                                    .budget_spent = 2000};
    snprintf(client.name, sizeof client.name, "%s", name);
    snprintf(client.tags, sizeof client.tags, "%s", tags);
    memset(client.token_hash, token, sizeof client.token_hash);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_add(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
}

static int setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    const struct tern_db_code code = {.label = "lab", .uses_left = 2, .expires_ms = 9};
    const struct tern_db_schedule schedule = {.client = 2, .local_steps = 7, .reason = "fixed"};
    const struct tern_db_ledger ledger = {.client = 3, .generation = 5, .norm = 0.5F, .round = 1};
    const struct tern_db_replica replica = {.id = {1}, .form = TERN_REPLICA_SEED, .trunk = true};
    const struct tern_db_assignment assignment = {
        .round = 1, .client = 1, .state = TERN_ASSIGNMENT_INVITED, .local_steps = 3};
    struct tern_db_meter meter = {.client = 1, .round = 1, .purpose = TERN_PURPOSE_UPLOAD};
    meter.up.wire = 100;
    add_client(f, 1, "one, \"1\"", "site=a,line=3");
    add_client(f, 2, "two", "site=b");
    add_client(f, 3, "three", "site=a");
    for (uint32_t round = 1; round <= 3; round++) {
        fixture_round(f, round);
    }
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_code_add(f->db, &code));
    assert_ok(f, tern_db_schedule_put(f->db, &schedule));
    assert_ok(f, tern_db_ledger_put(f->db, &ledger));
    assert_ok(f, tern_db_replica_put(f->db, &replica));
    assert_ok(f, tern_db_assignment_put(f->db, &assignment, NULL));
    assert_ok(f, tern_db_meter_add(f->db, &meter));
    assert_ok(f, tern_db_commit(f->db));
    return 0;
}

static struct tern_view_rows *open_rows(struct fixture *f, const struct tern_view *view,
                                        struct tern_view_query query)
{
    struct tern_view_rows *rows;
    char why[TERN_VIEW_WHY_MAX];
    query.now_ms = 10000;
    query.client = view == &tern_view_client_rounds ? 1 : query.client;
    assert_ok(f, tern_view_open(view, f->db, &query, &rows, why));
    return rows;
}

// --- One definition

// "last_seen_ms" as "LAST SEEN"; what a TITLED or VALUE column has in its place is in the definition alone.
static bool is_heading(const struct tern_view_column *column, const char *line)
{
    char text[64];
    if (column->heading != NULL) {
        return strstr(line, column->heading) != NULL;
    }
    const char *end = strstr(column->name, "_ms");
    snprintf(
        text, sizeof text, "%.*s",
        (int)(end != NULL && end[3] == '\0' ? (size_t)(end - column->name) : strlen(column->name)),
        column->name);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : (char)toupper((unsigned char)*at);
    }
    return strstr(line, text) != NULL;
}

// The bytes that a renderer writes; freed by the caller.
static char *written(struct fixture *f, const struct tern_view *view, struct tern_view_query query,
                     enum tern_result (*render)(struct tern_view_rows *rows, FILE *out))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct tern_view_rows *rows = open_rows(f, view, query);
    assert_ok(f, render(rows, out));
    assert_ok(f, tern_view_close(rows));
    fclose(out);
    return text;
}

static void api_csv_and_table_have_the_columns_of_the_definition(void **state)
{
    struct fixture *f = *state;
    for (size_t v = 0; v < VIEWS; v++) {
        const struct tern_view *view = views[v];
        const struct tern_view_query all = {.columns = "*"};
        struct tern_view_rows *rows = open_rows(f, view, all);
        cJSON *arrays = tern_view_arrays(rows);
        struct tern_view_column columns[64]; // with the headings of this federation
        memcpy(columns, rows->columns, rows->count * sizeof columns[0]);
        const struct tern_view_column *shown = columns;
        assert_ok(f, tern_view_close(rows));
        char *json = written(f, view, all, tern_view_write_json);
        char *csv = written(f, view, all, tern_view_write_csv);
        char *table = written(f, view, all, tern_view_write_table);
        cJSON *objects = cJSON_Parse(json);
        csv[strcspn(csv, "\n")] = '\0';
        table[strcspn(table, "\n")] = '\0';
        const char *at = csv;
        const cJSON *array = arrays->child;
        const cJSON *member = objects->child->child; // each view has a row
        for (size_t i = 0; i < view->count; i++) {
            const struct tern_view_column *column = &view->columns[i];
            if (column->name == NULL) {
                continue;
            }
            const size_t len = strcspn(at, ",");
            assert_true(strlen(column->name) == len && strncmp(at, column->name, len) == 0);
            at += len + (at[len] == ',');
            assert_string_equal(array->string, column->name);
            assert_string_equal(member->string, column->name);
            assert_true(is_heading(shown++, table));
            array = array->next;
            member = member->next;
        }
        assert_true(array == NULL && member == NULL && *at == '\0');
        cJSON_Delete(arrays);
        cJSON_Delete(objects);
        free(json);
        free(csv);
        free(table);
    }
}

static void columns_have_names_of_their_own_and_a_sentence(void **state)
{
    struct fixture *f = *state;
    for (size_t v = 0; v < VIEWS; v++) {
        const struct tern_view *view = views[v];
        for (size_t i = 0; i < view->count; i++) {
            const struct tern_view_column *column = &view->columns[i];
            for (size_t j = 0; column->name != NULL && j < i; j++) {
                assert_true(view->columns[j].name == NULL ||
                            strcmp(view->columns[j].name, column->name) != 0);
            }
            assert_true(column->name == NULL ||
                        (column->help[0] != '\0' && column->help[strlen(column->help) - 1] != '.'));
        }
        free(written(f, view, (struct tern_view_query){.columns = view->usual},
                     tern_view_write_table));
    }
}

// The API's description of a column, in place of which the dashboard has nothing of its own.
static void expect_described(const struct tern_view *view, const char *name, const char *title,
                             const char *format, bool listed)
{
    cJSON *help = tern_view_help(view);
    const cJSON *column = help->child;
    while (column != NULL && strcmp(cJSON_GetObjectItem(column, "name")->valuestring, name) != 0) {
        column = column->next;
    }
    assert_non_null(column);
    assert_string_equal(cJSON_GetObjectItem(column, "title")->valuestring, title);
    assert_string_equal(cJSON_GetObjectItem(column, "format")->valuestring, format);
    assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(column, "listed")), listed);
    cJSON_Delete(help);
}

static void the_dashboard_is_told_its_columns(void **state)
{
    (void)state;
    expect_described(&tern_view_clients, "id", "ID", "plain", true);
    expect_described(&tern_view_clients, "last_seen_ms", "Last seen", "ago", true);
    expect_described(&tern_view_clients, "replica", "Replica", "id", true);
    expect_described(&tern_view_clients, "platform", "Platform", "long", false);
    expect_described(&tern_view_rounds, "accuracy", "Accuracy", "share", true);
    expect_described(&tern_view_rounds, "took_ms", "Time", "duration", true);
    expect_described(&tern_view_rounds, "score", "Score", "score", false); // costly
    expect_described(&tern_view_codes, "uses", "Uses left", "plain", true);
}

// --- Options

// The ids or rounds that a query selects, as "1,3".
static const char *selected(struct fixture *f, const struct tern_view *view,
                            struct tern_view_query query)
{
    static char text[256];
    struct tern_view_rows *rows = open_rows(f, view, query);
    size_t key = 0;
    text[0] = '\0';
    while (strcmp(rows->columns[key].name, view->key) != 0) {
        key++;
    }
    while (tern_view_next(rows)) {
        struct tern_view_value value;
        const size_t len = strlen(text);
        tern_view_value(rows->row, &rows->columns[key], &value);
        snprintf(text + len, sizeof text - len, "%s%d", len > 0 ? "," : "", (int)value.number);
    }
    assert_ok(f, tern_view_close(rows));
    return text;
}

static void conditions_select_rows(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *where;
        const char *ids;
    } cases[] = {
        {"id=2", "2"},
        {"id=2.0", "2"},
        {"id=", ""},
        {"name=one, \"1\"", "1"},
        {"tag=site=a", "1,3"},
        {"tag=site", "1,2,3"},
        {"tag=sit", ""},
        {"tag=site=a,tag=line=3", "1"},
        {"tags=site=a,line=3", "1"},
        {"tag=site=a,state=active,id=3", "3"},
        {"revoked=no", "1,2,3"},
        {"revoked=true", ""},
        {"budget_left=", "1,3"},
        {"budget_left=3000", "2"},
        {"local_steps=7", "2"},
        {"error_norm=0.5", "3"},
        {"anomaly=none", "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(
            selected(f, &tern_view_clients, (struct tern_view_query){.where = cases[i].where}),
            cases[i].ids);
    }
}

static void rows_are_sorted_and_the_last_taken(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct tern_view_query query;
        const char *ids;
    } cases[] = {
        {{.sort = "scaled_down"}, "3,2,1"},
        {{.sort = "-scaled_down"}, "1,2,3"},
        {{.sort = "name"}, "1,3,2"},
        {{.sort = "-name", .last = 2}, "3,1"},
        {{.sort = "error_norm"}, "1,2,3"}, // what is not known comes first
        {{.sort = "-error_norm"}, "1,2,3"},
        {{.sort = "replica"}, "1,2,3"},
        {{.last = 2}, "2,3"},
        {{.last = 9}, "1,2,3"},
        {{.last = 1, .where = "tag=site=a"}, "3"},
        {{.sort = "scaled_down", .last = 1}, "1"},
        {{.after = 1}, "2,3"},
        {{.after = 1, .limit = 1}, "2"},
        {{.client = 2}, "2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(selected(f, &tern_view_clients, cases[i].query), cases[i].ids);
    }
    assert_string_equal(selected(f, &tern_view_rounds, (struct tern_view_query){.last = 2}), "2,3");
    assert_string_equal(
        selected(f, &tern_view_rounds, (struct tern_view_query){.sort = "-round", .last = 2}),
        "2,1");
    assert_string_equal(selected(f, &tern_view_schedule, (struct tern_view_query){.client = 1}),
                        "");
}

static void a_wrong_option_names_the_columns(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct tern_view_query query;
        const char *why;
    } cases[] = {
        {{.columns = "id,naem"},
         "no column 'naem' (did you mean name?); the columns are id, name,"},
        {{.columns = ""}, "no column ''"},
        {{.columns = "id,"}, "no column ''"},
        {{.sort = "-wat"}, "no column 'wat'; the columns are id, name,"},
        {{.columns = "zz*"}, "no column 'zz*'"},
        {{.where = "wat=3"}, "no column 'wat'"},
        {{.where = "id>=3"}, "a condition is COLUMN=VALUE, not 'id>=3'"},
        {{.where = "name!=a"}, "a condition is COLUMN=VALUE, not 'name!=a'"},
        {{.where = "id"}, "a condition is COLUMN=VALUE, not 'id'"},
        {{.where = "id=x"}, "column 'id' has numbers, not 'x'"},
        {{.where = "revoked=1"}, "column 'revoked' is yes or no, not '1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tern_view_rows *rows;
        char why[TERN_VIEW_WHY_MAX];
        assert_int_equal(tern_view_open(&tern_view_clients, f->db, &cases[i].query, &rows, why),
                         TERN_ERR_ARGUMENT);
        assert_non_null(strstr(why, cases[i].why));
    }
}

static void columns_come_as_asked(void **state)
{
    struct fixture *f = *state;
    char *csv = written(f, &tern_view_clients,
                        (struct tern_view_query){.columns = "name,id,wire_*", .where = "id=1"},
                        tern_view_write_csv);
    assert_string_equal(csv, "name,id,wire_up,wire_down\n\"one, \"\"1\"\"\",1,100,0\n");
    free(csv);
    char *json = written(f, &tern_view_clients,
                         (struct tern_view_query){.columns = "id,budget_left", .where = "id=9"},
                         tern_view_write_json);
    assert_string_equal(json, "[]");
    free(json);
    json = written(f, &tern_view_clients,
                   (struct tern_view_query){.columns = "id,budget_left,revoked", .last = 2},
                   tern_view_write_json);
    assert_string_equal(json, "[{\"id\":2,\"budget_left\":3000,\"revoked\":false},"
                              "{\"id\":3,\"budget_left\":null,\"revoked\":false}]");
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(api_csv_and_table_have_the_columns_of_the_definition, setup,
                                        fixture_teardown),
        cmocka_unit_test(the_dashboard_is_told_its_columns),
        cmocka_unit_test_setup_teardown(columns_have_names_of_their_own_and_a_sentence, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(conditions_select_rows, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(rows_are_sorted_and_the_last_taken, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_wrong_option_names_the_columns, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(columns_come_as_asked, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
