#include "http/certificate.h"
#include "hosted/files.h"
#include "util/text.h"
#include <arpa/inet.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Certificates

// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the leap
// day is the last day of a year.
static int64_t days_since_1970(int year, int month, int day)
{
    const int64_t years = month > 2 ? year : year - 1;
    const int64_t months = month > 2 ? month - 3 : month + 9;
    return years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 -
           719468;
}

// Returns Unix seconds; 0 for times before 1970. Certificates have times in UTC (RFC 5280, 4.1.2.5). timegm() would
// end in 2038 where time_t has 32 bits.
static uint64_t unix_seconds(const mbedtls_x509_time *time)
{
    const int64_t hours = days_since_1970(time->year, time->mon, time->day) * 24 + time->hour;
    const int64_t seconds = (hours * 60 + time->min) * 60 + time->sec;
    return seconds > 0 ? (uint64_t)seconds : 0;
}

static bool is_common_name(const mbedtls_x509_name *part)
{
    return part->oid.len == sizeof MBEDTLS_OID_AT_CN - 1 &&
           memcmp(part->oid.p, MBEDTLS_OID_AT_CN, part->oid.len) == 0;
}

bool tern_client_certificate_read(const mbedtls_x509_crt *certificate,
                                  struct tern_client_certificate *out)
{
    const mbedtls_x509_buf *name = NULL;
    uint32_t names = 0;
    for (const mbedtls_x509_name *part = &certificate->subject; part != NULL; part = part->next) {
        const bool is_name = is_common_name(part);
        name = is_name ? &part->val : name;
        names += is_name;
    }
    if (names != 1 || name->len == 0 || name->len >= sizeof out->name ||
        !tern_utf8_is_text((const char *)name->p, name->len)) {
        return false;
    }
    *out = (struct tern_client_certificate){.ends_s = unix_seconds(&certificate->valid_to)};
    memcpy(out->name, name->p, name->len);
    return true;
}

const char *tern_client_certificate_why(uint32_t flags)
{
    if ((flags & MBEDTLS_X509_BADCERT_MISSING) != 0) {
        return "the client sent no certificate";
    }
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        return "no CA in tls.client_ca has signed the client's certificate";
    }
    if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0) {
        return "the client's certificate, or a CA's certificate, has expired";
    }
    if ((flags & MBEDTLS_X509_BADCERT_FUTURE) != 0) {
        return "the client's certificate, or a CA's certificate, is not valid yet";
    }
    return "the client's certificate is too weak, or does not allow use by a client";
}

// --- PEM files

#define PEM_MAX (1u << 20)

enum tern_result tern_pem_read(const char *path, const char *what, struct tern_pem *pem,
                               char why[256])
{
    size_t len = 0;
    *pem = (struct tern_pem){.path = path};
    if (tern_file_read(path, PEM_MAX, &pem->bytes, &len) != TERN_OK) {
        snprintf(why, 256, "%s %.180s cannot be read", what, path);
        return TERN_ERR_CONFIG;
    }
    pem->size = len + 1;
    return TERN_OK;
}

void tern_pem_free(struct tern_pem *pem)
{
    if (pem->bytes != NULL) {
        mbedtls_platform_zeroize(pem->bytes, pem->size);
        free(pem->bytes);
        pem->bytes = NULL;
    }
}

enum tern_result tern_pem_refuse(const char *path, const char *what, int error, char why[256])
{
    snprintf(why, 256, "%s %.150s is not a PEM file that mbedTLS can parse (error -0x%04x)", what,
             path, (unsigned)(error < 0 ? -error : error));
    return TERN_ERR_CONFIG;
}

// Kinds of a subject's alternative name (RFC 5280, 4.2.1.6)
#define NAME_IS_DNS 2
#define NAME_IS_ADDRESS 7

// Prints a DNS name or an address. Writes "" for other kinds of names, and for names of more than 255 bytes.
static void name_as_text(const mbedtls_x509_buf *name, char text[256])
{
    const int kind = name->tag & MBEDTLS_ASN1_TAG_VALUE_MASK;
    text[0] = '\0';
    if (kind == NAME_IS_DNS && name->len < 256) {
        memcpy(text, name->p, name->len);
        text[name->len] = '\0';
    } else if (kind == NAME_IS_ADDRESS && (name->len == 4 || name->len == 16)) {
        inet_ntop(name->len == 4 ? AF_INET : AF_INET6, name->p, text, 256);
    }
}

static void list_names(const mbedtls_x509_crt *first, struct tern_certificate *certificate)
{
    char text[256];
    size_t len = 0;
    for (const mbedtls_x509_sequence *at = &first->subject_alt_names;
         at != NULL && at->buf.p != NULL; at = at->next) {
        name_as_text(&at->buf, text);
        if (text[0] != '\0' && len + strlen(text) + 3 <= sizeof certificate->names) {
            len += (size_t)snprintf(certificate->names + len, sizeof certificate->names - len,
                                    "%s%s", len > 0 ? ", " : "", text);
        }
    }
}

enum tern_result tern_pem_certificate(const struct tern_pem *pem,
                                      struct tern_certificate *certificate, char why[256])
{
    mbedtls_x509_crt chain;
    mbedtls_x509_crt_init(&chain);
    const int error = mbedtls_x509_crt_parse(&chain, pem->bytes, pem->size);
    *certificate = (struct tern_certificate){.ends_s = UINT64_MAX};
    for (const mbedtls_x509_crt *at = &chain; at != NULL && error == 0; at = at->next) {
        const uint64_t begins_s = unix_seconds(&at->valid_from);
        const uint64_t ends_s = unix_seconds(&at->valid_to);
        certificate->begins_s = begins_s > certificate->begins_s ? begins_s : certificate->begins_s;
        certificate->ends_s = ends_s < certificate->ends_s ? ends_s : certificate->ends_s;
    }
    if (error == 0) {
        list_names(&chain, certificate);
    }
    mbedtls_x509_crt_free(&chain);
    return error == 0 ? TERN_OK : tern_pem_refuse(pem->path, "the certificate", error, why);
}

enum tern_result tern_certificate_read(const char *path, struct tern_certificate *certificate,
                                       char why[256])
{
    struct tern_pem pem;
    TERN_TRY(tern_pem_read(path, "the certificate", &pem, why));
    const enum tern_result result = tern_pem_certificate(&pem, certificate, why);
    tern_pem_free(&pem);
    return result;
}
