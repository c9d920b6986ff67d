// Stands in for Zephyr's.
#ifndef TERN_TEST_ZEPHYR_KERNEL_H
#define TERN_TEST_ZEPHYR_KERNEL_H

#include <stdint.h>

int64_t k_uptime_get(void);

#endif
