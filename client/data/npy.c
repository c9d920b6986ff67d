#include "data/npy.h"
#include "util/bytes.h"
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
    const char kind = quoted ? type[2] : '?';
    const uint32_t width =
        quoted && type[3] >= '1' && type[3] <= '8' ? (uint32_t)(type[3] - '0') : 0;
    const bool order = quoted && (type[1] == '<' || type[1] == '|' || type[1] == '=');
    const bool whole =
        (kind == 'i' || kind == 'u') && (width == 1 || width == 2 || width == 4 || width == 8);
    const bool real = kind == 'f' && (width == 4 || width == 8);
    const bool truth = kind == 'b' && width == 1;
    npy->type = (struct tern_elements){.kind = kind, .width = width};
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
    const char *whole = find(text, "'shape'");
    if (whole == NULL || *whole != '(') {
        return refuse_header(input, "names no shape");
    }
    npy->dim_count = 0;
    npy->count = 1;
    for (const char *shape = skip_spaces(whole + 1); *shape != ')'; shape = skip_spaces(shape)) {
        uint64_t size;
        const char *end = tern_get_decimal(shape, &size);
        if (end == shape || strchr(",)", *skip_spaces(end)) == NULL || size < 1 ||
            size > UINT32_MAX || npy->dim_count == TERN_NPY_MAX_DIMS) {
            return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                     "is of the shape %.*s); arrays have 1 to %d dimensions, none "
                                     "of them empty",
                                     (int)strcspn(whole, ")"), whole, TERN_NPY_MAX_DIMS);
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
    if (npy->count * npy->type.width > input->most) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is too short for the %llu elements that its header names",
                                 (unsigned long long)npy->count);
    }
    return TERN_OK;
}

static struct tern_elements_range all_of(const struct tern_npy *npy)
{
    return (struct tern_elements_range){
        .what = "the array", .count = npy->count, .row = npy->count / npy->dims[0]};
}

enum tern_result tern_npy_read_floats(struct tern_input *input, const struct tern_npy *npy,
                                      float *values)
{
    const struct tern_elements_range all = all_of(npy);
    TERN_TRY(tern_elements_read_floats(input, &npy->type, &all, values));
    return tern_input_expect_end(input);
}

enum tern_result tern_npy_read_doubles(struct tern_input *input, const struct tern_npy *npy,
                                       double *values)
{
    const struct tern_elements_range all = all_of(npy);
    TERN_TRY(tern_elements_read_doubles(input, &npy->type, &all, values));
    return tern_input_expect_end(input);
}

enum tern_result tern_npy_read_bytes(struct tern_input *input, const struct tern_npy *npy,
                                     uint8_t *values)
{
    TERN_TRY(tern_input_read_exact(input, values, (size_t)npy->count, "the array"));
    return tern_input_expect_end(input);
}
