// The log of images with TERN_LOG=OFF: nothing but the reason of a stop.
#include "log/device_log.h"
#include "board.h"

void tern_firmware_log_started(const struct tern_client *client)
{
    (void)client;
}

void tern_firmware_log_event(const struct tern_client_event *event)
{
    (void)event;
}

void tern_firmware_log_enroll_retry(void)
{
}

_Noreturn void tern_firmware_log_failure(const char *what, enum tern_result result)
{
    (void)result;
    tern_board_stop(true, what);
}

void tern_firmware_log_summary(const struct tern_client *client,
                               const struct tern_firmware_transport *network, uint32_t rounds,
                               uint32_t flash_wear)
{
    (void)client;
    (void)network;
    (void)rounds;
    (void)flash_wear;
}
