// A client of a federation on Zephyr. docs/PORTING.md has the commands.
#include "stream/samples/softmax.h"
#include "tern_zephyr.h"

#include <zephyr/devicetree.h>
#include <zephyr/kernel.h>
#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/printk.h>

// The memory around `partitions`, which has the sizes of blocks. Its parent is the controller.
#define SAMPLE_FLASH DT_GPARENT(DT_NODELABEL(tern_partition))

static const char ca[] = {
#include "ca.inc" // CONFIG_TERN_SAMPLE_CA as numbers
    , 0};

static struct tern_zephyr_connection connection = {.host = CONFIG_TERN_SAMPLE_HOST,
                                                   .port = STRINGIFY(CONFIG_TERN_SAMPLE_PORT),
                                                   .ca = ca,
                                                   .ca_len = sizeof ca};

static void explain(void)
{
    printk(", last failed connection: %s (%d)\n", tern_zephyr_step_name(connection.failed_step),
           connection.failed_error);
}

static void wait_ms(uint32_t ms)
{
    k_msleep((int32_t)ms);
}

int main(void)
{
    static struct tern_flash flash;
    static struct tern_zephyr_area area;
    static struct tern_stream_transport transport;
    transport = (struct tern_stream_transport){.stream = tern_zephyr_stream(&connection),
                                               .clock = tern_zephyr_clock(NULL),
                                               .host = connection.host,
                                               .port = CONFIG_TERN_SAMPLE_PORT};
    if (tern_zephyr_flash(&flash, &area, FIXED_PARTITION_ID(tern_partition),
                          DT_PROP(SAMPLE_FLASH, erase_block_size),
                          DT_PROP(SAMPLE_FLASH, write_block_size)) != TERN_OK) {
        printk("tern_partition cannot be opened\n");
        return 0;
    }
    const struct tern_sample sample = {
        .ports = {.transport = tern_stream_transport_port(&transport),
                  .clock = transport.clock,
                  .entropy = tern_zephyr_entropy()},
        .flash = &flash,
        .name = "zephyr-sample",
        .platform = CONFIG_BOARD,
        .join_code = CONFIG_TERN_SAMPLE_JOIN_CODE,
        .print = printk,
        .wait_ms = wait_ms,
        .explain = explain};
    tern_sample_run(&sample);
    return 0;
}
