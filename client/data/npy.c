// Reads NumPy arrays: "npz:FILE,x=NAME,y=NAME,group=NAME" and "npy:FOLDER,...". The files of a folder have the same names as
// the members of an archive: NAME_train.npy and NAME_test.npy; or NAME.npy alone, a fraction of whose rows become test rows.
#include "data/npy.h"
#include "data/rows.h"
#include "hosted/name_set.h"
#include "util/bytes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The NPY format

#define HEADER_MAX 4096 // bytes of text; NumPy pads to a multiple of 64

static enum tern_result refuse_header(const struct tern_input *input, const char *what)
{
    return tern_input_refuse(input, TERN_ERR_CORRUPT, "the NPY header %s", what);
}

// Reads the text of the header, and appends a NUL.
static enum tern_result read_text(struct tern_input *input, char text[HEADER_MAX + 1])
{
    uint8_t start[12];
    TERN_TRY(tern_input_read_exact(input, start, 10, "the NPY header"));
    if (memcmp(start, "\x93NUMPY", 6) != 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT, "is no NPY file");
    }
    if (start[6] < 1 || start[6] > 3) {
        return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                 "is NPY version %u; 1, 2 and 3 are supported", start[6]);
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

// Returns the value of a key of the header's dict; NULL: the dict has no such key. Keys may be in any order.
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
    const bool integer =
        (kind == 'i' || kind == 'u') && (width == 1 || width == 2 || width == 4 || width == 8);
    const bool real = kind == 'f' && (width == 4 || width == 8);
    const bool boolean = kind == 'b' && width == 1;
    npy->type = (struct tern_elements){.kind = kind, .width = width};
    if (order && (integer || real || boolean)) {
        return TERN_OK;
    }
    return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                             "contains elements of type %.*s; save whole numbers, bool, float32 or "
                             "float64, little-endian, e.g. array.astype('<f4')",
                             (int)strcspn(type, ",}"), type);
}

static enum tern_result read_dims(const struct tern_input *input, const char *text,
                                  struct tern_npy *npy)
{
    const char *tuple = find(text, "'shape'");
    if (tuple == NULL || *tuple != '(') {
        return refuse_header(input, "names no shape");
    }
    npy->dim_count = 0;
    npy->count = 1;
    for (const char *shape = skip_spaces(tuple + 1); *shape != ')'; shape = skip_spaces(shape)) {
        uint64_t size;
        const char *end = tern_get_decimal(shape, &size);
        if (end == shape || strchr(",)", *skip_spaces(end)) == NULL || size < 1 ||
            size > UINT32_MAX || npy->dim_count == TERN_NPY_MAX_DIMS) {
            return tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                     "is of the shape %.*s); arrays have 1 to %d dimensions, none "
                                     "of them empty",
                                     (int)strcspn(tuple, ")"), tuple, TERN_NPY_MAX_DIMS);
        }
        npy->dims[npy->dim_count++] = (uint32_t)size;
        if (__builtin_mul_overflow(npy->count, size, &npy->count)) {
            return tern_input_refuse(input, TERN_ERR_TOO_LARGE, "has too many elements");
        }
        shape = skip_spaces(end);
        shape += *shape == ',';
    }
    return npy->dim_count > 0 ? TERN_OK
                              : tern_input_refuse(input, TERN_ERR_UNKNOWN,
                                                  "contains a single number, not an array");
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
            input, TERN_ERR_TOO_LARGE, "contains %llu numbers, over the limit of %llu bytes",
            (unsigned long long)npy->count, (unsigned long long)limits->max_bytes);
    }
    if (npy->count * npy->type.width > input->most) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "is too short for the %llu elements in the header",
                                 (unsigned long long)npy->count);
    }
    return TERN_OK;
}

static struct tern_elements_range whole_array(const struct tern_npy *npy)
{
    return (struct tern_elements_range){
        .what = "the array", .count = npy->count, .row = npy->count / npy->dims[0]};
}

enum tern_result tern_npy_read_floats(struct tern_input *input, const struct tern_npy *npy,
                                      float *values)
{
    const struct tern_elements_range all = whole_array(npy);
    TERN_TRY(tern_elements_read_floats(input, &npy->type, &all, values));
    return tern_input_expect_end(input);
}

