#include "external/trainer_result.h"
#include "util/utf8.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULT_MAX 65536
#define METRIC_NAME_MAX 65

// --- Numbers that are possible

static enum tern_result check_examples(uint32_t num_examples, char *why)
{
    if (num_examples == 0 || num_examples > TERN_TRAINER_EXAMPLES_MAX) {
        return tern_external_fail(why, TERN_ERR_CORRUPT,
                                  "its num_examples is %" PRIu32
                                  "; it must be from 1 to %d: a client without data takes no part",
                                  num_examples, TERN_TRAINER_EXAMPLES_MAX);
    }
    return TERN_OK;
}

static enum tern_result check_loss(float loss, char *why)
{
    return isfinite(loss) ? TERN_OK
                          : tern_external_fail(why, TERN_ERR_CORRUPT,
                                               "its loss is NaN or infinite: training diverged");
}

enum tern_result tern_train_result_check(const struct tern_train_result *result,
                                         uint32_t local_steps, char why[TERN_EXTERNAL_WHY_MAX])
{
    TERN_TRY(check_examples(result->num_examples, why));
    TERN_TRY(check_loss(result->loss, why));
    if (result->local_steps == 0 || result->local_steps > local_steps) {
        return tern_external_fail(why, TERN_ERR_CORRUPT,
                                  "its local_steps is %" PRIu32 "; the task asked for %" PRIu32,
                                  result->local_steps, local_steps);
    }
    return TERN_OK;
}

enum tern_result tern_evaluate_result_check(const struct tern_evaluate_result *result,
                                            char why[TERN_EXTERNAL_WHY_MAX])
{
    TERN_TRY(check_examples(result->num_examples, why));
    TERN_TRY(check_loss(result->loss, why));
    return result->accuracy >= 0 && result->accuracy <= 1
               ? TERN_OK
               : tern_external_fail(why, TERN_ERR_CORRUPT, "its accuracy is %g; it must be 0 to 1",
                                    (double)result->accuracy);
}

// --- JSON

static enum tern_result take_number(const cJSON *root, const char *key, double *value, char *why)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!cJSON_IsNumber(item)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT, "result.json has no number \"%s\"", key);
    }
    *value = item->valuedouble;
    return TERN_OK;
}

static enum tern_result take_whole(const cJSON *root, const char *key, uint32_t *value, char *why)
{
    double number = 0;
    TERN_TRY(take_number(root, key, &number, why));
    if (!(number >= 0 && number <= UINT32_MAX) || number != floor(number)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT, "its %s is %g, which is none that can be",
                                  key, number);
    }
    *value = (uint32_t)number;
    return TERN_OK;
}

// Cut, and with nothing in it that a terminal obeys.
static void take_name(const char *from, char name[METRIC_NAME_MAX])
{
    snprintf(name, METRIC_NAME_MAX, "%s", from);
    const bool text = tern_utf8_is_text(name, strlen(name));
    for (char *at = name; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (!text && (byte < 0x20 || byte >= 0x7f)) {
            *at = '?';
        }
    }
}

static enum tern_result take_metrics(const cJSON *root, char metrics[TERN_TRAINER_METRICS_MAX],
                                     char *why)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "metrics");
    const cJSON *item = NULL;
    size_t len = 0;
    metrics[0] = '\0';
    if (object != NULL && !cJSON_IsObject(object)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT, "its metrics are not a JSON object");
    }
    cJSON_ArrayForEach(item, object)
    {
        char text[160];
        char name[METRIC_NAME_MAX];
        take_name(item->string, name);
        const int size =
            snprintf(text, sizeof text, "%s%s=%.9g", len > 0 ? " " : "", name, item->valuedouble);
        if (!cJSON_IsNumber(item)) {
            return tern_external_fail(why, TERN_ERR_CORRUPT, "its metric \"%s\" is no number",
                                      name);
        }
        if (size > 0 && len + (size_t)size < TERN_TRAINER_METRICS_MAX) {
            memcpy(metrics + len, text, (size_t)size + 1);
            len += (size_t)size;
        }
    }
    return TERN_OK;
}

