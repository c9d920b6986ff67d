// The firmware: starts the board, enrols or restores the client, and then polls the network and steps the client, forever or
// for settings->rounds rounds.
#include "board.h"
#include "client.h"
#include "log/device_log.h"
#include "net/link_state.h"
#include "net/tls_state.h"
#include "net/transport.h"
#include "store/flash_store.h"
#include "trainer/trainer.h"
#include "version.h"
#include <string.h>

// --- The device

// Sizes of the largest model and data set. softmax:64-6 has 390 values; raise the number for a larger model.
#define DEVICE_VALUES_MAX 400
#define DEVICE_EXAMPLES_MAX 512
#define DEVICE_BATCH_MAX 4 // examples of a batch that are in memory at once

#define DEVICE_UPDATE_MAX (TERN_WIRE_OVERHEAD + DEVICE_VALUES_MAX * 4 + 128)
#define DEVICE_BLOB_SIZE (DEVICE_UPDATE_MAX + DEVICE_VALUES_MAX * 4 + 128)
#define DEVICE_TRAINER_SIZE                                                                        \
    (DEVICE_VALUES_MAX * 8 + DEVICE_EXAMPLES_MAX * 4 + DEVICE_BATCH_MAX * 400 + 1024)
#define DEVICE_PLATFORM_MAX 64

// The client of a device with all its memory, all zero at first. lwIP and mbedTLS have static state, so an image has only one.
// Large fields come last, so that the code for the offsets of the others is small.
struct device {
    struct tern_client client;
    uint32_t rounds; // number of accepted updates since the start
    const struct tern_board_settings *settings;
    struct tern_tcp tcp;
    struct tern_firmware_transport network; // over tcp, link and tls
    struct tern_flash_store store;
    struct tern_model model;
    struct tern_builtin_trainer trainer;
    char platform[DEVICE_PLATFORM_MAX];
    float weights[DEVICE_VALUES_MAX];
    _Alignas(float) uint8_t error_buffer[TERN_ERROR_BYTES(TERN_ERROR_STORAGE, DEVICE_VALUES_MAX)];
    _Alignas(float) uint8_t blob[DEVICE_BLOB_SIZE];
    _Alignas(TERN_ARENA_ALIGNMENT) uint8_t arena[DEVICE_TRAINER_SIZE];
    struct tern_link link;
    struct tern_firmware_tls tls;
};

// Sizes of the records in flash, by enum tern_record: identity, replica, upload, settled, meter, and the ticket of secure rounds.
// Records that change every round have space for several copies, so that blocks are erased less often. With blocks of 4 KiB they
// take 64 KiB; for the ticket the upload has one copy less.
static const uint32_t record_sizes[TERN_RECORD_COUNT] = {
    160,
    4 * (DEVICE_VALUES_MAX * 4 + 80),
    (TERN_SECURE ? 2 : 3) * (DEVICE_VALUES_MAX * 4 + DEVICE_UPDATE_MAX + 80),
    64,
    2048,
#if TERN_SECURE
    [TERN_RECORD_SECURE] = 320,
#endif
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
    struct device *device = ctx;
    device->rounds += event->kind == TERN_EVENT_UPLOADED;
    tern_firmware_log_event(event);
}

// A device that may work only at certain times or in certain states sets .conditions, too.
static struct tern_ports ports(struct device *device)
{
    return (struct tern_ports){
        .transport = tern_firmware_transport_port(&device->network),
        .store = tern_flash_store_port(&device->store),
        .clock = {.monotonic_ms = monotonic_ms, .unix_seconds = unix_seconds},
        .entropy = {.fill = fill},
    };
}

// --- Start

// Builds device->model from a spec; returns whether it fits the memory and the hash.
static bool builds_model(void *ctx, const char *spec, const uint8_t *hash)
{
    struct device *device = ctx;
    memset(&device->model, 0, sizeof device->model);
    return tern_model_from_spec(&device->model, spec) == TERN_OK &&
           device->model.count <= DEVICE_VALUES_MAX &&
           memcmp(device->model.hash, hash, TERN_SHA256_SIZE) == 0;
}

// Starts the network, opens the store and initialises the client. settings: borrowed forever.
// TERN_ERR_NO_SPACE   the board's flash is smaller than the records
// TERN_ERR_ARGUMENT   settings has no CA and no key, or the CA is no certificate; its name or board is too long
// TERN_ERR_IO         the board has no link, or no entropy; its flash failed
// TERN_ERR_NO_MEMORY  the arena of mbedTLS is too small
static enum tern_result device_start(struct device *device,
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
#if TERN_SECURE
        .helper_key = settings->helper_key,
        .helper_code = settings->helper_code,
        .secure_min_clients = settings->secure_min_clients,
#endif
    };
    return tern_client_init(&device->client, &config);
}