static enum tern_result npy_read_doubles(struct tern_input *input, const struct tern_npy *npy,
                                         double *values)
{
    const struct tern_elements_range all = whole_array(npy);
    TERN_TRY(tern_elements_read_doubles(input, &npy->type, &all, values));
    return tern_input_expect_end(input);
}

static enum tern_result npy_read_bytes(struct tern_input *input, const struct tern_npy *npy,
                                       uint8_t *values)
{
    TERN_TRY(tern_input_read_exact(input, values, (size_t)npy->count, "the array"));
    return tern_input_expect_end(input);
}

// --- Members of a ZIP archive

#define END_SIZE 22u       // end of central directory record, without its comment
#define END64_SIZE 56u     // ZIP64's end of central directory record
#define LOCATOR_SIZE 20u   // locator of the ZIP64 record
#define ENTRY_SIZE 46u     // directory entry, without name, extra field and comment
#define LOCAL_SIZE 30u     // local header before a member's bytes, without name and extra field
#define COMMENT_MAX 65535u // bytes
#define DIRECTORY_MAX (1u << 24)
#define IN_ZIP64 UINT32_MAX
#define ENCRYPTED 1u // flag
#define STORED 0u    // compression methods
#define DEFLATED 8u

// An entry of the ZIP directory.
struct entry {
    unsigned flags;
    unsigned method;
    uint32_t checksum;
    uint64_t packed;
    uint64_t size;
    uint64_t offset; // offset of the local header in the file
};

struct archive {
    FILE *file;
    uint64_t size;
    uint64_t directory; // offset of the directory in the file
    uint64_t directory_size;
    const struct tern_input *input; // names the file in messages
};

static enum tern_result refuse_damaged(const struct archive *archive, const char *what)
{
    return tern_input_refuse(archive->input, TERN_ERR_CORRUPT, "the ZIP archive is damaged: %s",
                             what);
}

static enum tern_result read_at(const struct archive *archive, uint64_t offset, uint8_t *dst,
                                size_t len)
{
    if (len > archive->size || offset > archive->size - len) {
        return refuse_damaged(archive, "an offset is beyond the end of the file");
    }
    if (fseeko(archive->file, (off_t)offset, SEEK_SET) != 0 ||
        fread(dst, 1, len, archive->file) != len) {
        return tern_input_refuse(archive->input, TERN_ERR_IO, "cannot be read");
    }
    return TERN_OK;
}

static bool is_record(const uint8_t *bytes, const char mark[2])
{
    return bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == (uint8_t)mark[0] &&
           bytes[3] == (uint8_t)mark[1];
}

// Finds the directory by the ZIP64 end record, whose locator precedes the end record at `end`.
static enum tern_result find_directory64(struct archive *archive, uint64_t end)
{
    uint8_t locator[LOCATOR_SIZE];
    uint8_t record[END64_SIZE];
    if (end < LOCATOR_SIZE) {
        return refuse_damaged(archive, "the ZIP64 locator is missing");
    }
    TERN_TRY(read_at(archive, end - LOCATOR_SIZE, locator, sizeof locator));
    if (!is_record(locator, "\6\7")) {
        return refuse_damaged(archive, "the ZIP64 locator is missing");
    }
    TERN_TRY(read_at(archive, tern_get_le64(locator + 8), record, sizeof record));
    if (!is_record(record, "\6\6")) {
        return refuse_damaged(archive, "the ZIP64 end record is missing");
    }
    archive->directory_size = tern_get_le64(record + 40);
    archive->directory = tern_get_le64(record + 48);
    return TERN_OK;
}

// Searches tail, the last `len` bytes of the file, backwards for the end record, which a comment may follow.
static enum tern_result find_directory_in(struct archive *archive, uint8_t *tail, size_t len)
{
    TERN_TRY(read_at(archive, archive->size - len, tail, len));
    for (size_t at = len - END_SIZE + 1; at-- > 0;) {
        const uint8_t *end = tail + at;
        if (!is_record(end, "\5\6") || at + END_SIZE + tern_get_le16(end + 20) != len) {
            continue;
        }
        archive->directory_size = tern_get_le32(end + 12);
        archive->directory = tern_get_le32(end + 16);
        return archive->directory_size == IN_ZIP64 || archive->directory == IN_ZIP64
                   ? find_directory64(archive, archive->size - len + at)
                   : TERN_OK;
    }
    return tern_input_refuse(archive->input, TERN_ERR_CORRUPT,
                             "is no ZIP archive: the end record is missing");
}

