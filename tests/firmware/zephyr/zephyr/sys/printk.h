// Stands in for Zephyr's.
#ifndef TERN_TEST_ZEPHYR_PRINTK_H
#define TERN_TEST_ZEPHYR_PRINTK_H

void printk(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