static enum tern_result provision(struct device *device, const struct tern_board_settings *settings)
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

// Returns whether the identity in flash is that of the settings. If the factory has written another identity, the device
// becomes another client.
static bool is_provisioned(const struct device *device, const struct tern_board_settings *settings)
{
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    return identity != NULL && identity->client_id == settings->client_id &&
           settings->token != NULL && strcmp(identity->token, settings->token) == 0;
}

// Loads the client's identity from flash or, if there is none, sets it from the settings and saves it.
// TERN_ERR_NOT_FOUND  neither flash nor settings have an identity: the device must enrol
// TERN_ERR_MODEL_MISMATCH, TERN_ERR_IO, TERN_ERR_NO_SPACE
static enum tern_result device_identify(struct device *device)
{
    const struct tern_board_settings *settings = device->settings;
    enum tern_result result = tern_client_identify(&device->client);
    if (settings->client_id != 0 &&
        (result == TERN_OK || result == TERN_ERR_NOT_FOUND || result == TERN_ERR_CORRUPT)) {
        result = is_provisioned(device, settings) ? TERN_OK : provision(device, settings);
    }
    // A device whose identity is damaged enrols again.
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NOT_FOUND : result;
}

// Initialises the trainer and restores the client's state from flash.
// TERN_ERR_MODEL_MISMATCH  the identity's model is too large for this image, or does not fit the device's data
// TERN_ERR_NO_SPACE        the data set has more examples than DEVICE_EXAMPLES_MAX
// TERN_ERR_IO
static enum tern_result device_restore(struct device *device)
{
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    if (!builds_model(device, identity->model_spec, identity->model_hash)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    const struct tern_builtin_config config = {
        .model = &device->model,
        .train = tern_view_all(&device->settings->data),
        .max_batch = DEVICE_BATCH_MAX,
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

// --- The main loop

#define ENROLL_AGAIN_MS 5000

// Stops the board if `result` is an error.
static void stop_on_error(enum tern_result result, const char *what)
{
    if (result != TERN_OK) {
        tern_firmware_log_failure(what, result);
    }
}

static void wait(struct device *device, uint32_t ms)
{
    const uint64_t until = tern_board_monotonic_ms() + ms;
    while (tern_board_monotonic_ms() < until) {
        tern_firmware_transport_poll(&device->network);
        tern_board_idle(1);
    }
}

// Returns whether another attempt to enrol with the same join code may succeed.
static bool may_succeed_later(enum tern_result result)
{
    return result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY || result == TERN_ERR_HTTP;
}

static void enroll(struct device *device)
{
    const char *join_code = device->settings->join_code;
    if (join_code == NULL) {
        tern_board_stop(true, "this device is not provisioned and has no join code");
    }
    for (;;) {
        tern_firmware_transport_poll(&device->network);
        const enum tern_result result = tern_client_enroll(&device->client, join_code);
        if (result == TERN_OK) {
            return;
        }
        if (result == TERN_AGAIN) {
            tern_board_idle(1);
        } else if (may_succeed_later(result)) {
            tern_firmware_log_enroll_retry();
            wait(device, ENROLL_AGAIN_MS);
        } else {
            stop_on_error(result, "enrolling");
        }
    }
}

static void enroll_and_restore(struct device *device)
{
    const enum tern_result result = device_identify(device);
    if (result == TERN_ERR_NOT_FOUND) {
        enroll(device);
    } else {
        stop_on_error(result, "the identity");
    }
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    tern_firmware_transport_identify(&device->network, identity->client_id, identity->token);
    stop_on_error(device_restore(device), "the records");
    tern_firmware_log_started(&device->client);
}

static bool is_done(const struct device *device)
{
    const uint32_t wanted = device->settings->rounds;
    return tern_client_phase(&device->client) == TERN_PHASE_FINISHED ||
           (wanted != 0 && device->rounds >= wanted);
}

int main(void)
{
    static struct device memory; // too large for the stack
    struct device *device = &memory;
    tern_board_start();
    stop_on_error(device_start(device, tern_board_settings()), "the network or the store");
    enroll_and_restore(device);
    while (!is_done(device)) {
        tern_firmware_transport_poll(&device->network);
        const enum tern_result result = tern_client_step(&device->client);
        if (result == TERN_AGAIN) {
            tern_board_idle(1);
        } else {
            stop_on_error(result, "the client");
        }
    }
    stop_on_error(tern_client_end(&device->client), "the meter");
    tern_firmware_log_summary(&device->client, &device->network, device->rounds,
                              tern_flash_store_wear(&device->store));
    tern_board_stop(false, "done");
}
