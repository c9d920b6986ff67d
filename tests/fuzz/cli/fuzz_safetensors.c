// Safetensors files from hostile bytes: an accepted file's tensors lie side by side, fill the data
// and have the sizes that they claim, and a refused one is explained. Written again, the tensors
// are the same.
#include "hosted/safetensors.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { TENSORS_MAX = 64 };

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static size_t value_bytes(enum tern_safetensors_kind kind)
{
    return kind == TERN_SAFETENSORS_F32 ? 4 : 2;
}

// All values are read into memory of just their size, which ends where the sanitizer looks.
static void use_values(const struct tern_safetensors_entry *entry)
{
    require(entry->data_len % value_bytes(entry->kind) == 0);
    require(entry->count == entry->data_len / value_bytes(entry->kind));
    float *values = malloc((size_t)entry->count * sizeof *values);
    if (values != NULL) {
        tern_safetensors_floats(entry, values);
    }
    free(values);
}

static void use(const struct tern_safetensors *file, const uint8_t *end)
{
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        const uint8_t *after = i + 1 < file->count ? entry[1].data : end;
        require(entry->data + entry->data_len == after);
        require(tern_utf8_is_text(entry->name, strlen(entry->name)));
        require(entry->dtype != NULL && entry->shape != NULL && entry->shape[0] == '[');
        if (entry->kind != TERN_SAFETENSORS_OTHER) {
            use_values(entry);
        }
    }
}

static bool same(const struct tern_safetensors_entry *a, const struct tern_safetensors_entry *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
           strcmp(a->shape, b->shape) == 0 && a->data_len == b->data_len &&
           (a->data_len == 0 || memcmp(a->data, b->data, (size_t)a->data_len) == 0);
}

// The data are in another order, wide types first.
static void check_copy(const struct tern_safetensors *file, const uint8_t *bytes, size_t len)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors copy;
    require(tern_safetensors_parse(bytes, len, &copy, why) == TERN_OK);
    require(copy.count == file->count);
    for (size_t i = 0; i < file->count; i++) {
        size_t k = 0;
        while (k < copy.count && !same(&file->entries[i], &copy.entries[k])) {
            k++;
        }
        require(k < copy.count);
        const struct tern_safetensors_entry *entry = &copy.entries[k];
        require(entry->width == 0 || (size_t)(entry->data - bytes) % entry->width == 0);
    }
    tern_safetensors_free(&copy);
}

static void write_again(const struct tern_safetensors *file)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors_tensor tensors[TENSORS_MAX];
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (file->count > TENSORS_MAX) {
        return;
    }
    for (size_t i = 0; i < file->count; i++) {
        tensors[i] = tern_safetensors_as_read(&file->entries[i]);
    }
    if (tern_safetensors_make(tensors, file->count, file->metadata, TERN_SAFETENSORS_F32, &bytes,
                              &len, why) == TERN_OK) {
        check_copy(file, bytes, len);
        free(bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors file;
    (void)tern_safetensors_looks_like(bytes, size);
    if (tern_safetensors_parse(bytes, size, &file, why) == TERN_OK) {
        use(&file, bytes + size);
        write_again(&file);
    } else {
        require(why[0] != '\0' && memchr(why, '\0', sizeof why) != NULL);
        require(file.header == NULL && file.entries == NULL && file.count == 0);
    }
    tern_safetensors_free(&file);
    return 0;
}
