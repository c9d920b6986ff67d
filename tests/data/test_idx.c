#include "data/files.h"
#include "tests/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5
#define HEIGHT 3
#define WIDTH 4
#define PIXELS (HEIGHT * WIDTH)

static uint8_t images[16 + COUNT * PIXELS];
static uint8_t labels[8 + COUNT];

static void put_be32(uint8_t *dst, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        dst[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void make_bytes(void)
{
    memcpy(images, "\0\0\x08\x03", 4);
    put_be32(images + 4, COUNT);
    put_be32(images + 8, HEIGHT);
    put_be32(images + 12, WIDTH);
    for (size_t i = 0; i < COUNT * PIXELS; i++) {
        images[16 + i] = (uint8_t)(i * 4);
    }
    memcpy(labels, "\0\0\x08\x01", 4);
    put_be32(labels + 4, COUNT);
    memcpy(labels + 8, "\0\1\2\1\3", COUNT);
}

// A good set of four files, two of them packed.
static int make_files(void **state)
{
    if (folder_make(state) != 0) {
        return -1;
    }
    make_bytes();
    write_gzip("train-images-idx3-ubyte.gz", images, sizeof images);
    write_file("train-labels-idx1-ubyte", labels, sizeof labels);
    write_file("t10k-images-idx3-ubyte", images, sizeof images);
    write_gzip("t10k-labels-idx1-ubyte.gz", labels, sizeof labels);
    return 0;
}

#define WITH_FILES(test) CASE_WITH(test, make_files, folder_remove)

WITH_FILES(files_are_read_packed_or_not)
{
    assert_int_equal(open_spec("idx:@"), TERN_OK);
    assert_string_equal(why, "");
    assert_int_equal(data.train.count, COUNT);
    assert_int_equal(data.test.count, COUNT);
    assert_int_equal(data.train.height, HEIGHT);
    assert_int_equal(data.train.width, WIDTH);
    assert_int_equal(data.train.channels, 1);
    assert_int_equal(data.train.feature_count, PIXELS);
    assert_int_equal(data.train.class_count, 4);
    assert_memory_equal(data.train.bytes, images + 16, COUNT * PIXELS);
    assert_int_equal(data.test.labels[4], 3);
}

WITH_FILES(pixels_are_scaled_when_gathered)
{
    assert_int_equal(open_spec("idx:@,mean=0.5,std=0.25"), TERN_OK);
    const uint32_t shard[] = {4, 2};
    const uint32_t positions[] = {1, 0};
    struct tern_view view = {&data.train, shard, 2};
    float features[2 * PIXELS];
    uint16_t got[2];
    tern_view_gather(&view, positions, 0, 2, features, got);
    assert_int_equal(got[0], 2);
    assert_int_equal(got[1], 3);
    assert_float_equal(features[0], ((float)images[16 + 2 * PIXELS] / 255 - 0.5f) / 0.25f, 1e-5f);
    tern_view_gather(&view, NULL, 0, 1, features, got);
    assert_int_equal(got[0], 3);
}

static void refuse_images(size_t at, uint8_t byte, enum tern_result expected, const char *part)
{
    uint8_t damaged[sizeof images];
    memcpy(damaged, images, sizeof images);
    damaged[at] = byte;
    write_file("t10k-images-idx3-ubyte", damaged, sizeof damaged);
    expect_refused("idx:@", expected, part);
    assert_non_null(strstr(why, "t10k-images-idx3-ubyte"));
}

WITH_FILES(damaged_headers_are_refused)
{
    refuse_images(0, 1, TERN_ERR_CORRUPT, "no IDX file");
    refuse_images(2, 0x0A, TERN_ERR_CORRUPT, "type 0x0a; supported are unsigned byte (0x08), byte");
    refuse_images(2, 0x0F, TERN_ERR_CORRUPT, "type 0x0f");
    refuse_images(2, 0x0B, TERN_ERR_CORRUPT, "too short for the 5 examples");
    refuse_images(3, 0, TERN_ERR_CORRUPT, "0 IDX dimensions");
    refuse_images(3, 5, TERN_ERR_CORRUPT, "5 IDX dimensions");
    refuse_images(3, 1, TERN_ERR_CORRUPT, "no images");
    refuse_images(3, 2, TERN_ERR_CORRUPT, "goes on");
    refuse_images(7, 0, TERN_ERR_CORRUPT, "no images");
    refuse_images(7, COUNT + 1, TERN_ERR_CORRUPT, "ends at byte 76");
    refuse_images(7, COUNT - 1, TERN_ERR_CORRUPT, "goes on");
    refuse_images(11, 2, TERN_ERR_CORRUPT, "goes on");
    refuse_images(4, 0xFF, TERN_ERR_TOO_LARGE, "examples");
    refuse_images(8, 0xFF, TERN_ERR_TOO_LARGE, "over the limit of 1048576 values");
    refuse_images(12, 0x01, TERN_ERR_TOO_LARGE, "over the limit of 1048576 values");
}

WITH_FILES(every_cut_is_refused)
{
    for (size_t len = 0; len < sizeof images; len++) {
        write_file("t10k-images-idx3-ubyte", images, len);
        expect_refused("idx:@", TERN_ERR_CORRUPT, "t10k-images-idx3-ubyte");
    }
    write_file("t10k-images-idx3-ubyte", images, sizeof images);
    for (size_t len = 0; len < sizeof labels; len++) {
        write_file("train-labels-idx1-ubyte", labels, len);
        expect_refused("idx:@", TERN_ERR_CORRUPT, "train-labels-idx1-ubyte");
    }
}

WITH_FILES(every_cut_of_a_packed_file_is_refused)
{
    const char *name = "train-images-idx3-ubyte.gz";
    for (size_t len = file_size(name); len-- > 0;) {
        cut_file(name, len);
        expect_refused("idx:@", TERN_ERR_CORRUPT, name);
    }
}

WITH_FILES(a_flipped_bit_of_a_packed_file_is_refused)
{
    char path[512];
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", folder);
    uint8_t packed[1024];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(packed, 1, sizeof packed, file);
    fclose(file);
    // Behind the gzip header, whose time and flags carry nothing.
    int unnoticed = 0;
    for (size_t at = 10; at < len; at++) {
        packed[at] ^= 0x10;
        write_file("train-images-idx3-ubyte.gz", packed, len);
        enum tern_result result = open_spec("idx:@");
        if (result == TERN_OK) {
            // Only the bits that pad the last byte of the stream say nothing.
            assert_memory_equal(data.train.bytes, images + 16, COUNT * PIXELS);
            unnoticed++;
            packed[at] ^= 0x10;
            continue;
        }
        assert_int_equal(result, TERN_ERR_CORRUPT);
        packed[at] ^= 0x10;
    }
    assert_in_range(unnoticed, 0, 1);
}

WITH_FILES(labels_of_another_count_are_refused)
{
    uint8_t fewer[sizeof labels];
    memcpy(fewer, labels, sizeof labels);
    fewer[7] = COUNT - 1;
    write_file("train-labels-idx1-ubyte", fewer, sizeof fewer - 1);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "4 labels for 5 images");
    write_file("train-labels-idx1-ubyte", images, sizeof images);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "contains no labels");
}

