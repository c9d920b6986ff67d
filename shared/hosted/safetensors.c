#include "hosted/safetensors.h"

#include "codec/codec.h"
#include "util/bytes.h"
#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TERN_SAFETENSORS_HEADER_MAX 100000000 // bytes; the same limit as in other readers

// --- Reading

#define LENGTH_BYTES TERN_SAFETENSORS_LENGTH_BYTES

// The file's data after the header.
struct data {
    const uint8_t *bytes; // NULL: only the header was read
    uint64_t offset;      // in the file
    uint64_t len;
};

struct dtype {
    const char *name;
    unsigned bytes; // of a value
    enum tern_safetensors_kind kind;
};

// The known dtypes. A tensor of any other dtype is accepted, and its size is not checked.
static const struct dtype dtypes[] = {
    {"F32", 4, TERN_SAFETENSORS_F32},       {"F16", 2, TERN_SAFETENSORS_F16},
    {"BF16", 2, TERN_SAFETENSORS_BF16},     {"F64", 8, TERN_SAFETENSORS_OTHER},
    {"I64", 8, TERN_SAFETENSORS_OTHER},     {"U64", 8, TERN_SAFETENSORS_OTHER},
    {"I32", 4, TERN_SAFETENSORS_OTHER},     {"U32", 4, TERN_SAFETENSORS_OTHER},
    {"I16", 2, TERN_SAFETENSORS_OTHER},     {"U16", 2, TERN_SAFETENSORS_OTHER},
    {"I8", 1, TERN_SAFETENSORS_OTHER},      {"U8", 1, TERN_SAFETENSORS_OTHER},
    {"BOOL", 1, TERN_SAFETENSORS_OTHER},    {"F8_E4M3", 1, TERN_SAFETENSORS_OTHER},
    {"F8_E5M2", 1, TERN_SAFETENSORS_OTHER}, {"C64", 8, TERN_SAFETENSORS_OTHER},
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return &dtypes[i];
        }
    }
    return NULL;
}

// --- Errors

// Writes the sentence and returns TERN_ERR_CORRUPT.
static enum tern_result corrupt(char why[TERN_SAFETENSORS_WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum tern_result corrupt(char why[TERN_SAFETENSORS_WHY_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_SAFETENSORS_WHY_MAX, format, arguments);
    va_end(arguments);
    return TERN_ERR_CORRUPT;
}

// --- One tensor of the header

// Accepts only whole numbers that a double represents exactly.
static bool read_whole(const cJSON *item, uint64_t *value)
{
    double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(number >= 0 && number <= 9007199254740992.0) || number != floor(number)) {
        return false;
    }
    *value = (uint64_t)number;
    return true;
}

static enum tern_result read_shape(const cJSON *tensor, struct tern_safetensors_entry *entry,
                                   char why[TERN_SAFETENSORS_WHY_MAX])
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(tensor, "shape");
    const cJSON *dim = NULL;
    if (!cJSON_IsArray(shape)) {
        return corrupt(why, "tensor '%s' has no shape", entry->name);
    }
    entry->count = 1;
    cJSON_ArrayForEach(dim, shape)
    {
        uint64_t size = 0;
        if (!read_whole(dim, &size)) {
            return corrupt(
                why, "tensor '%s': its shape has an element that is not a whole number from 0",
                entry->name);
        }
        if (__builtin_mul_overflow(entry->count, size, &entry->count)) {
            return corrupt(why, "tensor '%s': its shape is too large", entry->name);
        }
    }
    entry->dims = shape;
    entry->shape = cJSON_PrintUnformatted(shape);
    return entry->shape != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result read_offsets(const cJSON *tensor, const struct data *data,
                                     struct tern_safetensors_entry *entry,
                                     char why[TERN_SAFETENSORS_WHY_MAX])
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_whole(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !read_whole(cJSON_GetArrayItem(offsets, 1), &end) || begin > end) {
        return corrupt(why, "tensor '%s': data_offsets is not [begin, end]", entry->name);
    }
    if (end > data->len) {
        return corrupt(why,
                       "tensor '%s' ends at byte %" PRIu64 " of the data, which has %" PRIu64
                       ": the file is truncated or its header is wrong",
                       entry->name, end, data->len);
    }
    entry->data = data->bytes != NULL ? data->bytes + begin : NULL;
    entry->offset = data->offset + begin;
    entry->data_len = end - begin;
    return TERN_OK;
}

