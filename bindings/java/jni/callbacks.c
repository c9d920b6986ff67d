#include "java_client.h"
#include "util/bytes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    jmethodID on_event;
    jmethodID may_work;
    jmethodID blocked_why;
    jmethodID begin_training;
    jmethodID step_training;
    jmethodID evaluate_weights;
    jmethodID exchange;
    jmethodID close_transport;
} methods;

bool java_callbacks_init(JNIEnv *env, jclass client)
{
    const struct {
        jmethodID *method;
        const char *name;
        const char *signature;
    } wanted[] = {
        {&methods.on_event, "onEvent", "(II[I[JFFZ[B)V"},
        {&methods.may_work, "mayWork", "(Z)I"},
        {&methods.blocked_why, "blockedWhy", "()[B"},
        {&methods.begin_training, "beginTraining", "([I[FJ)Z"},
        {&methods.step_training, "stepTraining", "([I[F)I"},
        {&methods.evaluate_weights, "evaluateWeights", "([I[F)I"},
        {&methods.exchange, "exchange", "([B[B[B[BJI)I"},
        {&methods.close_transport, "closeTransport", "()V"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        *wanted[i].method = (*env)->GetMethodID(env, client, wanted[i].name, wanted[i].signature);
        if (*wanted[i].method == NULL) {
            return false;
        }
    }
    return true;
}

// --- Arrays. Each callback frees its references at once, because a round may call thousands of times.

#define REFERENCES 16

static bool enter(JNIEnv *env)
{
    return (*env)->PushLocalFrame(env, REFERENCES) == 0;
}

// TernClient's methods catch what the app throws. What is left is a lack of memory or stack: the call that is in progress
// throws it when it returns.
static bool leave(JNIEnv *env)
{
    (*env)->PopLocalFrame(env, NULL);
    return !(*env)->ExceptionCheck(env);
}

static jbyteArray bytes_of(JNIEnv *env, const void *data, size_t len)
{
    jbyteArray array = (*env)->NewByteArray(env, (jsize)len);
    if (array != NULL) {
        (*env)->SetByteArrayRegion(env, array, 0, (jsize)len, data);
    }
    return array;
}

jbyteArray java_bytes(JNIEnv *env, const char *text)
{
    return bytes_of(env, text, strlen(text));
}

static jintArray ints_of(JNIEnv *env, const jint *values, jsize count)
{
    jintArray array = (*env)->NewIntArray(env, count);
    if (array != NULL) {
        (*env)->SetIntArrayRegion(env, array, 0, count, values);
    }
    return array;
}

static jlongArray longs_of(JNIEnv *env, const jlong *values, jsize count)
{
    jlongArray array = (*env)->NewLongArray(env, count);
    if (array != NULL) {
        (*env)->SetLongArrayRegion(env, array, 0, count, values);
    }
    return array;
}

static jfloatArray floats_of(JNIEnv *env, const jfloat *values, jsize count)
{
    jfloatArray array = (*env)->NewFloatArray(env, count);
    if (array != NULL) {
        (*env)->SetFloatArrayRegion(env, array, 0, count, values);
    }
    return array;
}

// --- Events

void java_on_event(void *ctx, const struct tern_client_event *event)
{
    struct java_client *java = ctx;
    JNIEnv *env = java->env;
    const jint numbers[] = {(jint)event->round,        (jint)event->version,
                            (jint)event->sequence,     (jint)event->local_steps,
                            (jint)event->num_examples, event->status,
                            (jint)event->direction};
    const jlong sizes[] = {(jlong)event->bytes, (jlong)event->round_bytes,
                           (jlong)event->budget_left, (jlong)event->wait_ms,
                           (jlong)event->bytes_total};
    if ((*env)->ExceptionCheck(env) || !enter(env)) {
        return;
    }
    jintArray counts = ints_of(env, numbers, sizeof numbers / sizeof numbers[0]);
    jlongArray lengths =
        counts != NULL ? longs_of(env, sizes, sizeof sizes / sizeof sizes[0]) : NULL;
    jbyteArray why = lengths != NULL && event->why != NULL ? java_bytes(env, event->why) : NULL;
    if (!(*env)->ExceptionCheck(env)) {
        (*env)->CallVoidMethod(env, java->self, methods.on_event, (jint)event->kind,
                               (jint)event->result, counts, lengths, (jdouble)event->loss,
                               (jdouble)event->accuracy, (jboolean)event->duplicate, why);
    }
    (void)leave(env);
}

// --- Conditions

#define MAY_WORK 1
#define METERED 2
#define MAINS 4

static void read_blocked(struct java_client *java)
{
    JNIEnv *env = java->env;
    jbyteArray text = (*env)->CallObjectMethod(env, java->self, methods.blocked_why);
    if ((*env)->ExceptionCheck(env) || text == NULL) {
        java->blocked[0] = '\0';
        return;
    }
    const jsize len = (*env)->GetArrayLength(env, text);
    const jsize most = len < JAVA_WHY_MAX - 1 ? len : JAVA_WHY_MAX - 1;
    (*env)->GetByteArrayRegion(env, text, 0, most, (jbyte *)java->blocked);
    java->blocked[most] = '\0';
}

static bool ask(struct java_client *java, jboolean afresh, struct tern_conditions *now,
                const char **why)
{
    JNIEnv *env = java->env;
    if ((*env)->ExceptionCheck(env) || !enter(env)) {
        return false;
    }
    const jint bits = (*env)->CallIntMethod(env, java->self, methods.may_work, afresh);
    if (!(*env)->ExceptionCheck(env) && (bits & MAY_WORK) == 0) {
        read_blocked(java);
        *why = java->blocked;
    }
    now->metered = (bits & METERED) != 0;
    now->power = (bits & MAINS) != 0 ? tern_Power_POWER_MAINS : tern_Power_POWER_BATTERY;
    return leave(env) && (bits & MAY_WORK) != 0;
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    return ask(ctx, JNI_FALSE, now, why);
}

static bool may_go_on(void *ctx, struct tern_conditions *now, const char **why)
{
    return ask(ctx, JNI_TRUE, now, why);
}

struct tern_condition_port java_condition_port(struct java_client *java)
{
    return (struct tern_condition_port){.ctx = java, .may_work = may_work, .may_go_on = may_go_on};
}

// --- The app's trainer

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct java_client *java = ctx;
    JNIEnv *env = java->env;
    const jint numbers[] = {(jint)task->round, (jint)task->local_steps, (jint)task->batch_size,
                            (jint)task->client};
    const jfloat rates[] = {task->learning_rate, task->momentum, task->weight_decay, task->prox_mu};
    if (base != java->weights || count != java->model.count || !enter(env)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    tern_train_start(task, base, java->trained, count);
    jintArray counts = ints_of(env, numbers, sizeof numbers / sizeof numbers[0]);
    jfloatArray settings =
        counts != NULL ? floats_of(env, rates, sizeof rates / sizeof rates[0]) : NULL;
    const bool begun =
        settings != NULL && (*env)->CallBooleanMethod(env, java->self, methods.begin_training,
                                                      counts, settings, (jlong)task->seed);
    return leave(env) && begun ? TERN_OK : TERN_ERR_TRAINER;
}

// Calls a method that returns a result, a number of examples (and steps) and figures.
static enum tern_result call_trainer(struct java_client *java, jmethodID method, jint counts[2],
                                     jfloat figures[2])
{
    JNIEnv *env = java->env;
    jint result = -1;
    if (!enter(env)) {
        return TERN_ERR_TRAINER;
    }
    jintArray integers = ints_of(env, counts, 2);
    jfloatArray floats = integers != NULL ? floats_of(env, figures, 2) : NULL;
    if (floats != NULL) {
        result = (*env)->CallIntMethod(env, java->self, method, integers, floats);
    }
    if (!(*env)->ExceptionCheck(env)) {
        (*env)->GetIntArrayRegion(env, integers, 0, 2, counts);
        (*env)->GetFloatArrayRegion(env, floats, 0, 2, figures);
    }
    return leave(env) && result >= 0 ? (enum tern_result)result : TERN_ERR_TRAINER;
}

static bool is_finite(const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct java_client *java = ctx;
    jint counts[2] = {0};
    jfloat figures[2] = {0};
    TERN_TRY(call_trainer(java, methods.step_training, counts, figures));
    if (!isfinite(figures[0]) || !is_finite(java->trained, tern_model_trained(&java->model))) {
        return TERN_ERR_NON_FINITE;
    }
    if (counts[0] < 1 || counts[1] < 1) {
        return TERN_ERR_TRAINER;
    }
    *result = (struct tern_train_result){.num_examples = (uint32_t)counts[0],
                                         .local_steps = (uint32_t)counts[1],
                                         .loss = figures[0]};
    *weights = java->trained;
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct java_client *java = ctx;
    jint counts[2] = {0};
    jfloat figures[2] = {0};
    if (weights != java->weights || count != java->model.count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    const enum tern_result called = call_trainer(java, methods.evaluate_weights, counts, figures);
    if (called != TERN_OK) {
        return called == TERN_AGAIN ? TERN_ERR_NOT_FOUND : called;
    }
    if (!isfinite(figures[0])) {
        return TERN_ERR_NON_FINITE;
    }
    const bool no_accuracy = isnan(figures[1]);
    if (counts[0] < 1 || (!no_accuracy && !(figures[1] >= 0 && figures[1] <= 1))) {
        return TERN_ERR_TRAINER;
    }
    *result = (struct tern_evaluate_result){.num_examples = (uint32_t)counts[0],
                                            .loss = figures[0],
                                            .accuracy = no_accuracy ? 0 : figures[1],
                                            .no_accuracy = no_accuracy};
    return TERN_OK;
}

struct tern_trainer java_trainer_port(struct java_client *java)
{
    return (struct tern_trainer){.ctx = java, .begin = begin, .step = step, .evaluate = evaluate};
}

// --- The app's transport

// Adds an estimate of the bytes that have moved since the last call: only the app's HTTP stack could count them.
static void estimate(struct java_client *java, enum tern_direction direction, uint64_t moved)
{
    const uint64_t more = moved - java->moved[direction];
    const uint64_t wire = tern_price(TERN_PRICE_KEPT, 1, 2 * moved) / 2;
    const uint64_t new_wire = wire - java->counted[direction];
    const struct tern_bytes added = {.http = more, .tls = new_wire, .wire = new_wire};
    tern_bytes_add(&java->meter.bytes[java->request->purpose][direction], &added);
    java->moved[direction] = moved;
    java->counted[direction] = wire;
}

// Counts the bytes of an exchange that do not depend on its bodies.
static void begin_estimate(struct java_client *java)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        java->moved[d] = java->counted[d] = 0;
        estimate(java, (enum tern_direction)d, 0);
        if (!java->connected) {
            const struct tern_bytes opening = {.tls = TERN_PRICE_FULL / 2,
                                               .wire = TERN_PRICE_FULL / 2};
            tern_bytes_add(&java->meter.bytes[TERN_PURPOSE_HANDSHAKE][d], &opening);
        }
    }
}

