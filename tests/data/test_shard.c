// A client that keeps its shard alone has what a view of the whole data set shows.
#include "data/files.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 611
#define TEST_COUNT 40
#define HEIGHT 5
#define WIDTH 7
#define PIXELS (HEIGHT * WIDTH)
#define CLASSES 10
#define CLIENTS 7

static uint8_t images[16 + COUNT * PIXELS];
static uint8_t labels[8 + COUNT];
static struct tern_data part_data;

static const enum tern_partition_kind kinds[] = {TERN_PARTITION_IID, TERN_PARTITION_DIRICHLET,
                                                 TERN_PARTITION_SHARDS};

static struct tern_partition_config config_of(enum tern_partition_kind kind)
{
    return (struct tern_partition_config){
        .kind = kind, .clients = CLIENTS, .min_examples = 1, .alpha = 0.3f, .seed = 5};
}

static void make_headers(uint32_t count)
{
    const uint8_t image_header[16] = {
        0, 0, 8, 3, 0, 0, (uint8_t)(count >> 8), (uint8_t)count, 0, 0, 0, HEIGHT, 0, 0, 0, WIDTH};
    const uint8_t label_header[8] = {0, 0, 8, 1, 0, 0, (uint8_t)(count >> 8), (uint8_t)count};
    memcpy(images, image_header, sizeof image_header);
    memcpy(labels, label_header, sizeof label_header);
}

static int make_files(void **state)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 4, TERN_PRNG_TEST, 0, 0);
    if (folder_make(state) != 0) {
        return -1;
    }
    for (size_t i = 16; i < sizeof images; i++) {
        images[i] = (uint8_t)tern_prng_below(&rng, 256);
    }
    for (size_t i = 8; i < sizeof labels; i++) {
        labels[i] = (uint8_t)tern_prng_below(&rng, CLASSES);
    }
    make_headers(TEST_COUNT);
    write_file("t10k-images-idx3-ubyte", images, 16 + TEST_COUNT * PIXELS);
    write_file("t10k-labels-idx1-ubyte", labels, 8 + TEST_COUNT);
    make_headers(COUNT);
    write_gzip("train-images-idx3-ubyte.gz", images, sizeof images);
    write_gzip("train-labels-idx1-ubyte.gz", labels, sizeof labels);
    return 0;
}

static int remove_files(void **state)
{
    tern_data_close(&part_data);
    return folder_remove(state);
}

static enum tern_result open_part(const char *spec, const struct tern_data_part *part)
{
    char text[SPEC_SIZE];
    name_spec(spec, text);
    tern_data_close(&part_data);
    return tern_dataset_open_part(text, &limits, part, &part_data, why);
}

static void compare_examples(const struct tern_view *expected, const struct tern_view *got)
{
    const uint32_t n = expected->dataset->feature_count;
    float *rows = calloc((size_t)n * 2, sizeof *rows);
    assert_non_null(rows);
    assert_int_equal(got->count, expected->count);
    for (uint32_t i = 0; i < expected->count; i++) {
        uint16_t label[2];
        tern_view_gather(expected, NULL, i, 1, rows, &label[0]);
        tern_view_gather(got, NULL, i, 1, rows + n, &label[1]);
        assert_memory_equal(rows, rows + n, n * sizeof *rows);
        assert_int_equal(label[0], label[1]);
    }
    free(rows);
}

static void compare_shape(const struct tern_dataset *expected, const struct tern_dataset *got)
{
    assert_int_equal(got->feature_count, expected->feature_count);
    assert_int_equal(got->class_count, expected->class_count);
    assert_int_equal(got->height, expected->height);
    assert_int_equal(got->width, expected->width);
    assert_int_equal(got->channels, expected->channels);
}

// Every shard of a partition, against the whole data set's, which is open in `data`.
static void compare_shards(const char *spec, enum tern_partition_kind kind)
{
    const struct tern_partition_config config = config_of(kind);
    struct tern_partition partition;
    uint32_t sum = 0;
    char partition_why[TERN_PARTITION_WHY_MAX];
    assert_int_equal(tern_partition_make(&config, &data.train, &partition, partition_why), TERN_OK);
    for (uint32_t client = 0; client < CLIENTS; client++) {
        const struct tern_data_part part = {.partition = &config, .client = client, .test = true};
        assert_int_equal(open_part(spec, &part), TERN_OK);
        assert_string_equal(why, "");
        const struct tern_view whole = tern_partition_view(&partition, &data.train, client);
        const struct tern_view kept = tern_view_all(&part_data.train);
        const struct tern_view whole_test = tern_view_all(&data.test);
        const struct tern_view kept_test = tern_view_all(&part_data.test);
        compare_shape(&data.train, &part_data.train);
        compare_examples(&whole, &kept);
        compare_examples(&whole_test, &kept_test);
        sum += kept.count;
    }
    assert_int_equal(sum, data.train.count);
    tern_partition_free(&partition);
}

#define WITH_FILES(test) CASE_WITH(test, make_files, remove_files)

WITH_FILES(a_shard_is_what_a_view_of_the_whole_shows)
{
    static const char *const specs[] = {"idx:@", "idx:@,mean=0.3,std=0.4",
                                        "digits:train=200,test=20"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        assert_int_equal(open_spec(specs[i]), TERN_OK);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            compare_shards(specs[i], kinds[k]);
        }
    }
}

