// Stands in for Zephyr's, with what its kernel.h includes besides.
#ifndef TERN_TEST_ZEPHYR_KERNEL_H
#define TERN_TEST_ZEPHYR_KERNEL_H

#include <stdint.h>

#define STRINGIFY(s) TERN_TEST_TEXT(s)
#define TERN_TEST_TEXT(s) #s
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif

int64_t k_uptime_get(void);
int32_t k_msleep(int32_t ms);

#endif
