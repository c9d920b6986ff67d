// Stands in for Zephyr's.
#ifndef TERN_TEST_ZEPHYR_RANDOM_H
#define TERN_TEST_ZEPHYR_RANDOM_H

#include <stddef.h>

int sys_csrand_get(void *dst, size_t len);

#endif
