#include "vectors.h"

#include "tests/asserts.h"
#include "util/bytes.h"

#include <stdlib.h>
#include <string.h>

void vectors_open(struct vectors *v, const char *name)
{
    const char *folder = getenv("TERN_VECTORS");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : "build/tests/vectors", name);
    v->number = 0;
    v->file = fopen(path, "r");
    if (v->file == NULL) {
        fail_msg("cannot open %s; set TERN_VECTORS to the folder build/tests/vectors", path);
    }
}

bool vectors_next(struct vectors *v)
{
    while (fgets(v->line, sizeof v->line, v->file) != NULL) {
        v->number++;
        size_t len = strcspn(v->line, "\n");
        if (len == 0 || v->line[0] == '#') {
            continue;
        }
        v->line[len] = '\0';
        char *space = strchr(v->line, ' ');
        v->rest = space != NULL ? space + 1 : v->line + len;
        if (space != NULL) {
            *space = '\0';
        }
        v->key = v->line;
        return true;
    }
    fclose(v->file);
    return false;
}

char *vectors_word(struct vectors *v)
{
    char *word = v->rest;
    char *space = strchr(word, ' ');
    if (*word == '\0') {
        fail_msg("line %u has too few words", v->number);
    }
    v->rest = space != NULL ? space + 1 : word + strlen(word);
    if (space != NULL) {
        *space = '\0';
    }
    return word;
}

uint32_t vectors_number(struct vectors *v)
{
    return (uint32_t)strtoul(vectors_word(v), NULL, 10);
}

// How often the item before *at is meant: "*3" behind it, or once.
static size_t read_times(char **at)
{
    return **at == '*' ? strtoul(*at + 1, at, 10) : 1;
}

size_t vectors_floats(struct vectors *v, float values[VECTOR_VALUES_MAX])
{
    size_t count = 0;
    while (*v->rest != '\0') {
        char *end = NULL;
        uint8_t bytes[4];
        tern_put_le32(bytes, (uint32_t)strtoul(vectors_word(v), &end, 16));
        for (size_t times = read_times(&end); times > 0; times--) {
            assert_true(count < VECTOR_VALUES_MAX);
            values[count++] = tern_get_f32(bytes);
        }
    }
    return count;
}

size_t vectors_symbols(struct vectors *v, float values[VECTOR_VALUES_MAX])
{
    size_t count = 0;
    while (*v->rest != '\0') {
        char symbol = *v->rest++;
        for (size_t times = read_times(&v->rest); times > 0; times--) {
            assert_true(count < VECTOR_VALUES_MAX);
            values[count++] = symbol == '+' ? 1.0f : symbol == '-' ? -1.0f : 0.0f;
        }
    }
    return count;
}

size_t vectors_bytes(struct vectors *v, uint8_t bytes[VECTOR_LINE_MAX / 2])
{
    size_t len = strlen(v->rest) / 2;
    assert_int_equal(tern_hex_decode(v->rest, bytes, len), TERN_OK);
    return len;
}
