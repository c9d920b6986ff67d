// "TLSs", format version, CRC-32C of all that follows, length of the session, time of saving, time
// of expiry, binding, when the server's certificate and the first of its issuers' expire, session.
#define _GNU_SOURCE
#include "posix/session_file.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include "util/crc32c.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x73534c54u // "TLSs"
#define FORMAT 2u
#define CHECKED_FROM 12
#define BINDING_AT 32
#define ENDS_AT (BINDING_AT + TERN_SHA256_SIZE)
#define HEAD_SIZE (ENDS_AT + 16)

static bool is_valid(const uint8_t *file, size_t len, const uint8_t *binding, uint64_t now_s)
{
    return len > HEAD_SIZE && tern_get_le32(file) == MAGIC && tern_get_le32(file + 4) == FORMAT &&
           tern_get_le32(file + 8) == tern_crc32c(0, file + CHECKED_FROM, len - CHECKED_FROM) &&
           tern_get_le32(file + 12) == len - HEAD_SIZE && tern_get_le64(file + 16) <= now_s &&
           tern_get_le64(file + 24) > now_s &&
           memcmp(file + BINDING_AT, binding, TERN_SHA256_SIZE) == 0;
}

// Whoever else can write the file could have a session of his own resumed, for which no certificate
// was verified. What is no ordinary file could keep the reader waiting.
static bool is_own(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
           (facts.st_uid == geteuid() || facts.st_uid == 0) &&
           (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void tern_session_file_read(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
                            uint64_t now_s, struct tern_curl_tls_session *session)
{
    uint8_t *file = NULL;
    size_t len = 0;
    if (!is_own(path) ||
        tern_file_read(path, HEAD_SIZE + TERN_TLS_SESSION_MAX, &file, &len) != TERN_OK) {
        return;
    }
    uint8_t *bytes = is_valid(file, len, binding, now_s) ? malloc(len - HEAD_SIZE) : NULL;
    if (bytes != NULL) {
        memcpy(bytes, file + HEAD_SIZE, len - HEAD_SIZE);
        *session =
            (struct tern_curl_tls_session){.bytes = bytes,
                                           .len = len - HEAD_SIZE,
                                           .expires_s = tern_get_le64(file + 24),
                                           .ends = {.server_s = tern_get_le64(file + ENDS_AT),
                                                    .ca_s = tern_get_le64(file + ENDS_AT + 8)}};
    }
    explicit_bzero(file, len);
    free(file);
}

void tern_session_file_write(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
                             uint64_t now_s, const struct tern_curl_tls_session *session)
{
    const size_t len = HEAD_SIZE + session->len;
    uint8_t *file = malloc(len);
    if (file == NULL) {
        return;
    }
    tern_put_le32(file, MAGIC);
    tern_put_le32(file + 4, FORMAT);
    tern_put_le32(file + 12, (uint32_t)session->len);
    tern_put_le64(file + 16, now_s);
    tern_put_le64(file + 24, session->expires_s);
    memcpy(file + BINDING_AT, binding, TERN_SHA256_SIZE);
    tern_put_le64(file + ENDS_AT, session->ends.server_s);
    tern_put_le64(file + ENDS_AT + 8, session->ends.ca_s);
    memcpy(file + HEAD_SIZE, session->bytes, session->len);
    tern_put_le32(file + 8, tern_crc32c(0, file + CHECKED_FROM, len - CHECKED_FROM));
    const enum tern_result result = tern_file_write(path, file, len, 0600);
    (void)result; // the header says why
    explicit_bzero(file, len);
    free(file);
}
