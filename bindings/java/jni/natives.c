// The native methods of io.tern.TernClient. Each sets the client's call in progress, and returns a result of result.h.
#include "java_client.h"
#include "tensor/manifest.h"
#include "util/bytes.h"
#include "version.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TERN_JAVA_CURL
#include "posix/transport.h"
#endif

static enum tern_result explain(struct java_client *java, enum tern_result result,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum tern_result explain(struct java_client *java, enum tern_result result,
                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(java->why, sizeof java->why, format, arguments);
    va_end(arguments);
    return result;
}

// Returns the client of a handle, and begins a call.
static struct java_client *enter(JNIEnv *env, jobject self, jlong handle)
{
    struct java_client *java = (struct java_client *)(uintptr_t)handle;
    java->env = env;
    java->self = self;
    java->why[0] = '\0';
    return java;
}

// --- Opening

// Order of the arrays of TernClient.open().
enum { SERVER, STATE, NAME, CA, CERTIFICATE, KEY, HELPER_KEY, HELPER_CODE };
enum {
    ROUND,
    MONTH,
    MAX_BATCH,
    MAX_STEPS,
    EVALUATOR,
    APP_CARRIES,
    APP_TRAINS,
    CONDITIONS,
    NUMBERS
};

_Static_assert(HELPER_CODE + 1 == JAVA_TEXTS, "texts of TernClient.open()");

static void throw_failure(JNIEnv *env, enum tern_result result, const char *why)
{
    jclass failure = (*env)->FindClass(env, "io/tern/TernException");
    jmethodID make =
        failure != NULL ? (*env)->GetMethodID(env, failure, "<init>", "([B[B)V") : NULL;
    jbyteArray name = make != NULL ? java_bytes(env, tern_result_name(result)) : NULL;
    jbyteArray sentence = name != NULL ? java_bytes(env, why) : NULL;
    if (sentence != NULL) {
        jobject exception = (*env)->NewObject(env, failure, make, name, sentence);
        if (exception != NULL) {
            (*env)->Throw(env, exception);
        }
    }
}

// Returns a copy of a Java array as a string; NULL: the array is null, or there is no memory.
static char *text_of(JNIEnv *env, jbyteArray array)
{
    const jsize len = array != NULL ? (*env)->GetArrayLength(env, array) : 0;
    char *text = array != NULL ? malloc((size_t)len + 1) : NULL;
    if (text != NULL) {
        (*env)->GetByteArrayRegion(env, array, 0, len, (jbyte *)text);
        text[len] = '\0';
    }
    return text;
}

static bool copy_texts(struct java_client *java, jobjectArray texts)
{
    JNIEnv *env = java->env;
    for (jsize i = 0; i < JAVA_TEXTS; i++) {
        jbyteArray array = (*env)->GetObjectArrayElement(env, texts, i);
        java->texts[i] = text_of(env, array);
        if (array != NULL && java->texts[i] == NULL) {
            return false;
        }
        (*env)->DeleteLocalRef(env, array);
    }
    return true;
}

static void free_client(struct java_client *java)
{
#if TERN_JAVA_CURL
    tern_curl_close(java->curl);
#endif
    tern_partial_file_close(java->partial);
    tern_file_store_close(java->store);
    free(java->arena);
    free(java->error_buffer);
    free(java->velocity);
    free(java->anchor);
    free(java->local);
    free(java->blob);
    for (int i = 0; i < JAVA_TEXTS; i++) {
        free(java->texts[i]);
    }
    free(java);
}

static enum tern_result open_transport(struct java_client *java, bool app_carries,
                                       struct tern_transport *port)
{
    if (app_carries) {
        *port = java_transport_port(java);
        return TERN_OK;
    }
#if TERN_JAVA_CURL
    char session_file[JAVA_WHY_MAX];
    if (snprintf(session_file, sizeof session_file, "%s/tls-session", java->texts[STATE]) >=
        (int)sizeof session_file) {
        return explain(java, TERN_ERR_CONFIG,
                       "the path of the state folder is too long: use a shorter one");
    }
    const struct tern_curl_config config = {.section = "builder",
                                            .server = java->texts[SERVER],
                                            .ca_file = java->texts[CA],
                                            .certificate = java->texts[CERTIFICATE],
                                            .key = java->texts[KEY],
                                            .session_file = session_file};
    TERN_TRY(tern_curl_open(&java->curl, &config, java->why));
    *port = tern_curl_port(java->curl);
    return TERN_OK;
#else
    return explain(java, TERN_ERR_CONFIG,
                   "this libternjni has no HTTP stack of its own: give the builder a transport()");
#endif
}

static enum tern_result read_helper(struct java_client *java, struct tern_client_config *config)
{
    const char *key = java->texts[HELPER_KEY];
    if (key == NULL) {
        return TERN_OK;
    }
    if (!TERN_SECURE) {
        return explain(java, TERN_ERR_CONFIG,
                       "this libternjni was built without secure rounds (TERN_SECURE)");
    }
    if (tern_base64url_decode(key, strlen(key), java->helper_key, sizeof java->helper_key) !=
            TERN_OK ||
        java->helper_key[0] != 4) { // an uncompressed point
        return explain(
            java, TERN_ERR_CONFIG,
            "the helper's key is malformed: copy the 87 characters that tern-helper status prints");
    }
    config->helper_key = java->helper_key;
    config->helper_code = java->texts[HELPER_CODE];
    return TERN_OK;
}

static bool builds_spec(void *ctx, const char *spec, const uint8_t *hash)
{
    struct java_client *java = ctx;
    return tern_model_build(&java->model, spec, NULL, 0, hash) == TERN_OK;
}

static enum tern_result open_client(struct java_client *java, const jlong numbers[NUMBERS])
{
    struct tern_client_config config = {
        .ports = {.clock = tern_posix_clock(), .entropy = tern_posix_entropy()},
        .name = java->texts[NAME],
        .platform = "java libternjni/" TERN_VERSION,
        .evaluator = numbers[EVALUATOR] != 0,
        .leaves = true,
        .max_local_steps = (uint32_t)numbers[MAX_STEPS],
        .budget_per_round = (uint64_t)numbers[ROUND],
        .budget_per_month = (uint64_t)numbers[MONTH],
        .on_event = java_on_event,
        .ctx = java,
        .builds_model = builds_spec,
        .look_again_ms = 1000,
        .takes_manifests = numbers[APP_TRAINS] != 0,
    };
    java->app_trains = numbers[APP_TRAINS] != 0;
    java->max_batch = (uint32_t)numbers[MAX_BATCH];
    TERN_TRY(tern_file_store_open(&java->store, java->texts[STATE], java->why));
    TERN_TRY(tern_partial_file_open(&java->partial, java->texts[STATE], java->why));
    TERN_TRY(open_transport(java, numbers[APP_CARRIES] != 0, &config.ports.transport));
    TERN_TRY(read_helper(java, &config));
    config.ports.store = tern_file_store_port(java->store);
    config.ports.partial = tern_partial_file_port(java->partial);
    if (numbers[CONDITIONS] != 0) {
        config.ports.conditions = java_condition_port(java);
    }
    const enum tern_result result = tern_client_init(&java->client, &config);
    return result == TERN_ERR_ARGUMENT
               ? explain(java, result, "the client's name is longer than 63 bytes")
               : result;
}

static jlong JNICALL native_open(JNIEnv *env, jobject self, jobjectArray texts, jlongArray numbers)
{
    jlong values[NUMBERS];
    (*env)->GetLongArrayRegion(env, numbers, 0, NUMBERS, values);
    struct java_client *java = calloc(1, sizeof *java);
    if (java == NULL) {
        throw_failure(env, TERN_ERR_NO_MEMORY, tern_result_sentence(TERN_ERR_NO_MEMORY));
        return 0;
    }
    enter(env, self, (jlong)(uintptr_t)java);
    const enum tern_result result =
        copy_texts(java, texts) ? open_client(java, values) : TERN_ERR_NO_MEMORY;
    if (result != TERN_OK) {
        throw_failure(env, result, java->why[0] != '\0' ? java->why : tern_result_sentence(result));
        free_client(java);
        return 0;
    }
    return (jlong)(uintptr_t)java;
}

static void JNICALL native_free(JNIEnv *env, jobject self, jlong handle)
{
    free_client(enter(env, self, handle));
}

// --- Enrolment

static jint JNICALL native_identify(JNIEnv *env, jobject self, jlong handle)
{
    struct java_client *java = enter(env, self, handle);
    const enum tern_result result = tern_client_identify(&java->client);
    return result == TERN_ERR_CORRUPT
               ? (jint)explain(java, result,
                               "the identity in %s is damaged: delete the folder and enrol again",
                               java->texts[STATE])
               : (jint)result;
}

static jint JNICALL native_enroll(JNIEnv *env, jobject self, jlong handle, jbyteArray code)
{
    struct java_client *java = enter(env, self, handle);
    char *text = text_of(env, code);
    const enum tern_result result =
        text != NULL ? tern_client_enroll(&java->client, text) : TERN_ERR_NO_MEMORY;
    free(text);
    return result == TERN_ERR_ARGUMENT
               ? (jint)explain(java, result, "the join code is longer than any: check the code")
               : (jint)result;
}

// --- The model

static enum tern_result build_from_manifest(struct java_client *java, uint8_t *manifest)
{
    const struct tern_client_identity *identity = tern_client_identity(&java->client);
    size_t len = 0;
    TERN_TRY(tern_client_manifest(&java->client, manifest, TERN_MANIFEST_MAX, &len));
    return tern_model_build(&java->model, identity->model_spec, manifest, len,
                            identity->model_hash);
}

static jint JNICALL native_build(JNIEnv *env, jobject self, jlong handle)
{
    struct java_client *java = enter(env, self, handle);
    const struct tern_client_identity *identity = tern_client_identity(&java->client);
    if (tern_model_build(&java->model, identity->model_spec, NULL, 0, identity->model_hash) ==
        TERN_OK) {
        return TERN_OK;
    }
    if (!java->app_trains) {
        return (jint)explain(
            java, TERN_ERR_MODEL_MISMATCH,
            "the model \"%s\" is not built in: give the builder a trainer() in place of data()",
            identity->model_spec);
    }
    uint8_t *manifest = malloc(TERN_MANIFEST_MAX);
    const enum tern_result result =
        manifest != NULL ? build_from_manifest(java, manifest) : TERN_ERR_NO_MEMORY;
    free(manifest);
    return (jint)result;
}

static bool add_tensor(JNIEnv *env, jobject list, jmethodID add, const struct tern_tensor *tensor)
{
    jint dims[TERN_TENSOR_MAX_DIMS];
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        dims[i] = (jint)tensor->dims[i];
    }
    jbyteArray name = java_bytes(env, tensor->name);
    jintArray sizes = name != NULL ? (*env)->NewIntArray(env, (jsize)tensor->dim_count) : NULL;
    if (sizes == NULL) {
        return false;
    }
    (*env)->SetIntArrayRegion(env, sizes, 0, (jsize)tensor->dim_count, dims);
    (*env)->CallVoidMethod(env, list, add, name, sizes, (jint)tensor->offset, (jint)tensor->count);
    (*env)->DeleteLocalRef(env, name);
    (*env)->DeleteLocalRef(env, sizes);
    return !(*env)->ExceptionCheck(env);
}

