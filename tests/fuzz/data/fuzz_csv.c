// CSV tables from hostile bytes: an accepted table is rectangular, finite and within the limits.
#include "data/table.h"
#include "util/math.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct tern_data_limits limits = {
    .max_bytes = 1 << 16, .max_examples = 500, .max_features = 40, .max_classes = 20};

static const struct tern_table_config configs[] = {
    {NULL, NULL, NULL}, {"0", NULL, NULL},         {"-1", "0|1", NULL},
    {"y", "a|b", NULL}, {NULL, NULL, "x|y|z|0|1"},
};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void use(const struct tern_table *table)
{
    require(table->rows >= 1 && table->rows <= limits.max_examples);
    require(table->features >= 1 && table->features <= limits.max_features);
    require(table->classes >= 1 && table->classes <= limits.max_classes);
    for (size_t i = 0; i < (size_t)table->rows * table->features; i++) {
        require(tern_is_finite(table->values[i]));
    }
    for (uint32_t i = 0; i < table->rows; i++) {
        require(table->labels[i] < table->classes);
    }
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
    const struct tern_table_config *config =
        &configs[bytes[0] % (sizeof configs / sizeof configs[0])];
    tern_input_from_memory(&input, bytes + 1, size - 1, limits.max_bytes, why);
    if (tern_csv_table_read(&input, config, &limits, &table) == TERN_OK) {
        use(&table);
    } else {
        require(why[0] != '\0' && table.values == NULL && table.labels == NULL);
    }
    tern_table_free(&table);
    return 0;
}