static enum tern_result find_directory(struct archive *archive)
{
    off_t size = -1;
    if (fseeko(archive->file, 0, SEEK_END) == 0) {
        size = ftello(archive->file);
    }
    if (size < 0) {
        return tern_input_refuse(archive->input, TERN_ERR_IO, "cannot be read");
    }
    archive->size = (uint64_t)size;
    if (archive->size < END_SIZE) {
        return tern_input_refuse(archive->input, TERN_ERR_CORRUPT,
                                 "is too short for a ZIP archive");
    }
    const uint64_t most = END_SIZE + COMMENT_MAX;
    const size_t len = (size_t)(archive->size < most ? archive->size : most);
    uint8_t *tail = malloc(len);
    if (tail == NULL) {
        return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY,
                                 "no memory to read the archive");
    }
    const enum tern_result result = find_directory_in(archive, tail, len);
    free(tail);
    return result;
}

// If *value is IN_ZIP64, replaces it by the next 64-bit number of the ZIP64 extra field. Returns false at the end of the field.
static bool read_zip64(const uint8_t **extra, size_t *len, uint64_t *value)
{
    if (*value != IN_ZIP64) {
        return true;
    }
    if (*len < 8) {
        return false;
    }
    *value = tern_get_le64(*extra);
    *extra += 8;
    *len -= 8;
    return true;
}

static bool read_extra(const uint8_t *extra, size_t len, struct entry *entry)
{
    while (len >= 4) {
        const size_t field_len = tern_get_le16(extra + 2);
        if (field_len > len - 4) {
            return false;
        }
        if (tern_get_le16(extra) == 1) {
            const uint8_t *numbers = extra + 4;
            size_t left = field_len;
            return read_zip64(&numbers, &left, &entry->size) &&
                   read_zip64(&numbers, &left, &entry->packed) &&
                   read_zip64(&numbers, &left, &entry->offset);
        }
        extra += 4 + field_len;
        len -= 4 + field_len;
    }
    return true;
}

// Searches the directory for an entry. TERN_ERR_NOT_FOUND: no entry has the name `name`
static enum tern_result find_entry(const struct archive *archive, const uint8_t *directory,
                                   const char *name, struct entry *entry)
{
    size_t left = (size_t)archive->directory_size;
    while (left > 0) {
        if (left < ENTRY_SIZE || !is_record(directory, "\1\2")) {
            return refuse_damaged(archive, "the directory is incomplete");
        }
        const size_t name_len = tern_get_le16(directory + 28);
        const size_t extra_len = tern_get_le16(directory + 30);
        const size_t len = ENTRY_SIZE + name_len + extra_len + tern_get_le16(directory + 32);
        if (len > left) {
            return refuse_damaged(archive, "the directory is incomplete");
        }
        if (name_len == strlen(name) && memcmp(directory + ENTRY_SIZE, name, name_len) == 0) {
            *entry = (struct entry){.flags = tern_get_le16(directory + 8),
                                    .method = tern_get_le16(directory + 10),
                                    .checksum = tern_get_le32(directory + 16),
                                    .packed = tern_get_le32(directory + 20),
                                    .size = tern_get_le32(directory + 24),
                                    .offset = tern_get_le32(directory + 42)};
            return read_extra(directory + ENTRY_SIZE + name_len, extra_len, entry)
                       ? TERN_OK
                       : refuse_damaged(archive, "a ZIP64 field is incomplete");
        }
        directory += len;
        left -= len;
    }
    return TERN_ERR_NOT_FOUND;
}

static enum tern_result find_member(const struct archive *archive, const char *name,
                                    struct entry *entry)
{
    if (archive->directory_size > DIRECTORY_MAX) {
        return tern_input_refuse(archive->input, TERN_ERR_TOO_LARGE,
                                 "the ZIP directory has more than %u bytes", DIRECTORY_MAX);
    }
    uint8_t *directory = malloc((size_t)archive->directory_size + 1);
    if (directory == NULL) {
        return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY,
                                 "no memory to read the archive");
    }
    enum tern_result result =
        read_at(archive, archive->directory, directory, (size_t)archive->directory_size);
    if (result == TERN_OK) {
        result = find_entry(archive, directory, name, entry);
    }
    free(directory);
    return result;
}

