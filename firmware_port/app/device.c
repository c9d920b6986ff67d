#include "app/device.h"
#include "log/narrator.h"
#include "version.h"

#include <string.h>

// Of the flash store, by enum tern_record: identity, replica, upload, settled, meter.
// Those that change every round have room for several copies, so that blocks are erased less often;
// with blocks of 4 KiB it is 64 KiB in all.
static const uint32_t record_sizes[TERN_RECORD_COUNT] = {
    160,
    4 * (TERN_DEVICE_VALUES_MAX * 4 + 80),
    3 * (TERN_DEVICE_VALUES_MAX * 4 + TERN_DEVICE_UPDATE_MAX + 80),
    64,
    2048,
};

// --- Ports

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return tern_board_monotonic_ms();
}

static uint64_t unix_seconds(void *ctx)
{
    (void)ctx;
    return tern_board_unix_seconds();
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    return tern_board_entropy(dst, len) ? TERN_OK : TERN_ERR_IO;
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct tern_firmware_device *device = ctx;
    device->rounds += event->kind == TERN_EVENT_UPLOADED;
    tern_firmware_says_event(event);
}

// A device that may not always work fills in .conditions, too.
static struct tern_ports ports(struct tern_firmware_device *device)
{
    return (struct tern_ports){
        .transport = tern_firmware_transport_port(&device->network),
        .store = tern_flash_store_port(&device->store),
        .clock = {.monotonic_ms = monotonic_ms, .unix_seconds = unix_seconds},
        .entropy = {.fill = fill},
    };
}

// --- Start

// Also leaves the model where the client then uses it.
static bool builds_model(void *ctx, const char *spec, const uint8_t *hash)
{
    struct tern_firmware_device *device = ctx;
    memset(&device->model, 0, sizeof device->model);
    return tern_model_from_spec(&device->model, spec) == TERN_OK &&
           device->model.count <= TERN_DEVICE_VALUES_MAX &&
           memcmp(device->model.hash, hash, TERN_SHA256_SIZE) == 0;
}

enum tern_result tern_firmware_device_start(struct tern_firmware_device *device,
                                            const struct tern_board_settings *settings)
{
    static const char program[] = " tern-firmware/" TERN_VERSION;
    device->settings = settings;
    device->network.link = &device->link;
    device->network.tcp = &device->tcp;
    device->network.tls = &device->tls;
    TERN_TRY(tern_firmware_transport_start(&device->network, settings));
    const size_t len = strlen(settings->board);
    if (len + sizeof program > sizeof device->platform) {
        return TERN_ERR_ARGUMENT;
    }
    memcpy(device->platform, settings->board, len);
    memcpy(device->platform + len, program, sizeof program);
    TERN_TRY(tern_flash_store_open(&device->store, tern_board_flash(), record_sizes));
    const struct tern_client_config config = {
        .ports = ports(device),
        .name = settings->name,
        .platform = device->platform,
        .on_event = on_event,
        .ctx = device,
        .builds_model = builds_model,
    };
    return tern_client_init(&device->client, &config);
}

static enum tern_result provision(struct tern_firmware_device *device,
                                  const struct tern_board_settings *settings)
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
    memset(&device->model, 0, sizeof device->model);
    TERN_TRY(tern_model_from_spec(&device->model, identity.model_spec));
    memcpy(identity.model_hash, device->model.hash, TERN_SHA256_SIZE);
    return tern_client_provision(&device->client, &identity);
}

// Whether the flash already holds what the device was provisioned with. A factory that writes
// another identity makes it another client.
static bool is_provisioned(const struct tern_firmware_device *device,
                           const struct tern_board_settings *settings)
{
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    return identity != NULL && identity->client_id == settings->client_id &&
           settings->token != NULL && strcmp(identity->token, settings->token) == 0;
}

enum tern_result tern_firmware_device_identify(struct tern_firmware_device *device)
{
    const struct tern_board_settings *settings = device->settings;
    enum tern_result result = tern_client_identify(&device->client);
    if (settings->client_id != 0 &&
        (result == TERN_OK || result == TERN_ERR_NOT_FOUND || result == TERN_ERR_CORRUPT)) {
        result = is_provisioned(device, settings) ? TERN_OK : provision(device, settings);
    }
    // What cannot be read is enrolled again, as what never was.
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NOT_FOUND : result;
}

enum tern_result tern_firmware_device_restore(struct tern_firmware_device *device)
{
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    if (!builds_model(device, identity->model_spec, identity->model_hash)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    const struct tern_builtin_config config = {
        .model = &device->model,
        .train = tern_view_all(&device->settings->data),
        .max_batch = TERN_DEVICE_BATCH_MAX,
    };
    TERN_TRY(
        tern_builtin_trainer_init(&device->trainer, &config, device->arena, sizeof device->arena));
    const struct tern_client_workspace workspace = {
        .model = &device->model,
        .trainer = tern_builtin_trainer_port(&device->trainer),
        .weights = device->weights,
        .error_storage = TERN_ERROR_STORAGE,
        .error_buffer = device->error_buffer,
        .blob = device->blob,
        .blob_size = sizeof device->blob,
    };
    return tern_client_restore(&device->client, &workspace);
}