WITH_FILES(a_shard_of_generated_groups_is_what_a_view_shows)
{
    static const char *const specs[] = {"sensors:train=200,test=20,devices=9",
                                        "audio:train=100,test=20,speakers=7"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        assert_int_equal(open_spec(specs[i]), TERN_OK);
        compare_shards(specs[i], TERN_PARTITION_NATURAL);
        compare_shards(specs[i], TERN_PARTITION_IID);
    }
}

WITH_FILES(a_shard_of_a_table_is_what_a_view_shows)
{
    char table[4096] = "";
    size_t used = 0;
    for (int i = 0; i < 90; i++) {
        used +=
            (size_t)snprintf(table + used, sizeof table - used, "%d,%d.5,%d\n", i * 3, i, i % 4);
    }
    write_file("t.csv", table, used);
    assert_int_equal(open_spec("csv:@/t.csv,scale=standard"), TERN_OK);
    compare_shards("csv:@/t.csv,scale=standard", TERN_PARTITION_DIRICHLET);
}

WITH_FILES(without_a_partition_all_is_kept)
{
    const struct tern_data_part part = {.test = false};
    assert_int_equal(open_spec("idx:@"), TERN_OK);
    assert_int_equal(open_part("idx:@", &part), TERN_OK);
    const struct tern_view whole = tern_view_all(&data.train);
    const struct tern_view kept = tern_view_all(&part_data.train);
    compare_examples(&whole, &kept);
}

WITH_FILES(natural_shards_need_groups)
{
    const struct tern_partition_config config = config_of(TERN_PARTITION_NATURAL);
    const struct tern_data_part part = {.partition = &config, .client = 0};
    assert_int_equal(open_part("idx:@", &part), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(why, "has no natural groups"));
    assert_int_equal(open_part("audio:train=50,speakers=6", &part), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(why, "6, fewer than the 7 clients"));
    assert_null(part_data.train.groups);
}

WITH_FILES(who_does_not_evaluate_needs_no_test_files)
{
    const struct tern_partition_config config = config_of(TERN_PARTITION_IID);
    struct tern_data_part part = {.partition = &config, .client = 1};
    remove_file("t10k-images-idx3-ubyte");
    remove_file("t10k-labels-idx1-ubyte");
    assert_int_equal(open_part("idx:@", &part), TERN_OK);
    assert_int_equal(part_data.test.count, 0);
    assert_int_equal(part_data.train.count, COUNT / CLIENTS + 1);
    assert_int_equal(open_part("digits:train=50,test=5", &part), TERN_OK);
    assert_int_equal(part_data.test.count, 0);
    part.test = true;
    assert_int_equal(open_part("idx:@", &part), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "contains neither t10k-images-idx3-ubyte nor"));
}

static void expect_part_refused(enum tern_result expected, const char *sentence)
{
    const struct tern_partition_config config = config_of(TERN_PARTITION_SHARDS);
    const struct tern_data_part part = {.partition = &config, .client = 0};
    const enum tern_result result = open_part("idx:@", &part);
    if (result != expected || strstr(why, sentence) == NULL) {
        fail_msg("%s, '%s'; expected %s with '%s'", tern_result_name(result), why,
                 tern_result_name(expected), sentence);
    }
    assert_null(part_data.train.labels);
    assert_null(part_data.train.bytes);
}

// Also where only images of other shards are hurt.
WITH_FILES(damaged_files_are_refused_as_ever)
{
    static uint8_t longer[sizeof images + 1];
    const char *name = "train-images-idx3-ubyte.gz";
    for (size_t len = file_size(name); len-- > 0; len -= len > 97 ? 97 : 0) {
        cut_file(name, len);
        expect_part_refused(TERN_ERR_CORRUPT, name);
    }
    write_gzip(name, images, sizeof images - 1);
    expect_part_refused(TERN_ERR_CORRUPT, "within the images");
    memcpy(longer, images, sizeof images);
    write_gzip(name, longer, sizeof longer);
    expect_part_refused(TERN_ERR_CORRUPT, "goes on at byte 21401, where its header says it ends");
    longer[2] = 0x0A;
    write_gzip(name, longer, sizeof images);
    expect_part_refused(TERN_ERR_CORRUPT, "type 0x0a");
    write_gzip(name, images, sizeof images);
    labels[7]--;
    write_gzip("train-labels-idx1-ubyte.gz", labels, sizeof labels - 1);
    expect_part_refused(TERN_ERR_CORRUPT, "contains 610 labels for 611 images");
}

WITH_FILES(too_many_shards_are_refused)
{
    struct tern_partition_config config = config_of(TERN_PARTITION_IID);
    const struct tern_data_part part = {.partition = &config, .client = 0};
    static const char *const specs[] = {"idx:@", "digits:train=611,test=5"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        config.clients = COUNT + 1;
        assert_int_equal(open_part(specs[i], &part), TERN_ERR_ARGUMENT);
        assert_non_null(strstr(why, "611 examples cannot be shared among 612 clients"));
        assert_null(part_data.train.labels);
        config.clients = COUNT;
        assert_int_equal(open_part(specs[i], &part), TERN_OK);
        assert_int_equal(part_data.train.count, 1);
    }
}
