// Dates of the proleptic Gregorian calendar, for devices whose C library has none. Pure; any
// thread.
#ifndef TERN_DATE_H
#define TERN_DATE_H

#include <stdint.h>

struct tern_date {
    uint32_t year;  // 1970 to 9999
    uint32_t month; // from 0
    uint32_t day;   // of the month, from 0
};

// Converts days since 1970-01-01 to a date. After the year 9999 only the day increases.
struct tern_date tern_date_of(uint32_t days);

#endif
