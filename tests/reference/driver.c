// Lets the reference talk to libtern: one request a line on standard input, one answer a line on
// standard output. Bytes are hexadecimal, "-" where there are none; float32 values are bytes.
//
//   codecs                      one line for each codec, then "end":
//                               NAME FEEDBACK RANDOM [KEY KIND LEAST MOST PRESET CHOICE,...]...
//   encode SPEC SEED ROUND CLIENT SEGMENT VALUES VELOCITY INDICES
//                               ok PAYLOAD FED-BACK VELOCITY, or refused RESULT
//   decode COUNT WEIGHT PAYLOAD ACC
//                               ok VALUES ACC, or refused RESULT
//   masked SPEC FACTS SECRET GENERATION SEQUENCE EXAMPLES LOSS BUFFER CHANGE
//                               DESCRIPTOR MASKED-UPDATE RESIDUAL and RESIDUAL with the update given back
//   sums SPEC FACTS WEIGHTS CLIENTS SUMS
//                               first scales, hash of the weights; of the groups' sums, of clients with these ids (8 bytes each):
//                               each client's group, next scales, change of the model with a weight of 1 a client
//   ticket FEDERATION CLIENT EPOCH HELPER-PRIVATE EPHEMERAL SECRET CODE
//                               the helper's public key, the sealed ticket
//   helper-key SIGNING-PRIVATE FEDERATION EPOCH PUBLIC
//   helper-log SIGNING-PRIVATE FEDERATION COUNT HEAD
//                               the signing public key, the signature
#include "codec/codec.h"
#include "secure/masked.h"
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

// --- Secure rounds

static uint8_t *next_fixed(size_t len)
{
    size_t found = 0;
    uint8_t *bytes = next_bytes(&found);
    REQUIRE(found == len);
    return bytes;
}

static struct tern_model model;

// Reads a model's spec and a round's facts. scales: [TERN_MASKED_TENSORS_MAX], which the round borrows.
static struct tern_secure_round next_round(float *scales)
{
    struct tern_secure_round round;
    size_t len = 0;
    REQUIRE(tern_model_from_spec(&model, next_word()) == TERN_OK);
    uint8_t *facts = next_bytes(&len);
    REQUIRE(tern_secure_round_decode(facts, len, scales, TERN_MASKED_TENSORS_MAX, &round) ==
            TERN_OK);
    REQUIRE(tern_secure_round_check(&round) == NULL);
    free(facts);
    return round;
}

static void mask_update(void)
{
    float scales[TERN_MASKED_TENSORS_MAX];
    const struct tern_secure_round round = next_round(scales);
    uint8_t *secret = next_fixed(TERN_SECRET_SIZE);
    struct tern_masked_key masked = {.nonce = next_number()};
    struct tern_masked_training training = {.examples = (uint32_t)next_number()};
    size_t count = 0;
    float *loss = next_floats(&count);
    training.loss = loss[0];
    float *buffer_values = next_floats(&count);
    float *work = next_floats(&count);
    REQUIRE(count == model.count);
    tern_masked_weigh(&model, &round, training.examples, work);
    const struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, buffer_values, model.coded};
    REQUIRE(tern_error_buffer_add_to(&buffer, 1, work) == TERN_OK);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round);
    const size_t size = tern_masked_size(&shape);
    uint8_t *packed = malloc(size);
    uint8_t key[TERN_SECRET_SIZE];
    REQUIRE(tern_masked_quantise(&model, &round, &training, work, packed) == TERN_OK);
    tern_secure_round_hash(&round, masked.descriptor);
    REQUIRE(tern_mask_key(secret, &masked, key) == TERN_OK);
    REQUIRE(tern_masked_add_mask(&shape, key, packed) == TERN_OK);
    put_bytes(masked.descriptor, sizeof masked.descriptor);
    put_bytes(packed, size);
    put_floats(work, count);
    struct tern_error_buffer residual = {TERN_ERROR_FLOAT32, work, model.coded};
    REQUIRE(tern_masked_remove_mask(&shape, key, packed) == TERN_OK);
    tern_masked_give_back(&model, &round, packed, &residual);
    put_floats(work, count);
    putchar('\n');
    free(packed);
    free(work);
    free(buffer_values);
    free(loss);
    free(secret);
}

// Reads the clients' ids, divides them, and prints the group of each.
static void divide_clients(const struct tern_secure_round *round, struct tern_secure_groups *groups)
{
    size_t len = 0;
    uint8_t *ids = next_bytes(&len);
    struct tern_secure_member *members = calloc(len / 8, sizeof *members);
    REQUIRE(members != NULL);
    for (size_t i = 0; i < len / 8; i++) {
        members[i].client = tern_get_le64(ids + 8 * i);
    }
    tern_secure_divide(round, members, (uint32_t)(len / 8), groups);
    for (size_t i = 0; i < len / 8; i++) {
        ids[i] = (uint8_t)tern_secure_group_of(groups, members[i].client);
    }
    put_bytes(ids, len / 8);
    free(members);
    free(ids);
}

