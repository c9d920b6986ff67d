#include "rounds/tags.h"

#include "util/prng.h"
#include <stdlib.h>
#include <string.h>

#define TAGS_MOST 16
#define QUOTED_MOST 48 // most bytes of a wrong text that an error quotes
// Index of the first random number for values of tags; lower indices are client ids.
#define FIRST_VALUE_INDEX ((uint64_t)1 << 49)

// --- Reading

struct tag {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    bool has_value;
};

static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

// A text to which append() appends; text that does not fit is cut.
struct writing {
    char *text;
    size_t room; // size of text in bytes, including the NUL
    size_t used;
};

static void append(struct writing *writing, const char *piece, size_t len)
{
    const size_t left = writing->room - writing->used - 1;
    const size_t fits = len < left ? len : left;
    memcpy(writing->text + writing->used, piece, fits);
    writing->used += fits;
    writing->text[writing->used] = '\0';
}

static enum tern_result refuse(char why[TERN_TAG_WHY_MAX], const char *text, const char *problem)
{
    struct writing writing = {.text = why, .room = TERN_TAG_WHY_MAX};
    const size_t len = strlen(text);
    append(&writing, "\"", 1);
    append(&writing, text, len < QUOTED_MOST ? len : QUOTED_MOST);
    append(&writing, "\" ", 2);
    append(&writing, problem, strlen(problem));
    return TERN_ERR_CONFIG;
}

// Parses one tag, and moves *text to the next tag.
static enum tern_result parse_tag(const char **text, struct tag *tag, char why[TERN_TAG_WHY_MAX])
{
    const char *begin = *text + strspn(*text, " ");
    *tag = (struct tag){.key = begin, .key_len = strspn(begin, allowed)};
    const char *end = begin + tag->key_len;
    if (tag->key_len == 0 || tag->key_len >= TERN_TAG_KEY_MAX) {
        return refuse(why, begin,
                      "has no key of 1 to 32 letters, digits, dots, underscores or hyphens; tags "
                      "are written site=a,line=3");
    }
    tag->has_value = *end == '=';
    if (tag->has_value) {
        tag->value = end + 1;
        tag->value_len = strspn(tag->value, allowed);
        end = tag->value + tag->value_len;
    }
    end += strspn(end, " ");
    if ((tag->has_value && tag->value_len == 0) || (*end != ',' && *end != '\0')) {
        return refuse(why, begin,
                      "has no value of letters, digits, dots, underscores or hyphens; tags are "
                      "written site=a,line=3");
    }
    *text = *end == ',' ? end + 1 : end;
    if (*end == ',' && (*text)[strspn(*text, " ")] == '\0') {
        return refuse(why, begin, "ends with a comma");
    }
    return TERN_OK;
}

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_key(const void *a, const void *b)
{
    const struct tag *x = a;
    const struct tag *y = b;
    return compare_texts(x->key, x->key_len, y->key, y->key_len);
}

struct list {
    struct tag tags[TAGS_MOST];
    size_t count;
};

static enum tern_result read_list(const char *text, struct list *list, char why[TERN_TAG_WHY_MAX])
{
    list->count = 0;
    while (text[strspn(text, " ")] != '\0') {
        if (list->count == TAGS_MOST) {
            return refuse(why, text, "is the 17th tag; a client has at most 16");
        }
        TERN_TRY(parse_tag(&text, &list->tags[list->count], why));
        list->count++;
    }
    qsort(list->tags, list->count, sizeof list->tags[0], by_key);
    for (size_t i = 1; i < list->count; i++) {
        if (by_key(&list->tags[i - 1], &list->tags[i]) == 0) {
            return refuse(why, list->tags[i].key, "has a key that occurs twice");
        }
    }
    return TERN_OK;
}

// Writes the tags that have a value, sorted by key.
static enum tern_result write_list(const struct list *list, char tags[TERN_TAGS_MAX],
                                   char why[TERN_TAG_WHY_MAX])
{
    char text[TERN_TAGS_MAX] = "";
    struct writing writing = {.text = text, .room = sizeof text};
    for (size_t i = 0; i < list->count; i++) {
        const struct tag *tag = &list->tags[i];
        if (!tag->has_value) {
            continue;
        }
        if (writing.used + tag->key_len + tag->value_len + 2 + (writing.used > 0) > sizeof text) {
            return refuse(why, tag->key, "does not fit: a client's tags have at most 255 bytes");
        }
        append(&writing, ",", writing.used > 0);
        append(&writing, tag->key, tag->key_len);
        append(&writing, "=", 1);
        append(&writing, tag->value, tag->value_len);
    }
    memcpy(tags, text, sizeof text);
    return TERN_OK;
}

enum tern_result tern_tags_parse(const char *text, char tags[TERN_TAGS_MAX],
                                 char why[TERN_TAG_WHY_MAX])
{
    struct list list;
    TERN_TRY(read_list(text, &list, why));
    for (size_t i = 0; i < list.count; i++) {
        if (!list.tags[i].has_value) {
            return refuse(why, list.tags[i].key, "has no value; tags are written site=a,line=3");
        }
    }
    return write_list(&list, tags, why);
}

