// The program as its next version will be, whose schema is one step further: linked with the objects of tern-aggregator,
// but for what the store looks up here.
#include "store/tables.h"

#include <stddef.h>

const char *const __wrap_tern_schema_steps[] = {
    "CREATE TABLE of_the_next_version (x BIGINT NOT NULL)", NULL};
