// tern-fleet's store in memory against the contract.
#include "contracts/client_store_contract.h"
#include "fleet/memory_store.h"

static struct tern_memory_store memory;

static void open_store(void)
{
    memory = (struct tern_memory_store){0};
}

static void reopen_store(void)
{
    // What it holds ends with the process; the port is taken anew.
}

static void close_store(void)
{
    tern_memory_store_clear(&memory);
}

static struct tern_store port(void)
{
    return tern_memory_store_port(&memory);
}

int main(void)
{
    static const struct store_under_test in_memory = {open_store, reopen_store, close_store, port};
    return run_store_contract(&in_memory);
}
