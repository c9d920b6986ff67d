#include "data/npy.h"
#include "util/bytes.h"
#include "util/math.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 4096 // bytes of text; NumPy pads to a multiple of 64

static enum tern_result refuse_header(const struct tern_input *input, const char *what)
{
    return tern_input_refuse(input, TERN_ERR_CORRUPT, "the NPY header %s", what);
}

// Reads the text of the header, with a NUL.
static enum tern_result read_text(struct tern_input *input, char text[HEADER_MAX + 1])
{
    uint8_t start[12];
    TERN_TRY(tern_input_read_exact(input, start, 10, "the NPY header"));
    if (memcmp(start, "\x93NUMPY", 6) != 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT, "is no NPY file");
    }
    if (start[6] < 1 || start[6] > 3) {
        return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                 "is of NPY version %u; 1, 2 and 3 are read", start[6]);
    }
    uint32_t len = tern_get_le16(start + 8);
    if (start[6] > 1) {
        TERN_TRY(tern_input_read_exact(input, start + 10, 2, "the NPY header"));
        len = tern_get_le32(start + 8);
    }
    if (len > HEADER_MAX) {
        return refuse_header(input, "is longer than that of an array of numbers");
    }
    TERN_TRY(tern_input_read_exact(input, text, len, "the NPY header"));
    text[len] = '\0';
    return TERN_OK;
}

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \n");
}

// The value of a key of the dict, or NULL. Keys are in the order that the writer liked.
static const char *find(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    if (found == NULL) {
        return NULL;
    }
    found = skip_spaces(found + strlen(key));
    return *found == ':' ? skip_spaces(found + 1) : NULL;
}

static enum tern_result read_type(const struct tern_input *input, const char *text,
                                  struct tern_npy *npy)
{
    const char *type = find(text, "'descr'");
    if (type == NULL) {
        return refuse_header(input, "names no type");
    }
    const bool quoted = type[0] == '\'' && strlen(type) > 4 && type[4] == '\'';
    npy->kind = quoted ? type[2] : '?';
    npy->width = quoted && type[3] >= '1' && type[3] <= '8' ? (uint32_t)(type[3] - '0') : 0;
    const bool order = quoted && (type[1] == '<' || type[1] == '|' || type[1] == '=');
    const bool whole = (npy->kind == 'i' || npy->kind == 'u') &&
                       (npy->width == 1 || npy->width == 2 || npy->width == 4 || npy->width == 8);
    const bool real = npy->kind == 'f' && (npy->width == 4 || npy->width == 8);
    const bool truth = npy->kind == 'b' && npy->width == 1;
    if (order && (whole || real || truth)) {
        return TERN_OK;
    }
    return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                             "holds elements of type %.*s; save whole numbers, bool, float32 or "
                             "float64, little-endian, e.g. array.astype('<f4')",
                             (int)strcspn(type, ",}"), type);
}

static enum tern_result read_dims(const struct tern_input *input, const char *text,
                                  struct tern_npy *npy)
{
    const char *shape = find(text, "'shape'");
    if (shape == NULL || *shape != '(') {
        return refuse_header(input, "names no shape");
    }
    npy->dim_count = 0;
    npy->count = 1;
    for (shape = skip_spaces(shape + 1); *shape != ')'; shape = skip_spaces(shape)) {
        uint64_t size;
        const char *end = tern_get_decimal(shape, &size);
        if (end == shape || strchr(",)", *skip_spaces(end)) == NULL || size < 1 ||
            size > UINT32_MAX || npy->dim_count == TERN_NPY_MAX_DIMS) {
            return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                     "is of the shape (%.40s; arrays have 1 to %d dimensions, none "
                                     "of them empty",
                                     shape, TERN_NPY_MAX_DIMS);
        }
        npy->dims[npy->dim_count++] = (uint32_t)size;
        if (__builtin_mul_overflow(npy->count, size, &npy->count)) {
            return tern_input_refuse(input, TERN_ERR_TOO_LARGE, "has too many elements");
        }
        shape = skip_spaces(end);
        shape += *shape == ',';
    }
    return npy->dim_count > 0 ? TERN_OK
                              : tern_input_refuse(input, TERN_ERR_UNKNOWN, "holds a single number");
}