static enum tern_result read_dtype(const cJSON *tensor, struct tern_safetensors_entry *entry,
                                   char why[TERN_SAFETENSORS_WHY_MAX])
{
    entry->dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
    if (entry->dtype == NULL || !tern_utf8_is_text(entry->dtype, strlen(entry->dtype))) {
        return corrupt(why, "tensor '%s' has no dtype", entry->name);
    }
    const struct dtype *dtype = find_dtype(entry->dtype);
    if (dtype == NULL) {
        return TERN_OK;
    }
    entry->kind = dtype->kind;
    entry->width = dtype->bytes;
    uint64_t wanted = 0;
    if (__builtin_mul_overflow(entry->count, dtype->bytes, &wanted) || wanted != entry->data_len) {
        return corrupt(why,
                       "tensor '%s': %s %s is %" PRIu64 " values of %u bytes, but data_offsets "
                       "gives it %" PRIu64 " bytes",
                       entry->name, entry->dtype, entry->shape, entry->count, dtype->bytes,
                       entry->data_len);
    }
    return TERN_OK;
}

static enum tern_result read_tensor(const cJSON *tensor, const struct data *data,
                                    struct tern_safetensors_entry *entry,
                                    char why[TERN_SAFETENSORS_WHY_MAX])
{
    if (!tern_utf8_is_text(tensor->string, strlen(tensor->string))) {
        return corrupt(why, "a tensor's name is not UTF-8 text, or holds control characters");
    }
    entry->name = tensor->string;
    if (!cJSON_IsObject(tensor)) {
        return corrupt(why, "tensor '%s' is not described by an object", entry->name);
    }
    TERN_TRY(read_shape(tensor, entry, why));
    TERN_TRY(read_offsets(tensor, data, entry, why));
    return read_dtype(tensor, entry, why);
}

// --- All tensors

