// The flash store keeps the contract of the client's store port.
#include "contracts/client_store_contract.h"
#include "firmware/ram_flash.h"
#include "store/flash_store.h"

#include <stdlib.h>

static struct ram_flash flash;
static struct tern_flash_store store;

static void reopen(void)
{
    static const uint32_t sizes[TERN_RECORD_COUNT] = {200, 2000, 200000, 40, 500, 500};
    if (tern_flash_store_open(&store, &flash.port, sizes) != TERN_OK) {
        abort();
    }
}

static void open_fresh(void)
{
    ram_flash_init(&flash, 8, 0xff);
    reopen();
}

static void close_it(void)
{
}

static struct tern_store port(void)
{
    return tern_flash_store_port(&store);
}

int main(void)
{
    const struct store_under_test implementation = {open_fresh, reopen, close_it, port};
    return run_store_contract(&implementation);
}
