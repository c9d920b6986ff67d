#include "result.h"

static const char *const names[TERN_RESULT_COUNT] = {
#define TERN_RESULT_NAME(symbol, name, sentence) [symbol] = name,
    TERN_RESULT_LIST(TERN_RESULT_NAME)
#undef TERN_RESULT_NAME
};

const char *tern_result_name(enum tern_result result)
{
    return (unsigned)result < TERN_RESULT_COUNT ? names[result] : "?";
}

// Replaces strcmp(), because shared/ builds without a C library.
static int same_text(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

enum tern_result tern_result_from_name(const char *name)
{
    for (int i = 0; i < TERN_RESULT_COUNT; i++) {
        if (same_text(names[i], name)) {
            return (enum tern_result)i;
        }
    }
    return TERN_ERR_UNKNOWN;
}