static int by_place(const void *left, const void *right)
{
    const struct tern_safetensors_entry *a = left;
    const struct tern_safetensors_entry *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    if (a->data_len != b->data_len) {
        return a->data_len < b->data_len ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static int by_name(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

// Checks that the tensors fill the data without gaps. The entries are sorted by offset.
static enum tern_result check_places(const struct tern_safetensors *file, const struct data *data,
                                     char why[TERN_SAFETENSORS_WHY_MAX])
{
    uint64_t at = data->offset;
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if (entry->offset < at) {
            return corrupt(why, "tensors '%s' and '%s' overlap", file->entries[i - 1].name,
                           entry->name);
        }
        if (entry->offset > at) {
            return corrupt(why, "%" PRIu64 " bytes in front of tensor '%s' belong to no tensor",
                           entry->offset - at, entry->name);
        }
        at += entry->data_len;
    }
    const uint64_t left = data->offset + data->len - at;
    return left == 0
               ? TERN_OK
               : corrupt(why, "%" PRIu64 " bytes behind the last tensor belong to none", left);
}

static enum tern_result check_names(const struct tern_safetensors *file,
                                    char why[TERN_SAFETENSORS_WHY_MAX])
{
    const char **names = malloc((file->count + 1) * sizeof(char *));
    if (names == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < file->count; i++) {
        names[i] = file->entries[i].name;
    }
    qsort(names, file->count, sizeof(char *), by_name);
    enum tern_result result = TERN_OK;
    for (size_t i = 1; i < file->count && result == TERN_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            result = corrupt(why, "two tensors are named '%s'", names[i]);
        }
    }
    free(names);
    return result;
}

// Checks the optional "__metadata__" object, whose values must be text.
static enum tern_result read_metadata(const cJSON *metadata, struct tern_safetensors *file,
                                      char why[TERN_SAFETENSORS_WHY_MAX])
{
    const cJSON *note = NULL;
    if (!cJSON_IsObject(metadata) || file->metadata != NULL) {
        return corrupt(why, "__metadata__ is not an object, or occurs twice");
    }
    cJSON_ArrayForEach(note, metadata)
    {
        if (!cJSON_IsString(note) || !tern_utf8_is_text(note->string, strlen(note->string))) {
            return corrupt(why, "__metadata__ has a key or value that is not text");
        }
    }
    file->metadata = metadata;
    return TERN_OK;
}

static enum tern_result read_tensors(const struct data *data, struct tern_safetensors *file,
                                     char why[TERN_SAFETENSORS_WHY_MAX])
{
    file->entries = calloc((size_t)cJSON_GetArraySize(file->header) + 1, sizeof *file->entries);
    if (file->entries == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const cJSON *tensor = NULL;
    cJSON_ArrayForEach(tensor, file->header)
    {
        if (strcmp(tensor->string, "__metadata__") == 0) {
            TERN_TRY(read_metadata(tensor, file, why));
        } else {
            TERN_TRY(read_tensor(tensor, data, &file->entries[file->count++], why));
        }
    }
    qsort(file->entries, file->count, sizeof *file->entries, by_place);
    TERN_TRY(check_names(file, why));
    return check_places(file, data, why);
}

// --- The file

bool tern_safetensors_looks_like(const uint8_t *bytes, size_t len)
{
    return len > LENGTH_BYTES && tern_get_le64(bytes) >= 2 &&
           tern_get_le64(bytes) <= len - LENGTH_BYTES && bytes[LENGTH_BYTES] == '{';
}

static bool all_spaces(const char *at, const char *end)
{
    while (at < end && *at == ' ') {
        at++;
    }
    return at == end;
}

// Returns true if the JSON text contains the escape \u0000, at which cJSON would cut a string.
static bool holds_nul(const char *text, size_t len)
{
    static const char escape[] = "u0000";
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\\') {
            continue;
        }
        i++; // skips the escaped character, which may be a backslash
        if (len - i >= sizeof escape - 1 && memcmp(text + i, escape, sizeof escape - 1) == 0) {
            return true;
        }
    }
    return false;
}

static enum tern_result parse_json(const char *text, size_t len, cJSON **header,
                                   char why[TERN_SAFETENSORS_WHY_MAX])
{
    const char *end = text;
    if (holds_nul(text, len)) {
        return corrupt(why, "the header holds \\u0000, at which a name would be cut");
    }
    *header = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (*header == NULL) {
        return corrupt(why, "the header is not JSON at its byte %td", end - text);
    }
    if (!cJSON_IsObject(*header) || !all_spaces(end, text + len)) {
        return corrupt(why, "the header is not one JSON object");
    }
    return TERN_OK;
}

// there: number of bytes in memory, at least the whole header.
static enum tern_result parse_file(const uint8_t *bytes, size_t there, uint64_t len,
                                   struct tern_safetensors *file,
                                   char why[TERN_SAFETENSORS_WHY_MAX])
{
    if (len < LENGTH_BYTES) {
        return corrupt(why, "it has %" PRIu64 " bytes; the length of the header alone is %d", len,
                       LENGTH_BYTES);
    }
    const uint64_t header_len = tern_get_le64(bytes);
    if (header_len > len - LENGTH_BYTES) {
        return corrupt(why,
                       "its header should have %" PRIu64 " bytes, but only %" PRIu64
                       " follow: it is truncated, or not safetensors",
                       header_len, len - LENGTH_BYTES);
    }
    if (header_len > TERN_SAFETENSORS_HEADER_MAX || header_len > there - LENGTH_BYTES) {
        (void)corrupt(why, "its header has %" PRIu64 " bytes; at most %zu are read", header_len,
                      there < len ? there - LENGTH_BYTES : (size_t)TERN_SAFETENSORS_HEADER_MAX);
        return TERN_ERR_TOO_LARGE;
    }
    const size_t head = LENGTH_BYTES + (size_t)header_len;
    const struct data data = {
        .bytes = there == len ? bytes + head : NULL, .offset = head, .len = len - head};
    TERN_TRY(
        parse_json((const char *)bytes + LENGTH_BYTES, (size_t)header_len, &file->header, why));
    return read_tensors(&data, file, why);
}

