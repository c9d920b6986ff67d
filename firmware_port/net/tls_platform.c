// The platform functions of mbedTLS, without the C library's clock and exit().
#include "board.h"
#include "util/date.h"

#include <mbedtls/platform.h>
#include <mbedtls/platform_time.h>
#include <mbedtls/platform_util.h>
#include <time.h>
#ifdef MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG
#include <psa/crypto.h>
#endif

int64_t tern_firmware_tls_time(int64_t *seconds)
{
    (void)seconds; // mbedTLS uses only the result
    return (int64_t)tern_board_unix_seconds();
}

// mbedTLS calls this when it finds the arena damaged.
void tern_firmware_tls_exit(int code)
{
    (void)code;
    tern_board_stop(true, "the memory of TLS was overwritten");
}

#ifdef MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG
psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context,
                                             uint8_t *output, size_t output_size,
                                             size_t *output_length)
{
    (void)context;
    *output_length = output_size;
    return tern_board_entropy(output, output_size) ? PSA_SUCCESS : PSA_ERROR_INSUFFICIENT_ENTROPY;
}
#endif

#ifdef TERN_TLS_ECDSA
// Sets the fields of *broken that mbedTLS reads. 32 bits last until 2106.
struct tm *mbedtls_platform_gmtime_r(const mbedtls_time_t *seconds, struct tm *broken)
{
    const uint32_t now = (uint32_t)*seconds;
    const struct tern_date date = tern_date_of(now / 86400);
    broken->tm_year = (int)date.year - 1900;
    broken->tm_mon = (int)date.month;
    broken->tm_mday = (int)date.day + 1;
    broken->tm_hour = (int)(now / 3600 % 24);
    broken->tm_min = (int)(now / 60 % 60);
    broken->tm_sec = (int)(now % 60);
    return broken;
}
#endif
