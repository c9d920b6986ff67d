// Apart from the names, so that a device that says nothing in sentences has none.
#include "result.h"

static const char *const sentences[TERN_RESULT_COUNT] = {
#define TERN_RESULT_SENTENCE(symbol, name, sentence) [symbol] = sentence,
    TERN_RESULT_LIST(TERN_RESULT_SENTENCE)
#undef TERN_RESULT_SENTENCE
};

const char *tern_result_sentence(enum tern_result result)
{
    return (unsigned)result < TERN_RESULT_COUNT ? sentences[result] : "?";
}
