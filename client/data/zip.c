#include "data/zip.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

#define END_SIZE 22u       // of the end of central directory record, without its comment
#define END64_SIZE 56u     // of its ZIP64 form
#define LOCATOR_SIZE 20u   // of what points to that
#define ENTRY_SIZE 46u     // of a directory entry, without name, extra field and comment
#define LOCAL_SIZE 30u     // of what stands before a member's bytes, without name and extra field
#define COMMENT_MAX 65535u // bytes
#define DIRECTORY_MAX (1u << 24)
#define IN_ZIP64 UINT32_MAX
#define ENCRYPTED 1u // flag
#define STORED 0u    // methods
#define DEFLATED 8u

// One entry of the directory.
struct entry {
    unsigned flags;
    unsigned method;
    uint32_t checksum;
    uint64_t packed;
    uint64_t size;
    uint64_t offset; // of the local header
};

struct archive {
    FILE *file;
    uint64_t size;
    uint64_t directory; // offset
    uint64_t directory_size;
    const struct tern_input *input; // for sentences
};

static enum tern_result damaged(const struct archive *archive, const char *what)
{
    return tern_input_refuse(archive->input, TERN_ERR_CORRUPT, "the ZIP archive is damaged: %s",
                             what);
}

static enum tern_result read_at(const struct archive *archive, uint64_t offset, uint8_t *dst,
                                size_t len)
{
    if (len > archive->size || offset > archive->size - len) {
        return damaged(archive, "something lies beyond the end of the file");
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

// The directory's place in the ZIP64 form of the end record, of which the locator stands before it.
static enum tern_result find_directory64(struct archive *archive, uint64_t end)
{
    uint8_t locator[LOCATOR_SIZE];
    uint8_t record[END64_SIZE];
    if (end < LOCATOR_SIZE) {
        return damaged(archive, "its ZIP64 locator is missing");
    }
    TERN_TRY(read_at(archive, end - LOCATOR_SIZE, locator, sizeof locator));
    if (!is_record(locator, "\6\7")) {
        return damaged(archive, "its ZIP64 locator is missing");
    }
    TERN_TRY(read_at(archive, tern_get_le64(locator + 8), record, sizeof record));
    if (!is_record(record, "\6\6")) {
        return damaged(archive, "its ZIP64 end record is missing");
    }
    archive->directory_size = tern_get_le64(record + 40);
    archive->directory = tern_get_le64(record + 48);
    return TERN_OK;
}

// Looks for the end record from the end of the file backwards, past a comment.
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
                             "is no ZIP archive: its end record is missing");
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
        return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    const enum tern_result result = find_directory_in(archive, tail, len);
    free(tail);
    return result;
}

// Takes the next 64-bit number of the ZIP64 extra field for a value that stands there.
static bool take64(const uint8_t **extra, size_t *len, uint64_t *value)
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
        const size_t part = tern_get_le16(extra + 2);
        if (part > len - 4) {
            return false;
        }
        if (tern_get_le16(extra) == 1) {
            const uint8_t *numbers = extra + 4;
            size_t left = part;
            return take64(&numbers, &left, &entry->size) &&
                   take64(&numbers, &left, &entry->packed) &&
                   take64(&numbers, &left, &entry->offset);
        }
        extra += 4 + part;
        len -= 4 + part;
    }
    return true;
}

// TERN_ERR_NOT_FOUND: there is no entry of that name.
static enum tern_result find_entry(const struct archive *archive, const uint8_t *directory,
                                   const char *name, struct entry *entry)
{
    size_t left = (size_t)archive->directory_size;
    while (left > 0) {
        if (left < ENTRY_SIZE || !is_record(directory, "\1\2")) {
            return damaged(archive, "its directory is cut short");
        }
        const size_t name_len = tern_get_le16(directory + 28);
        const size_t extra_len = tern_get_le16(directory + 30);
        const size_t len = ENTRY_SIZE + name_len + extra_len + tern_get_le16(directory + 32);
        if (len > left) {
            return damaged(archive, "its directory is cut short");
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
                       : damaged(archive, "a ZIP64 field is cut short");
        }
        directory += len;
        left -= len;
    }
    return TERN_ERR_NOT_FOUND;
}

static enum tern_result look_up(const struct archive *archive, const char *name,
                                struct entry *entry)
{
    if (archive->directory_size > DIRECTORY_MAX) {
        return tern_input_refuse(archive->input, TERN_ERR_TOO_LARGE,
                                 "its ZIP directory has more than %u bytes", DIRECTORY_MAX);
    }
    uint8_t *directory = malloc((size_t)archive->directory_size + 1);
    if (directory == NULL) {
        return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY, "no memory to read it");
    }
    enum tern_result result =
        read_at(archive, archive->directory, directory, (size_t)archive->directory_size);
    if (result == TERN_OK) {
        result = find_entry(archive, directory, name, entry);
    }
    free(directory);
    return result;
}

// Goes to the member's first byte.
static enum tern_result seek_member(const struct archive *archive, const struct entry *entry)
{
    uint8_t local[LOCAL_SIZE];
    TERN_TRY(read_at(archive, entry->offset, local, sizeof local));
    if (!is_record(local, "\3\4")) {
        return damaged(archive, "a member is not where its directory says");
    }
    // read_at() has shown that offset + LOCAL_SIZE is in the file.
    const uint64_t start =
        entry->offset + LOCAL_SIZE + tern_get_le16(local + 26) + tern_get_le16(local + 28);
    if (start > archive->size || entry->packed > archive->size - start) {
        return damaged(archive, "a member lies beyond the end of the file");
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
            return tern_input_refuse(input, TERN_ERR_CORRUPT, "its checksum is wrong");
        }
    }
    *got = len;
    return TERN_OK;
}

static enum tern_result begin(struct tern_zip_member *member, const struct archive *archive,
                              const struct entry *entry)
{
    if ((entry->flags & ENCRYPTED) != 0 || (entry->method != STORED && entry->method != DEFLATED)) {
        return tern_input_refuse(archive->input, TERN_ERR_UNKNOWN,
                                 "is encrypted or packed by ZIP method %u; only stored (0) and "
                                 "deflated (8) members are read",
                                 entry->method);
    }
    if (entry->method == STORED && entry->packed != entry->size) {
        return damaged(archive, "a stored member has two sizes");
    }
    TERN_TRY(seek_member(archive, entry));
    member->file = archive->file;
    member->packed_left = entry->packed;
    member->left = entry->size;
    member->expected = entry->checksum;
    member->checksum = (uint32_t)crc32(0, NULL, 0);
    if (entry->method == DEFLATED) {
        if (inflateInit2(&member->stream, -MAX_WBITS) != Z_OK) {
            return tern_input_refuse(archive->input, TERN_ERR_NO_MEMORY, "no memory to unpack it");
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
    TERN_TRY(look_up(&archive, name, &entry));
    TERN_TRY(begin(member, &archive, &entry));
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
