// Stands in for Zephyr's.
#ifndef TERN_TEST_ZEPHYR_PRINTK_H
#define TERN_TEST_ZEPHYR_PRINTK_H

#include <stdio.h>

#define printk(...) printf(__VA_ARGS__)

#endif
