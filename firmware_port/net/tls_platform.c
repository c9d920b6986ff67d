// What mbedTLS asks of its surroundings, without the C library's clock and exit().
#include "board.h"

#include <mbedtls/platform.h>
#include <mbedtls/platform_time.h>
#include <mbedtls/platform_util.h>
#include <time.h>

int64_t tern_tls_time(int64_t *seconds)
{
    (void)seconds; // mbedTLS wants the result alone
    return (int64_t)board_unix_seconds();
}

// mbedTLS calls this when it finds the arena damaged.
void tern_tls_exit(int code)
{
    (void)code;
    board_stop(true, "the memory of TLS was overwritten");
}

#ifdef TERN_TLS_ECDSA
static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint32_t days_of(uint32_t month, uint32_t year)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year) ? 1u : 0u);
}

struct tm *mbedtls_platform_gmtime_r(const mbedtls_time_t *seconds, struct tm *broken)
{
    uint32_t days = (uint32_t)(*seconds / 86400);
    const uint32_t rest = (uint32_t)(*seconds % 86400);
    uint32_t year = 1970;
    uint32_t month = 0;
    for (; days >= (is_leap(year) ? 366u : 365u); year++) {
        days -= is_leap(year) ? 366u : 365u;
    }
    for (; days >= days_of(month, year); month++) {
        days -= days_of(month, year);
    }
    *broken = (struct tm){.tm_year = (int)year - 1900,
                          .tm_mon = (int)month,
                          .tm_mday = (int)days + 1,
                          .tm_hour = (int)(rest / 3600),
                          .tm_min = (int)(rest / 60 % 60),
                          .tm_sec = (int)(rest % 60)};
    return broken;
}
#endif
