#include "secure/round.h"
#include "secure/gaussian.h"
#include "util/bytes.h"
#include <float.h>
#include <string.h>

#define NOISE_UNIT 1000u  // noise has thousandths of the noise multiplier
#define NOISE_MAX 100000u // largest noise
#define COUNTER_SHARE                                                                              \
    25u // the counters have at most this part of an update's squared norm, or 1 each

// Returns the square of the largest norm of an update's values, at most 2^41.
static uint64_t square_of_values(const struct tern_secure_round *round)
{
    return (uint64_t)round->level * round->level * round->places_max;
}

uint32_t tern_secure_counter_max(const struct tern_secure_round *round)
{
    const uint64_t tensors = round->scale_count == 0 ? 1 : round->scale_count;
    const uint64_t most = tern_integer_root(square_of_values(round) / (COUNTER_SHARE * tensors));
    return most < 1 ? 1 : (uint32_t)most;
}

uint64_t tern_secure_variance(const struct tern_secure_round *round)
{
    const uint64_t counter = tern_secure_counter_max(round);
    const uint64_t norm = square_of_values(round) + round->scale_count * counter * counter;
    const uint64_t factor = (uint64_t)round->noise * round->noise;
    const uint64_t unit = (uint64_t)NOISE_UNIT * NOISE_UNIT;
    if (round->noise == 0 || round->noise > NOISE_MAX || round->places_max == 0 ||
        norm > TERN_GAUSSIAN_VARIANCE_MAX * unit / factor) {
        return 0;
    }
    return (factor * norm + unit - 1) / unit;
}

uint32_t tern_secure_sums(const struct tern_secure_round *round)
{
    return round->groups == 0 ? 1 : round->groups;
}

uint64_t tern_secure_least(const struct tern_secure_round *round)
{
    return (uint64_t)round->min_clients * tern_secure_sums(round);
}

uint32_t tern_secure_bits(const struct tern_secure_round *round)
{
    const uint32_t level = round->level;
    const uint32_t sums = tern_secure_sums(round);
    if (round->cohort == 0 || level == 0 || level > TERN_SECURE_LEVEL_MAX) {
        return 0;
    }
    const uint64_t members = round->cohort / sums + (round->cohort % sums != 0);
    const uint64_t most = members * level + tern_gaussian_bound(tern_secure_variance(round));
    uint32_t bits = 1;
    while (2 * most + 1 > (uint64_t)1 << bits) { // different values of the sum
        bits++;
    }
    return bits <= TERN_SECURE_BITS_MAX ? bits : 0;
}

static bool is_in_range(float value, float low, float high)
{
    return value >= low && value <= high; // false for NaN
}

// Returns the fact that makes the noise impossible. With unequal weights the sum of weights would have to be released.
static const char *check_noise(const struct tern_secure_round *round)
{
    if (round->noise == 0) {
        return NULL;
    }
    if (round->places_max == 0) {
        return "places_max";
    }
    if (round->examples_max != 0) {
        return "examples_max";
    }
    return tern_secure_variance(round) == 0 ? "noise" : NULL;
}

const char *tern_secure_round_check(const struct tern_secure_round *round)
{
    if (round->round == 0) {
        return "round";
    }
    if (round->directive != 0) {
        return "directive";
    }
    if (!is_in_range(round->decay, 0, 0)) {
        return "decay";
    }
    if (round->level == 0 || round->level > TERN_SECURE_LEVEL_MAX) {
        return "level";
    }
    const char *of_noise = check_noise(round);
    if (of_noise != NULL) {
        return of_noise;
    }
    if (round->groups != 0 &&
        (round->groups % 2 == 0 || round->groups == 1 || round->groups > TERN_SECURE_GROUPS_MAX)) {
        return "groups";
    }
    if (round->bits == 0 || round->bits != tern_secure_bits(round)) {
        return "bits";
    }
    if (round->min_clients < 2 || tern_secure_least(round) > round->cohort) {
        return "min_clients";
    }
    if (round->share != 1 && round->share != 2 && round->share != 10) {
        return "share";
    }
    for (uint32_t i = 0; i < round->scale_count; i++) {
        if (!is_in_range(round->scales[i], FLT_MIN, FLT_MAX)) {
            return "scales";
        }
    }
    return round->scale_count == 0 ? "scales" : NULL;
}

// --- The descriptor

// The canonical bytes, before the scales: this text, then the fields in the order of the struct.
static const char ROUND_LABEL[] = "tern secure round v1";
#define LABEL_SIZE (sizeof ROUND_LABEL - 1)
#define FIXED_SIZE (LABEL_SIZE + 3 * TERN_SHA256_SIZE + 19 * 4 + 2 * 8)

size_t tern_secure_round_size(const struct tern_secure_round *round)
{
    return FIXED_SIZE + 4 * (size_t)round->scale_count;
}