// Returns an io.tern.Model; NULL with a pending exception if there is no memory.
static jobject JNICALL native_model_of(JNIEnv *env, jobject self, jlong handle)
{
    const struct java_client *java = enter(env, self, handle);
    const struct tern_model *model = &java->model;
    jclass class = (*env)->FindClass(env, "io/tern/Model");
    jmethodID make = class != NULL ? (*env)->GetMethodID(env, class, "<init>", "([BII)V") : NULL;
    jmethodID add = make != NULL ? (*env)->GetMethodID(env, class, "add", "([B[III)V") : NULL;
    jbyteArray spec =
        add != NULL ? java_bytes(env, tern_client_identity(&java->client)->model_spec) : NULL;
    jobject made = spec != NULL ? (*env)->NewObject(env, class, make, spec, (jint)model->count,
                                                    (jint)tern_model_trained(model))
                                : NULL;
    bool whole = made != NULL;
    for (uint32_t i = 0; whole && i < model->tensor_count; i++) {
        whole = add_tensor(env, made, add, &model->tensors[i]);
    }
    return whole ? made : NULL;
}

// --- Memory and data

static void *buffer_of(JNIEnv *env, jobject buffer)
{
    return buffer != NULL ? (*env)->GetDirectBufferAddress(env, buffer) : NULL;
}

