// For products that have nobody to tell.
#include "log/narrator.h"
#include "board.h"

void tern_firmware_says_started(const struct tern_client *client)
{
    (void)client;
}

void tern_firmware_says_event(const struct tern_client_event *event)
{
    (void)event;
}

void tern_firmware_says_enrolls_again(void)
{
}

_Noreturn void tern_firmware_says_failed(const char *what, enum tern_result result)
{
    (void)result;
    tern_board_stop(true, what);
}

void tern_firmware_says_summary(const struct tern_client *client,
                                const struct tern_firmware_transport *network, uint32_t rounds,
                                uint32_t flash_wear)
{
    (void)client;
    (void)network;
    (void)rounds;
    (void)flash_wear;
}
