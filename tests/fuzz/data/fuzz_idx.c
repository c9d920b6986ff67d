// IDX images and labels from hostile bytes: what is accepted is complete and within the limits,
// what is refused is told and holds no memory.
#include "data/readers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct tern_data_limits limits = {
    .max_bytes = 1 << 16, .max_examples = 1000, .max_features = 4096, .max_classes = 200};

static const struct tern_scaling unscaled = {.deviation = 1};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// Reads every byte that the data set claims to have.
static void use(const struct tern_dataset *data)
{
    size_t pixels = (size_t)data->count * data->feature_count;
    volatile unsigned sum = 0;
    for (size_t i = 0; data->bytes != NULL && i < pixels; i++) {
        sum = sum + data->bytes[i];
    }
    for (size_t i = 0; data->values != NULL && i < pixels; i++) {
        require(isfinite(data->values[i]));
    }
    for (uint32_t i = 0; data->labels != NULL && i < data->count; i++) {
        require(data->labels[i] < data->class_count);
    }
    require(data->count <= limits.max_examples);
    require(pixels * (data->values != NULL ? sizeof(float) : 1) <= limits.max_bytes);
    require(data->bytes == NULL || data->values == NULL);
    require((uint64_t)data->height * data->width * data->channels == data->feature_count);
}

// Every second image, from the last one back.
static uint32_t choose(uint32_t kept[1000], uint32_t total)
{
    uint32_t count = 0;
    for (uint32_t i = total; i > 0; i -= i > 1 ? 2 : 1) {
        kept[count++] = i - 1;
    }
    return count;
}

// Reads the images at `from` again and keeps some: they are those of all.
static void compare_kept(const uint8_t *from, size_t len, const struct tern_dataset *all)
{
    char why[TERN_DATA_WHY_MAX] = "";
    uint32_t kept[1000];
    struct tern_dataset some;
    struct tern_elements type;
    struct tern_input input;
    memset(&some, 0, sizeof some);
    tern_input_from_memory(&input, from, len, UINT64_MAX, why);
    require(tern_idx_read_shape(&input, &limits, &type, &some) == TERN_OK);
    some.count = choose(kept, all->count);
    const enum tern_result result =
        tern_idx_read_images(&input, &type, &unscaled, all->count, kept, &some);
    require((result == TERN_OK) == (all->bytes != NULL || all->values != NULL));
    const size_t size = all->feature_count;
    for (uint32_t i = 0; all->bytes != NULL && i < some.count; i++) {
        require(memcmp(some.bytes + i * size, all->bytes + kept[i] * size, size) == 0);
    }
    for (uint32_t i = 0; all->values != NULL && i < some.count; i++) {
        require(memcmp(some.values + i * size, all->values + kept[i] * size,
                       size * sizeof(float)) == 0);
    }
    free((void *)(uintptr_t)some.bytes);
    free((void *)(uintptr_t)some.values);
}

// The first two bytes are the length of the images; the labels follow them.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_dataset data;
    struct tern_elements type;
    struct tern_input input;
    if (size < 2) {
        return 0;
    }
    size_t split = (size_t)bytes[0] << 8 | bytes[1];
    split = split < size - 2 ? split : size - 2;
    memset(&data, 0, sizeof data);
    tern_input_from_memory(&input, bytes + 2, split, UINT64_MAX, why);
    if (tern_idx_read_shape(&input, &limits, &type, &data) != TERN_OK) {
        require(why[0] != '\0');
        return 0;
    }
    if (tern_idx_read_images(&input, &type, &unscaled, data.count, NULL, &data) != TERN_OK) {
        require(why[0] != '\0' && data.bytes == NULL && data.values == NULL);
    }
    compare_kept(bytes + 2, split, &data);
    tern_input_from_memory(&input, bytes + 2 + split, size - 2 - split, UINT64_MAX, why);
    if (tern_idx_read_labels(&input, &limits, &data) != TERN_OK) {
        require(why[0] != '\0' && data.labels == NULL);
    }
    use(&data);
    free((void *)(uintptr_t)data.bytes);
    free((void *)(uintptr_t)data.values);
    free((void *)(uintptr_t)data.labels);
    return 0;
}