static enum tern_result check_order(const struct tern_input *input, const char *text)
{
    const char *order = find(text, "'fortran_order'");
    if (order == NULL) {
        return refuse_header(input, "names no order");
    }
    return strncmp(order, "False", 5) == 0
               ? TERN_OK
               : tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                   "is in Fortran order; save numpy.ascontiguousarray(array)");
}

enum tern_result tern_npy_read_header(struct tern_input *input,
                                      const struct tern_data_limits *limits, struct tern_npy *npy)
{
    char text[HEADER_MAX + 1];
    TERN_TRY(read_text(input, text));
    TERN_TRY(read_type(input, text, npy));
    TERN_TRY(check_order(input, text));
    TERN_TRY(read_dims(input, text, npy));
    if (npy->count > limits->max_bytes / sizeof(float) || npy->count > SIZE_MAX / sizeof(double)) {
        return tern_input_refuse(
            input, TERN_ERR_TOO_LARGE, "holds %llu numbers, over the limit of %llu bytes",
            (unsigned long long)npy->count, (unsigned long long)limits->max_bytes);
    }
    if (npy->count * npy->width > input->most) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is too short for the %llu elements that its header names",
                                 (unsigned long long)npy->count);
    }
    return TERN_OK;
}

static double element(const struct tern_npy *npy, const uint8_t *bytes)
{
    const uint64_t bits = npy->width == 1   ? bytes[0]
                          : npy->width == 2 ? tern_get_le16(bytes)
                          : npy->width == 4 ? tern_get_le32(bytes)
                                            : tern_get_le64(bytes);
    if (npy->kind == 'f' && npy->width == 4) {
        return (double)tern_get_f32(bytes);
    }
    if (npy->kind == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    const uint64_t sign = (uint64_t)1 << (8 * npy->width - 1);
    if (npy->kind == 'i' && (bits & sign) != 0) {
        // Two's complement: 2 * sign less than what the bits say.
        return -(double)(sign - (bits - sign));
    }
    return (double)bits;
}

typedef bool store(void *values, uint64_t index, double value);

static bool store_float(void *values, uint64_t index, double value)
{
    const float rounded = (float)value;
    ((float *)values)[index] = rounded;
    return tern_is_finite(rounded);
}

static bool store_double(void *values, uint64_t index, double value)
{
    ((double *)values)[index] = value;
    return isfinite(value);
}

static enum tern_result read_elements(struct tern_input *input, const struct tern_npy *npy,
                                      store *store_one, void *values)
{
    uint8_t block[8192];
    const uint64_t in_block = sizeof block / npy->width;
    for (uint64_t done = 0; done < npy->count;) {
        const uint64_t left = npy->count - done;
        const size_t part = (size_t)(left < in_block ? left : in_block);
        TERN_TRY(tern_input_read_exact(input, block, part * npy->width, "the array"));
        for (size_t i = 0; i < part; i++) {
            if (!store_one(values, done + i, element(npy, block + i * npy->width))) {
                const uint64_t row = npy->count / npy->dims[0];
                return tern_input_refuse(
                    input, TERN_ERR_CORRUPT, "row %llu, value %llu (from 0): not a finite number",
                    (unsigned long long)((done + i) / row), (unsigned long long)((done + i) % row));
            }
        }
        done += part;
    }
    return tern_input_expect_end(input);
}

enum tern_result tern_npy_read_floats(struct tern_input *input, const struct tern_npy *npy,
                                      float *values)
{
    return read_elements(input, npy, store_float, values);
}

enum tern_result tern_npy_read_doubles(struct tern_input *input, const struct tern_npy *npy,
                                       double *values)
{
    return read_elements(input, npy, store_double, values);
}

enum tern_result tern_npy_read_bytes(struct tern_input *input, const struct tern_npy *npy,
                                     uint8_t *values)
{
    TERN_TRY(tern_input_read_exact(input, values, (size_t)npy->count, "the array"));
    return tern_input_expect_end(input);
}