static uint8_t *put_bytes(uint8_t *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
    return dst + size;
}

static uint8_t *put32(uint8_t *dst, uint32_t value)
{
    tern_put_le32(dst, value);
    return dst + 4;
}

static uint8_t *put64(uint8_t *dst, uint64_t value)
{
    tern_put_le64(dst, value);
    return dst + 8;
}

static uint8_t *put_float(uint8_t *dst, float value)
{
    tern_put_f32(dst, value);
    return dst + 4;
}

// Writes all facts but the scales.
static void put_fixed(const struct tern_secure_round *round, uint8_t dst[FIXED_SIZE])
{
    dst = put_bytes(dst, ROUND_LABEL, LABEL_SIZE);
    dst = put_bytes(dst, round->federation, TERN_SHA256_SIZE);
    dst = put32(dst, round->round);
    dst = put_bytes(dst, round->replica, TERN_SHA256_SIZE);
    dst = put_bytes(dst, round->model_hash, TERN_SHA256_SIZE);
    dst = put32(dst, round->local_steps);
    dst = put32(dst, round->batch_size);
    dst = put_float(dst, round->learning_rate);
    dst = put_float(dst, round->momentum);
    dst = put_float(dst, round->weight_decay);
    dst = put_float(dst, round->prox_mu);
    dst = put32(dst, round->directive);
    dst = put_float(dst, round->decay);
    dst = put32(dst, round->level);
    dst = put32(dst, round->bits);
    dst = put32(dst, round->cohort);
    dst = put32(dst, round->min_clients);
    dst = put32(dst, round->groups);
    dst = put32(dst, round->share);
    dst = put64(dst, round->places_seed);
    dst = put32(dst, round->places_max);
    dst = put32(dst, round->noise);
    dst = put32(dst, round->examples_max);
    dst = put64(dst, round->epoch);
    (void)put32(dst, round->scale_count);
}

void tern_secure_round_encode(const struct tern_secure_round *round, uint8_t *dst)
{
    put_fixed(round, dst);
    dst += FIXED_SIZE;
    for (uint32_t i = 0; i < round->scale_count; i++) {
        dst = put_float(dst, round->scales[i]);
    }
}

void tern_secure_round_hash(const struct tern_secure_round *round,
                            uint8_t descriptor[TERN_SHA256_SIZE])
{
    uint8_t fixed[FIXED_SIZE];
    put_fixed(round, fixed);
    struct tern_sha256 sha;
    tern_sha256_init(&sha);
    tern_sha256_update(&sha, fixed, sizeof fixed);
    for (uint32_t i = 0; i < round->scale_count; i++) {
        uint8_t scale[4];
        tern_put_f32(scale, round->scales[i]);
        tern_sha256_update(&sha, scale, sizeof scale);
    }
    tern_sha256_final(&sha, descriptor);
}

static const uint8_t *get_bytes(const uint8_t *src, void *dst, size_t size)
{
    memcpy(dst, src, size);
    return src + size;
}

static uint32_t get32(const uint8_t **src)
{
    uint32_t value = tern_get_le32(*src);
    *src += 4;
    return value;
}

static uint64_t get64(const uint8_t **src)
{
    uint64_t value = tern_get_le64(*src);
    *src += 8;
    return value;
}

static float get_float(const uint8_t **src)
{
    float value = tern_get_f32(*src);
    *src += 4;
    return value;
}

static void get_fixed(const uint8_t *src, struct tern_secure_round *round)
{
    src = get_bytes(src + LABEL_SIZE, round->federation, TERN_SHA256_SIZE);
    round->round = get32(&src);
    src = get_bytes(src, round->replica, TERN_SHA256_SIZE);
    src = get_bytes(src, round->model_hash, TERN_SHA256_SIZE);
    round->local_steps = get32(&src);
    round->batch_size = get32(&src);
    round->learning_rate = get_float(&src);
    round->momentum = get_float(&src);
    round->weight_decay = get_float(&src);
    round->prox_mu = get_float(&src);
    round->directive = get32(&src);
    round->decay = get_float(&src);
    round->level = get32(&src);
    round->bits = get32(&src);
    round->cohort = get32(&src);
    round->min_clients = get32(&src);
    round->groups = get32(&src);
    round->share = get32(&src);
    round->places_seed = get64(&src);
    round->places_max = get32(&src);
    round->noise = get32(&src);
    round->examples_max = get32(&src);
    round->epoch = get64(&src);
    round->scale_count = get32(&src);
}

