// For products that have nobody to tell.
#include "log/narrator.h"
#include "board.h"

void narrator_started(const struct tern_client *client)
{
    (void)client;
}

void narrator_event(const struct tern_client_event *event)
{
    (void)event;
}

void narrator_enrolls_again(void)
{
}

_Noreturn void narrator_failed(const char *what, enum tern_result result)
{
    (void)result;
    board_stop(true, what);
}

void narrator_summary(const struct tern_client *client, uint32_t rounds, uint32_t flash_wear)
{
    (void)client;
    (void)rounds;
    (void)flash_wear;
}