// Sets the file's position to the first byte of the member's contents.
static enum tern_result seek_member(const struct archive *archive, const struct entry *entry)
{
    uint8_t local[LOCAL_SIZE];
    TERN_TRY(read_at(archive, entry->offset, local, sizeof local));
    if (!is_record(local, "\3\4")) {
        return refuse_damaged(archive, "the directory has the wrong offset of a member");
    }
    // read_at() has shown that offset + LOCAL_SIZE is in the file.
    const uint64_t start =
        entry->offset + LOCAL_SIZE + tern_get_le16(local + 26) + tern_get_le16(local + 28);
    if (start > archive->size || entry->packed > archive->size - start) {
        return refuse_damaged(archive, "a member lies beyond the end of the file");
    }
    return fseeko(archive->file, (off_t)start, SEEK_SET) == 0
               ? TERN_OK
               : tern_input_refuse(archive->input, TERN_ERR_IO, "cannot be read");
}

// --- Reading a member

static enum tern_result read_stored(struct tern_input *input, struct tern_zip_member *member,
                                    void *dst, size_t len)
{
    if (fread(dst, 1, len, member->file) != len) {
        return tern_input_refuse(input, TERN_ERR_IO, "cannot be read");
    }
    return TERN_OK;
}

static enum tern_result refill(struct tern_input *input, struct tern_zip_member *member)
{
    const size_t len = member->packed_left < sizeof member->buffer ? (size_t)member->packed_left
                                                                   : sizeof member->buffer;
    TERN_TRY(read_stored(input, member, member->buffer, len));
    member->packed_left -= len;
    member->stream.next_in = member->buffer;
    member->stream.avail_in = (unsigned)len;
    return TERN_OK;
}

static enum tern_result read_deflated(struct tern_input *input, struct tern_zip_member *member,
                                      void *dst, size_t len)
{
    z_stream *stream = &member->stream;
    stream->next_out = dst;
    stream->avail_out = (unsigned)len;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0 && member->packed_left > 0) {
            TERN_TRY(refill(input, member));
        }
        const int code = inflate(stream, Z_NO_FLUSH);
        const bool starved = stream->avail_in == 0 && member->packed_left == 0;
        if ((code != Z_OK && code != Z_STREAM_END) ||
            (stream->avail_out > 0 && (code == Z_STREAM_END || starved))) {
            return tern_input_refuse(input, TERN_ERR_CORRUPT, "cannot be unpacked near byte %llu",
                                     (unsigned long long)input->offset);
        }
    }
    return TERN_OK;
}

static enum tern_result read_member(struct tern_input *input, void *dst, size_t len, size_t *got)
{
    struct tern_zip_member *member = input->source;
    len = member->left < len ? (size_t)member->left : len;
    if (len > 0) {
        TERN_TRY(member->deflated ? read_deflated(input, member, dst, len)
                                  : read_stored(input, member, dst, len));
        member->checksum = (uint32_t)crc32(member->checksum, dst, (unsigned)len);
        member->left -= len;
        if (member->left == 0 && member->checksum != member->expected) {
            return tern_input_refuse(input, TERN_ERR_CORRUPT, "the checksum is wrong");
        }
    }
    *got = len;
    return TERN_OK;
}

static enum tern_result begin_member(struct tern_zip_member *member, const struct archive *archive,
                                     const struct entry *entry)
{
    if ((entry->flags & ENCRYPTED) != 0 || (entry->method != STORED && entry->method != DEFLATED)) {
        return tern_input_refuse(archive->input, TERN_ERR_UNKNOWN,
                                 "is encrypted or packed by ZIP method %u; only stored (0) and "
                                 "deflated (8) members are read",
                                 entry->method);
    }
    if (entry->method == STORED && entry->packed != entry->size) {
        return refuse_damaged(
            archive, "a member that is not compressed has different packed and unpacked sizes");
    }
    TERN_TRY(seek_member(archive, entry));
    member->file = archive->file;
    member->packed_left = entry->packed;
    member->left = entry->size;
    member->expected = entry->checksum;
    member->checksum = (uint32_t)crc32(0, NULL, 0);
    if (entry->method == DEFLATED) {
        if (inflateInit2(&member->stream, -MAX_WBITS) != Z_OK) {
            return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY,
                                     "no memory to decompress the member");
        }
        member->deflated = true;
    }
    return TERN_OK;
}