WITH_FILES(parts_of_another_shape_are_refused)
{
    uint8_t turned[sizeof images];
    memcpy(turned, images, sizeof images);
    turned[11] = WIDTH;
    turned[15] = HEIGHT;
    write_file("t10k-images-idx3-ubyte", turned, sizeof turned);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "test images 4 x 3");
}

WITH_FILES(a_small_file_cannot_unpack_to_a_large_one)
{
    // A header that claims what the packed size cannot hold is refused before memory is taken ...
    uint8_t header[16];
    memcpy(header, images, sizeof header);
    put_be32(header + 4, 1 << 20);
    put_be32(header + 8, 32);
    put_be32(header + 12, 32);
    write_gzip("train-images-idx3-ubyte.gz", header, sizeof header);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "too short for the 1048576 examples");
    // ... and what follows the claimed size is not unpacked.
    const size_t zeros = 64u << 20;
    uint8_t *bomb = calloc(1, zeros);
    assert_non_null(bomb);
    memcpy(bomb, images, sizeof images);
    write_gzip("train-images-idx3-ubyte.gz", bomb, zeros);
    free(bomb);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "goes on at byte 76");
}

WITH_FILES(limits_are_obeyed)
{
    limits.max_examples = COUNT - 1;
    expect_refused("idx:@", TERN_ERR_TOO_LARGE, "5 examples, over the limit of 4");
    limits.max_examples = COUNT;
    limits.max_features = PIXELS - 1;
    expect_refused("idx:@", TERN_ERR_TOO_LARGE, "3 x 4 x 1, over the limit of 11 values");
    limits.max_features = PIXELS;
    limits.max_bytes = COUNT * PIXELS - 1;
    expect_refused("idx:@", TERN_ERR_TOO_LARGE, "60 bytes, over the limit of 59");
    limits.max_bytes = COUNT * PIXELS;
    limits.max_classes = 3;
    expect_refused("idx:@", TERN_ERR_TOO_LARGE, "limit is 3 classes");
    limits.max_classes = 4;
    assert_int_equal(open_spec("idx:@"), TERN_OK);
}