static void *field_of(JNIEnv *env, jobject object, jclass class, const char *name,
                      const char *signature)
{
    jfieldID field = (*env)->GetFieldID(env, class, name, signature);
    return buffer_of(env, (*env)->GetObjectField(env, object, field));
}

// Reads a Dataset; NULL is an empty one. The features stay in the app's memory.
static void read_dataset(JNIEnv *env, jobject object, struct tern_dataset *data)
{
    jint shape[5];
    *data = (struct tern_dataset){0};
    if (object == NULL) {
        return;
    }
    jclass class = (*env)->GetObjectClass(env, object);
    jintArray sizes =
        (*env)->GetObjectField(env, object, (*env)->GetFieldID(env, class, "shape", "[I"));
    (*env)->GetIntArrayRegion(env, sizes, 0, 5, shape);
    *data = (struct tern_dataset){
        .count = (uint32_t)shape[0],
        .feature_count = (uint32_t)(shape[2] * shape[3] * shape[4]),
        .class_count = (uint32_t)shape[1],
        .height = (uint32_t)shape[2],
        .width = (uint32_t)shape[3],
        .channels = (uint32_t)shape[4],
        .values = field_of(env, object, class, "rows", "Ljava/nio/FloatBuffer;"),
        .labels = field_of(env, object, class, "labels", "Ljava/nio/ShortBuffer;"),
        .targets = field_of(env, object, class, "targets", "Ljava/nio/FloatBuffer;"),
        .target_deviation = 1,
    };
}