static enum tern_result parse(const char *path, cJSON **root, char *why)
{
    uint8_t *text = NULL;
    size_t len = 0;
    TERN_TRY(tern_regular_file_read(path, RESULT_MAX, &text, &len, why));
    const char *end = (const char *)text;
    *root = cJSON_ParseWithLengthOpts((const char *)text, len, &end, 0);
    const size_t read = (size_t)(end - (const char *)text);
    const bool whole =
        cJSON_IsObject(*root) && strspn((const char *)text + read, " \t\r\n") == len - read;
    free(text);
    if (whole) {
        return TERN_OK;
    }
    const bool object = cJSON_IsObject(*root);
    cJSON_Delete(*root);
    return tern_external_fail(why, TERN_ERR_CORRUPT,
                              object ? "result.json holds more than its JSON object"
                                     : "result.json is not a JSON object (JSON knows no NaN)");
}

static enum tern_result take_train(const cJSON *root, uint32_t local_steps,
                                   struct tern_train_result *result, char *why)
{
    double loss = 0;
    TERN_TRY(take_whole(root, "num_examples", &result->num_examples, why));
    TERN_TRY(take_number(root, "loss", &loss, why));
    result->loss = (float)loss;
    result->local_steps = local_steps;
    if (cJSON_GetObjectItemCaseSensitive(root, "local_steps") != NULL) {
        TERN_TRY(take_whole(root, "local_steps", &result->local_steps, why));
    }
    return tern_train_result_check(result, local_steps, why);
}

static enum tern_result take_evaluate(const cJSON *root, struct tern_evaluate_result *result,
                                      char *why)
{
    double loss = 0;
    double accuracy = 0;
    TERN_TRY(take_whole(root, "num_examples", &result->num_examples, why));
    TERN_TRY(take_number(root, "loss", &loss, why));
    result->no_accuracy = cJSON_GetObjectItemCaseSensitive(root, "accuracy") == NULL;
    if (!result->no_accuracy) {
        TERN_TRY(take_number(root, "accuracy", &accuracy, why));
    }
    result->loss = (float)loss;
    result->accuracy = (float)accuracy;
    return tern_evaluate_result_check(result, why);
}

// The first of them whose names a message holds; loss and accuracy have fields of their own.
static void send_metrics(const cJSON *root, struct tern_evaluate_result *result)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "metrics"))
    {
        const size_t len = strlen(item->string);
        const bool fits = len > 0 && len < TERN_METRIC_NAME_MAX &&
                          tern_utf8_is_text(item->string, len) &&
                          isfinite((float)item->valuedouble);
        if (fits && strcmp(item->string, "loss") != 0 && strcmp(item->string, "accuracy") != 0 &&
            result->metric_count < TERN_METRICS_MAX) {
            struct tern_metric *metric = &result->metrics[result->metric_count++];
            memcpy(metric->name, item->string, len + 1);
            metric->value = (float)item->valuedouble;
        }
    }
}

enum tern_result tern_trainer_result_read(const char *path, uint32_t local_steps,
                                          struct tern_train_result *result,
                                          char metrics[TERN_TRAINER_METRICS_MAX],
                                          char why[TERN_EXTERNAL_WHY_MAX])
{
    cJSON *root = NULL;
    TERN_TRY(parse(path, &root, why));
    enum tern_result done = take_train(root, local_steps, result, why);
    done = done == TERN_OK ? take_metrics(root, metrics, why) : done;
    cJSON_Delete(root);
    return done;
}

enum tern_result tern_evaluate_result_read(const char *path, struct tern_evaluate_result *result,
                                           char metrics[TERN_TRAINER_METRICS_MAX],
                                           char why[TERN_EXTERNAL_WHY_MAX])
{
    cJSON *root = NULL;
    TERN_TRY(parse(path, &root, why));
    enum tern_result done = take_evaluate(root, result, why);
    done = done == TERN_OK ? take_metrics(root, metrics, why) : done;
    if (done == TERN_OK) {
        send_metrics(root, result);
    }
    cJSON_Delete(root);
    return done;
}
