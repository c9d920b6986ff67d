// The sentences are in a file of their own, so that a device without texts for people does not link
// them.
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
