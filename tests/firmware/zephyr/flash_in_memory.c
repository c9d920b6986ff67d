// The flash area of the sample, in memory: for tests of the network. tests/firmware/test_zephyr.c has one that watches its use.
#include <zephyr/storage/flash_map.h>

#include <stdlib.h>
#include <string.h>

static uint8_t bytes[0x10000];
static const struct flash_area area = {.fa_id = 3, .fa_size = sizeof bytes};

int flash_area_open(uint8_t id, const struct flash_area **fa)
{
    memset(bytes, 0xff, sizeof bytes);
    *fa = &area;
    return id == area.fa_id ? 0 : -1;
}

int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len)
{
    memcpy(dst, bytes + off, len);
    return fa == &area ? 0 : -1;
}

int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[(size_t)off + i] != 0xff) {
            abort(); // programmed twice
        }
    }
    memcpy(bytes + off, src, len);
    return fa == &area ? 0 : -1;
}

int flash_area_erase(const struct flash_area *fa, off_t off, size_t len)
{
    memset(bytes + off, 0xff, len);
    return fa == &area ? 0 : -1;
}
