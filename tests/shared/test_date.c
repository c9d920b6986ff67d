#include "tests/cases.h"
#include "util/date.h"

#include <time.h>

#define DAYS_UNTIL_10000 2932897u

CASE(test_every_day_is_that_of_the_c_library)
{
    // Where time_t has 32 bits, the C library knows the days until 2038 alone.
    const uint32_t end = sizeof(time_t) > 4 ? DAYS_UNTIL_10000 : INT32_MAX / 86400;
    for (uint32_t days = 0; days < end; days += days < 150000 ? 1 : 97) {
        const time_t seconds = (time_t)days * 86400;
        struct tm expected;
        assert_non_null(gmtime_r(&seconds, &expected));
        const struct tern_date date = tern_date_of(days);
        assert_int_equal(date.year, expected.tm_year + 1900);
        assert_int_equal(date.month, expected.tm_mon);
        assert_int_equal(date.day, expected.tm_mday - 1);
    }
}

CASE(test_no_day_is_too_late)
{
    const struct tern_date last = tern_date_of(DAYS_UNTIL_10000 - 1);
    assert_int_equal(last.year, 9999);
    assert_int_equal(last.month, 11);
    assert_int_equal(last.day, 30);
    const struct tern_date beyond = tern_date_of(UINT32_MAX);
    assert_int_equal(beyond.year, 9999);
    assert_int_equal(beyond.month, 11);
}
