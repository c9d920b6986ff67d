#include "http/x509.h"
#include "util/utf8.h"
#include <mbedtls/oid.h>
#include <string.h>

// Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March, so that the leap day
// is a year's last.
static int64_t days_of(int year, int month, int day)
{
    const int64_t years = month > 2 ? year : year - 1;
    const int64_t months = month > 2 ? month - 3 : month + 9;
    return years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 -
           719468;
}

// RFC 5280 (4.1.2.5): times of certificates are in UTC. Not by timegm(), whose time_t ends in 2038 on
// 32 bits.
uint64_t tern_x509_seconds(const mbedtls_x509_time *time)
{
    const int64_t hours = days_of(time->year, time->mon, time->day) * 24 + time->hour;
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
    *out = (struct tern_client_certificate){.ends_s = tern_x509_seconds(&certificate->valid_to)};
    memcpy(out->name, name->p, name->len);
    return true;
}

const char *tern_client_certificate_why(uint32_t flags)
{
    if ((flags & MBEDTLS_X509_BADCERT_MISSING) != 0) {
        return "it shows no certificate";
    }
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        return "its certificate is of no CA in tls.client_ca";
    }
    if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0) {
        return "its certificate, or a CA's above it, has expired";
    }
    if ((flags & MBEDTLS_X509_BADCERT_FUTURE) != 0) {
        return "its certificate, or a CA's above it, is not valid yet";
    }
    return "its certificate is too weak or not made for a client";
}