enum tern_result tern_zip_open(struct tern_zip_member *member, FILE *file, const char *name,
                               struct tern_input *input, const char *input_name, uint64_t limit,
                               char *why)
{
    struct archive archive = {.file = file, .input = input};
    struct entry entry = {0};
    memset(member, 0, sizeof *member);
    *input = (struct tern_input){.name = input_name, .limit = limit, .why = why};
    TERN_TRY(find_directory(&archive));
    TERN_TRY(find_member(&archive, name, &entry));
    TERN_TRY(begin_member(member, &archive, &entry));
    const uint64_t most = entry.packed < UINT64_MAX / TERN_DEFLATE_MOST
                              ? entry.packed * TERN_DEFLATE_MOST
                              : UINT64_MAX;
    input->source = member;
    input->read = read_member;
    input->most = entry.size < most ? entry.size : most;
    return TERN_OK;
}

void tern_zip_close(struct tern_zip_member *member)
{
    if (member->deflated) {
        inflateEnd(&member->stream);
        member->deflated = false;
    }
}

// --- The readers of npy and npz

#define PATH_SIZE (TERN_DATA_SPEC_MAX + 128)
#define LARGEST_GROUP                                                                              \
    9007199254740992.0 // 2^53: a double represents every integer up to it, but not every larger one

struct options {
    const char *x;
    const char *y; // labels or targets
    bool targets;
    const char *group;
    bool group_required; // the spec names the array of groups
    struct tern_split_options split;
};

// What all arrays of a data set have in common.
struct arrays {
    const struct tern_data_spec *spec;
    const struct tern_data_limits *limits;
    FILE *archive; // NULL: a folder
    struct options options;
    struct tern_name_set *groups;
    struct tern_scaling scaling;
    bool unlabelled; // the data set has no array of labels
};

// An open array.
struct array {
    char path[PATH_SIZE];
    struct tern_input input;
    struct tern_zip_member *member; // NULL: a file of a folder
    struct tern_npy npy;
};

static void close_array(struct array *array)
{
    if (array->member != NULL) {
        tern_zip_close(array->member);
        free(array->member);
        array->member = NULL;
    }
    tern_input_close(&array->input);
}

static enum tern_result open_member(const struct arrays *arrays, const char *file,
                                    struct array *array)
{
    array->member = malloc(sizeof *array->member);
    if (array->member == NULL) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_NO_MEMORY, "no memory to read the archive");
    }
    const enum tern_result result =
        tern_zip_open(array->member, arrays->archive, file, &array->input, array->path, UINT64_MAX,
                      arrays->spec->why);
    if (result != TERN_OK) {
        free(array->member);
        array->member = NULL;
    }
    return result;
}

// Opens the array NAME + suffix and reads its header. TERN_ERR_NOT_FOUND: there is no such array; why may be unset
static enum tern_result open_array(const struct arrays *arrays, const char *name,
                                   const char *suffix, struct array *array)
{
    char file[PATH_SIZE];
    memset(array, 0, sizeof *array);
    snprintf(file, sizeof file, "%s%s.npy", name, suffix);
    snprintf(array->path, sizeof array->path, "%.900s/%.200s", arrays->spec->path, file);
    TERN_TRY(arrays->archive != NULL
                 ? open_member(arrays, file, array)
                 : tern_input_open(&array->input, array->path, UINT64_MAX, arrays->spec->why));
    const enum tern_result result =
        tern_npy_read_header(&array->input, arrays->limits, &array->npy);
    if (result != TERN_OK) {
        close_array(array);
    }
    return result;
}

// Like open_array(), but sets why for TERN_ERR_NOT_FOUND.
static enum tern_result open_required_array(const struct arrays *arrays, const char *name,
                                            const char *suffix, struct array *array)
{
    const enum tern_result result = open_array(arrays, name, suffix, array);
    return result == TERN_ERR_NOT_FOUND
               ? tern_spec_refuse(arrays->spec, result, "contains no array '%.60s%s'", name, suffix)
               : result;
}

// --- Features

