// Stands in for Zephyr's.
#ifndef TERN_TEST_ZEPHYR_TLS_CREDENTIALS_H
#define TERN_TEST_ZEPHYR_TLS_CREDENTIALS_H

typedef int sec_tag_t;

#endif
