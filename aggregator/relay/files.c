// Small files of the folder beside the client's records: what lies in memory, for this machine alone, between a number that
// says of what and a checksum.
#include "relay/internal.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD 4u
#define TAIL 4u

static void path_of(const char *folder, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

enum tern_result tern_relay_file_write(const char *folder, const char *name, uint32_t format,
                                       const void *data, size_t len)
{
    char path[PATH_MAX];
    uint8_t file[RELAY_FILE_MAX];
    if (len > sizeof file - HEAD - TAIL) {
        return TERN_ERR_ARGUMENT;
    }
    tern_put_le32(file, format);
    memcpy(file + HEAD, data, len);
    tern_put_le32(file + HEAD + len, tern_crc32c(0, file, HEAD + len));
    path_of(folder, name, path);
    return tern_file_write(path, file, HEAD + len + TAIL, 0600);
}

enum tern_result tern_relay_file_read(const char *folder, const char *name, uint32_t format,
                                      void *data, size_t len)
{
    char path[PATH_MAX];
    uint8_t *file = NULL;
    size_t file_len = 0;
    path_of(folder, name, path);
    TERN_TRY(tern_file_read_regular(path, RELAY_FILE_MAX, &file, &file_len));
    const bool whole = file_len == HEAD + len + TAIL && tern_get_le32(file) == format &&
                       tern_get_le32(file + HEAD + len) == tern_crc32c(0, file, HEAD + len);
    if (whole) {
        memcpy(data, file + HEAD, len);
    }
    free(file);
    return whole ? TERN_OK : TERN_ERR_NOT_FOUND;
}

void tern_relay_file_remove(const char *folder, const char *name)
{
    char path[PATH_MAX];
    path_of(folder, name, path);
    (void)unlink(path);
}
