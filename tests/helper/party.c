#include "helper/party.h"

#include "hosted/system.h"
#include "tests/asserts.h"
#include "util/bytes.h"
#include "util/prng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- HTTPS

static void read_error(struct answer *answer)
{
    tern_Error error;
    if (tern_wire_decode_error(answer->body, answer->body_len, &error) == TERN_OK) {
        snprintf(answer->name, sizeof answer->name, "%s", error.name);
    }
}

struct answer party_ask(const struct party *party, const char *method, const char *path,
                        const void *body, size_t len)
{
    const struct tls_client_settings settings = {.root = party->root};
    struct client client;
    struct answer answer = {.status = 0};
    char head[400];
    if (!client_open(&client, party->port, &settings)) {
        return answer;
    }
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
             "Content-Length: %zu\r\n\r\n",
             method, path, party->token, len);
    if (client_send_text(&client, head) && (len == 0 || client_send(&client, body, len))) {
        struct client_reply reply = client_receive(&client, false);
        answer.status = reply.status;
        answer.body = reply.body;
        answer.body_len = reply.body_len;
    }
    client_close(&client);
    if (answer.status != 0 && answer.status != 200) {
        read_error(&answer);
    }
    return answer;
}

void answer_free(struct answer *answer)
{
    free(answer->body);
    answer->body = NULL;
}

static int finish(struct answer *answer, char name[32])
{
    const int status = answer->status;
    if (name != NULL) {
        memcpy(name, answer->name, sizeof answer->name);
    }
    answer_free(answer);
    return status;
}

// --- Tickets

// Asserts that the helper has signed the end of its log for the federation.
static void check_log(const struct party *party, uint64_t count, const uint8_t *head,
                      const uint8_t *signature)
{
    struct tern_helper_log log = {.count = count};
    uint8_t hash[TERN_SHA256_SIZE];
    memcpy(log.head, head, sizeof log.head);
    tern_helper_log_statement(party->federation, &log, hash);
    assert_int_equal(tern_p256_verify(party->public_key, hash, signature), TERN_OK);
}

int party_epoch(struct party *party)
{
    char path[TERN_PATH_MAX] = TERN_PATH_EPOCH;
    uint8_t hash[TERN_SHA256_SIZE];
    tern_base64url_encode(party->federation, TERN_SHA256_SIZE, path + strlen(path));
    struct answer answer = party_ask(party, "GET", path, NULL, 0);
    if (answer.status == 200) {
        assert_int_equal(tern_wire_decode_epoch_key(answer.body, answer.body_len, &party->epoch),
                         TERN_OK);
        tern_helper_key_statement(party->federation, party->epoch.epoch,
                                  party->epoch.public_key.bytes, hash);
        assert_int_equal(tern_p256_verify(party->public_key, hash, party->epoch.signature.bytes),
                         TERN_OK);
        check_log(party, party->epoch.log_count, party->epoch.log_head.bytes,
                  party->epoch.log_signature.bytes);
    }
    return finish(&answer, NULL);
}

int party_send_ticket(struct party *party, uint32_t device, uint64_t client, char name[32])
{
    const struct device *sender = &party->devices[device];
    tern_TicketRequest request = {.federation.size = TERN_SHA256_SIZE,
                                  .client = client,
                                  .epoch = party->epoch.epoch,
                                  .ticket.size = (pb_size_t)sender->ticket_len};
    uint8_t bytes[TERN_HELPER_MESSAGE_MAX];
    size_t len;
    memcpy(request.federation.bytes, party->federation, TERN_SHA256_SIZE);
    memcpy(request.ticket.bytes, sender->ticket, sender->ticket_len);
    assert_int_equal(tern_wire_encode_ticket_request(&request, bytes, sizeof bytes, &len), TERN_OK);
    struct answer answer = party_ask(party, "POST", TERN_PATH_TICKETS, bytes, len);
    if (answer.status == 200) {
        tern_TicketReply reply;
        uint8_t hash[TERN_SHA256_SIZE];
        tern_sha256(sender->ticket, sender->ticket_len, hash);
        assert_int_equal(tern_wire_decode_ticket_reply(answer.body, answer.body_len, &reply),
                         TERN_OK);
        assert_memory_equal(reply.sha256.bytes, hash, sizeof hash);
    }
    return finish(&answer, name);
}

