#include "app/device.h"
#include "log/narrator.h"
#include "net/transport.h"
#include "store/flash_store.h"
#include "trainer/trainer.h"
#include "version.h"

#include <string.h>

// What one image can train: softmax:64-6 has 390 values. A larger model is a larger number here.
#define VALUES_MAX 400
#define EXAMPLES_MAX 512
#define BATCH_MAX 4 // examples worked on at once

#define UPDATE_MAX (TERN_WIRE_OVERHEAD + VALUES_MAX * 4 + 128)
#define BLOB_SIZE (UPDATE_MAX + VALUES_MAX * 4 + 128)
#define TRAINER_SIZE (VALUES_MAX * 8 + EXAMPLES_MAX * 4 + BATCH_MAX * 400 + 1024)
#define PLATFORM_MAX 64

// Of the flash store, by enum tern_record: identity, replica, upload, settled, meter.
// Those that change every round have room for several copies, so that blocks are erased less often;
// with blocks of 4 KiB it is 64 KiB in all.
static const uint32_t record_sizes[TERN_RECORD_COUNT] = {
    160, 4 * (VALUES_MAX * 4 + 80), 3 * (VALUES_MAX * 4 + UPDATE_MAX + 80), 64, 2048,
};

static struct {
    struct tern_client client;
    struct tern_flash_store store;
    struct tern_model model;
    struct tern_builtin_trainer trainer;
    const struct board_settings *settings;
    char platform[PLATFORM_MAX];
    float weights[VALUES_MAX];
    _Alignas(float) uint8_t error_buffer[TERN_ERROR_BYTES(TERN_ERROR_STORAGE, VALUES_MAX)];
    _Alignas(float) uint8_t blob[BLOB_SIZE];
    _Alignas(TERN_ARENA_ALIGNMENT) uint8_t arena[TRAINER_SIZE];
} device;

// --- Ports

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return board_monotonic_ms();
}

static uint64_t unix_seconds(void *ctx)
{
    (void)ctx;
    return board_unix_seconds();
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    return board_entropy(dst, len) ? TERN_OK : TERN_ERR_IO;
}

// A device that may not always work says so here.
static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    (void)ctx;
    *now = (struct tern_conditions){0};
    *why = NULL;
    return true;
}

// ctx: the rounds that were answered, counted here.
static void on_event(void *ctx, const struct tern_client_event *event)
{
    uint32_t *rounds = ctx;
    *rounds += event->kind == TERN_EVENT_UPLOADED;
    narrator_event(event);
}

static struct tern_ports ports(void)
{
    return (struct tern_ports){
        .transport = tern_firmware_transport_port(),
        .store = tern_flash_store_port(&device.store),
        .clock = {.monotonic_ms = monotonic_ms, .unix_seconds = unix_seconds},
        .entropy = {.fill = fill},
        .conditions = {.may_work = may_work},
    };
}

// --- Start

// Also leaves the model where the client then uses it.
static bool builds_model(const char *spec, const uint8_t *hash)
{
    memset(&device.model, 0, sizeof device.model);
    return tern_model_from_spec(&device.model, spec) == TERN_OK &&
           device.model.count <= VALUES_MAX &&
           memcmp(device.model.hash, hash, TERN_SHA256_SIZE) == 0;
}

enum tern_result device_start(const struct board_settings *settings, uint32_t *rounds)
{
    static const char program[] = " tern-firmware/" TERN_VERSION;
    device.settings = settings;
    const size_t len = strlen(settings->board);
    if (len + sizeof program > sizeof device.platform) {
        return TERN_ERR_ARGUMENT;
    }
    memcpy(device.platform, settings->board, len);
    memcpy(device.platform + len, program, sizeof program);
    TERN_TRY(tern_flash_store_open(&device.store, board_flash(), record_sizes));
    const struct tern_client_config config = {
        .ports = ports(),
        .name = settings->name,
        .platform = device.platform,
        .on_event = on_event,
        .event_ctx = rounds,
        .builds_model = builds_model,
    };
    return tern_client_init(&device.client, &config);
}

static enum tern_result provision(const struct board_settings *settings)
{
    struct tern_client_identity identity = {
        .client_id = settings->client_id,
        .model_seed = settings->model_seed,
    };
    if (settings->token == NULL || settings->model == NULL ||
        strlen(settings->token) >= sizeof identity.token ||
        strlen(settings->model) >= sizeof identity.model_spec) {
        return TERN_ERR_ARGUMENT;
    }
    strcpy(identity.token, settings->token);
    strcpy(identity.model_spec, settings->model);
    memset(&device.model, 0, sizeof device.model);
    TERN_TRY(tern_model_from_spec(&device.model, identity.model_spec));
    memcpy(identity.model_hash, device.model.hash, TERN_SHA256_SIZE);
    return tern_client_provision(&device.client, &identity);
}

// Whether the flash already holds what the device was provisioned with. A factory that writes
// another identity makes it another client.
static bool is_provisioned(const struct board_settings *settings)
{
    const struct tern_client_identity *identity = tern_client_identity(&device.client);
    return identity != NULL && identity->client_id == settings->client_id &&
           settings->token != NULL && strcmp(identity->token, settings->token) == 0;
}

enum tern_result device_identify(void)
{
    const struct board_settings *settings = device.settings;
    enum tern_result result = tern_client_identify(&device.client);
    if (settings->client_id != 0 &&
        (result == TERN_OK || result == TERN_ERR_NOT_FOUND || result == TERN_ERR_CORRUPT)) {
        result = is_provisioned(settings) ? TERN_OK : provision(settings);
    }
    // What cannot be read is enrolled again, as what never was.
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NOT_FOUND : result;
}

enum tern_result device_restore(void)
{
    const struct tern_client_identity *identity = tern_client_identity(&device.client);
    if (!builds_model(identity->model_spec, identity->model_hash)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    const struct tern_builtin_config config = {
        .model = &device.model,
        .train = tern_view_all(&device.settings->data),
        .max_batch = BATCH_MAX,
    };
    TERN_TRY(
        tern_builtin_trainer_init(&device.trainer, &config, device.arena, sizeof device.arena));
    const struct tern_client_workspace workspace = {
        .model = &device.model,
        .trainer = tern_builtin_trainer_port(&device.trainer),
        .weights = device.weights,
        .error_storage = TERN_ERROR_STORAGE,
        .error_buffer = device.error_buffer,
        .blob = device.blob,
        .blob_size = sizeof device.blob,
    };
    return tern_client_restore(&device.client, &workspace);
}

struct tern_client *device_client(void)
{
    return &device.client;
}

uint32_t device_flash_wear(void)
{
    return tern_flash_store_wear(&device.store);
}
