#include "data/files.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

#define RECORD 3073
#define COUNT 3

static uint8_t records[COUNT * RECORD];

static int make_files(void **state)
{
    if (folder_make(state) != 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof records; i++) {
        records[i] = i % RECORD == 0 ? (uint8_t)(i / RECORD * 4) : (uint8_t)(i * 7);
    }
    write_file("data_batch_1.bin", records, sizeof records);
    write_file("data_batch_2.bin", records, RECORD);
    write_file("test_batch.bin", records, sizeof records);
    return 0;
}

CASE_WITH(batches_are_read_and_planes_interleaved, make_files, folder_remove)
{
    assert_int_equal(open_spec("cifar10:@"), TERN_OK);
    assert_int_equal(data.train.count, COUNT + 1);
    assert_int_equal(data.test.count, COUNT);
    assert_int_equal(data.train.feature_count, 3072);
    assert_int_equal(data.train.channels, 3);
    assert_int_equal(data.train.class_count, 10);
    assert_int_equal(data.test.labels[2], 8);
    const uint8_t *image = data.test.bytes + 2 * 3072;
    for (size_t pixel = 0; pixel < 1024; pixel++) {
        for (size_t c = 0; c < 3; c++) {
            assert_int_equal(image[3 * pixel + c], records[2 * RECORD + 1 + c * 1024 + pixel]);
        }
    }
}

CASE_WITH(damaged_batches_are_refused, make_files, folder_remove)
{
    records[RECORD] = 10;
    write_file("data_batch_2.bin", records, sizeof records);
    expect_refused("cifar10:@", TERN_ERR_CORRUPT, "image 1 has the label 10");
    assert_non_null(strstr(why, "data_batch_2.bin"));
    const size_t cuts[] = {0, 1, RECORD - 1, RECORD + 1, sizeof records - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        write_file("test_batch.bin", records, cuts[i]);
        write_file("data_batch_2.bin", records, RECORD);
        records[RECORD] = 1;
        expect_refused("cifar10:@", TERN_ERR_CORRUPT, "ends within image");
    }
    remove_file("test_batch.bin");
    expect_refused("cifar10:@", TERN_ERR_NOT_FOUND, "test_batch.bin");
}

CASE_WITH(limits_are_obeyed, make_files, folder_remove)
{
    limits.max_examples = COUNT;
    expect_refused("cifar10:@", TERN_ERR_TOO_LARGE, "more images than the limits allow (3)");
    limits.max_examples = COUNT + 1;
    assert_int_equal(open_spec("cifar10:@"), TERN_OK);
    limits.max_features = 3071;
    expect_refused("cifar10:@", TERN_ERR_TOO_LARGE, "limits");
}
