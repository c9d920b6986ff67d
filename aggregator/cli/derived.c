#include "cli/derived.h"

#include <inttypes.h>

struct tern_derived_limits tern_derived_limits(const struct tern_aggregator_settings *settings)
{
#define X(field, limit, one_in, what) .field = settings->limits_##limit / (one_in),
    return (struct tern_derived_limits){TERN_DERIVED_LIMITS(X)};
#undef X
}

static void print(const char *limit, unsigned one_in, const char *what, uint64_t value, FILE *out)
{
    const uint64_t unit = 1 << 20;
    const bool whole = value % unit == 0;
    fprintf(out, "# %6" PRIu64 "%s = limits.%s / %u: %s\n", whole ? value / unit : value,
            whole ? "MiB" : "B", limit, one_in, what);
}

void tern_derived_print(const void *values, FILE *out)
{
    const struct tern_derived_limits derived = tern_derived_limits(values);
    fputs("# Derived, not set:\n", out);
#define X(field, limit, one_in, what) print(#limit, one_in, what, derived.field, out);
    TERN_DERIVED_LIMITS(X)
#undef X
}