WITH_FILES(missing_files_are_named)
{
    remove_file("t10k-labels-idx1-ubyte.gz");
    expect_refused("idx:@", TERN_ERR_NOT_FOUND, "neither t10k-labels-idx1-ubyte nor");
    expect_refused("idx:@/nowhere", TERN_ERR_NOT_FOUND, "neither train-images-idx3-ubyte nor");
}

WITH_FILES(parts_of_another_kind_are_refused)
{
    uint8_t numbers[sizeof images];
    memcpy(numbers, images, sizeof images);
    numbers[2] = 0x09;
    write_file("t10k-images-idx3-ubyte", numbers, sizeof numbers);
    expect_refused("idx:@", TERN_ERR_CORRUPT,
                   "training images are unsigned bytes, test images numbers");
}

// --- Types other than unsigned bytes

#define TABLE 6 // values: three examples of two

static const uint8_t three_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 2, 1};

// Replaces all four files by tables of these numbers, and by labels.
static void write_tables(uint8_t type, uint32_t width, const uint64_t bits[TABLE],
                         const uint8_t *of, size_t len)
{
    uint8_t table[12 + TABLE * 8] = {0, 0, type, 2, 0, 0, 0, 3, 0, 0, 0, 2};
    for (uint32_t i = 0; i < TABLE * width; i++) {
        table[12 + i] = (uint8_t)(bits[i / width] >> 8 * (width - 1 - i % width));
    }
    write_file("train-images-idx2-float", table, 12 + TABLE * width);
    write_file("t10k-images-idx2-double", table, 12 + TABLE * width);
    write_file("train-labels-idx1-int", of, len);
    write_file("t10k-labels-idx1-short", of, len);
}

static int make_tables(void **state)
{
    static const uint64_t zeros[TABLE];
    if (folder_make(state) != 0) {
        return -1;
    }
    write_tables(0x0D, 4, zeros, three_labels, sizeof three_labels);
    return 0;
}

#define WITH_TABLES(test) CASE_WITH(test, make_tables, folder_remove)