enum tern_result tern_safetensors_parse_head(const uint8_t *head, size_t head_len,
                                             uint64_t file_len, struct tern_safetensors *file,
                                             char why[TERN_SAFETENSORS_WHY_MAX])
{
    *file = (struct tern_safetensors){.header = NULL};
    enum tern_result result = parse_file(head, head_len, file_len, file, why);
    if (result == TERN_ERR_NO_MEMORY) {
        (void)corrupt(why, "no memory for its header");
    }
    if (result != TERN_OK) {
        tern_safetensors_free(file);
    }
    return result;
}

enum tern_result tern_safetensors_parse(const uint8_t *bytes, size_t len,
                                        struct tern_safetensors *file,
                                        char why[TERN_SAFETENSORS_WHY_MAX])
{
    return tern_safetensors_parse_head(bytes, len, len, file, why);
}

void tern_safetensors_free(struct tern_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) {
        cJSON_free(file->entries[i].shape);
    }
    free(file->entries);
    cJSON_Delete(file->header);
    *file = (struct tern_safetensors){.header = NULL};
}

// --- Values

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_float(uint16_t half)
{
    unsigned exponent = half >> 10 & 31;
    float fraction = (float)(half & 1023);
    float magnitude = 0;
    if (exponent == 31) {
        magnitude = fraction > 0 ? NAN : INFINITY;
    } else if (exponent > 0) {
        magnitude = ldexpf(fraction + 1024, (int)exponent - 25);
    } else {
        magnitude = ldexpf(fraction, -24);
    }
    return half >> 15 != 0 ? -magnitude : magnitude;
}

bool tern_safetensors_dims(const struct tern_safetensors_entry *entry, uint32_t *dims,
                           uint32_t most, uint32_t *dim_count)
{
    const cJSON *dim = NULL;
    *dim_count = 0;
    cJSON_ArrayForEach(dim, entry->dims)
    {
        if (*dim_count == most || dim->valuedouble > (double)UINT32_MAX) {
            return false;
        }
        dims[(*dim_count)++] = (uint32_t)dim->valuedouble;
    }
    return true;
}

void tern_safetensors_convert(enum tern_safetensors_kind kind, const uint8_t *bytes, size_t count,
                              float *values)
{
    for (size_t i = 0; i < count; i++) {
        if (kind == TERN_SAFETENSORS_F32) {
            values[i] = tern_get_f32(bytes + 4 * i);
        } else if (kind == TERN_SAFETENSORS_F16) {
            values[i] = half_float(tern_get_le16(bytes + 2 * i));
        } else {
            values[i] = bits_float((uint32_t)tern_get_le16(bytes + 2 * i) << 16);
        }
    }
}

void tern_safetensors_floats(const struct tern_safetensors_entry *entry, float *values)
{
    tern_safetensors_convert(entry->kind, entry->data, (size_t)entry->count, values);
}

// --- Writing

enum { ALIGNMENT = 8 };

