#define _GNU_SOURCE
#include "posix/tls/curl_tls.h"
#include "hosted/files.h"
#include "posix/tls/backend.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include "util/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// --- The session file

// The format of the session file: "TLSs", format version, CRC-32C of all that follows, length of the session, time of saving,
// time of expiry, binding, expiry of the server's certificate, expiry of the first of its issuers, session. The session
// contains keys, so only the file's owner may read it.

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

// Returns whether the path is a regular file that only this user or root can write. Another user could write a session of
// another server into it, and a resumed session verifies no certificate.
static bool only_user_can_write(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
           (facts.st_uid == geteuid() || facts.st_uid == 0) &&
           (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Reads a session that was saved with the same binding and has not expired at now_s. Leaves *session unchanged if the file is
// missing, damaged, has another binding, is expired or from the future, or if others can write it.
static void session_file_read(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
                              uint64_t now_s, struct tern_curl_tls_session *session)
{
    uint8_t *file = NULL;
    size_t len = 0;
    if (!only_user_can_write(path) ||
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

// Replaces the session file atomically. Ignores errors, since without the file the next process makes a full handshake.
static void session_file_write(const char *path, const uint8_t binding[TERN_SHA256_SIZE],
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
    (void)result;
    explicit_bzero(file, len);
    free(file);
}

// --- The state of one transport

#define WHY_SIZE 512

// A resumed session relies on the verification in an earlier full handshake. So a full handshake happens at least once a week.
#define TICKET_LIMIT_S (7 * 86400)
#define TICKET_DEFAULT_S 86400

struct tern_curl_tls {
    char *section;
    char *host;
    char *ca_file;     // NULL: the default of libcurl's TLS library
    char *certificate; // NULL: the client has no certificate
    char *key;
    char *session_file; // NULL: none
    uint8_t binding[TERN_SHA256_SIZE];
    long versions; // CURLOPT_SSLVERSION
    struct tern_curl_tls_session session;
    // session of the current handshake, whose peer may not be verified yet
    struct tern_curl_tls_session new_session;
    bool unsaved;  // `session` is newer than the file
    bool refused;  // a handshake that offered the session has failed: offer none in this exchange
    bool offered;  // the last handshake of this exchange has offered the session
    bool verified; // the current handshake has verified the peer
    bool foreign;  // the current handshake has met a certificate of another CA
    uint8_t first; // the first byte that the peer has sent in the current handshake; 0: none
    struct tern_curl_expiries ends; // expiry dates from the last full handshake
    void *backend;
    char why[256];
};

static uint64_t unix_seconds(void)
{
    return (uint64_t)time(NULL);
}

// --- The CA and the binding of a session file

static bool is_set(const char *path)
{
    return path != NULL && path[0] != '\0';
}

// Returns whether a file that can be read has a PEM block of this kind, such as "CERTIFICATE".
static bool has_pem_block(const char *path, const char *kind)
{
    char end[32];
    char line[128];
    bool found = false;
    FILE *file = fopen(path, "r");
    snprintf(end, sizeof end, "%s-----", kind);
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = strncmp(line, "-----BEGIN ", 11) == 0 && strstr(line, end) != NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

// Returns the system's file of trusted certificates, at the paths of the supported distributions; NULL: there is none.
static const char *system_bundle(void)
{
    static const char *const paths[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem",
                                        "/etc/pki/tls/certs/ca-bundle.crt"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (access(paths[i], R_OK) == 0) {
            return paths[i];
        }
    }
    return NULL;
}

static enum tern_result choose_ca(const struct tern_curl_tls_config *config, const char **chosen,
                                  char *why)
{
    const char *wanted = config->ca_file;
    if (is_set(wanted)) {
        *chosen = wanted;
        if (access(wanted, R_OK) != 0) {
            snprintf(why, WHY_SIZE, "%s.ca: the CA file %s cannot be read", config->section,
                     wanted);
            return TERN_ERR_CONFIG;
        }
        if (!has_pem_block(wanted, "CERTIFICATE")) {
            snprintf(why, WHY_SIZE,
                     "%s.ca: %s has no certificate in PEM (-----BEGIN CERTIFICATE-----): name the "
                     "file of the aggregator's certificate or its CA",
                     config->section, wanted);
            return TERN_ERR_CONFIG;
        }
        return TERN_OK;
    }
    *chosen = system_bundle();
    if (*chosen == NULL && tern_curl_tls_backend_required) {
        snprintf(why, WHY_SIZE,
                 "this machine has no file of trusted certificates: name the CA of the "
                 "aggregator's certificate with %s.ca, or install ca-certificates",
                 config->section);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static enum tern_result check_client_certificate(const struct tern_curl_tls_config *config,
                                                 char *why)
{
    const char *const files[] = {config->certificate, config->key};
    static const char *const kinds[] = {"CERTIFICATE", "PRIVATE KEY"};
    if (is_set(config->certificate) != is_set(config->key)) {
        snprintf(why, WHY_SIZE, "%s.certificate and %s.key go together: one of them is missing",
                 config->section, config->section);
        return TERN_ERR_CONFIG;
    }
    for (size_t i = 0; i < 2 && is_set(files[i]); i++) {
        if (access(files[i], R_OK) != 0) {
            snprintf(why, WHY_SIZE, "the client's %s %s cannot be read: %s",
                     i == 0 ? "certificate" : "key", files[i], strerror(errno));
            return TERN_ERR_CONFIG;
        }
        if (!has_pem_block(files[i], kinds[i])) {
            snprintf(why, WHY_SIZE, "%s.%s: %s has no %s in PEM (-----BEGIN %s-----)",
                     config->section, i == 0 ? "certificate" : "key", files[i],
                     i == 0 ? "certificate" : "private key", kinds[i]);
            return TERN_ERR_CONFIG;
        }
    }
    return TERN_OK;
}

// TLS 1.2 is the default: with the suites of the backends it is as secure as 1.3 for Tern's messages, and takes fewer bytes
// (docs/BENCHMARKS.md).
static enum tern_result choose_versions(const struct tern_curl_tls_config *config, long *versions,
                                        char *why)
{
    const char *wanted = config->versions;
    if (wanted == NULL || strcmp(wanted, "1.2") == 0) {
        *versions = CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_2;
    } else if (strcmp(wanted, "1.3") == 0) {
        *versions = CURL_SSLVERSION_TLSv1_3;
    } else if (strcmp(wanted, "auto") == 0) {
        *versions = CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_3;
    } else {
        snprintf(why, WHY_SIZE, "%s.tls is %.20s; it must be 1.2, 1.3 or auto", config->section,
                 wanted);
        return TERN_ERR_CONFIG;
    }
    if (wanted != NULL && strcmp(wanted, "1.2") != 0 && !tern_curl_tls_backend_has_tls13) {
        snprintf(why, WHY_SIZE, "%s.tls is %.20s, but this program has only TLS 1.2",
                 config->section, wanted);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static void hash_file(struct tern_sha256 *hash, const char *path)
{
    char block[4096];
    size_t got = 0;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return;
    }
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        tern_sha256_update(hash, block, got);
    }
    fclose(file);
}

// Computes the binding of a session: a hash of the server, the CAs, the client's certificate and the TLS library. A session is
// valid only with the same ones.
static void compute_binding(struct tern_curl_tls *tls, const char *server, const char *library)
{
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, library, strlen(library) + 1);
    tern_sha256_update(&hash, server, strlen(server) + 1);
    if (tls->ca_file != NULL) {
        hash_file(&hash, tls->ca_file);
    }
    if (tls->certificate != NULL) {
        hash_file(&hash, tls->certificate);
    }
    tern_sha256_final(&hash, tls->binding);
}

// --- Opening

static const char *library_version(void)
{
    const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
    return version->ssl_version != NULL ? version->ssl_version : "none";
}

// Returns the host as certificates name it: without the brackets around an IPv6 address.
static char *host_of(const char *server)
{
    char *host = NULL;
    char *copy = NULL;
    CURLU *url = curl_url();
    if (url != NULL && curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
        const size_t brackets = host[0] == '[' ? 1 : 0;
        copy = strndup(host + brackets, strlen(host) - 2 * brackets);
    } else {
        copy = strdup("");
    }
    curl_free(host);
    curl_url_cleanup(url);
    return copy;
}

static bool copy_client_certificate(struct tern_curl_tls *tls,
                                    const struct tern_curl_tls_config *config)
{
    if (!is_set(config->certificate)) {
        return true;
    }
    tls->certificate = strdup(config->certificate);
    tls->key = strdup(config->key);
    return tls->certificate != NULL && tls->key != NULL;
}

static bool copy_config(struct tern_curl_tls *tls, const struct tern_curl_tls_config *config,
                        const char *ca_file)
{
    tls->section = strdup(config->section);
    tls->host = host_of(config->server);
    tls->ca_file = ca_file != NULL ? strdup(ca_file) : NULL;
    if (tls->section == NULL || tls->host == NULL || (ca_file != NULL && tls->ca_file == NULL) ||
        !copy_client_certificate(tls, config)) {
        return false;
    }
    if (!is_set(config->session_file)) {
        return true;
    }
    tls->session_file = strdup(config->session_file);
    return tls->session_file != NULL;
}

enum tern_result tern_curl_tls_open(struct tern_curl_tls **tls,
                                    const struct tern_curl_tls_config *config, char why[512])
{
    const char *ca_file = NULL;
    const char *library = library_version();
    long versions = 0;
    if (tern_curl_tls_backend_required && !tern_curl_tls_backend_matches(library)) {
        snprintf(why, WHY_SIZE, "this program was not built for a libcurl with %s", library);
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(choose_ca(config, &ca_file, why));
    TERN_TRY(check_client_certificate(config, why));
    TERN_TRY(choose_versions(config, &versions, why));
    struct tern_curl_tls *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || !copy_config(fresh, config, ca_file)) {
        snprintf(why, WHY_SIZE, "there is no memory for a connection");
        tern_curl_tls_close(fresh);
        return TERN_ERR_NO_MEMORY;
    }
    fresh->versions = versions;
    compute_binding(fresh, config->server, library);
    if (fresh->session_file != NULL) {
        session_file_read(fresh->session_file, fresh->binding, unix_seconds(), &fresh->session);
    }
    *tls = fresh;
    return TERN_OK;
}

static void free_session(struct tern_curl_tls_session *session)
{
    if (session->bytes != NULL) {
        explicit_bzero(session->bytes, session->len);
    }
    free(session->bytes);
    *session = (struct tern_curl_tls_session){0};
}

void tern_curl_tls_close(struct tern_curl_tls *tls)
{
    if (tls == NULL) {
        return;
    }
    free_session(&tls->session);
    free_session(&tls->new_session);
    free(tls->section);
    free(tls->host);
    free(tls->ca_file);
    free(tls->certificate);
    free(tls->key);
    free(tls->session_file);
    free(tls->backend);
    free(tls);
}

void tern_curl_tls_configure(struct tern_curl_tls *tls, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, tls->versions);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
    if (tls->ca_file != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (tls->certificate != NULL) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->certificate);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key);
    }
    if (tern_curl_tls_backend_matches(library_version())) {
        tern_curl_tls_backend_configure(tls, easy);
    }
}

// --- One exchange

void tern_curl_tls_begin(struct tern_curl_tls *tls)
{
    tls->refused = false;
    tls->offered = false;
    tls->foreign = false;
    tls->first = 0;
    tls->why[0] = '\0';
}

const struct tern_curl_tls_session *tern_curl_tls_session_to_offer(struct tern_curl_tls *tls)
{
    tls->verified = false;
    tls->foreign = false;
    tls->first = 0;
    tls->ends = (struct tern_curl_expiries){0};
    free_session(&tls->new_session);
    tls->offered =
        !tls->refused && tls->session.bytes != NULL && unix_seconds() < tls->session.expires_s;
    return tls->offered ? &tls->session : NULL;
}

void tern_curl_tls_store_session(struct tern_curl_tls *tls,
                                 const struct tern_curl_tls_session *session)
{
    free_session(&tls->new_session);
    tls->new_session = *session;
}

static void keep_received_session(struct tern_curl_tls *tls)
{
    if (tls->new_session.bytes != NULL) {
        free_session(&tls->session);
        tls->session = tls->new_session;
        tls->session.ends = tls->ends;
        tls->new_session = (struct tern_curl_tls_session){0};
        tls->unsaved = true;
    }
}

enum tern_result tern_curl_tls_connected(struct tern_curl_tls *tls, CURL *easy)
{
    if (tern_curl_tls_backend_matches(library_version())) {
        TERN_TRY(tern_curl_tls_backend_end_handshake(tls, easy));
    }
    keep_received_session(tls);
    return TERN_OK;
}

bool tern_curl_tls_resumed(const struct tern_curl_tls *tls)
{
    return tls->offered && !tls->unsaved;
}

void tern_curl_tls_set_verified(struct tern_curl_tls *tls)
{
    tls->verified = true;
}

bool tern_curl_tls_is_verified(const struct tern_curl_tls *tls)
{
    return tls->verified;
}

// Returns the Unix time of a date in UTC. timegm() fails after 2038 if time_t has 32 bits, and certificates of devices may
// expire later.
static uint64_t unix_time(const struct tm *date)
{
    static const uint16_t days_before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const int64_t year = date->tm_year + INT64_C(1900);
    const int64_t whole = date->tm_mon < 2 ? year - 1 : year; // years whose 29 February is over
    const int64_t leap_days = whole / 4 - whole / 100 + whole / 400 - (1969 / 4 - 1969 / 100 + 4);
    const int64_t days =
        365 * (year - 1970) + leap_days + days_before[date->tm_mon % 12] + date->tm_mday - 1;
    const int64_t seconds = ((days * 24 + date->tm_hour) * 60 + date->tm_min) * 60 + date->tm_sec;
    return seconds > 0 ? (uint64_t)seconds : 0;
}

void tern_curl_tls_note_expiry(struct tern_curl_tls *tls, bool is_peer, const struct tm *end)
{
    uint64_t *first = is_peer ? &tls->ends.server_s : &tls->ends.ca_s;
    const uint64_t end_s = unix_time(end);
    *first = *first == 0 || end_s < *first ? end_s : *first;
}

struct tern_curl_expiries tern_curl_tls_expiries(const struct tern_curl_tls *tls)
{
    struct tern_curl_expiries ends = tls->ends.server_s != 0 ? tls->ends : tls->session.ends;
    struct tm end;
    const bool is_read = tls->certificate != NULL &&
                         tern_curl_tls_backend_matches(library_version()) &&
                         tern_curl_tls_backend_read_expiry(tls->certificate, &end);
    ends.client_s = is_read ? unix_time(&end) : 0;
    return ends;
}

uint64_t tern_curl_tls_session_expiry(uint32_t ticket_s, const struct tm *certificate_end)
{
    const uint32_t lifetime_s = ticket_s == 0               ? TICKET_DEFAULT_S
                                : ticket_s < TICKET_LIMIT_S ? ticket_s
                                                            : TICKET_LIMIT_S;
    const uint64_t ticket_end_s = unix_seconds() + lifetime_s;
    const uint64_t certificate_end_s = unix_time(certificate_end);
    return ticket_end_s < certificate_end_s ? ticket_end_s : certificate_end_s;
}

void tern_curl_tls_exchanged(struct tern_curl_tls *tls)
{
    keep_received_session(tls); // the ticket of TLS 1.3 arrives after the handshake
    if (tls->unsaved && tls->session_file != NULL) {
        session_file_write(tls->session_file, tls->binding, unix_seconds(), &tls->session);
    }
    tls->unsaved = false;
}

bool tern_curl_tls_try_without_session(struct tern_curl_tls *tls)
{
    tls->refused = tls->offered;
    tls->offered = false;
    return tls->refused;
}

// --- Something else in the aggregator's place

// Types of TLS records (RFC 5246, section 6.2.1).
#define RECORD_FIRST 20
#define RECORD_LAST 23

void tern_curl_tls_note_received(struct tern_curl_tls *tls, const uint8_t *bytes, size_t len)
{
    tls->first = tls->first == 0 && len > 0 ? bytes[0] : tls->first;
}

void tern_curl_tls_set_foreign(struct tern_curl_tls *tls)
{
    tls->foreign = true;
}

bool tern_curl_tls_has_foreign(const struct tern_curl_tls *tls)
{
    return tls->foreign;
}

static bool speaks_no_tls(const struct tern_curl_tls *tls)
{
    return tls->first != 0 && (tls->first < RECORD_FIRST || tls->first > RECORD_LAST);
}

static bool is_foreign(const struct tern_curl_tls *tls, CURL *easy)
{
    return tern_curl_tls_backend_matches(library_version()) &&
           tern_curl_tls_backend_is_foreign(tls, easy);
}

bool tern_curl_tls_is_intercepted(const struct tern_curl_tls *tls, CURL *easy)
{
    // A session was made with the same CA file.
    return speaks_no_tls(tls) || (tls->session.bytes != NULL && is_foreign(tls, easy));
}

void tern_curl_tls_explain_intercepted(struct tern_curl_tls *tls, CURL *easy)
{
    if (speaks_no_tls(tls)) {
        tern_curl_tls_explain(
            tls,
            "what answers is not the aggregator, because it speaks no TLS: a captive portal or "
            "proxy (sign in, or wait), or ",
            "server", " has the wrong port");
    } else if (is_foreign(tls, easy)) {
        tern_curl_tls_explain(
            tls,
            "what answers is not the aggregator, because another CA has issued its certificate: a "
            "captive portal or proxy (sign in, or wait), or ",
            "ca", " is not the aggregator's CA");
    }
}

bool tern_curl_tls_has_certificate(const struct tern_curl_tls *tls)
{
    return tls->certificate != NULL;
}

const char *tern_curl_tls_why(const struct tern_curl_tls *tls)
{
    return tls->why;
}

void **tern_curl_tls_backend_data(struct tern_curl_tls *tls)
{
    return &tls->backend;
}

const char *tern_curl_tls_host(const struct tern_curl_tls *tls)
{
    return tls->host;
}

void tern_curl_tls_explain(struct tern_curl_tls *tls, const char *before, const char *setting,
                           const char *behind)
{
    snprintf(tls->why, sizeof tls->why, "%s%s%s%s%s", before, setting != NULL ? tls->section : "",
             setting != NULL ? "." : "", setting != NULL ? setting : "", behind);
}

const char *tern_curl_tls_section(const struct tern_curl_tls *tls)
{
    return tls->section;
}