static struct tern_view view_of(const struct tern_dataset *data)
{
    return data->count > 0 ? tern_view_all(data) : (struct tern_view){0};
}

// Prepares a trainer of the model for the client's training data and for `test`, in a new *arena.
static enum tern_result make_builtin(struct java_client *java, const struct tern_dataset *test,
                                     struct tern_builtin_trainer *trainer, void **arena)
{
    const struct tern_builtin_config config = {.model = &java->model,
                                               .train = view_of(&java->train),
                                               .test = view_of(test),
                                               .max_batch = java->max_batch};
    const struct tern_dataset *data = test->count > 0 ? test : &java->train;
    const size_t size = tern_builtin_trainer_bound(&config);
    if (size == 0) {
        return explain(java, TERN_ERR_MODEL_MISMATCH,
                       "the model \"%s\" does not take rows of %" PRIu32 "x%" PRIu32 "x%" PRIu32
                       " values with %" PRIu32 " classes%s: give a Dataset that it is for",
                       tern_client_identity(&java->client)->model_spec, data->height, data->width,
                       data->channels, data->class_count,
                       data->targets != NULL ? " and a number to predict" : "");
    }
    *arena = malloc(size);
    if (*arena == NULL) {
        return explain(java, TERN_ERR_NO_MEMORY, "the model's trainer needs %zu bytes of memory",
                       size);
    }
    return tern_builtin_trainer_init(trainer, &config, *arena, size);
}

static enum tern_result open_builtin(struct java_client *java, struct tern_trainer *port)
{
    free(java->arena);
    java->arena = NULL;
    TERN_TRY(make_builtin(java, &java->test, &java->builtin, &java->arena));
    *port = tern_builtin_trainer_port(&java->builtin);
    return TERN_OK;
}

