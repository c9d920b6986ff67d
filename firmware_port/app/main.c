// The firmware: starts the board, becomes a client, and then does nothing but poll the network and
// step the client, forever or for as many rounds as the settings say.
#include "app/device.h"
#include "log/narrator.h"

#define ENROLL_AGAIN_MS 5000

// Stops when `result` is an error.
static void must(enum tern_result result, const char *what)
{
    if (result != TERN_OK) {
        tern_firmware_says_failed(what, result);
    }
}

static void wait(struct tern_firmware_device *device, uint32_t ms)
{
    const uint64_t until = tern_board_monotonic_ms() + ms;
    while (tern_board_monotonic_ms() < until) {
        tern_firmware_transport_poll(&device->network);
        tern_board_idle(1);
    }
}

// Whether it is worth trying again with the same code.
static bool passes(enum tern_result result)
{
    return result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY || result == TERN_ERR_HTTP;
}

static void enroll(struct tern_firmware_device *device)
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
        } else if (passes(result)) {
            tern_firmware_says_enrolls_again();
            wait(device, ENROLL_AGAIN_MS);
        } else {
            must(result, "enrolling");
        }
    }
}

static void become_client(struct tern_firmware_device *device)
{
    const enum tern_result result = tern_firmware_device_identify(device);
    if (result == TERN_ERR_NOT_FOUND) {
        enroll(device);
    } else {
        must(result, "the identity");
    }
    const struct tern_client_identity *identity = tern_client_identity(&device->client);
    tern_firmware_transport_identify(&device->network, identity->client_id, identity->token);
    must(tern_firmware_device_restore(device), "the records");
    tern_firmware_says_started(&device->client);
}

static bool is_done(const struct tern_firmware_device *device)
{
    const uint32_t wanted = device->settings->rounds;
    return tern_client_phase(&device->client) == TERN_PHASE_FINISHED ||
           (wanted != 0 && device->rounds >= wanted);
}

int main(void)
{
    static struct tern_firmware_device memory; // too large for the stack
    struct tern_firmware_device *device = &memory;
    tern_board_start();
    must(tern_firmware_device_start(device, tern_board_settings()), "the network or the store");
    become_client(device);
    while (!is_done(device)) {
        tern_firmware_transport_poll(&device->network);
        const enum tern_result result = tern_client_step(&device->client);
        if (result == TERN_AGAIN) {
            tern_board_idle(1);
        } else {
            must(result, "the client");
        }
    }
    must(tern_client_end(&device->client), "the meter");
    tern_firmware_says_summary(&device->client, &device->network, device->rounds,
                               tern_flash_store_wear(&device->store));
    tern_board_stop(false, "done");
}
