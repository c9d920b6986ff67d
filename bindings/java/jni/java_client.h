// One client of a Java program (io.tern.TernClient) in libternjni. natives.c implements the methods of TernClient, which own it;
// callbacks.c implements the client's ports by calling methods of TernClient. A client is used by one thread at a time, except
// for its cancellation.
#ifndef TERN_JAVA_CLIENT_H
#define TERN_JAVA_CLIENT_H

#include "client.h"
#include "data/dataset.h"
#include "posix/file_store.h"
#include "posix/partial_file.h"
#include "posix/system.h"
#include "trainer/trainer.h"

#include <jni.h>

// Whether the library has the built-in transport, on libcurl.
#ifndef TERN_JAVA_CURL
#define TERN_JAVA_CURL 1
#endif

#define JAVA_WHY_MAX 512
#define JAVA_TEXTS 8

struct java_client {
    struct tern_client client;
    struct tern_model model;
    struct tern_curl *curl; // NULL: the app carries the requests
    struct tern_file_store *store;
    struct tern_partial_file *partial;
    struct tern_builtin_trainer builtin;
    struct tern_dataset train;
    struct tern_dataset test;
    bool app_trains;
    uint32_t max_batch;
    char *texts[JAVA_TEXTS]; // the strings of the configuration
    uint8_t helper_key[TERN_P256_PUBLIC_SIZE];

    // Memory: of the client, except `weights` and `trained`, which are direct buffers of TernClient.
    float *weights;
    float *trained;
    void *arena;
    void *error_buffer;
    void *velocity;
    void *anchor;
    void *local;
    uint8_t *blob;

    // The call in progress: callbacks come from its thread.
    JNIEnv *env;
    jobject self;

    char why[JAVA_WHY_MAX];             // reason of a failure here; "": none
    char blocked[JAVA_WHY_MAX];         // reason why conditions do not allow work
    const struct tern_request *request; // the exchange in progress of the app's transport
    struct tern_response *response;
    struct tern_meter meter;                // estimates of what the app's transport moves
    uint64_t moved[TERN_DIRECTION_COUNT];   // bytes of the bodies of this exchange
    uint64_t counted[TERN_DIRECTION_COUNT]; // their bytes on the wire that `meter` already has
    bool stopped;                           // the client has ended this exchange
    bool connected;                         // the app's transport may have an open connection
};

// Finds the methods of TernClient that the ports call. Returns false if one is missing.
bool java_callbacks_init(JNIEnv *env, jclass client);

struct tern_transport java_transport_port(struct java_client *java);
struct tern_condition_port java_condition_port(struct java_client *java);
struct tern_trainer java_trainer_port(struct java_client *java);

// Passes an event to TernClient.onEvent() (tern_client_config.on_event).
void java_on_event(void *ctx, const struct tern_client_event *event);

// Notes the bytes of a body that have moved, and returns whether the exchange of the app's transport may go on.
bool java_watch(struct java_client *java, enum tern_direction direction, uint64_t moved);

// Takes a block of a response's body, and its status and Retry-After in seconds (negative: unchanged).
enum tern_result java_receive(struct java_client *java, int status, int retry_after_s,
                              const uint8_t *data, size_t len);

// Returns a new array with the text, without its NUL; NULL with a pending exception if there is no memory.
jbyteArray java_bytes(JNIEnv *env, const char *text);

#endif