// Allocates what the client has no memory of yet.
static bool allocate(void **memory, size_t bytes)
{
    if (*memory == NULL) {
        *memory = malloc(bytes > 0 ? bytes : 1);
    }
    return *memory != NULL;
}

static enum tern_result allocate_workspace(struct java_client *java,
                                           struct tern_client_workspace *workspace)
{
    const size_t values = (size_t)java->model.count * sizeof(float);
    const size_t buffer = tern_error_storage_bytes(workspace->error_storage, java->model.coded);
    uint32_t first = 0;
    const uint32_t local = tern_model_local(&java->model, &first);
    workspace->blob_size = tern_client_blob_bound(&java->model);
    // The app's trainer gets no tasks with variance reduction: their second base is not in the buffer that it sees.
    const bool anchored = !java->app_trains;
    void *blob = java->blob;
    const bool whole = allocate(&java->error_buffer, buffer) && allocate(&java->velocity, values) &&
                       (!anchored || allocate(&java->anchor, 2 * values)) &&
                       allocate(&java->local, local * sizeof(float)) &&
                       allocate(&blob, workspace->blob_size);
    java->blob = blob;
    if (!whole) {
        return explain(java, TERN_ERR_NO_MEMORY, "the model needs %zu bytes of memory",
                       (anchored ? 4 : 2) * values + buffer + workspace->blob_size);
    }
    workspace->weights = java->weights;
    workspace->error_buffer = java->error_buffer;
    workspace->velocity = java->velocity;
    workspace->anchor = java->anchor;
    workspace->local = java->local;
    workspace->blob = java->blob;
    return TERN_OK;
}

static enum tern_result restore(struct java_client *java)
{
    struct tern_client_workspace workspace = {.model = &java->model};
    TERN_TRY(tern_error_storage_choose("auto", java->model.coded, &workspace.error_storage));
    if (java->app_trains) {
        workspace.trainer = java_trainer_port(java);
    } else {
        TERN_TRY(open_builtin(java, &workspace.trainer));
    }
    TERN_TRY(allocate_workspace(java, &workspace));
    return tern_client_restore(&java->client, &workspace);
}

static jint JNICALL native_restore(JNIEnv *env, jobject self, jlong handle, jobject weights,
                                   jobject trained, jobject train, jobject test)
{
    struct java_client *java = enter(env, self, handle);
    java->weights = buffer_of(env, weights);
    java->trained = buffer_of(env, trained);
    read_dataset(env, train, &java->train);
    read_dataset(env, test, &java->test);
    return (jint)restore(java);
}

// --- Predictions

// Results of a prediction, one for each row.
struct predicted {
    struct tern_prediction *classes; // scratch; NULL: the model predicts numbers
    jint *labels;
    jfloat *values;
    float threshold; // of an autoencoder's errors
};

static enum tern_result run_model(struct java_client *java, struct tern_builtin_trainer *trainer,
                                  uint32_t rows, struct predicted *predicted)
{
    if (predicted->classes == NULL) {
        return tern_builtin_trainer_numbers(trainer, java->weights, java->model.count,
                                            predicted->values, &predicted->threshold);
    }
    TERN_TRY(tern_builtin_trainer_predict(trainer, java->weights, java->model.count,
                                          predicted->classes));
    for (uint32_t i = 0; i < rows; i++) {
        predicted->labels[i] = predicted->classes[i].label;
        predicted->values[i] = predicted->classes[i].score;
    }
    return TERN_OK;
}

// A trainer of its own computes the predictions, so that a task in progress goes on unchanged.
static enum tern_result predict(struct java_client *java, struct tern_dataset *rows,
                                struct predicted *predicted)
{
    struct tern_builtin_trainer trainer;
    void *arena = NULL;
    float *targets = NULL;
    const enum tern_loss loss = tern_model_loss(&java->model);
    bool whole = true;
    if (loss == TERN_LOSS_CROSS_ENTROPY) {
        predicted->classes = calloc(rows->count, sizeof *predicted->classes);
        whole = predicted->classes != NULL;
    } else if (loss != TERN_LOSS_RECONSTRUCTION && rows->targets == NULL) {
        // The trainer wants numbers to compare with.
        targets = calloc(rows->count, sizeof *targets);
        whole = targets != NULL;
        rows->targets = targets;
    }
    enum tern_result result =
        whole ? make_builtin(java, rows, &trainer, &arena) : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = run_model(java, &trainer, rows->count, predicted);
    }
    free(arena);
    free(targets);
    free(predicted->classes);
    return result;
}

