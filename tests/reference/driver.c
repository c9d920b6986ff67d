// Lets the reference talk to libtern: one request a line on standard input, one answer a line on
// standard output. Bytes are hexadecimal, "-" where there are none; float32 values are bytes.
//
//   codecs                      one line for each codec, then "end":
//                               NAME FEEDBACK RANDOM [KEY KIND LEAST MOST PRESET CHOICE,...]...
//   encode SPEC SEED ROUND CLIENT SEGMENT VALUES VELOCITY INDICES
//                               ok PAYLOAD FED-BACK VELOCITY, or refused RESULT
//   decode COUNT WEIGHT PAYLOAD ACC
//                               ok VALUES ACC, or refused RESULT
#include "codec/codec.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

// --- Words of a line

static char *next_word(void)
{
    char *word = strtok(NULL, " \n");
    REQUIRE(word != NULL);
    return word;
}

static uint64_t next_number(void)
{
    return strtoull(next_word(), NULL, 10);
}

// Allocated; NULL for "-".
static uint8_t *next_bytes(size_t *len)
{
    char *word = next_word();
    *len = 0;
    if (strcmp(word, "-") == 0) {
        return NULL;
    }
    *len = strlen(word) / 2;
    uint8_t *bytes = malloc(*len);
    REQUIRE(tern_hex_decode(word, bytes, *len) == TERN_OK);
    return bytes;
}

// Allocated, also when there are none, so that no pointer is NULL.
static float *next_floats(size_t *count)
{
    size_t len = 0;
    uint8_t *bytes = next_bytes(&len);
    *count = len / 4;
    float *values = malloc(len + 1);
    for (size_t i = 0; i < *count; i++) {
        values[i] = tern_get_f32(bytes + 4 * i);
    }
    free(bytes);
    return values;
}

static void put_bytes(const uint8_t *bytes, size_t len)
{
    fputs(len == 0 ? " -" : " ", stdout);
    for (size_t i = 0; i < len; i++) {
        printf("%02x", bytes[i]);
    }
}

static void put_floats(const float *values, size_t count)
{
    fputs(count == 0 ? " -" : " ", stdout);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        tern_put_f32(bytes, values[i]);
        printf("%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
    }
}

// --- Requests

static void list_parameters(const struct tern_spec_parameter *parameter)
{
    for (; parameter->key != NULL; parameter++) {
        printf(" %s %d %u %u %u ", parameter->key, (int)parameter->kind, parameter->least,
               parameter->most, parameter->preset);
        const char *const *choice = parameter->choices;
        printf("%s", choice != NULL ? "" : "-");
        for (; choice != NULL && *choice != NULL; choice++) {
            printf("%s%s", choice == parameter->choices ? "" : ",", *choice);
        }
    }
}

static void list_codecs(void)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        printf("%s %d %d", entry->name, (int)entry->feedback, entry->random);
        list_parameters(entry->parameters);
        putchar('\n');
    }
    puts("end");
}

static void encode(void)
{
    struct tern_codec codec;
    REQUIRE(tern_codec_parse(next_word(), &codec, NULL) == TERN_OK);
    struct tern_encode_context context = {.seed = next_number()};
    context.round = (uint32_t)next_number();
    context.client = (uint32_t)next_number();
    context.segment = (uint32_t)next_number();
    size_t count = 0;
    size_t momenta = 0;
    size_t written = 0;
    float *values = next_floats(&count);
    float *velocity = next_floats(&momenta);
    uint8_t *indices = next_bytes(&context.indices_len);
    context.indices = indices;
    context.velocity = velocity;
    size_t bound = tern_codec_bound(&codec, count);
    uint8_t *payload = malloc(bound);
    enum tern_result result =
        tern_codec_encode(&codec, &context, values, count, payload, bound, &written);
    if (result == TERN_OK) {
        fputs("ok", stdout);
        put_bytes(payload, written);
        put_floats(values, count);
        put_floats(velocity, momenta);
        putchar('\n');
    } else {
        printf("refused %s\n", tern_result_name(result));
    }
    free(payload);
    free(indices);
    free(velocity);
    free(values);
}

static void decode(void)
{
    size_t count = (size_t)next_number();
    float weight = strtof(next_word(), NULL);
    size_t len = 0;
    size_t acc_count = 0;
    uint8_t *payload = next_bytes(&len);
    float *acc = next_floats(&acc_count);
    REQUIRE(acc_count == count);
    float *values = malloc(count * sizeof *values + 1);
    enum tern_result result = tern_codec_decode(payload, len, values, count);
    REQUIRE(tern_codec_accumulate(payload, len, weight, acc, count) == result);
    if (result == TERN_OK) {
        fputs("ok", stdout);
        put_floats(values, count);
        put_floats(acc, count);
        putchar('\n');
    } else {
        printf("refused %s\n", tern_result_name(result));
    }
    free(values);
    free(acc);
    free(payload);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        const char *verb = strtok(line, " \n");
        if (strcmp(verb, "codecs") == 0) {
            list_codecs();
        } else if (strcmp(verb, "encode") == 0) {
            encode();
        } else {
            REQUIRE(strcmp(verb, "decode") == 0);
            decode();
        }
        fflush(stdout);
    }
    free(line);
    return 0;
}
