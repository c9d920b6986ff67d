#include "data/files.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <stdio.h>
#include <string.h>
#include <zlib.h>

// --- Writing what numpy.save() and numpy.savez() write

struct file {
    uint8_t bytes[8192];
    size_t len;
};

static void put(struct file *file, const void *bytes, size_t len)
{
    assert_true(file->len + len <= sizeof file->bytes);
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
}

static void put_le(struct file *file, uint64_t value, size_t len)
{
    uint8_t bytes[8];
    assert_true(len <= sizeof bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    put(file, bytes, len);
}

static void put_zeros(struct file *file, size_t len)
{
    static const uint8_t zeros[32];
    put(file, zeros, len);
}

static struct file npy_of(const char *type, const char *shape, const char *order)
{
    struct file npy = {.len = 0};
    char header[128];
    const int len =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n",
                 type, order, shape);
    put(&npy, "\x93NUMPY\x01\x00", 8);
    put_le(&npy, (uint64_t)len, 2);
    put(&npy, header, (size_t)len);
    return npy;
}

static struct file floats_of(const char *shape, const float *values, size_t count)
{
    struct file npy = npy_of("<f4", shape, "False");
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put_le(&npy, bits, 4);
    }
    return npy;
}

static struct file integers_of(const char *type, size_t width, const char *shape,
                               const int64_t *values, size_t count)
{
    struct file npy = npy_of(type, shape, "False");
    for (size_t i = 0; i < count; i++) {
        put_le(&npy, (uint64_t)values[i], width);
    }
    return npy;
}

// A ZIP archive that grows by members.
struct zip {
    struct file file;
    struct file directory;
};

static size_t deflate_to(const struct file *member, uint8_t packed[8192])
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uint8_t copy[sizeof member->bytes];
    memcpy(copy, member->bytes, member->len);
    stream.next_in = copy;
    stream.avail_in = (unsigned)member->len;
    stream.next_out = packed;
    stream.avail_out = 8192;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t len = 8192 - stream.avail_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return len;
}

// The sizes of the directory's entry stand in a ZIP64 field where `large` is set, as NumPy has
// them for members beyond 4 GiB.
static void add_member(struct zip *zip, const char *name, const struct file *member, int method,
                       int large)
{
    uint8_t packed[8192];
    const size_t len = method == 8 ? deflate_to(member, packed) : member->len;
    const uint8_t *bytes = method == 8 ? packed : member->bytes;
    const uint32_t checksum =
        (uint32_t)crc32(crc32(0, NULL, 0), member->bytes, (unsigned)member->len);
    const size_t offset = zip->file.len;
    put(&zip->file, "PK\3\4\x2d\0\0\0", 8);
    put_le(&zip->file, (uint64_t)method, 2);
    put_zeros(&zip->file, 16);
    put_le(&zip->file, strlen(name), 2);
    put_le(&zip->file, 0, 2);
    put(&zip->file, name, strlen(name));
    put(&zip->file, bytes, len);
    put(&zip->directory, "PK\1\2\x2d\0\x2d\0\0\0", 10);
    put_le(&zip->directory, (uint64_t)method, 2);
    put_zeros(&zip->directory, 4);
    put_le(&zip->directory, checksum, 4);
    put_le(&zip->directory, large ? UINT32_MAX : len, 4);
    put_le(&zip->directory, large ? UINT32_MAX : member->len, 4);
    put_le(&zip->directory, strlen(name), 2);
    put_le(&zip->directory, large ? 28 : 0, 2);
    put_zeros(&zip->directory, 10);
    put_le(&zip->directory, large ? UINT32_MAX : offset, 4);
    put(&zip->directory, name, strlen(name));
    if (large) {
        put_le(&zip->directory, 1, 2);
        put_le(&zip->directory, 24, 2);
        put_le(&zip->directory, member->len, 8);
        put_le(&zip->directory, len, 8);
        put_le(&zip->directory, offset, 8);
    }
}