static const struct kind {
    const char *name;
    size_t bytes;             // of a value
    enum tern_codec_id codec; // encodes the values
} kinds[] = {
    [TERN_SAFETENSORS_F32] = {"F32", 4, TERN_CODEC_FLOAT32},
    [TERN_SAFETENSORS_F16] = {"F16", 2, TERN_CODEC_FLOAT16},
    [TERN_SAFETENSORS_BF16] = {"BF16", 2, TERN_CODEC_BFLOAT16},
};

bool tern_safetensors_kind_from_name(const char *name, enum tern_safetensors_kind *kind)
{
    for (size_t i = TERN_SAFETENSORS_F32; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcasecmp(kinds[i].name, name) == 0) {
            *kind = (enum tern_safetensors_kind)i;
            return true;
        }
    }
    return false;
}

// --- Places

// The tensors to write, and their offsets in the data.
struct plan {
    const struct tern_safetensors_tensor *tensors;
    size_t count;
    const struct kind *kind; // dtype of the tensors without as_read
    size_t *offsets;
    size_t data_len;
};

static size_t width_of(const struct plan *plan, const struct tern_safetensors_tensor *tensor)
{
    return tensor->as_read != NULL ? tensor->as_read->width : plan->kind->bytes;
}

static size_t bytes_of(const struct plan *plan, const struct tern_safetensors_tensor *tensor)
{
    return tensor->as_read != NULL ? (size_t)tensor->as_read->data_len
                                   : plan->kind->bytes * tensor->count;
}

// Assigns offsets, widest values first: all widths are powers of two, so each value is aligned.
// Tensors of unknown width come last.
static void place(struct plan *plan)
{
    static const size_t widths[] = {8, 4, 2, 1, 0};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (size_t i = 0; i < plan->count; i++) {
            if (width_of(plan, &plan->tensors[i]) == widths[w]) {
                plan->offsets[i] = plan->data_len;
                plan->data_len += bytes_of(plan, &plan->tensors[i]);
            }
        }
    }
}

// --- The header

// cJSON stores numbers as double, which is exact for offsets below 2^53.
static void add_tensor(cJSON *header, const struct plan *plan, size_t i)
{
    const struct tern_safetensors_tensor *tensor = &plan->tensors[i];
    const size_t end = plan->offsets[i] + bytes_of(plan, tensor);
    cJSON *json = cJSON_AddObjectToObject(header, tensor->name);
    cJSON_AddStringToObject(json, "dtype",
                            tensor->as_read != NULL ? tensor->as_read->dtype : plan->kind->name);
    cJSON_AddRawToObject(json, "shape", tensor->shape);
    cJSON *offsets = cJSON_AddArrayToObject(json, "data_offsets");
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)plan->offsets[i]));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)end));
}

