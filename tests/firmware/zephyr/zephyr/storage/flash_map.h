// Stands in for Zephyr's: what the port uses of it, as its documentation declares that.
#ifndef TERN_TEST_ZEPHYR_FLASH_MAP_H
#define TERN_TEST_ZEPHYR_FLASH_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct flash_area {
    uint8_t fa_id;
    off_t fa_off;
    size_t fa_size;
};

#define FIXED_PARTITION_ID(label) 3

int flash_area_open(uint8_t id, const struct flash_area **fa);
int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len);
int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len);
int flash_area_erase(const struct flash_area *fa, off_t off, size_t len);

#endif