const char *tern_tags_value(const char *tags, const char *key, size_t *len)
{
    const size_t key_len = strlen(key);
    while (*tags != '\0') {
        const size_t tag_len = strcspn(tags, ",");
        if (tag_len > key_len && tags[key_len] == '=' && memcmp(tags, key, key_len) == 0) {
            *len = tag_len - key_len - 1;
            return tags + key_len + 1;
        }
        tags += tag_len + (tags[tag_len] == ',');
    }
    *len = 0;
    return NULL;
}

// --- Selection

enum tern_result tern_tag_selection_parse(const char *text, struct tern_tag_selection *wanted,
                                          char why[TERN_TAG_WHY_MAX])
{
    struct list list;
    struct tern_tag_selection parsed = {.spread_key = ""};
    static const char prefix[] = "tags:";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) {
        return TERN_ERR_UNKNOWN;
    }
    TERN_TRY(read_list(text + sizeof prefix - 1, &list, why));
    if (list.count == 0) {
        return refuse(why, text, "names no tag; e.g. tags:site, or tags:site=a");
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct tag *tag = &list.tags[i];
        if (!tag->has_value && parsed.spread_key[0] != '\0') {
            return refuse(why, tag->key,
                          "is the second tag without a value; clients are spread over the values "
                          "of one tag only");
        }
        if (!tag->has_value) {
            // A key has at most 32 bytes and fits.
            memcpy(parsed.spread_key, tag->key, tag->key_len);
        }
    }
    TERN_TRY(write_list(&list, parsed.required, why));
    *wanted = parsed;
    return TERN_OK;
}

// Both lists are sorted by key. The client must have each required tag with the same value.
bool tern_tags_match(const char *tags, const struct tern_tag_selection *wanted)
{
    const char *with = wanted->required;
    while (*with != '\0') {
        const size_t len = strcspn(with, ",");
        while (*tags != '\0' && compare_texts(tags, strcspn(tags, ","), with, len) != 0) {
            tags += strcspn(tags, ",");
            tags += *tags == ',';
        }
        if (*tags == '\0') {
            return false;
        }
        with += len + (with[len] == ',');
    }
    return true;
}

static int by_random(const struct tern_tagged_client *x, const struct tern_tagged_client *y)
{
    const int order = (x->random > y->random) - (x->random < y->random);
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static int by_value(const void *a, const void *b)
{
    const struct tern_tagged_client *x = a;
    const struct tern_tagged_client *y = b;
    const int order = compare_texts(x->value, x->len, y->value, y->len);
    return order != 0 ? order : by_random(x, y);
}

static int by_rank(const void *a, const void *b)
{
    const struct tern_tagged_client *x = a;
    const struct tern_tagged_client *y = b;
    if (x->rank != y->rank) {
        return (x->rank > y->rank) - (x->rank < y->rank);
    }
    if (x->value_random != y->value_random) {
        return (x->value_random > y->value_random) - (x->value_random < y->value_random);
    }
    return by_value(x, y);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool have_one_value(const struct tern_tagged_client *x, const struct tern_tagged_client *y)
{
    return compare_texts(x->value, x->len, y->value, y->len) == 0;
}

// Returns the index of the value's random number, which depends on the value alone. The clients' numbers would favour
// values with many clients, whose n-th lowest number is lower.
static uint64_t index_of_value(const struct tern_tagged_client *lot)
{
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; i < lot->len; i++) {
        hash = (hash ^ (uint8_t)lot->value[i]) * 0x100000001b3u;
    }
    return FIRST_VALUE_INDEX | (hash >> 15);
}

static uint32_t draw(struct tern_prng *rng, uint64_t index)
{
    tern_prng_seek(rng, index);
    return tern_prng_u32(rng);
}

void tern_tags_select_evenly(uint64_t seed, uint32_t round, uint32_t attempt, const char *key,
                             struct tern_tagged_client *clients, uint32_t count, uint64_t *ids,
                             uint32_t want)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_TAGS, round, attempt);
    for (uint32_t i = 0; i < count; i++) {
        const char *value = tern_tags_value(clients[i].tags, key, &clients[i].len);
        clients[i].value = value != NULL ? value : "";
        clients[i].random = draw(&rng, clients[i].id);
        clients[i].value_random = draw(&rng, index_of_value(&clients[i]));
    }
    qsort(clients, count, sizeof clients[0], by_value);
    for (uint32_t i = 0; i < count; i++) {
        const bool more = i > 0 && have_one_value(&clients[i - 1], &clients[i]);
        clients[i].rank = more ? clients[i - 1].rank + 1 : 0;
    }
    qsort(clients, count, sizeof clients[0], by_rank);
    for (uint32_t i = 0; i < want; i++) {
        ids[i] = clients[i].id;
    }
    qsort(ids, want, sizeof ids[0], ascending);
}
