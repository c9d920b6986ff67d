// Vectors of the model's size: in memory while there is room, then in files, and the same to who uses them.
#include "merge/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sanitized.h"
#include "tests/cases.h"

#define COUNT 100000u
#define BYTES (COUNT * sizeof(float))

static char folder[] = "/tmp/tern-vectors-XXXXXX";

static struct tern_vectors with_room(uint64_t memory)
{
    return (struct tern_vectors){.count = COUNT, .folder = folder, .memory = memory};
}

static void fill(float *values, float first)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == 0.0F);
        values[i] = first + (float)i;
    }
}

static void expect(const float *values, float first)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == first + (float)i);
    }
}

CASE(test_what_finds_no_room_in_memory_is_in_a_file)
{
    struct tern_vectors vectors = with_room(BYTES + BYTES / 2);
    float *near = tern_vector_new(&vectors);
    float *far = tern_vector_new(&vectors);
    assert_non_null(near);
    assert_non_null(far);
    assert_int_equal(vectors.used, BYTES);
    assert_ptr_equal(vectors.files[0], far);
    fill(near, 0.5F);
    fill(far, 7.0F);
    tern_vector_drop_pages(&vectors, near);
    tern_vector_drop_pages(&vectors, far);
    expect(near, 0.5F);
    expect(far, 7.0F);
    tern_vector_free(&vectors, far);
    tern_vector_free(&vectors, near);
    tern_vector_free(&vectors, NULL);
    assert_null(vectors.files[0]);
    assert_int_equal(vectors.used, 0);
}

// How much of the process's memory is no page of a file, in bytes.
static size_t private_memory(void)
{
    char line[128];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "RssAnon: %zu", &kib);
    }
    fclose(file);
    return kib * 1024;
}

CASE(test_a_file_takes_no_memory_of_the_process)
{
    struct tern_vectors vectors = with_room(0);
    vectors.count = 64 * COUNT;
    const size_t before = private_memory();
    float *values = tern_vector_new(&vectors);
    assert_non_null(values);
    for (uint32_t i = 0; i < vectors.count; i++) {
        values[i] = 1.0F;
    }
    if (!SANITIZED) { // whose shadows are memory of the process
        assert_true(private_memory() < before + 32 * BYTES);
    }
    assert_int_equal(rmdir(folder), 0); // it has no name
    tern_vector_free(&vectors, values);
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/tern-vectors-XXXXXX")));
}

CASE(test_without_a_folder_or_a_file_all_are_in_memory)
{
    const char *folders[] = {NULL, "/nowhere"};
    for (int i = 0; i < 2; i++) {
        struct tern_vectors vectors = with_room(0);
        vectors.folder = folders[i];
        float *values = tern_vector_new(&vectors);
        assert_non_null(values);
        assert_null(vectors.files[0]);
        assert_int_equal(vectors.used, BYTES);
        fill(values, 3.0F);
        tern_vector_drop_pages(&vectors, values);
        expect(values, 3.0F);
        tern_vector_free(&vectors, values);
    }
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

CASES_SHARE(setup, teardown)