bool java_watch(struct java_client *java, enum tern_direction direction, uint64_t moved)
{
    const struct tern_request *request = java->request;
    const uint64_t total = direction == TERN_UP ? request->body_len : 0; // 0: unknown
    estimate(java, direction, moved);
    if (request->watch != NULL && !request->watch(request->watch_ctx, direction, moved, total)) {
        java->stopped = true;
    }
    return !java->stopped;
}

enum tern_result java_receive(struct java_client *java, int status, int retry_after_s,
                              const uint8_t *data, size_t len)
{
    struct tern_response *response = java->response;
    response->status = status;
    if (retry_after_s >= 0) {
        response->retry_after_s = (uint32_t)retry_after_s;
    }
    if (len == 0) {
        return TERN_OK;
    }
    if (!java_watch(java, TERN_DOWN, java->moved[TERN_DOWN] + len)) {
        return TERN_ERR_CANCELLED;
    }
    if (response->take != NULL && status >= 200 && status <= 299) {
        return response->take(response->take_ctx, data, len);
    }
    if (len > response->body_size - response->body_len) {
        return TERN_ERR_TOO_LARGE;
    }
    memcpy(response->body + response->body_len, data, len);
    response->body_len += len;
    return TERN_OK;
}

#define UNVERIFIED (-2) // TernClient.exchange(): the server's certificate was refused

