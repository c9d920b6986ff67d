// An application as far as the parts that no board is needed for: that all of the client is there, and
// that the application and the component mean the same by its structs.
#include "client.h"
#include "store/flash_store.h"
#include "stream/transport.h"
#include "trainer/trainer.h"
#include "version.h"

#include <stdio.h>

int main(void)
{
    static struct tern_client client;
    static struct tern_stream_transport transport;
    static struct tern_flash_store store;
    static struct tern_model model;
    static struct tern_builtin_trainer trainer;
    const struct tern_client_config config = {
        .ports = {.transport = tern_stream_transport_port(&transport),
                  .store = tern_flash_store_port(&store)}}; // without a clock
    const enum tern_result started = tern_client_init(&client, &config);
    const enum tern_result built = tern_model_from_spec(&model, "softmax:64-6");
    const struct tern_builtin_config training = {.model = &model, .max_batch = 4}; // without data
    const enum tern_result trains = tern_builtin_trainer_init(&trainer, &training, NULL, 0);
    printf("%s %s %s %s\n", TERN_VERSION, tern_result_name(started), tern_result_name(built),
           tern_result_name(trains));
    return model.count == 390 && sizeof model.tensors / sizeof *model.tensors == 8 ? 0 : 1;
}