int party_admit(struct party *party, uint32_t device, uint64_t client, const char *code,
                char name[32])
{
    struct device *sender = &party->devices[device];
    const struct tern_secure_ticket ticket = {party->federation, client, party->epoch.epoch};
    const struct tern_bytes_view text = {code, strlen(code)};
    uint8_t ephemeral[TERN_SECRET_SIZE];
    assert_int_equal(tern_random_fill(sender->secret, sizeof sender->secret), TERN_OK);
    assert_int_equal(tern_random_fill(ephemeral, sizeof ephemeral), TERN_OK);
    assert_int_equal(tern_secure_ticket_seal(&ticket, party->epoch.public_key.bytes, ephemeral,
                                             sender->secret, text, sender->ticket),
                     TERN_OK);
    sender->ticket_len = TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE + text.size;
    return party_send_ticket(party, device, client, name);
}

// --- Sums

void party_round(const struct party *party, uint32_t round, uint32_t count, struct test_round *out)
{
    memset(out, 0, sizeof *out);
    out->scales[0] = 0.25f;
    out->scales[1] = 0.5f;
    out->values = 777;
    out->count = count;
    out->facts = (struct tern_secure_round){.round = round,
                                            .local_steps = 5,
                                            .batch_size = 32,
                                            .learning_rate = 0.1f,
                                            .level = 1,
                                            .cohort = 100,
                                            .min_clients = 3,
                                            .share = 1,
                                            .places_seed = 42,
                                            .epoch = party->epoch.epoch,
                                            .scale_count = 2,
                                            .scales = out->scales};
    out->facts.bits = tern_secure_bits(&out->facts);
    memcpy(out->facts.federation, party->federation, TERN_SHA256_SIZE);
    memset(out->facts.replica, (int)round, TERN_SHA256_SIZE);
    for (uint32_t i = 0; i < count; i++) {
        const struct device *device = &party->devices[i];
        out->members[i].client = i + 1;
        out->members[i].nonce = (uint64_t)round << 32 | (1000 + i);
        tern_sha256(device->ticket, device->ticket_len, out->members[i].ticket);
    }
}

void party_add_noise(struct test_round *round, uint32_t places_max, uint32_t noise)
{
    round->facts.places_max = places_max;
    round->facts.noise = noise;
    round->facts.bits = tern_secure_bits(&round->facts);
}

uint8_t *party_sum_request(const struct test_round *round, size_t *len)
{
    const size_t facts_len = tern_secure_round_size(&round->facts);
    const size_t members_len = (size_t)round->count * TERN_HELPER_MEMBER_BYTES;
    const size_t bound = tern_sum_request_bound(facts_len, members_len);
    uint8_t *facts = malloc(facts_len);
    uint8_t *members = malloc(members_len + 1);
    uint8_t *bytes = malloc(bound);
    assert_true(facts != NULL && members != NULL && bytes != NULL);
    tern_secure_round_encode(&round->facts, facts);
    for (uint32_t i = 0; i < round->count; i++) {
        tern_member_put(&round->members[i], members + (size_t)i * TERN_HELPER_MEMBER_BYTES);
    }
    const struct tern_sum_request request = {
        .facts = {facts, facts_len}, .values = round->values, .members = {members, members_len}};
    assert_int_equal(tern_wire_encode_sum_request(&request, bytes, bound, len), TERN_OK);
    free(facts);
    free(members);
    return bytes;
}

struct tern_span answer_sum(const struct answer *answer)
{
    tern_SumReply reply;
    struct tern_span sum = {NULL, 0};
    assert_int_equal(tern_wire_decode_sum_reply(answer->body, answer->body_len, &reply, &sum),
                     TERN_OK);
    return sum;
}

static void check_signature(const struct party *party, const struct test_round *round,
                            const struct answer *answer)
{
    tern_SumReply reply;
    struct tern_span sum;
    struct tern_secure_list list;
    uint8_t hash[TERN_SHA256_SIZE];
    tern_secure_round_hash(&round->facts, hash);
    tern_secure_list_start(&list, hash);
    for (uint32_t i = 0; i < round->count; i++) {
        assert_int_equal(tern_secure_list_add(&list, &round->members[i]), TERN_OK);
    }
    tern_secure_list_finish(&list, hash);
    assert_int_equal(tern_wire_decode_sum_reply(answer->body, answer->body_len, &reply, &sum),
                     TERN_OK);
    assert_memory_equal(reply.list_hash.bytes, hash, sizeof hash);
    tern_secure_sum_statement(reply.list_hash.bytes, sum.data, sum.len, hash);
    assert_int_equal(tern_p256_verify(party->public_key, hash, reply.signature.bytes), TERN_OK);
    check_log(party, reply.log_count, reply.log_head.bytes, reply.log_signature.bytes);
}