static void write_zip(struct zip *zip, int large)
{
    const size_t start = zip->file.len;
    put(&zip->file, zip->directory.bytes, zip->directory.len);
    if (large) {
        const size_t end = zip->file.len;
        put(&zip->file, "PK\6\6", 4);
        put_le(&zip->file, 44, 8);
        put_zeros(&zip->file, 28);
        put_le(&zip->file, zip->directory.len, 8);
        put_le(&zip->file, start, 8);
        put(&zip->file, "PK\6\7\0\0\0\0", 8);
        put_le(&zip->file, end, 8);
        put_le(&zip->file, 1, 4);
    }
    put(&zip->file, "PK\5\6", 4);
    put_zeros(&zip->file, 8);
    put_le(&zip->file, large ? UINT32_MAX : zip->directory.len, 4);
    put_le(&zip->file, large ? UINT32_MAX : start, 4);
    put_le(&zip->file, 0, 2);
    write_file("a.npz", zip->file.bytes, zip->file.len);
}

// --- Tests

static const float x_values[8] = {1, 2, 3, 4, 5, 6, 7, 8.5f};
static const int64_t y_values[4] = {0, 2, 1, 0};
static const int64_t group_values[4] = {-7, 12, -7, 12};

static void write_four(int method, int large)
{
    const struct file x = floats_of("(4, 2)", x_values, 8);
    const struct file y = integers_of("<i8", 8, "(4,)", y_values, 4);
    const struct file group = integers_of("<i2", 2, "(4, 1)", group_values, 4);
    struct zip zip = {0};
    add_member(&zip, "x.npy", &x, method, large);
    add_member(&zip, "y.npy", &y, method, large);
    add_member(&zip, "group.npy", &group, method, large);
    write_zip(&zip, large);
}

// The first feature tells which row it was.
static void check_four(void)
{
    assert_int_equal(data.train.count, 4);
    assert_int_equal(data.train.feature_count, 2);
    assert_int_equal(data.train.class_count, 3);
    assert_int_equal(data.train.group_count, 2);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = (uint32_t)(data.train.values[2 * i] - 1.0f) / 2;
        assert_true(data.train.values[2 * i + 1] == x_values[2 * row + 1]);
        assert_int_equal(data.train.labels[i], y_values[row]);
        assert_int_equal(data.train.groups[i], row % 2);
    }
}

#define IN_FOLDER(test) CASE_WITH(test, folder_make, folder_remove)

IN_FOLDER(arrays_stored_deflated_and_large_are_read)
{
    for (int large = 0; large < 2; large++) {
        for (int method = 0; method <= 8; method += 8) {
            write_four(method, large);
            assert_int_equal(open_spec("npz:@/a.npz,test=0"), TERN_OK);
            assert_string_equal(why, "");
            check_four();
        }
    }
    assert_int_equal(open_spec("npz:@/a.npz,only=12,test=0.5"), TERN_OK);
    assert_int_equal(data.train.count, 1);
    assert_int_equal(data.test.count, 1);
    expect_refused("npz:@/a.npz,only=13", TERN_ERR_NOT_FOUND, "no example is of group '13'");
    expect_refused("npz:@/a.npz,x=z", TERN_ERR_NOT_FOUND, "neither an array 'z_train' nor 'z'");
    expect_refused("npz:@/a.npz,y=z", TERN_ERR_NOT_FOUND, "contains no array 'z'");
    expect_refused("npz:@/a.npz,group=z", TERN_ERR_NOT_FOUND, "contains no array 'z'");
    expect_refused("npz:@/none.npz", TERN_ERR_NOT_FOUND, "none.npz");
}