// Returns JSON text, to be freed with cJSON_free(); NULL: no memory.
static char *header_text(const struct plan *plan, const cJSON *metadata)
{
    cJSON *header = cJSON_CreateObject();
    if (metadata != NULL) {
        cJSON_AddItemToObject(header, "__metadata__", cJSON_Duplicate(metadata, 1));
    }
    for (size_t i = 0; i < plan->count; i++) {
        add_tensor(header, plan, i);
    }
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

// --- The data

static void put_floats(const struct tern_safetensors_tensor *tensor, uint8_t *dst)
{
    for (size_t i = 0; i < tensor->count; i++) {
        tern_put_f32(dst + 4 * i, tensor->values[i]);
    }
}

// Encodes the values with the codec of the dtype. The payload is a mode byte and the values; if all
// values round to zero, it is the mode byte alone.
static enum tern_result put_rounded(const struct tern_safetensors_tensor *tensor,
                                    const struct kind *kind, uint8_t *dst)
{
    const struct tern_codec codec = {.id = kind->codec, .sparsity = 1.0F};
    const size_t bound = tern_codec_bound(&codec, tensor->count);
    float *values = malloc(tensor->count * sizeof *values + 1);
    uint8_t *payload = malloc(bound);
    size_t len = 0;
    enum tern_result result = TERN_ERR_NO_MEMORY;
    if (values != NULL && payload != NULL) {
        memcpy(values, tensor->values, tensor->count * sizeof *values);
        result = tern_codec_encode(&codec, NULL, values, tensor->count, payload, bound, &len);
    }
    if (result == TERN_OK && len == 1) {
        memset(dst, 0, kind->bytes * tensor->count);
    } else if (result == TERN_OK) {
        memcpy(dst, payload + 1, len - 1);
    }
    free(values);
    free(payload);
    return result;
}

static enum tern_result put(const struct plan *plan, const struct tern_safetensors_tensor *tensor,
                            uint8_t *dst)
{
    if (bytes_of(plan, tensor) == 0) {
        return TERN_OK;
    }
    if (tensor->as_read != NULL) {
        memcpy(dst, tensor->as_read->data, bytes_of(plan, tensor));
        return TERN_OK;
    }
    if (plan->kind->codec == TERN_CODEC_FLOAT32) {
        put_floats(tensor, dst);
        return TERN_OK;
    }
    return put_rounded(tensor, plan->kind, dst);
}

static enum tern_result put_all(const struct plan *plan, uint8_t *data,
                                char why[TERN_SAFETENSORS_WHY_MAX])
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct tern_safetensors_tensor *tensor = &plan->tensors[i];
        const enum tern_result result = put(plan, tensor, data + plan->offsets[i]);
        if (result != TERN_OK) {
            snprintf(why, TERN_SAFETENSORS_WHY_MAX, "tensor '%s' cannot be %s: %s", tensor->name,
                     plan->kind->name,
                     result == TERN_ERR_NON_FINITE ? "a value is not finite, or too large"
                                                   : tern_result_sentence(result));
            return result;
        }
    }
    return TERN_OK;
}

// --- The file

// Makes the file's length field and header, and reserves `room` bytes after them. NULL: no memory.
static uint8_t *make_head(const struct plan *plan, const cJSON *metadata, size_t room, size_t *len)
{
    char *text = header_text(plan, metadata);
    const size_t used = text != NULL ? strlen(text) : 0;
    const size_t header = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *out = text != NULL ? malloc(TERN_SAFETENSORS_LENGTH_BYTES + header + room + 1) : NULL;
    if (out != NULL) {
        tern_put_le64(out, header);
        memset(out + TERN_SAFETENSORS_LENGTH_BYTES, ' ', header);
        // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the text is stored without its NUL
        memcpy(out + TERN_SAFETENSORS_LENGTH_BYTES, text, used);
    }
    cJSON_free(text);
    *len = TERN_SAFETENSORS_LENGTH_BYTES + header;
    return out;
}

static enum tern_result make(const struct plan *plan, const cJSON *metadata, uint8_t **bytes,
                             size_t *len, char why[TERN_SAFETENSORS_WHY_MAX])
{
    size_t head = 0;
    uint8_t *out = make_head(plan, metadata, plan->data_len, &head);
    const enum tern_result result =
        out != NULL ? put_all(plan, out + head, why) : TERN_ERR_NO_MEMORY;
    if (result != TERN_OK) {
        free(out);
        return result;
    }
    *bytes = out;
    *len = head + plan->data_len;
    return TERN_OK;
}

// Assigns offsets to the tensors. Returns false without memory. Sets `why` to the next possible
// error.
static bool open_plan(struct plan *plan, const struct tern_safetensors_tensor *tensors,
                      size_t count, enum tern_safetensors_kind kind,
                      char why[TERN_SAFETENSORS_WHY_MAX])
{
    *plan = (struct plan){tensors, count, &kinds[kind], calloc(count + 1, sizeof(size_t)), 0};
    if (plan->offsets == NULL) {
        snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for the offsets of %zu tensors", count);
        return false;
    }
    place(plan);
    snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for %zu bytes", plan->data_len);
    return true;
}