WITH_TABLES(every_type_is_read)
{
    static const struct {
        uint8_t type;
        uint32_t width;
        uint64_t bits[TABLE];
        float values[TABLE];
    } cases[] = {
        {0x09, 1, {0, 1, 0x7F, 0x80, 0xFF, 0xFE}, {0, 1, 127, -128, -1, -2}},
        {0x0B, 2, {0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x0102}, {0, 1, 32767, -32768, -1, 258}},
        {0x0C,
         4,
         {0, 1, 0x01000000, 0x80000000, 0xFFFFFFFF, 0x00010203},
         {0, 1, 0x1p24f, -0x1p31f, -1, 66051}},
        {0x0D,
         4,
         {0, 0x3F800000, 0xBFC00000, 1, 0x7F7FFFFF, 0x80000000},
         {0, 1, -1.5f, 0x1p-149f, 0x1.fffffep127f, -0.0f}},
        {0x0E,
         8,
         {0, 0x3FF0000000000000, 0xBFF8000000000000, 0x3690000000000001, 0x3FF0000010000001,
          0xC000000000000000},
         {0, 1, -1.5f, 0x1p-149f, 0x1.000002p0f, -2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_tables(cases[i].type, cases[i].width, cases[i].bits, three_labels,
                     sizeof three_labels);
        assert_int_equal(open_spec("idx:@"), TERN_OK);
        assert_null(data.train.bytes);
        assert_int_equal(data.train.height, 1);
        assert_int_equal(data.train.width, 2);
        assert_int_equal(data.test.channels, 1);
        assert_int_equal(data.train.class_count, 3);
        assert_memory_equal(data.train.values, cases[i].values, sizeof cases[i].values);
        assert_memory_equal(data.test.values, cases[i].values, sizeof cases[i].values);
    }
    assert_int_equal(open_spec("idx:@,mean=-1,std=2"), TERN_OK); // the doubles
    assert_true(data.train.values[1] == 1 && data.train.values[5] == -0.5f);
}

WITH_TABLES(a_shard_of_numbers_is_that_of_all)
{
    static const uint64_t bits[TABLE] = {1, 2, 3, 4, 5, 6};
    write_tables(0x0B, 2, bits, three_labels, sizeof three_labels);
    const struct tern_partition_config partition = {.clients = 3, .min_examples = 1, .seed = 1};
    float seen = 0;
    for (uint32_t client = 0; client < 3; client++) {
        const struct tern_data_part part = {.partition = &partition, .client = client};
        char spec[512];
        struct tern_data own;
        snprintf(spec, sizeof spec, "idx:%s", folder);
        assert_int_equal(tern_dataset_open_part(spec, NULL, &part, &own, why), TERN_OK);
        assert_int_equal(own.train.count, 1);
        assert_true(own.train.values[1] == own.train.values[0] + 1);
        seen += own.train.values[0];
        tern_data_close(&own);
    }
    assert_true(seen == 1 + 3 + 5);
    static const uint64_t with_infinity[TABLE] = {0, 0, 0, 0, 0x7F800000, 0};
    write_tables(0x0D, 4, with_infinity, three_labels, sizeof three_labels);
    for (uint32_t client = 0; client < 3; client++) { // whoever keeps it
        const struct tern_data_part part = {.partition = &partition, .client = client};
        char spec[512];
        struct tern_data own;
        snprintf(spec, sizeof spec, "idx:%s", folder);
        assert_int_equal(tern_dataset_open_part(spec, NULL, &part, &own, why), TERN_ERR_CORRUPT);
        assert_non_null(strstr(why, "row 2, value 0 (from 0): not a finite number"));
    }
}

WITH_TABLES(numbers_that_are_none_are_named)
{
    static const uint64_t with_nan[TABLE] = {0, 0, 0, 0x7FC00000, 0, 0};
    static const uint64_t too_large[TABLE] = {0, 0, 0, 0, 0x7FE0000000000000, 0};
    write_tables(0x0D, 4, with_nan, three_labels, sizeof three_labels);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "row 1, value 1 (from 0): not a finite number");
    assert_non_null(strstr(why, "train-images-idx2-float"));
    write_tables(0x0E, 8, too_large, three_labels, sizeof three_labels);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "row 2, value 0 (from 0): not a finite number");
}

WITH_TABLES(labels_are_whole_numbers_of_any_type)
{
    static const uint64_t zeros[TABLE];
    static const uint8_t shorts[] = {0, 0, 0x0B, 1, 0, 0, 0, 3, 0, 0, 1, 44, 0, 7};
    static const uint8_t ints[] = {0, 0, 0x0C, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7};
    static const uint8_t negative[] = {0, 0, 0x09, 1, 0, 0, 0, 3, 0, 0xFF, 1};
    static const uint8_t floats[] = {0, 0, 0x0D, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    write_tables(0x0B, 2, zeros, shorts, sizeof shorts);
    assert_int_equal(open_spec("idx:@"), TERN_OK);
    assert_int_equal(data.train.labels[1], 300);
    assert_int_equal(data.train.class_count, 301);
    write_tables(0x0B, 2, zeros, ints, sizeof ints);
    expect_refused("idx:@", TERN_ERR_CORRUPT,
                   "example 1 (from 0): the label 65536 is no class number");
    write_tables(0x0B, 2, zeros, negative, sizeof negative);
    expect_refused("idx:@", TERN_ERR_CORRUPT, "the label -1 is no class number from 0 to 65535");
    write_tables(0x0B, 2, zeros, floats, sizeof floats);
    expect_refused("idx:@", TERN_ERR_CORRUPT,
                   "contains labels of type 0x0d; labels are whole numbers");
}

WITH_TABLES(numbers_take_four_bytes_of_memory)
{
    static const uint64_t zeros[TABLE];
    write_tables(0x09, 1, zeros, three_labels, sizeof three_labels);
    limits.max_bytes = TABLE * 4 - 1;
    expect_refused("idx:@", TERN_ERR_TOO_LARGE, "unpacks to 24 bytes, over the limit of 23");
    limits.max_bytes = TABLE * 4;
    assert_int_equal(open_spec("idx:@"), TERN_OK);
}