enum tern_result tern_secure_round_decode(const uint8_t *src, size_t size, float *scales,
                                          uint32_t capacity, struct tern_secure_round *round)
{
    if (size < FIXED_SIZE || memcmp(src, ROUND_LABEL, LABEL_SIZE) != 0) {
        return TERN_ERR_CORRUPT;
    }
    get_fixed(src, round);
    if ((size - FIXED_SIZE) % 4 != 0 || (size - FIXED_SIZE) / 4 != round->scale_count) {
        return TERN_ERR_CORRUPT;
    }
    if (round->scale_count > capacity) {
        return TERN_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < round->scale_count; i++) {
        scales[i] = tern_get_f32(src + FIXED_SIZE + 4 * (size_t)i);
    }
    round->scales = scales;
    return TERN_OK;
}

// --- Keys

static void start_statement(struct tern_sha256 *sha, const char *label)
{
    tern_sha256_init(sha);
    tern_sha256_update(sha, label, strlen(label));
}

static void add64(struct tern_sha256 *sha, uint64_t value)
{
    uint8_t bytes[8];
    tern_put_le64(bytes, value);
    tern_sha256_update(sha, bytes, sizeof bytes);
}

void tern_federation_id(const uint8_t model_hash[TERN_SHA256_SIZE], uint64_t seed,
                        uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    start_statement(&sha, "tern federation v1");
    tern_sha256_update(&sha, model_hash, TERN_SHA256_SIZE);
    add64(&sha, seed);
    tern_sha256_final(&sha, id);
}

enum tern_result tern_mask_key(const uint8_t secret[TERN_SECRET_SIZE],
                               const struct tern_masked_key *masked, uint8_t key[TERN_SECRET_SIZE])
{
    static const char label[] = "tern mask v1";
    uint8_t info[sizeof label - 1 + TERN_SHA256_SIZE + 8];
    uint8_t *dst = put_bytes(info, label, sizeof label - 1);
    dst = put_bytes(dst, masked->descriptor, TERN_SHA256_SIZE);
    (void)put64(dst, masked->nonce);
    return tern_hkdf((struct tern_bytes_view){NULL, 0},
                     (struct tern_bytes_view){secret, TERN_SECRET_SIZE},
                     (struct tern_bytes_view){info, sizeof info}, key, TERN_SECRET_SIZE);
}

// --- Tickets

static const char TICKET_LABEL[] = "tern ticket v1";
static const struct tern_bytes_view TICKET_INFO = {TICKET_LABEL, sizeof TICKET_LABEL - 1};
#define TICKET_AAD_SIZE (TERN_SHA256_SIZE + 16)

static void ticket_aad(const struct tern_secure_ticket *ticket, uint8_t aad[TICKET_AAD_SIZE])
{
    aad = put_bytes(aad, ticket->federation, TERN_SHA256_SIZE);
    aad = put64(aad, ticket->client);
    (void)put64(aad, ticket->epoch);
}

enum tern_result tern_secure_ticket_seal(const struct tern_secure_ticket *ticket,
                                         const uint8_t helper_key[TERN_X25519_PUBLIC_SIZE],
                                         const uint8_t ephemeral[TERN_SECRET_SIZE],
                                         const uint8_t secret[TERN_SECRET_SIZE],
                                         struct tern_bytes_view code, uint8_t *sealed)
{
    uint8_t plain[TERN_SECRET_SIZE + TERN_SECURE_CODE_MAX];
    uint8_t aad[TICKET_AAD_SIZE];
    if (code.size == 0 || code.size > TERN_SECURE_CODE_MAX) {
        return TERN_ERR_ARGUMENT;
    }
    memcpy(plain, secret, TERN_SECRET_SIZE);
    memcpy(plain + TERN_SECRET_SIZE, code.data, code.size);
    ticket_aad(ticket, aad);
    enum tern_result result = tern_hpke_seal(
        helper_key, ephemeral, TICKET_INFO, (struct tern_bytes_view){aad, sizeof aad},
        (struct tern_bytes_view){plain, TERN_SECRET_SIZE + code.size}, sealed);
    tern_secret_erase(plain, sizeof plain);
    return result;
}

enum tern_result tern_secure_ticket_open(const struct tern_secure_ticket *ticket,
                                         const uint8_t helper_private[TERN_SECRET_SIZE],
                                         struct tern_bytes_view sealed,
                                         uint8_t secret[TERN_SECRET_SIZE],
                                         char code[TERN_SECURE_CODE_MAX + 1])
{
    uint8_t plain[TERN_SECRET_SIZE + TERN_SECURE_CODE_MAX];
    uint8_t aad[TICKET_AAD_SIZE];
    if (sealed.size <= TERN_HPKE_OVERHEAD + TERN_SECRET_SIZE ||
        sealed.size > TERN_SECURE_TICKET_MAX) {
        return TERN_ERR_CORRUPT;
    }
    ticket_aad(ticket, aad);
    TERN_TRY(tern_hpke_open(helper_private, TICKET_INFO, (struct tern_bytes_view){aad, sizeof aad},
                            sealed, plain));
    size_t code_size = sealed.size - TERN_HPKE_OVERHEAD - TERN_SECRET_SIZE;
    bool has_nul = memchr(plain + TERN_SECRET_SIZE, 0, code_size) != NULL;
    memcpy(secret, plain, TERN_SECRET_SIZE);
    memcpy(code, plain + TERN_SECRET_SIZE, code_size);
    code[code_size] = '\0';
    tern_secret_erase(plain, sizeof plain);
    return has_nul ? TERN_ERR_CORRUPT : TERN_OK;
}