static jint call_exchange(struct java_client *java, const struct tern_request *request)
{
    JNIEnv *env = java->env;
    jbyteArray method = java_bytes(env, request->method);
    jbyteArray path = method != NULL ? java_bytes(env, request->path) : NULL;
    jbyteArray token =
        path != NULL && request->token != NULL ? java_bytes(env, request->token) : NULL;
    jbyteArray body =
        !(*env)->ExceptionCheck(env) ? bytes_of(env, request->body, request->body_len) : NULL;
    if (body == NULL) {
        return -1;
    }
    return (*env)->CallIntMethod(env, java->self, methods.exchange, method, path, token, body,
                                 (jlong)request->range_from, (jint)request->timeout_ms);
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct java_client *java = ctx;
    JNIEnv *env = java->env;
    response->status = 0;
    response->retry_after_s = 0;
    response->body_len = 0;
    if ((*env)->ExceptionCheck(env) || !enter(env)) {
        return TERN_ERR_NETWORK;
    }
    java->request = request;
    java->response = response;
    java->stopped = false;
    begin_estimate(java);
    const jint result = call_exchange(java, request);
    java->connected = result >= 0;
    java->response = NULL;
    // Without new bytes java_watch() finds a cancel() alone.
    const enum tern_direction last = java->moved[TERN_DOWN] > 0 ? TERN_DOWN : TERN_UP;
    if (java->stopped || (result < 0 && !java_watch(java, last, java->moved[last]))) {
        (void)leave(env);
        return TERN_ERR_CANCELLED;
    }
    if (!leave(env) || result < 0) {
        return result == UNVERIFIED ? TERN_ERR_TLS : TERN_ERR_NETWORK;
    }
    return (enum tern_result)result;
}

static void close_transport(void *ctx)
{
    struct java_client *java = ctx;
    java->connected = false;
    if (java->env != NULL && !(*java->env)->ExceptionCheck(java->env)) {
        (*java->env)->CallVoidMethod(java->env, java->self, methods.close_transport);
    }
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct java_client *java = ctx;
    tern_meter_add(meter, &java->meter);
    java->meter = (struct tern_meter){0};
}

struct tern_transport java_transport_port(struct java_client *java)
{
    return (struct tern_transport){
        .ctx = java, .exchange = exchange, .close = close_transport, .collect = collect};
}