IN_FOLDER(a_folder_of_arrays_with_a_test_part_is_read)
{
    struct file images = npy_of("|u1", "(2, 2, 3)", "False");
    put(&images, "\0\1\2\3\4\5\6\7\10\11\12\377", 12);
    struct file test = npy_of("|u1", "(1, 2, 3)", "False");
    put(&test, "\0\0\0\0\0\377", 6);
    const struct file y = integers_of("|u1", 1, "(2,)", y_values, 2);
    const struct file y_test = integers_of("|b1", 1, "(1,)", y_values + 2, 1);
    write_file("images_train.npy", images.bytes, images.len);
    write_file("images_test.npy", test.bytes, test.len);
    write_file("y_train.npy", y.bytes, y.len);
    write_file("y_test.npy", y_test.bytes, y_test.len);
    assert_int_equal(open_spec("npy:@,x=images"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_int_equal(data.test.count, 1);
    assert_int_equal(data.test.height, 2);
    assert_int_equal(data.test.width, 3);
    assert_int_equal(data.test.class_count, 3);
    assert_int_equal(data.test.bytes[5], 255);
    assert_int_equal(data.test.labels[0], 1);
    assert_true(data.test.scale == 1.0f / 255.0f);
    const struct file wide = floats_of("(1, 8)", x_values, 8);
    write_file("images_test.npy", wide.bytes, wide.len);
    expect_refused("npy:@,x=images", TERN_ERR_CORRUPT, "differ in shape");
}

IN_FOLDER(all_types_of_numbers_are_read)
{
    static const struct {
        const char *type;
        size_t width;
        int64_t values[2];
        float expected[2];
    } cases[] = {
        {"|i1", 1, {-128, 127}, {-128, 127}},
        {"<u2", 2, {0, 65535}, {0, 65535}},
        {"<i2", 2, {-32768, 5}, {-32768, 5}},
        {"<u4", 4, {4294967295, 7}, {4294967296.0f, 7}},
        {"<i4", 4, {-2147483648, 7}, {-2147483648.0f, 7}},
        {"<i8", 8, {-1, 1099511627776}, {-1, 1099511627776.0f}},
        {"<u8", 8, {-1, 3}, {18446744073709551616.0f, 3}},
        {"<f8", 8, {0x4004000000000000, -0x4010000000000000}, {2.5f, -1.0f}},
    };
    const struct file y = integers_of("<i4", 4, "(1,)", y_values, 1);
    write_file("y.npy", y.bytes, y.len);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct file x =
            integers_of(cases[i].type, cases[i].width, "(1, 2)", cases[i].values, 2);
        write_file("x.npy", x.bytes, x.len);
        assert_int_equal(open_spec("npy:@,test=0"), TERN_OK);
        assert_true(data.train.values[0] == cases[i].expected[0]);
        assert_true(data.train.values[1] == cases[i].expected[1]);
    }
}

static void refuse_x(const char *type, const char *shape, const char *order,
                     enum tern_result expected, const char *sentence)
{
    struct file x = npy_of(type, shape, order);
    put_le(&x, 0, 8);
    write_file("x.npy", x.bytes, x.len);
    expect_refused("npy:@,test=0", expected, sentence);
    assert_non_null(strstr(why, "x.npy"));
}

IN_FOLDER(arrays_that_are_none_of_numbers_are_refused)
{
    const struct file y = integers_of("<i4", 4, "(1,)", y_values, 1);
    write_file("y.npy", y.bytes, y.len);
    refuse_x(">f4", "(1, 2)", "False", TERN_ERR_UNKNOWN, "type '>f4'; save whole numbers");
    refuse_x("|O", "(1, 2)", "False", TERN_ERR_UNKNOWN, "type '|O'");
    refuse_x("<U9", "(1, 2)", "False", TERN_ERR_UNKNOWN, "type '<U9'");
    refuse_x("<f2", "(1, 4)", "False", TERN_ERR_UNKNOWN, "type '<f2'");
    refuse_x("<f4", "(1, 2)", "True", TERN_ERR_UNKNOWN, "Fortran order; save numpy.ascontig");
    refuse_x("<f4", "()", "False", TERN_ERR_UNKNOWN, "a single number");
    refuse_x("<f4", "(0, 2)", "False", TERN_ERR_UNKNOWN,
             "is of the shape (0, 2); arrays have 1 to 4 dimensions, none of them empty");
    refuse_x("<f4", "(1, 1, 1, 1, 2)", "False", TERN_ERR_UNKNOWN, "1 to 4 dimensions");
    refuse_x("<f4", "(1, 2", "False", TERN_ERR_UNKNOWN, "1 to 4 dimensions");
    refuse_x("<f4", "(2,)", "False", TERN_ERR_CORRUPT, "has 1 dimension; features have 2");
    refuse_x("<f4", "(1, 3)", "False", TERN_ERR_CORRUPT, "ends at byte");
    refuse_x("<f4", "(1, 1)", "False", TERN_ERR_CORRUPT, "goes on at byte");
    refuse_x("<f4", "(1, 900000)", "False", TERN_ERR_CORRUPT, "too short for the 900000 elements");
    refuse_x("<f4", "(9, 99999999999)", "False", TERN_ERR_UNKNOWN, "1 to 4 dimensions");
    refuse_x("<f4", "(4000000000, 4000000000, 99)", "False", TERN_ERR_TOO_LARGE, "too many");
}

IN_FOLDER(wrong_values_are_named)
{
    const float nan[4] = {1, 2, 3, (float)(1e38 * 10.0 * 1e38) * 0.0f};
    struct file x = floats_of("(2, 2)", nan, 4);
    struct file y = integers_of("<i4", 4, "(2,)", y_values, 2);
    write_file("x.npy", x.bytes, x.len);
    write_file("y.npy", y.bytes, y.len);
    expect_refused("npy:@", TERN_ERR_CORRUPT, "x.npy: row 1, value 1 (from 0): not a finite");
    x = floats_of("(2, 2)", x_values, 4);
    write_file("x.npy", x.bytes, x.len);
    const int64_t minus[2] = {1, -1};
    y = integers_of("<i4", 4, "(2,)", minus, 2);
    write_file("y.npy", y.bytes, y.len);
    expect_refused("npy:@", TERN_ERR_CORRUPT, "y.npy: row 1 (from 0): the label -1 is no class");
    y = floats_of("(2,)", x_values + 6, 2);
    write_file("y.npy", y.bytes, y.len);
    expect_refused("npy:@", TERN_ERR_CORRUPT, "the label 8.5 is no class number");
    y = integers_of("<i4", 4, "(3,)", y_values, 3);
    write_file("y.npy", y.bytes, y.len);
    expect_refused("npy:@", TERN_ERR_CORRUPT, "3 numbers in 3 rows for 2 examples");
}

IN_FOLDER(an_array_holds_targets)
{
    struct file x = floats_of("(2, 2)", x_values, 4);
    const float flow[2] = {2.5f, -8};
    struct file y = floats_of("(2,)", flow, 2);
    write_file("x.npy", x.bytes, x.len);
    write_file("flow.npy", y.bytes, y.len);
    assert_int_equal(open_spec("npy:@,target=flow,test=0"), TERN_OK);
    const uint32_t first = data.train.values[0] == x_values[0] ? 0 : 1;
    assert_true(data.train.targets[first] == 2.5f && data.train.targets[1 - first] == -8);
    expect_refused("npy:@,target=flow,y=flow", TERN_ERR_CONFIG, "exclude each other");
    const double large[1] = {1e300};
    y = npy_of("<f8", "(1,)", "False");
    put(&y, large, sizeof large);
    x = floats_of("(1, 2)", x_values, 2);
    write_file("x.npy", x.bytes, x.len);
    write_file("flow.npy", y.bytes, y.len);
    expect_refused("npy:@,target=flow", TERN_ERR_CORRUPT, "row 0 (from 0): the target 1e+300");
}

IN_FOLDER(a_damaged_archive_is_refused)
{
    for (int method = 0; method <= 8; method += 8) {
        write_four(method, 0);
        static uint8_t whole[8192];
        const size_t len = file_size("a.npz");
        char path[SPEC_SIZE];
        name_spec("@/a.npz", path);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(whole, 1, sizeof whole, file), len);
        fclose(file);
        // Cut anywhere, it has no end record.
        for (size_t cut = 0; cut < len; cut += 13) {
            write_file("a.npz", whole, cut);
            expect_refused("npz:@/a.npz", TERN_ERR_CORRUPT, "ZIP archive");
        }
        // Any byte of the first member is held against the checksum.
        for (size_t at = 35; at < 100; at++) {
            whole[at] ^= 0x10;
            write_file("a.npz", whole, len);
            assert_int_not_equal(open_spec("npz:@/a.npz,test=0"), TERN_OK);
            assert_int_not_equal(why[0], '\0');
            whole[at] ^= 0x10;
        }
    }
}