static enum tern_result check_features(const struct arrays *arrays, const struct array *array,
                                       struct tern_dataset *shape)
{
    const struct tern_npy *npy = &array->npy;
    if (npy->dim_count < 2) {
        return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                 "has 1 dimension; features have 2 (examples, features), 3 or 4 "
                                 "(examples, height, width, channels)");
    }
    const uint64_t features = npy->count / npy->dims[0];
    if (npy->dims[0] > arrays->limits->max_examples || features > arrays->limits->max_features) {
        return tern_input_refuse(&array->input, TERN_ERR_TOO_LARGE,
                                 "has %u examples of %llu features; the limits are %u and %u",
                                 npy->dims[0], (unsigned long long)features,
                                 arrays->limits->max_examples, arrays->limits->max_features);
    }
    shape->count = npy->dims[0];
    shape->height = npy->dim_count > 2 ? npy->dims[1] : 1;
    shape->width = npy->dim_count > 2 ? npy->dims[2] : npy->dims[1];
    shape->channels = npy->dim_count > 3 ? npy->dims[3] : 1;
    shape->feature_count = (uint32_t)features;
    return TERN_OK;
}

static enum tern_result read_values(const struct arrays *arrays, struct array *array,
                                    struct tern_rows *rows)
{
    const size_t count = (size_t)array->npy.count;
    if (tern_elements_are_bytes(&array->npy.type)) {
        rows->bytes = malloc(count);
    } else {
        rows->values = malloc(count * sizeof *rows->values);
    }
    if (rows->bytes == NULL && rows->values == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %zu numbers",
                                 count);
    }
    if (rows->bytes != NULL) {
        return npy_read_bytes(&array->input, &array->npy, rows->bytes);
    }
    TERN_TRY(tern_npy_read_floats(&array->input, &array->npy, rows->values));
    tern_scale_numbers(&arrays->scaling, rows->values, count);
    return TERN_OK;
}

static enum tern_result read_features(const struct arrays *arrays, struct array *array,
                                      struct tern_dataset *shape, struct tern_rows *rows)
{
    TERN_TRY(check_features(arrays, array, shape));
    rows->features = shape->feature_count;
    return read_values(arrays, array, rows);
}

// --- Labels and groups

// Reads one number for each of `count` examples into malloc'ed *numbers.
static enum tern_result read_numbers(struct array *array, uint32_t count, double **numbers)
{
    const struct tern_npy *npy = &array->npy;
    if (npy->count != npy->dims[0] || npy->dims[0] != count) {
        return tern_input_refuse(
            &array->input, TERN_ERR_CORRUPT,
            "contains %llu numbers in %u rows for %u examples; each example needs one number",
            (unsigned long long)npy->count, npy->dims[0], count);
    }
    *numbers = malloc(count * sizeof **numbers);
    if (*numbers == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u numbers",
                                 count);
    }
    return npy_read_doubles(&array->input, npy, *numbers);
}

static bool is_integer(double x)
{
    return x >= -LARGEST_GROUP && x <= LARGEST_GROUP && (double)(int64_t)x == x;
}

static enum tern_result take_labels(struct arrays *arrays, const struct array *array,
                                    const double *numbers, uint32_t count, struct tern_rows *rows)
{
    const uint32_t most = arrays->limits->max_classes;
    rows->labels = malloc(count * sizeof *rows->labels);
    if (rows->labels == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u labels",
                                 count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_integer(numbers[i]) || numbers[i] < 0.0 || numbers[i] >= (double)most) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the label %g is no class number from 0 to "
                                     "%u",
                                     i, numbers[i], most - 1);
        }
        rows->labels[i] = (uint16_t)numbers[i];
        rows->classes = rows->labels[i] >= rows->classes ? rows->labels[i] + 1u : rows->classes;
    }
    return TERN_OK;
}

static enum tern_result take_groups(struct arrays *arrays, const struct array *array,
                                    const double *numbers, uint32_t count, struct tern_rows *rows)
{
    rows->groups = malloc(count * sizeof *rows->groups);
    if (rows->groups == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u groups",
                                 count);
    }
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        if (!is_integer(numbers[i])) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the group %g is no whole number", i,
                                     numbers[i]);
        }
        snprintf(name, sizeof name, "%lld", (long long)numbers[i]);
        const enum tern_result result =
            tern_name_set_find(arrays->groups, name, true, &rows->groups[i]);
        if (result != TERN_OK) {
            return tern_input_refuse(&array->input, result,
                                     "row %u: group %s exceeds the limit of groups", i, name);
        }
    }
    return TERN_OK;
}

