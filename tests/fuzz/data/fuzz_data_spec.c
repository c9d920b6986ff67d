// Spec strings of data sets: any text is taken or refused with a sentence.
#include "data/readers.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// Small, so that generated sets are made quickly.
static const struct tern_data_limits limits = {
    .max_bytes = 1 << 14, .max_examples = 20, .max_features = 4096, .max_classes = 20};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_data data;
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, bytes, size);
    text[size] = '\0';
    enum tern_result result = tern_dataset_open(text, &limits, &data, why);
    if ((result == TERN_OK) != (why[0] == '\0') || memchr(why, '\0', sizeof why) == NULL) {
        abort();
    }
    tern_data_close(&data);
    free(text);
    return 0;
}
