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

// Of *broken what mbedTLS reads. 32 bits last until 2106.
struct tm *mbedtls_platform_gmtime_r(const mbedtls_time_t *seconds, struct tm *broken)
{
    const uint32_t now = (uint32_t)*seconds;
    uint32_t days = now / 86400;
    uint32_t year = 1970;
    uint32_t month = 0;
    for (; days >= (is_leap(year) ? 366u : 365u); year++) {
        days -= is_leap(year) ? 366u : 365u;
    }
    for (; days >= days_of(month, year); month++) {
        days -= days_of(month, year);
    }
    broken->tm_year = (int)year - 1900;
    broken->tm_mon = (int)month;
    broken->tm_mday = (int)days + 1;
    broken->tm_hour = (int)(now / 3600 % 24);
    broken->tm_min = (int)(now / 60 % 60);
    broken->tm_sec = (int)(now % 60);
    return broken;
}
#endif