static void use_sums(void)
{
    float scales[TERN_MASKED_TENSORS_MAX];
    float made[TERN_MASKED_TENSORS_MAX];
    uint8_t replica[TERN_SHA256_SIZE];
    struct tern_secure_groups groups;
    struct tern_masked_part parts[TERN_SECURE_GROUPS_MAX];
    const struct tern_secure_round round = next_round(scales);
    const struct tern_masked_shape shape = tern_masked_shape_of(&model, &round);
    size_t count = 0;
    size_t len = 0;
    float *weights = next_floats(&count);
    tern_masked_first_scales(&model, &round, weights, made);
    put_floats(made, round.scale_count);
    tern_masked_weights_hash(&model, weights, replica);
    put_bytes(replica, sizeof replica);
    divide_clients(&round, &groups);
    uint8_t *sums = next_bytes(&len);
    REQUIRE(len == groups.count * tern_masked_size(&shape));
    for (uint32_t i = 0; i < groups.count; i++) {
        parts[i] = (struct tern_masked_part){sums + i * tern_masked_size(&shape), groups.sizes[i],
                                             groups.sizes[i]};
    }
    tern_masked_next_scales(&model, &round, parts, groups.count, made);
    put_floats(made, round.scale_count);
    tern_masked_decode(&model, &round, parts, groups.count, weights);
    put_floats(weights, count);
    putchar('\n');
    free(sums);
    free(weights);
}

static void seal_ticket(void)
{
    uint8_t *federation = next_fixed(TERN_SHA256_SIZE);
    struct tern_secure_ticket ticket = {.federation = federation, .client = next_number()};
    ticket.epoch = next_number();
    uint8_t *helper = next_fixed(TERN_SECRET_SIZE);
    uint8_t *ephemeral = next_fixed(TERN_SECRET_SIZE);
    uint8_t *secret = next_fixed(TERN_SECRET_SIZE);
    struct tern_bytes_view code;
    uint8_t *text = next_bytes(&code.size);
    code.data = text;
    uint8_t public_key[TERN_X25519_PUBLIC_SIZE];
    uint8_t sealed[TERN_SECURE_TICKET_MAX];
    REQUIRE(tern_x25519_public(helper, public_key) == TERN_OK);
    REQUIRE(tern_secure_ticket_seal(&ticket, public_key, ephemeral, secret, code, sealed) ==
            TERN_OK);
    put_bytes(public_key, sizeof public_key);
    put_bytes(sealed, TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + code.size);
    putchar('\n');
    free(text);
    free(secret);
    free(ephemeral);
    free(helper);
    free(federation);
}

static void sign(const uint8_t *signing, const uint8_t *statement)
{
    uint8_t verifying[TERN_P256_PUBLIC_SIZE];
    uint8_t signature[TERN_P256_SIGNATURE_SIZE];
    REQUIRE(tern_p256_public(signing, verifying) == TERN_OK);
    REQUIRE(tern_p256_sign(signing, statement, signature) == TERN_OK);
    put_bytes(verifying, sizeof verifying);
    put_bytes(signature, sizeof signature);
    putchar('\n');
}

static void sign_helper_log(void)
{
    uint8_t *signing = next_fixed(TERN_SECRET_SIZE);
    uint8_t *federation = next_fixed(TERN_SHA256_SIZE);
    struct tern_helper_log log = {.count = next_number()};
    uint8_t *head = next_fixed(TERN_SHA256_SIZE);
    uint8_t statement[TERN_SHA256_SIZE];
    memcpy(log.head, head, sizeof log.head);
    tern_helper_log_statement(federation, &log, statement);
    sign(signing, statement);
    free(head);
    free(federation);
    free(signing);
}

static void sign_helper_key(void)
{
    uint8_t *signing = next_fixed(TERN_SECRET_SIZE);
    uint8_t *federation = next_fixed(TERN_SHA256_SIZE);
    const uint64_t epoch = next_number();
    uint8_t *public_key = next_fixed(TERN_X25519_PUBLIC_SIZE);
    uint8_t statement[TERN_SHA256_SIZE];
    tern_helper_key_statement(federation, epoch, public_key, statement);
    sign(signing, statement);
    free(public_key);
    free(federation);
    free(signing);
}

static const struct {
    const char *name;
    void (*run)(void);
} verbs[] = {
    {"codecs", list_codecs},
    {"encode", encode},
    {"decode", decode},
    {"masked", mask_update},
    {"sums", use_sums},
    {"ticket", seal_ticket},
    {"helper-key", sign_helper_key},
    {"helper-log", sign_helper_log},
};

int main(void)
{
    REQUIRE(tern_secret_start() == TERN_OK);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        const char *verb = strtok(line, " \n");
        size_t v = 0;
        while (strcmp(verb, verbs[v].name) != 0) {
            v++;
            REQUIRE(v < sizeof verbs / sizeof verbs[0]);
        }
        verbs[v].run();
        fflush(stdout);
    }
    free(line);
    return 0;
}
