#include "result.h"

static const struct {
    const char *name;
    const char *sentence;
} entries[TERN_RESULT_COUNT] = {
#define TERN_RESULT_ENTRY(symbol, name_, sentence_) [symbol] = {name_, sentence_},
    TERN_RESULT_LIST(TERN_RESULT_ENTRY)
#undef TERN_RESULT_ENTRY
};

const char *tern_result_name(enum tern_result result)
{
    return (unsigned)result < TERN_RESULT_COUNT ? entries[result].name : "?";
}

const char *tern_result_sentence(enum tern_result result)
{
    return (unsigned)result < TERN_RESULT_COUNT ? entries[result].sentence : "?";
}

// strcmp would be a libc dependency: shared/ builds freestanding.
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
        if (same_text(entries[i].name, name)) {
            return (enum tern_result)i;
        }
    }
    return TERN_ERR_UNKNOWN;
}
