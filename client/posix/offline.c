#include "posix/offline.h"

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    (void)ctx;
    (void)request;
    response->status = 0;
    return TERN_ERR_NETWORK;
}

static void close_nothing(void *ctx)
{
    (void)ctx;
}

static void collect(void *ctx, struct tern_meter *meter)
{
    (void)ctx;
    (void)meter;
}

struct tern_transport tern_offline_port(void)
{
    return (struct tern_transport){
        .exchange = exchange, .close = close_nothing, .collect = collect};
}
