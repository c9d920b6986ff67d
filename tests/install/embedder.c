// A program that embeds the client, as far as one gets without an aggregator.
#include <stdio.h>
#include <tern/client.h>
#include <tern/posix/system.h>
#include <tern/version.h>

int main(void)
{
    static struct tern_client client;
    const struct tern_client_config config = {
        .ports = {.clock = tern_posix_clock(), .entropy = tern_posix_entropy()}};
    const enum tern_result result = tern_client_init(&client, &config); // without a transport
    printf("%s %s\n", TERN_VERSION, tern_result_name(result));
    return 0;
}
