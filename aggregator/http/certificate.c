#include "http/certificate.h"
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>

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
static uint64_t seconds_of(const mbedtls_x509_time *time)
{
    const int64_t hours = days_of(time->year, time->mon, time->day) * 24 + time->hour;
    const int64_t seconds = (hours * 60 + time->min) * 60 + time->sec;
    return seconds > 0 ? (uint64_t)seconds : 0;
}

enum tern_result tern_certificate_times(const char *path, struct tern_certificate_times *times,
                                        char why[256])
{
    mbedtls_x509_crt chain;
    mbedtls_x509_crt_init(&chain);
    const int error = mbedtls_x509_crt_parse_file(&chain, path);
    *times = (struct tern_certificate_times){.ends_s = UINT64_MAX};
    for (const mbedtls_x509_crt *at = &chain; at != NULL && error == 0; at = at->next) {
        const uint64_t begins_s = seconds_of(&at->valid_from);
        const uint64_t ends_s = seconds_of(&at->valid_to);
        times->begins_s = begins_s > times->begins_s ? begins_s : times->begins_s;
        times->ends_s = ends_s < times->ends_s ? ends_s : times->ends_s;
    }
    mbedtls_x509_crt_free(&chain);
    if (error != 0) {
        snprintf(why, 256, "the certificate %.180s %s", path,
                 error == MBEDTLS_ERR_X509_FILE_IO_ERROR || error == MBEDTLS_ERR_PK_FILE_IO_ERROR
                     ? "cannot be read"
                     : "is not a PEM file that mbedTLS understands");
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}
