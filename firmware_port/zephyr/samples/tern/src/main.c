// A client of a federation on Zephyr: enrols once, and then trains softmax:64-6 in each round that selects it. Replace the data
// of make_examples() by the board's own. docs/PORTING.md has the commands.
#include "client.h"
#include "store/flash_store.h"
#include "tern_zephyr.h"
#include "trainer/trainer.h"

#include <string.h>
#include <zephyr/devicetree.h>
#include <zephyr/kernel.h>
#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/printk.h>

#define SAMPLE_VALUES 390 // of softmax:64-6
#define SAMPLE_FEATURES 64
#define SAMPLE_CLASSES 6
#define SAMPLE_EXAMPLES 120
#define SAMPLE_BATCH 4
#define SAMPLE_UPDATE_MAX (TERN_WIRE_OVERHEAD + SAMPLE_VALUES * 4 + 128)
#define SAMPLE_FLASH DT_MTD_FROM_FIXED_PARTITION(DT_NODELABEL(tern_partition))

static const char ca[] = {
#include "ca.inc" // CONFIG_TERN_SAMPLE_CA as numbers
    , 0};

static uint8_t features[SAMPLE_EXAMPLES * SAMPLE_FEATURES];
static uint16_t labels[SAMPLE_EXAMPLES];
static float weights[SAMPLE_VALUES];
static _Alignas(float) uint8_t error_buffer[TERN_ERROR_BYTES(TERN_ERROR_STORAGE, SAMPLE_VALUES)];
static _Alignas(float) uint8_t blob[SAMPLE_UPDATE_MAX + SAMPLE_VALUES * 4 + 128];
static _Alignas(TERN_ARENA_ALIGNMENT)
    uint8_t arena[SAMPLE_VALUES * 8 + SAMPLE_EXAMPLES * 4 + SAMPLE_BATCH * 400 + 1024];

static struct tern_client client;
static struct tern_model model;
static struct tern_builtin_trainer trainer;
static struct tern_flash flash;
static struct tern_zephyr_area area;
static struct tern_flash_store store;
static struct tern_stream_transport transport;
static struct tern_zephyr_connection connection = {.host = CONFIG_TERN_SAMPLE_HOST,
                                                   .port = STRINGIFY(CONFIG_TERN_SAMPLE_PORT),
                                                   .ca = ca,
                                                   .ca_len = sizeof ca};

// Each label has one bright stripe of an 8 x 8 picture.
static struct tern_dataset make_examples(void)
{
    for (size_t i = 0; i < SAMPLE_EXAMPLES; i++) {
        labels[i] = (uint16_t)(i % SAMPLE_CLASSES);
        for (size_t pixel = 0; pixel < SAMPLE_FEATURES; pixel++) {
            const bool bright = pixel / 8 == labels[i] + 1u;
            features[i * SAMPLE_FEATURES + pixel] =
                (uint8_t)((bright ? 150 : 70) + (i * 31 + pixel * 17) % 60);
        }
    }
    return (struct tern_dataset){.count = SAMPLE_EXAMPLES,
                                 .feature_count = SAMPLE_FEATURES,
                                 .class_count = SAMPLE_CLASSES,
                                 .height = 1,
                                 .width = SAMPLE_FEATURES,
                                 .channels = 1,
                                 .bytes = features,
                                 .labels = labels,
                                 .scale = 1.0F / 255};
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    (void)ctx;
    printk("%s round=%u\n", tern_client_event_name(event->kind), (unsigned)event->round);
    if (event->kind == TERN_EVENT_FAILURE) {
        printk("  %s, last failed connection: %s (%d)\n", tern_result_name(event->result),
               tern_zephyr_step_name(connection.failed_step), connection.failed_error);
    }
}

static enum tern_result start(void)
{
    static const uint32_t record_sizes[TERN_RECORD_COUNT] = {
        160, 4 * (SAMPLE_VALUES * 4 + 80), 3 * (SAMPLE_VALUES * 4 + SAMPLE_UPDATE_MAX + 80), 64,
        2048};
    transport = (struct tern_stream_transport){.stream = tern_zephyr_stream(&connection),
                                               .clock = tern_zephyr_clock(NULL),
                                               .host = connection.host,
                                               .port = CONFIG_TERN_SAMPLE_PORT};
    TERN_TRY(tern_zephyr_flash(&flash, &area, FIXED_PARTITION_ID(tern_partition),
                               DT_PROP(SAMPLE_FLASH, erase_block_size),
                               DT_PROP(SAMPLE_FLASH, write_block_size)));
    TERN_TRY(tern_flash_store_open(&store, &flash, record_sizes));
    const struct tern_client_config config = {
        .ports = {.transport = tern_stream_transport_port(&transport),
                  .store = tern_flash_store_port(&store),
                  .clock = transport.clock,
                  .entropy = tern_zephyr_entropy()},
        .name = "zephyr-sample",
        .platform = CONFIG_BOARD,
        .on_event = on_event};
    return tern_client_init(&client, &config);
}

static enum tern_result restore(void)
{
    static struct tern_dataset data;
    data = make_examples();
    TERN_TRY(tern_model_from_spec(&model, tern_client_identity(&client)->model_spec));
    const struct tern_builtin_config config = {
        .model = &model, .train = tern_view_all(&data), .max_batch = SAMPLE_BATCH};
    TERN_TRY(tern_builtin_trainer_init(&trainer, &config, arena, sizeof arena));
    const struct tern_client_workspace workspace = {.model = &model,
                                                    .trainer = tern_builtin_trainer_port(&trainer),
                                                    .weights = weights,
                                                    .error_storage = TERN_ERROR_STORAGE,
                                                    .error_buffer = error_buffer,
                                                    .blob = blob,
                                                    .blob_size = sizeof blob};
    return tern_client_restore(&client, &workspace);
}

// Enrols unless flash has an identity. Waits for the network as long as it takes.
static enum tern_result identify(void)
{
    enum tern_result result = tern_client_identify(&client);
    while (result == TERN_ERR_NOT_FOUND || result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY) {
        if (result != TERN_ERR_NOT_FOUND) {
            printk("enrolling: %s (%s, %d); trying again\n", tern_result_name(result),
                   tern_zephyr_step_name(connection.failed_step), connection.failed_error);
            k_msleep(5000);
        }
        result = tern_client_enroll(&client, CONFIG_TERN_SAMPLE_JOIN_CODE);
    }
    return result;
}

int main(void)
{
    enum tern_result result = start();
    result = result == TERN_OK ? identify() : result;
    result = result == TERN_OK ? restore() : result;
    while ((result == TERN_OK || result == TERN_AGAIN) &&
           tern_client_phase(&client) != TERN_PHASE_FINISHED) {
        result = tern_client_step(&client);
        if (result == TERN_AGAIN) {
            k_msleep((int32_t)MIN(tern_client_next_ms(&client), 60000));
        }
    }
    printk("ended: %s, last failed connection: %s (%d)\n", tern_result_name(result),
           tern_zephyr_step_name(connection.failed_step), connection.failed_error);
    return 0;
}
