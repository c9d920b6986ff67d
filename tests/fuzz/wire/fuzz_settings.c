// INI files and command-line overrides. What loads must print to a file that loads to the same
// values; what is refused must change nothing and say why.
#include "hosted/settings.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct example_settings {
#include "hosted/setting_fields.def"

#include "hosted/example_settings.def"

#include "hosted/setting_rows_end.def"
};

#include "hosted/example_spec.h"

#define TERN_SETTINGS_STRUCT struct example_settings
#include "hosted/setting_rows.h"
static const struct tern_setting table[] = {
#include "hosted/example_settings.def"
};
static const struct tern_settings_section foreign[] = {{"client", "tern-client"}, {NULL, NULL}};
static const struct tern_settings settings = TERN_SETTINGS("fuzz", table, foreign);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static enum tern_result load(struct example_settings *values, const void *data, size_t size)
{
    char why[512];
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    require(stream != NULL);
    enum tern_result result = tern_settings_load_stream(&settings, values, stream, "f", why);
    fclose(stream);
    require((result == TERN_OK) == (why[0] == '\0'));
    return result;
}

static void try_set(const uint8_t *data, size_t size)
{
    char why[512];
    struct example_settings values;
    struct example_settings before;
    char *assignment = malloc(size + 1);
    require(assignment != NULL);
    memcpy(assignment, data, size);
    assignment[size] = '\0';
    memset(&values, 0, sizeof(values));
    tern_settings_defaults(&settings, &values);
    before = values;
    if (tern_settings_set(&settings, &values, assignment, why) != TERN_OK) {
        require(why[0] != '\0' && memcmp(&before, &values, sizeof(values)) == 0);
    }
    free(assignment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct example_settings values;
    struct example_settings before;
    if (size == 0) {
        return 0;
    }
    memset(&values, 0, sizeof(values));
    tern_settings_defaults(&settings, &values);
    before = values;
    if (load(&values, data, size) != TERN_OK) {
        require(memcmp(&before, &values, sizeof(values)) == 0);
    }
    try_set(data, size);
    return 0;
}
