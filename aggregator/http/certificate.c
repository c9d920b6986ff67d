#define _DEFAULT_SOURCE // timegm
#include "http/certificate.h"
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <time.h>

// RFC 5280 (4.1.2.5): times of certificates are in UTC.
static uint64_t seconds_of(const mbedtls_x509_time *time)
{
    struct tm parts = {.tm_year = time->year - 1900,
                       .tm_mon = time->mon - 1,
                       .tm_mday = time->day,
                       .tm_hour = time->hour,
                       .tm_min = time->min,
                       .tm_sec = time->sec};
    const time_t seconds = timegm(&parts);
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
                 error == MBEDTLS_ERR_X509_FILE_IO_ERROR
                     ? "cannot be read"
                     : "is not a PEM file that mbedTLS understands");
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}
