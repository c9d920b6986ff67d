// The firmware: starts the board, becomes a client, and then does nothing but poll the network and
// step the client, forever or for as many rounds as the settings say.
#include "app/device.h"
#include "log/narrator.h"
#include "net/transport.h"

#define ENROLL_AGAIN_MS 5000

static uint32_t rounds; // answered since the start

// Stops when `result` is an error.
static void must(enum tern_result result, const char *what)
{
    if (result != TERN_OK) {
        narrator_failed(what, result);
    }
}

static void wait(uint32_t ms)
{
    const uint64_t until = board_monotonic_ms() + ms;
    while (board_monotonic_ms() < until) {
        tern_firmware_transport_poll();
        board_idle(1);
    }
}

// Whether it is worth trying again with the same code.
static bool passes(enum tern_result result)
{
    return result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY || result == TERN_ERR_HTTP;
}

static void enroll(const struct board_settings *settings)
{
    if (settings->join_code == NULL) {
        board_stop(true, "this device is not provisioned and has no join code");
    }
    for (;;) {
        tern_firmware_transport_poll();
        const enum tern_result result = tern_client_enroll(device_client(), settings->join_code);
        if (result == TERN_OK) {
            return;
        }
        if (result == TERN_AGAIN) {
            board_idle(1);
        } else if (passes(result)) {
            narrator_enrolls_again();
            wait(ENROLL_AGAIN_MS);
        } else {
            must(result, "enrolling");
        }
    }
}

static void become_client(const struct board_settings *settings)
{
    const enum tern_result result = device_identify();
    if (result == TERN_ERR_NOT_FOUND) {
        enroll(settings);
    } else {
        must(result, "the identity");
    }
    const struct tern_client_identity *identity = tern_client_identity(device_client());
    tern_firmware_transport_identify(identity->client_id, identity->token);
    must(device_restore(), "the records");
    narrator_started(device_client());
}

static bool is_done(const struct board_settings *settings)
{
    return tern_client_phase(device_client()) == TERN_PHASE_FINISHED ||
           (settings->rounds != 0 && rounds >= settings->rounds);
}

int main(void)
{
    board_start();
    const struct board_settings *settings = board_settings();
    must(tern_firmware_transport_start(settings), "the network");
    must(device_start(settings, &rounds), "the store");
    become_client(settings);
    while (!is_done(settings)) {
        tern_firmware_transport_poll();
        const enum tern_result result = tern_client_step(device_client());
        if (result == TERN_AGAIN) {
            board_idle(1);
        } else {
            must(result, "the client");
        }
    }
    must(tern_client_end(device_client()), "the meter");
    narrator_summary(device_client(), rounds, device_flash_wear());
    board_stop(false, "done");
}