// labels, values: elements for each row. threshold: one element.
static jint JNICALL native_predict(JNIEnv *env, jobject self, jlong handle, jobject rows,
                                   jintArray labels, jfloatArray values, jfloatArray threshold)
{
    struct java_client *java = enter(env, self, handle);
    struct tern_dataset data;
    struct predicted predicted = {.classes = NULL};
    enum tern_result result = TERN_ERR_NO_MEMORY;
    read_dataset(env, rows, &data);
    predicted.labels = (*env)->GetIntArrayElements(env, labels, NULL);
    predicted.values =
        predicted.labels != NULL ? (*env)->GetFloatArrayElements(env, values, NULL) : NULL;
    if (predicted.values != NULL) {
        result = predict(java, &data, &predicted);
        (*env)->ReleaseFloatArrayElements(env, values, predicted.values, 0);
        (*env)->SetFloatArrayRegion(env, threshold, 0, 1, &predicted.threshold);
    }
    if (predicted.labels != NULL) {
        (*env)->ReleaseIntArrayElements(env, labels, predicted.labels, 0);
    }
    return (jint)result;
}

// --- Steps

static jint JNICALL native_step(JNIEnv *env, jobject self, jlong handle)
{
    return (jint)tern_client_step(&enter(env, self, handle)->client);
}

static jint JNICALL native_end(JNIEnv *env, jobject self, jlong handle)
{
    return (jint)tern_client_end(&enter(env, self, handle)->client);
}

static jlong JNICALL native_next_ms(JNIEnv *env, jclass class, jlong handle)
{
    (void)env;
    (void)class;
    return (jlong)tern_client_next_ms(&((struct java_client *)(uintptr_t)handle)->client);
}

// Returns the milliseconds after which a call that failed with this result may succeed; negative: never.
static jlong JNICALL native_again_ms(JNIEnv *env, jclass class, jlong handle, jint result)
{
    const struct java_client *java = (struct java_client *)(uintptr_t)handle;
    (void)env;
    (void)class;
    const uint32_t ms = tern_client_again_ms(&java->client, (enum tern_result)result);
    return ms != UINT32_MAX ? (jlong)ms : -1;
}

static jboolean JNICALL native_is_stopped(JNIEnv *env, jclass class, jlong handle)
{
    (void)env;
    (void)class;
    return tern_client_phase(&((struct java_client *)(uintptr_t)handle)->client) ==
           TERN_PHASE_STOPPED;
}

static jlong JNICALL native_wire_bytes(JNIEnv *env, jclass class, jlong handle)
{
    (void)env;
    (void)class;
    const struct tern_meter *meter =
        tern_client_meter_all(&((struct java_client *)(uintptr_t)handle)->client);
    return (jlong)(tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire);
}

// Called where the app's transport wants to send more of the request's body, of which it has taken `moved` bytes.
static jboolean JNICALL native_may_send(JNIEnv *env, jobject self, jlong handle, jint moved)
{
    (void)env;
    (void)self;
    return java_watch((struct java_client *)(uintptr_t)handle, TERN_UP, (uint64_t)moved);
}