static enum tern_result take_targets(struct arrays *arrays, const struct array *array,
                                     const double *numbers, uint32_t count, struct tern_rows *rows)
{
    (void)arrays;
    rows->labels = calloc(count, sizeof *rows->labels);
    rows->targets = malloc(count * sizeof *rows->targets);
    if (rows->labels == NULL || rows->targets == NULL) {
        return tern_input_refuse(&array->input, TERN_ERR_NO_MEMORY, "needs memory for %u targets",
                                 count);
    }
    rows->classes = 1;
    for (uint32_t i = 0; i < count; i++) {
        rows->targets[i] = (float)numbers[i];
        if (!isfinite(rows->targets[i])) {
            return tern_input_refuse(&array->input, TERN_ERR_CORRUPT,
                                     "row %u (from 0): the target %g is not a finite number in "
                                     "float32",
                                     i, numbers[i]);
        }
    }
    return TERN_OK;
}

// Reads one number for each of `count` examples, and stores the numbers in rows by `take`.
typedef enum tern_result take_fn(struct arrays *arrays, const struct array *array,
                                 const double *numbers, uint32_t count, struct tern_rows *rows);

static enum tern_result read_and_take(struct arrays *arrays, struct array *array, uint32_t count,
                                      struct tern_rows *rows, take_fn *take)
{
    double *numbers = NULL;
    enum tern_result result = read_numbers(array, count, &numbers);
    if (result == TERN_OK) {
        result = take(arrays, array, numbers, count, rows);
    }
    free(numbers);
    close_array(array);
    return result;
}

// --- Training and test rows

// Reads the labels or targets. New data may have none; they are then set to 0.
static enum tern_result read_or_make_labels(struct arrays *arrays, const char *suffix,
                                            uint32_t count, struct tern_rows *rows)
{
    struct array array;
    enum tern_result result = open_required_array(arrays, arrays->options.y, suffix, &array);
    if (result == TERN_ERR_NOT_FOUND && arrays->spec->part->new_rows) {
        arrays->unlabelled = true;
        rows->labels = calloc(count, sizeof *rows->labels);
        rows->targets = arrays->options.targets ? calloc(count, sizeof *rows->targets) : NULL;
        return rows->labels != NULL && (rows->targets != NULL) == arrays->options.targets
                   ? TERN_OK
                   : tern_spec_refuse(arrays->spec, TERN_ERR_NO_MEMORY, "no memory for the labels");
    }
    TERN_TRY(result);
    return read_and_take(arrays, &array, count, rows,
                         arrays->options.targets ? take_targets : take_labels);
}

static enum tern_result read_labels_and_groups(struct arrays *arrays, const char *suffix,
                                               uint32_t count, struct tern_rows *rows)
{
    struct array array;
    TERN_TRY(read_or_make_labels(arrays, suffix, count, rows));
    enum tern_result result = open_required_array(arrays, arrays->options.group, suffix, &array);
    if (result == TERN_ERR_NOT_FOUND && !arrays->options.group_required) {
        return TERN_OK;
    }
    TERN_TRY(result);
    return read_and_take(arrays, &array, count, rows, take_groups);
}

// Reads the rows of the arrays with `suffix`. x: the open array of features, which the function closes.
static enum tern_result read_rows(struct arrays *arrays, struct array *x, const char *suffix,
                                  struct tern_dataset *shape, struct tern_rows *rows)
{
    const enum tern_result result = read_features(arrays, x, shape, rows);
    close_array(x);
    TERN_TRY(result);
    TERN_TRY(read_labels_and_groups(arrays, suffix, shape->count, rows));
    rows->count = shape->count;
    return TERN_OK;
}

static enum tern_result read_test(struct arrays *arrays, const struct tern_dataset *train_shape,
                                  const struct tern_rows *train, struct tern_rows *test)
{
    struct array x;
    struct tern_dataset shape = {0};
    const enum tern_result result = open_array(arrays, arrays->options.x, "_test", &x);
    if (result == TERN_ERR_NOT_FOUND) {
        return TERN_OK; // tern_split_rows() makes a fraction of the training rows test rows
    }
    TERN_TRY(result);
    TERN_TRY(read_rows(arrays, &x, "_test", &shape, test));
    if (shape.height != train_shape->height || shape.width != train_shape->width ||
        shape.channels != train_shape->channels ||
        (train->bytes == NULL) != (test->bytes == NULL) ||
        (train->groups == NULL) != (test->groups == NULL)) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_CORRUPT,
                                "training and test arrays differ in shape, in type, or in having "
                                "groups");
    }
    return TERN_OK;
}

