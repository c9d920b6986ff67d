#include "util/date.h"

enum { FIRST_YEAR = 1970, LAST_YEAR = 9999, FEBRUARY = 1, DECEMBER = 11 };

static uint32_t leap_days(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 1 : 0;
}

static uint32_t days_of_month(uint32_t month, uint32_t year)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == FEBRUARY ? leap_days(year) : 0);
}

struct tern_date tern_date_of(uint32_t days)
{
    uint32_t year = FIRST_YEAR;
    uint32_t month = 0;
    for (; year < LAST_YEAR && days >= 365 + leap_days(year); year++) {
        days -= 365 + leap_days(year);
    }
    for (; month < DECEMBER && days >= days_of_month(month, year); month++) {
        days -= days_of_month(month, year);
    }
    return (struct tern_date){.year = year, .month = month, .day = days};
}