enum tern_result tern_safetensors_make(const struct tern_safetensors_tensor *tensors, size_t count,
                                       const cJSON *metadata, enum tern_safetensors_kind kind,
                                       uint8_t **bytes, size_t *len,
                                       char why[TERN_SAFETENSORS_WHY_MAX])
{
    struct plan plan;
    if (!open_plan(&plan, tensors, count, kind, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = make(&plan, metadata, bytes, len, why);
    free(plan.offsets);
    return result;
}

struct tern_safetensors_tensor tern_safetensors_as_read(const struct tern_safetensors_entry *entry)
{
    return (struct tern_safetensors_tensor){
        .name = entry->name, .shape = entry->shape, .as_read = entry};
}

// --- Models

const char *tern_safetensors_shape(const struct tern_tensor *tensor,
                                   char text[TERN_SAFETENSORS_SHAPE_MAX])
{
    size_t used = (size_t)snprintf(text, TERN_SAFETENSORS_SHAPE_MAX, "[");
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        used += (size_t)snprintf(text + used, TERN_SAFETENSORS_SHAPE_MAX - used, "%s%" PRIu32,
                                 i > 0 ? "," : "", tensor->dims[i]);
    }
    snprintf(text + used, TERN_SAFETENSORS_SHAPE_MAX - used, "]");
    return text;
}

// A model's tensors in manifest order, with room for more.
struct model_tensors {
    struct tern_safetensors_tensor *of;
    char (*shapes)[TERN_SAFETENSORS_SHAPE_MAX];
};

static void free_tensors(struct model_tensors *tensors)
{
    free(tensors->of);
    free(tensors->shapes);
}

// Returns false without memory, with a message in `why`.
static bool list_tensors(struct model_tensors *tensors, const struct tern_model *model,
                         const float *weights, size_t more, char why[TERN_SAFETENSORS_WHY_MAX])
{
    const uint32_t count = model->tensor_count;
    tensors->of = calloc(count + more, sizeof *tensors->of);
    tensors->shapes = calloc(count, sizeof *tensors->shapes);
    if (tensors->of == NULL || tensors->shapes == NULL) {
        free_tensors(tensors);
        snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for the names of tensors");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        tensors->of[i] = (struct tern_safetensors_tensor){
            .name = tensor->name,
            .shape = tern_safetensors_shape(tensor, tensors->shapes[i]),
            .values = weights != NULL ? weights + tensor->offset : NULL,
            .count = tensor->count,
        };
    }
    return true;
}

enum tern_result tern_safetensors_make_model(const struct tern_model *model, const float *weights,
                                             const struct tern_safetensors *kept,
                                             const cJSON *metadata, enum tern_safetensors_kind kind,
                                             uint8_t **bytes, size_t *len,
                                             char why[TERN_SAFETENSORS_WHY_MAX])
{
    const size_t more = kept != NULL ? kept->count : 0;
    struct model_tensors tensors;
    if (!list_tensors(&tensors, model, weights, more, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < more; i++) {
        tensors.of[model->tensor_count + i] = tern_safetensors_as_read(&kept->entries[i]);
    }
    const enum tern_result result = tern_safetensors_make(tensors.of, model->tensor_count + more,
                                                          metadata, kind, bytes, len, why);
    free_tensors(&tensors);
    return result;
}

enum tern_result tern_safetensors_make_model_head(const struct tern_model *model, uint8_t **bytes,
                                                  size_t *len, char why[TERN_SAFETENSORS_WHY_MAX])
{
    struct model_tensors tensors;
    struct plan plan;
    if (!list_tensors(&tensors, model, NULL, 0, why)) {
        return TERN_ERR_NO_MEMORY;
    }
    *bytes = NULL;
    if (open_plan(&plan, tensors.of, model->tensor_count, TERN_SAFETENSORS_F32, why)) {
        *bytes = make_head(&plan, NULL, 0, len);
        free(plan.offsets);
    }
    free_tensors(&tensors);
    return *bytes != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}
