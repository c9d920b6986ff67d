// CSV tables from hostile bytes: an accepted table is rectangular, finite and within the limits, and a
// profile has looked at every row that it has.
#include "data/csv_table.h"
#include "hosted/csv_judge.h"
#include "util/math.h"
#include <stdbool.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct tern_data_limits limits = {
    .max_bytes = 1 << 16, .max_examples = 500, .max_features = 40, .max_classes = 20};

static const struct tern_csv_choice choices[] = {
    {0},
    {.label = "0"},
    {.label = "-1", .drop = "0|1"},
    {.label = "y", .drop = "a|b"},
    {.classes = "x|y|z|0|1"},
    {.group = "0", .missing = TERN_CSV_MISSING_SKIP},
    {.label = "y", .group = "g", .missing = TERN_CSV_MISSING_REFUSE},
    {.label = "0", .numeric = true},
    {.label = "y", .numeric = true, .group = "g"},
    {.unlabelled = true, .header = TERN_CSV_HEADER_NO},
    {.label = "1", .features_only = true, .header = TERN_CSV_HEADER_YES, .drop = "a,b"},
};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void use(const struct tern_table *table, bool groups, uint32_t group_count)
{
    const struct tern_rows *rows = &table->rows;
    require(rows->count >= 1 && rows->count <= limits.max_examples);
    require(rows->features >= 1 && rows->features <= limits.max_features);
    require(rows->classes >= 1 && rows->classes <= limits.max_classes);
    uint64_t missing = 0;
    for (size_t i = 0; i < (size_t)rows->count * rows->features; i++) {
        missing += !tern_is_finite(rows->values[i]);
    }
    require(missing == table->missing);
    for (uint32_t i = 0; i < rows->count; i++) {
        require(rows->labels[i] < rows->classes);
        require(groups == (rows->groups != NULL));
        require(!groups || rows->groups[i] < group_count);
        require(rows->targets == NULL || tern_is_finite(rows->targets[i]));
    }
}

static void count_problem(void *ctx, enum tern_csv_level level, enum tern_result result,
                          const char *area, const char *sentence)
{
    uint32_t *problems = ctx;
    require((level == TERN_CSV_PROBLEM) == (result != TERN_OK));
    require(area[0] != '\0' && sentence[0] != '\0');
    *problems += level == TERN_CSV_PROBLEM;
}

// A table that a reader of examples takes has no problem by its profile.
static void profile(const uint8_t *bytes, size_t size, const struct tern_csv_choice *choice,
                    bool accepted)
{
    char why[TERN_INPUT_WHY_MAX] = "";
    char classes[256];
    struct tern_csv_profile found;
    struct tern_input input;
    uint32_t problems = 0;
    tern_input_from_memory(&input, bytes, size, limits.max_bytes, why);
    if (tern_csv_profile_read(&input, choice, &found) != TERN_OK) {
        require(why[0] != '\0' && !accepted);
        tern_csv_profile_free(&found);
        return;
    }
    require(found.rows >= 1);
    for (uint32_t c = 0; c < found.columns.count; c++) {
        const struct tern_csv_column *column = &found.column[c];
        require(column->numbers == 0 || column->low <= column->high);
        require(column->distinct <= column->order.count + column->flags.count);
        require(!column->feature ||
                column->numbers + column->bad.count + column->missing.count + column->huge.count ==
                    found.rows);
    }
    const struct tern_csv_judging judging = {
        .profile = &found, .choice = choice, .report = count_problem, .ctx = &problems};
    tern_csv_judge(&judging);
    require(!accepted || problems == 0);
    (void)tern_csv_profile_classes(&found, classes, sizeof classes);
    tern_csv_profile_free(&found);
}

// The first byte picks the options.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_table table;
    struct tern_input input;
    if (size < 1) {
        return 0;
    }
    struct tern_name_set groups;
    const struct tern_csv_choice *choice =
        &choices[bytes[0] % (sizeof choices / sizeof choices[0])];
    struct tern_table_config config = {.choice = *choice};
    tern_name_set_init(&groups, 50);
    config.groups = &groups;
    tern_input_from_memory(&input, bytes + 1, size - 1, limits.max_bytes, why);
    const bool accepted = tern_csv_table_read(&input, &config, &limits, &table) == TERN_OK;
    profile(bytes + 1, size - 1, choice, accepted);
    if (accepted) {
        use(&table, choice->group != NULL, groups.count);
    } else {
        require(why[0] != '\0' && table.rows.values == NULL && table.rows.labels == NULL);
    }
    tern_table_free(&table);
    tern_name_set_free(&groups);
    return 0;
}