struct answer party_ask_sum(const struct party *party, const struct test_round *round)
{
    size_t len = 0;
    uint8_t *request = party_sum_request(round, &len);
    struct answer answer = party_ask(party, "POST", TERN_PATH_SUMS, request, len);
    free(request);
    if (answer.status == 200) {
        check_signature(party, round, &answer);
    }
    return answer;
}

// Writes a packed vector of random values -1, 0 and 1, with random counters. plain: each value is added to its place.
static void draw_values(const struct tern_masked_shape *shape, struct tern_prng *rng,
                        uint8_t *packed, int32_t *plain)
{
    const size_t counters = 2 + shape->tensors;
    const uint32_t field = (UINT32_C(1) << shape->bits) - 1;
    memset(packed, 0, tern_masked_size(shape));
    for (size_t i = 0; i < counters; i++) {
        tern_put_le32(packed + 4 * i, tern_prng_below(rng, 1000));
    }
    for (uint32_t i = 0; i < shape->values; i++) {
        const int32_t value = (int32_t)tern_prng_below(rng, 3) - 1;
        const uint64_t bit = (uint64_t)i * shape->bits;
        uint8_t *word = packed + 4 * counters + bit / 8;
        plain[i] += value;
        for (uint32_t b = 0; b < shape->bits; b++) {
            if ((((uint32_t)value & field) >> b & 1) != 0) {
                word[(bit % 8 + b) / 8] |= (uint8_t)(1u << (bit % 8 + b) % 8);
            }
        }
    }
}

static struct tern_masked_shape shape_of(const struct test_round *round)
{
    return (struct tern_masked_shape){
        .tensors = round->facts.scale_count, .values = round->values, .bits = round->facts.bits};
}

void party_open_noise(const struct party *party, const struct test_round *round,
                      struct tern_span sum, uint8_t *noise)
{
    const struct tern_masked_shape shape = shape_of(round);
    struct tern_masked_key masked;
    uint8_t key[TERN_SECRET_SIZE];
    assert_int_equal(sum.len, tern_masked_size(&shape));
    memcpy(noise, sum.data, sum.len);
    tern_secure_round_hash(&round->facts, masked.descriptor);
    for (uint32_t i = 0; i < round->count; i++) {
        const struct tern_secure_member *member = &round->members[i];
        masked.nonce = member->nonce;
        assert_int_equal(tern_mask_key(party->devices[member->client - 1].secret, &masked, key),
                         TERN_OK);
        assert_int_equal(tern_masked_remove_mask(&shape, key, noise), TERN_OK);
    }
}

void party_check_sum(const struct party *party, const struct test_round *round,
                     struct tern_span sum)
{
    const struct tern_masked_shape shape = shape_of(round);
    const size_t size = tern_masked_size(&shape);
    uint8_t *total = calloc(1, size);
    uint8_t *open_total = calloc(1, size);
    uint8_t *packed = malloc(size);
    int32_t *plain = calloc(round->values, sizeof plain[0]);
    struct tern_prng rng;
    struct tern_masked_key masked;
    uint8_t key[TERN_SECRET_SIZE];
    assert_true(total != NULL && open_total != NULL && packed != NULL && plain != NULL);
    assert_int_equal(sum.len, size);
    tern_prng_init(&rng, 33, TERN_PRNG_TEST, round->facts.round, 0);
    tern_secure_round_hash(&round->facts, masked.descriptor);
    for (uint32_t i = 0; i < round->count; i++) {
        const struct tern_secure_member *member = &round->members[i];
        masked.nonce = member->nonce;
        draw_values(&shape, &rng, packed, plain);
        tern_masked_add(&shape, open_total, packed);
        assert_int_equal(tern_mask_key(party->devices[member->client - 1].secret, &masked, key),
                         TERN_OK);
        assert_int_equal(tern_masked_add_mask(&shape, key, packed), TERN_OK);
        tern_masked_add(&shape, total, packed);
    }
    tern_masked_subtract(&shape, total, sum.data);
    assert_memory_equal(total, open_total, size);
    for (uint32_t i = 0; i < round->values; i++) {
        assert_int_equal(tern_masked_value(&shape, total, i), plain[i]);
    }
    free(total);
    free(open_total);
    free(packed);
    free(plain);
}
