// The files between client and trainer: what is written is the whole model, what is read back are
// the values that are trained, and neither takes more memory than a piece.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "external/trainer_files.h"
#include "hosted/safetensors.h"
#include "tests/cases.h"
#include "util/bytes.h"

enum { LARGE = 9001, FROZEN = 5000, SMALL = 3, VALUES = LARGE + FROZEN + SMALL };

static char scratch[64];
static char path[96];
static struct tern_model model;
static float trained[VALUES], others[VALUES], found[VALUES];
static char why[TERN_EXTERNAL_WHY_MAX];

static void add(const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(&model, name, &count, 1, rule), TERN_OK);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/tern-model-file-XXXXXX");
    assert_non_null(mkdtemp(scratch));
    snprintf(path, sizeof path, "%s/model.safetensors", scratch);
    tern_model_clear(&model);
    add("frozen", FROZEN, TERN_RULE_SKIP);
    add("large", LARGE, TERN_RULE_COMPRESS);
    add("small", SMALL, TERN_RULE_FUSE);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(tern_model_trained(&model), LARGE + SMALL);
    for (int i = 0; i < VALUES; i++) {
        trained[i] = (float)i / 7;
        others[i] = -(float)i;
        found[i] = -1e30f;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_work_folder_remove(scratch);
    return access(scratch, F_OK) == 0;
}

static void write_model(void)
{
    (void)remove(path);
    assert_int_equal(tern_model_file_write(path, &model, trained, others, why), TERN_OK);
}

static enum tern_result read_model(void)
{
    return tern_model_file_read(path, &model, found, why);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(a_file_has_all_tensors)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    struct tern_safetensors file;
    char reason[TERN_SAFETENSORS_WHY_MAX];
    write_model();
    assert_int_equal(tern_regular_file_read(path, 1 << 20, &bytes, &len, why), TERN_OK);
    assert_int_equal(tern_safetensors_parse(bytes, len, &file, reason), TERN_OK);
    assert_int_equal(file.count, 3);
    for (size_t i = 0; i < file.count; i++) {
        const struct tern_tensor *tensor = &model.tensors[i];
        const float *values = i == 0 ? others : trained;
        assert_string_equal(file.entries[i].name, tensor->name);
        assert_int_equal(file.entries[i].count, tensor->count);
        tern_safetensors_floats(&file.entries[i], found);
        assert_memory_equal(found, values + tensor->offset, tensor->count * sizeof(float));
    }
    tern_safetensors_free(&file);
    free(bytes);
}

TEST(trained_values_come_back)
{
    write_model();
    assert_int_equal(read_model(), TERN_OK);
    assert_memory_equal(found, trained, (LARGE + SMALL) * sizeof(float));
    for (int i = LARGE + SMALL; i < VALUES; i++) {
        assert_true(found[i] == -1e30f);
    }
}

// A frozen tensor that diverged shows that training did.
TEST(every_value_is_checked)
{
    const uint32_t at[] = {0, LARGE - 1, LARGE + SMALL - 1, LARGE + SMALL, VALUES - 1};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        const float trained_then = trained[at[i]];
        const float other_then = others[at[i]];
        trained[at[i]] = others[at[i]] = INFINITY;
        write_model();
        assert_int_equal(read_model(), TERN_ERR_NON_FINITE);
        trained[at[i]] = trained_then;
        others[at[i]] = other_then;
    }
}

TEST(cut_files_are_refused)
{
    struct stat facts;
    write_model();
    assert_int_equal(stat(path, &facts), 0);
    for (off_t len = facts.st_size - 1; len >= 0; len = len > 400 ? len / 2 : len - 7) {
        assert_int_equal(truncate(path, len), 0);
        assert_int_equal(read_model(), TERN_ERR_CORRUPT);
    }
}

TEST(a_long_header_is_not_read)
{
    uint8_t length[TERN_SAFETENSORS_LENGTH_BYTES];
    tern_put_le64(length, 5 << 20);
    assert_int_equal(tern_new_file_write(path, length, sizeof length, why), TERN_OK);
    assert_int_equal(truncate(path, (4 << 20) + 1), 0);
    assert_int_equal(read_model(), TERN_ERR_CORRUPT); // longer than the file
    tern_put_le64(length, 4u << 20);
    (void)remove(path);
    assert_int_equal(tern_new_file_write(path, length, sizeof length, why), TERN_OK);
    assert_int_equal(truncate(path, (8 << 20) + 1), 0);
    assert_int_equal(read_model(), TERN_ERR_TOO_LARGE); // than a model's file can be
}
