// A program that takes part in a federation on data of its own: docs/EMBEDDING.md goes through it.
//   cc -o join join.c $(pkg-config --cflags --libs tern-client)
//   ./join https://localhost:8443 ca.crt CODE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <tern/client.h>
#include <tern/posix/file_store.h>
#include <tern/posix/system.h>
#include <tern/posix/transport.h>
#include <tern/trainer/trainer.h>

static const float values[] = {0.9f, 0.1f, 0.2f, 0.8f, 0.7f, 0.3f, 0.1f, 0.9f}; // 4 examples of 2
static const uint16_t labels[] = {0, 1, 0, 1};
static struct tern_client client;
static struct tern_model model;
static struct tern_builtin_trainer trainer;

static void need(enum tern_result result, const char *what)
{
    if (result != TERN_OK) {
        fprintf(stderr, "%s: %s\n", what, tern_result_sentence(result));
        exit(1);
    }
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    (void)ctx;
    printf("%s round=%u loss=%.4f\n", tern_client_event_name(event->kind), (unsigned)event->round,
           (double)event->loss);
}

int main(int argc, char **argv)
{
    char why[512] = "usage: join SERVER CA-FILE CODE";
    need(argc == 4 ? tern_curl_global() : TERN_ERR_ARGUMENT, why);
    const struct tern_curl_config link = {.server = argv[1], .ca_file = argv[2]};
    struct tern_curl *curl = NULL;
    need(tern_curl_open(&curl, &link, why), why);
    struct tern_file_store *store = NULL;
    need(tern_file_store_open(&store, "join-state", why), why);
    struct tern_client_config config = {.name = "join", .on_event = on_event};
    config.ports.transport = tern_curl_port(curl);
    config.ports.store = tern_file_store_port(store);
    config.ports.clock = tern_posix_clock();
    config.ports.entropy = tern_posix_entropy();
    need(tern_client_init(&client, &config), "init");
    if (tern_client_identify(&client) != TERN_OK) { // the first start
        need(tern_client_enroll(&client, argv[3]), "enroll");
    }

    need(tern_model_from_spec(&model, tern_client_identity(&client)->model_spec), "model");
    const struct tern_dataset data = {.count = 4,
                                      .feature_count = 2,
                                      .class_count = 2,
                                      .height = 1,
                                      .width = 2,
                                      .channels = 1,
                                      .values = values,
                                      .labels = labels};
    const struct tern_builtin_config training = {
        .model = &model, .train = tern_view_all(&data), .max_batch = 4};
    const size_t arena = tern_builtin_trainer_bound(&training);
    need(tern_builtin_trainer_init(&trainer, &training, malloc(arena), arena), "trainer");
    struct tern_client_workspace memory = {.model = &model};
    memory.trainer = tern_builtin_trainer_port(&trainer);
    memory.weights = malloc(model.count * sizeof(float));
    memory.error_buffer = malloc(model.count * sizeof(float));
    memory.blob_size = tern_client_blob_bound(&model);
    memory.blob = malloc(memory.blob_size);
    need(tern_client_restore(&client, &memory), "restore");

    while (tern_client_phase(&client) != TERN_PHASE_FINISHED) {
        const enum tern_result result = tern_client_step(&client);
        need(result == TERN_AGAIN ? TERN_OK : result, "step");
        const uint32_t wait_ms = tern_client_next_ms(&client);
        poll(NULL, 0, wait_ms < 1000 ? (int)wait_ms : 1000);
    }
    need(tern_client_end(&client), "end");
    tern_file_store_close(store);
    tern_curl_close(curl);
    return 0;
}