static jint JNICALL native_receive(JNIEnv *env, jobject self, jlong handle, jint status,
                                   jint retry_after_s, jbyteArray block, jint len)
{
    struct java_client *java = (struct java_client *)(uintptr_t)handle;
    (void)self;
    jbyte *data = (*env)->GetByteArrayElements(env, block, NULL);
    if (data == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result =
        java_receive(java, status, retry_after_s, (const uint8_t *)data, (size_t)len);
    (*env)->ReleaseByteArrayElements(env, block, data, JNI_ABORT);
    return (jint)result;
}

// Called by any thread, while another may work.
static void JNICALL native_cancel(JNIEnv *env, jobject self, jlong handle)
{
    (void)env;
    (void)self;
    tern_client_cancel(&((struct java_client *)(uintptr_t)handle)->client);
}

// --- Texts

static jbyteArray JNICALL native_why(JNIEnv *env, jobject self, jlong handle, jint result)
{
    const struct java_client *java = (const struct java_client *)(uintptr_t)handle;
    (void)self;
    if (java->why[0] != '\0') {
        return java_bytes(env, java->why);
    }
#if TERN_JAVA_CURL
    char text[TERN_FAILURE_MAX];
    if (java->curl != NULL) {
        return java_bytes(
            env, tern_failure_text(&java->client, java->curl, (enum tern_result)result, text));
    }
#endif
    return java_bytes(env, tern_result_sentence((enum tern_result)result));
}

static jbyteArray JNICALL native_result_name(JNIEnv *env, jclass class, jint result)
{
    (void)class;
    return java_bytes(env, tern_result_name((enum tern_result)result));
}

static jbyteArray JNICALL native_event_name(JNIEnv *env, jclass class, jint kind)
{
    (void)class;
    return java_bytes(env, tern_client_event_name((enum tern_client_event_kind)kind));
}

// --- Loading

static const struct native {
    const char *name;
    const char *signature;
    void *function;
} natives[] = {
    {"open", "([[B[J)J", (void *)native_open},
    {"free", "(J)V", (void *)native_free},
    {"identify", "(J)I", (void *)native_identify},
    {"enroll", "(J[B)I", (void *)native_enroll},
    {"build", "(J)I", (void *)native_build},
    {"modelOf", "(J)Lio/tern/Model;", (void *)native_model_of},
    {"restore",
     "(JLjava/nio/FloatBuffer;Ljava/nio/FloatBuffer;Lio/tern/Dataset;Lio/tern/Dataset;)I",
     (void *)native_restore},
    {"predict", "(JLio/tern/Dataset;[I[F[F)I", (void *)native_predict},
    {"step", "(J)I", (void *)native_step},
    {"end", "(J)I", (void *)native_end},
    {"againMs", "(JI)J", (void *)native_again_ms},
    {"isStopped", "(J)Z", (void *)native_is_stopped},
    {"nextMs", "(J)J", (void *)native_next_ms},
    {"wireBytes", "(J)J", (void *)native_wire_bytes},
    {"maySend", "(JI)Z", (void *)native_may_send},
    {"receive", "(JII[BI)I", (void *)native_receive},
    {"cancel", "(J)V", (void *)native_cancel},
    {"why", "(JI)[B", (void *)native_why},
    {"resultName", "(I)[B", (void *)native_result_name},
    {"eventName", "(I)[B", (void *)native_event_name},
};

#define NATIVES (sizeof natives / sizeof natives[0])

static bool register_natives(JNIEnv *env, jclass client)
{
    JNINativeMethod methods[NATIVES];
    for (size_t i = 0; i < NATIVES; i++) {
        const struct native *native = &natives[i];
        methods[i] =
            (JNINativeMethod){.name = (char *)(uintptr_t)native->name, // jni.h lacks the const
                              .signature = (char *)(uintptr_t)native->signature,
                              .fnPtr = native->function};
    }
    return (*env)->RegisterNatives(env, client, methods, NATIVES) == 0;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved);

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    JNIEnv *env = NULL;
    (void)reserved;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) {
        return JNI_ERR;
    }
#if TERN_JAVA_CURL
    if (tern_curl_global() != TERN_OK) {
        return JNI_ERR;
    }
#endif
    jclass client = (*env)->FindClass(env, "io/tern/TernClient");
    const bool ready =
        client != NULL && java_callbacks_init(env, client) && register_natives(env, client);
    return ready ? JNI_VERSION_1_6 : JNI_ERR;
}
