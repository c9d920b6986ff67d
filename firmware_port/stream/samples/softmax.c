#include "stream/samples/softmax.h"
#include "store/flash_store.h"
#include "trainer/trainer.h"

#include <string.h>

#define SAMPLE_VALUES 390 // of softmax:64-6
#define SAMPLE_FEATURES 64
#define SAMPLE_CLASSES 6
#define SAMPLE_EXAMPLES 120
#define SAMPLE_BATCH 4
#define SAMPLE_UPDATE_MAX (TERN_WIRE_OVERHEAD + SAMPLE_VALUES * 4 + 128)
#define SAMPLE_AGAIN_MS 5000
#define SAMPLE_SLEEP_MAX_MS 60000

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
static struct tern_flash_store store;

// Replace this by the board's own data. Each label has one bright stripe of an 8 x 8 picture.
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
    const struct tern_sample *sample = ctx;
    sample->print("%s round=%u\n", tern_client_event_name(event->kind), (unsigned)event->round);
    if (event->kind == TERN_EVENT_FAILURE) {
        sample->print("  %s", tern_result_name(event->result));
        sample->explain();
    }
}

static enum tern_result start(const struct tern_sample *sample)
{
    static const uint32_t record_sizes[TERN_RECORD_COUNT] = {
        160, 4 * (SAMPLE_VALUES * 4 + 80), 3 * (SAMPLE_VALUES * 4 + SAMPLE_UPDATE_MAX + 80), 64,
        2048};
    TERN_TRY(tern_flash_store_open(&store, sample->flash, record_sizes));
    struct tern_client_config config = {.ports = sample->ports,
                                        .name = sample->name,
                                        .platform = sample->platform,
                                        .on_event = on_event,
                                        .ctx = (void *)(uintptr_t)sample};
    config.ports.store = tern_flash_store_port(&store);
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
static enum tern_result identify(const struct tern_sample *sample)
{
    enum tern_result result = tern_client_identify(&client);
    while (result == TERN_ERR_NOT_FOUND || result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY) {
        if (result != TERN_ERR_NOT_FOUND) {
            sample->print("enrolling: %s", tern_result_name(result));
            sample->explain();
            sample->wait_ms(SAMPLE_AGAIN_MS);
        }
        result = tern_client_enroll(&client, sample->join_code);
    }
    return result;
}

void tern_sample_run(const struct tern_sample *sample)
{
    enum tern_result result = start(sample);
    result = result == TERN_OK ? identify(sample) : result;
    result = result == TERN_OK ? restore() : result;
    while ((result == TERN_OK || result == TERN_AGAIN) &&
           tern_client_phase(&client) != TERN_PHASE_FINISHED) {
        result = tern_client_step(&client);
        if (result == TERN_AGAIN) {
            const uint32_t ms = tern_client_next_ms(&client);
            sample->wait_ms(ms < SAMPLE_SLEEP_MAX_MS ? ms : SAMPLE_SLEEP_MAX_MS);
        }
    }
    sample->print("ended: %s", tern_result_name(result));
    sample->explain();
}