static enum tern_result keep_group(struct arrays *arrays, struct tern_rows *train)
{
    const char *only = arrays->options.split.only;
    uint32_t group;
    if (only == NULL) {
        return TERN_OK;
    }
    if (train->groups == NULL ||
        tern_name_set_find(arrays->groups, only, false, &group) != TERN_OK) {
        return tern_spec_refuse(arrays->spec, TERN_ERR_NOT_FOUND,
                                "no example is of group '%.40s' in array '%.40s'", only,
                                arrays->options.group);
    }
    tern_rows_keep_group(train, group);
    return train->count > 0 ? TERN_OK
                            : tern_spec_refuse(arrays->spec, TERN_ERR_NOT_FOUND,
                                               "no training example is of group '%.40s'", only);
}

static enum tern_result read_train_and_test(struct arrays *arrays, struct tern_dataset *shape,
                                            struct tern_rows *train, struct tern_rows *test)
{
    struct array x;
    const char *suffix = "_train";
    enum tern_result result = open_array(arrays, arrays->options.x, suffix, &x);
    if (result == TERN_ERR_NOT_FOUND) {
        suffix = "";
        result = open_array(arrays, arrays->options.x, suffix, &x);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_spec_refuse(arrays->spec, result,
                                "contains neither an array '%.40s_train' nor '%.40s'; name it with "
                                "x=NAME",
                                arrays->options.x, arrays->options.x);
    }
    TERN_TRY(result);
    TERN_TRY(read_rows(arrays, &x, suffix, shape, train));
    TERN_TRY(read_test(arrays, shape, train, test));
    TERN_TRY(keep_group(arrays, train));
    return tern_split_rows(arrays->spec, &arrays->options.split, train, test);
}

static enum tern_result make_data(struct arrays *arrays, struct tern_data *data)
{
    struct tern_dataset shape = {0};
    struct tern_rows train = {0};
    struct tern_rows test = {0};
    const enum tern_result result = read_train_and_test(arrays, &shape, &train, &test);
    if (result == TERN_OK) {
        tern_rows_move_to_dataset(&train, shape.height, shape.width, shape.channels, &data->train);
        tern_rows_move_to_dataset(&test, shape.height, shape.width, shape.channels, &data->test);
        data->unlabelled = arrays->unlabelled;
        data->scaled = tern_split_scales(&arrays->options.split);
        data->train.group_count = arrays->groups->count;
        data->test.group_count = arrays->groups->count;
    }
    tern_rows_free(&train);
    tern_rows_free(&test);
    return result;
}

static enum tern_result read_options(struct tern_data_spec *spec, struct arrays *arrays,
                                     struct tern_data *data)
{
    struct options *options = &arrays->options;
    const char *x = tern_spec_option(spec, "x");
    const char *y = tern_spec_option(spec, "y");
    const char *target = tern_spec_option(spec, "target");
    const char *group = tern_spec_option(spec, "group");
    options->x = x != NULL ? x : "x";
    options->targets = target != NULL;
    if (options->targets && y != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "target (an array of numbers) and y (an array of classes) exclude "
                                "each other");
    }
    options->y = options->targets ? target : y != NULL ? y : "y";
    options->group = group != NULL ? group : "group";
    options->group_required = group != NULL;
    TERN_TRY(tern_split_read(spec, NULL, &options->split));
    if (options->split.scaling != NULL) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "scale is none or standard for arrays, not '%.40s'",
                                options->split.scaling);
    }
    TERN_TRY(tern_spec_scaling_of_numbers(spec, data, &arrays->scaling));
    return tern_spec_done(spec, "x, y, target, group, only, test, seed, scale, mean, std");
}

enum tern_result tern_read_npy(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct arrays arrays = {.spec = spec, .limits = limits, .groups = &data->groups};
    TERN_TRY(read_options(spec, &arrays, data));
    tern_name_set_init(&data->groups, limits->max_examples);
    return make_data(&arrays, data);
}

enum tern_result tern_read_npz(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                               struct tern_data *data)
{
    struct arrays arrays = {.spec = spec, .limits = limits, .groups = &data->groups};
    TERN_TRY(read_options(spec, &arrays, data));
    tern_name_set_init(&data->groups, limits->max_examples);
    arrays.archive = fopen(spec->path, "rb");
    if (arrays.archive == NULL) {
        const enum tern_result result = errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
        return tern_spec_refuse(spec, result, "cannot be opened: %s", strerror(errno));
    }
    const enum tern_result result = make_data(&arrays, data);
    fclose(arrays.archive);
    return result;
}
