// NumPy arrays in ZIP archives, and alone, from hostile bytes: an accepted array has as many
// elements as its shape says, all finite, within the limits; what is refused is told.
#include "data/npy.h"
#include "util/math.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct tern_data_limits limits = {
    .max_bytes = 1 << 16, .max_examples = 500, .max_features = 4096, .max_classes = 20};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void read_array(struct tern_input *input, const char *why)
{
    struct tern_npy npy;
    if (tern_npy_read_header(input, &limits, &npy) != TERN_OK) {
        require(why[0] != '\0');
        return;
    }
    require(npy.count >= 1 && npy.count <= limits.max_bytes / sizeof(float));
    float *values = malloc((size_t)npy.count * sizeof *values);
    require(values != NULL);
    if (tern_npy_read_floats(input, &npy, values) == TERN_OK) {
        for (uint64_t i = 0; i < npy.count; i++) {
            require(tern_is_finite(values[i]));
        }
    } else {
        require(why[0] != '\0');
    }
    free(values);
}

static void read_archive(const uint8_t *bytes, size_t size)
{
    static struct tern_zip_member member;
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_input input;
    void *memory = (void *)(uintptr_t)bytes; // read only
    FILE *file = fmemopen(memory, size, "rb");
    require(file != NULL);
    const enum tern_result result =
        tern_zip_open(&member, file, "x.npy", &input, "(memory)", limits.max_bytes, why);
    if (result == TERN_OK) {
        read_array(&input, why);
        tern_zip_close(&member);
    } else {
        require((why[0] != '\0') != (result == TERN_ERR_NOT_FOUND));
    }
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char why[TERN_DATA_WHY_MAX] = "";
    struct tern_input input;
    if (size == 0) {
        return 0;
    }
    read_archive(bytes, size);
    tern_input_from_memory(&input, bytes, size, limits.max_bytes, why);
    read_array(&input, why);
    return 0;
}