// --- Statements

void tern_helper_key_statement(const uint8_t federation[TERN_SHA256_SIZE], uint64_t epoch,
                               const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                               uint8_t hash[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    start_statement(&sha, "tern helper key v1");
    tern_sha256_update(&sha, federation, TERN_SHA256_SIZE);
    add64(&sha, epoch);
    tern_sha256_update(&sha, public_key, TERN_X25519_PUBLIC_SIZE);
    tern_sha256_final(&sha, hash);
}

void tern_helper_log_statement(const uint8_t federation[TERN_SHA256_SIZE],
                               const struct tern_helper_log *log, uint8_t hash[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    start_statement(&sha, "tern helper head v1");
    tern_sha256_update(&sha, federation, TERN_SHA256_SIZE);
    add64(&sha, log->count);
    tern_sha256_update(&sha, log->head, TERN_SHA256_SIZE);
    tern_sha256_final(&sha, hash);
}

void tern_secure_list_start(struct tern_secure_list *list,
                            const uint8_t descriptor[TERN_SHA256_SIZE])
{
    start_statement(&list->sha, "tern secure list v1");
    tern_sha256_update(&list->sha, descriptor, TERN_SHA256_SIZE);
    list->last = 0;
}

enum tern_result tern_secure_list_add(struct tern_secure_list *list,
                                      const struct tern_secure_member *member)
{
    if (member->client <= list->last) {
        return TERN_ERR_ARGUMENT;
    }
    list->last = member->client;
    add64(&list->sha, member->client);
    add64(&list->sha, member->nonce);
    tern_sha256_update(&list->sha, member->ticket, TERN_SHA256_SIZE);
    return TERN_OK;
}

void tern_secure_list_finish(struct tern_secure_list *list, uint8_t hash[TERN_SHA256_SIZE])
{
    tern_sha256_final(&list->sha, hash);
}

// --- Groups

// An odd factor gives each id a key of its own and spreads neighbouring ids, which may be devices of one owner, over the groups. The
// order is the same in all rounds: with another one in each, the sums of many rounds would reveal single clients sooner.
static uint64_t key_of(uint64_t client)
{
    return client * UINT64_C(0x9e3779b97f4a7c15);
}

// Returns the key that exactly `rank` members have a lower key than.
static uint64_t key_at(const struct tern_secure_member *members, uint32_t count, uint32_t rank)
{
    uint64_t key = 0;
    for (uint64_t bit = UINT64_C(1) << 63; bit != 0; bit >>= 1) {
        uint32_t below = 0;
        for (uint32_t i = 0; i < count; i++) {
            below += key_of(members[i].client) < (key | bit);
        }
        key |= below <= rank ? bit : 0;
    }
    return key;
}

void tern_secure_divide(const struct tern_secure_round *round,
                        const struct tern_secure_member *members, uint32_t count,
                        struct tern_secure_groups *groups)
{
    const uint32_t sums = tern_secure_sums(round);
    *groups = (struct tern_secure_groups){.count = sums};
    uint32_t rank = 0; // of the group's first member
    for (uint32_t i = 0; i < sums; i++) {
        const uint32_t next = (uint32_t)(((uint64_t)(i + 1) * count + sums - 1) / sums);
        groups->first[i] = i == 0 ? 0 : key_at(members, count, rank);
        groups->sizes[i] = next - rank;
        rank = next;
    }
}

uint32_t tern_secure_group_of(const struct tern_secure_groups *groups, uint64_t client)
{
    uint32_t group = groups->count - 1;
    while (key_of(client) < groups->first[group]) {
        group--;
    }
    return group;
}

void tern_secure_sum_statement(const uint8_t list_hash[TERN_SHA256_SIZE], const uint8_t *sum,
                               size_t size, uint8_t hash[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    uint8_t sum_hash[TERN_SHA256_SIZE];
    tern_sha256(sum, size, sum_hash);
    start_statement(&sha, "tern secure sum v1");
    tern_sha256_update(&sha, list_hash, TERN_SHA256_SIZE);
    tern_sha256_update(&sha, sum_hash, TERN_SHA256_SIZE);
    tern_sha256_final(&sha, hash);
}
