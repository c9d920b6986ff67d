#include "lgc/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, WHOLE, NUMBER, CHOICE, CODEC, SCHEME };

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *preset;
    double least;
    double most;
    const char *const *choices; // NULL-terminated
    const char *meaning;
};

static const char *const schemes[] = {"lgc-server", "lgc-ring-mean", "lgc-ring-gather", NULL};
static const char *const partitions[] = {"iid", "dirichlet", "shards", NULL};
static const char *const feedbacks[] = {"decoded", "cleared", NULL};

#define WORLD(member) offsetof(struct tern_lgc_options, world.member)
#define LGC(member) offsetof(struct tern_lgc_options, lgc.member)
#define OWN(member) offsetof(struct tern_lgc_options, member)

enum { MANY = 100000000 };

static const struct key keys[] = {
    {"scheme", SCHEME, LGC(form), "lgc-server", 0, 0, schemes,
     "lgc-server, lgc-ring-mean, lgc-ring-gather, or a codec as codec:SPEC"},
    {"model", TEXT, WORLD(model), "cnn:28x28x1-8-16-10", 0, 0, NULL, "spec of a built-in model"},
    {"data", TEXT, WORLD(data), "digits:train=6000,test=2000,size=28,seed=1", 0, 0, NULL,
     "spec of a data set"},
    {"partition", CHOICE, WORLD(partition), "iid", 0, 0, partitions, "iid, dirichlet or shards"},
    {"alpha", NUMBER, WORLD(alpha), "0.5", 0.001, 1000000, NULL, "of dirichlet"},
    {"clients", WHOLE, WORLD(clients), "10", 1, 1000, NULL, ""},
    {"rounds", WHOLE, WORLD(rounds), "1000", 1, MANY, NULL, "of one step each"},
    {"batch", WHOLE, WORLD(batch_size), "16", 1, 65536, NULL, "examples of a step"},
    {"rate", NUMBER, WORLD(learning_rate), "0.01", 0, 1000, NULL, "of the first round"},
    {"rate_final", NUMBER, WORLD(rate_final), "0.0001", 0, 1000, NULL,
     "which it approaches in the last round, by a cosine"},
    {"seed", WHOLE, WORLD(seed), "1", 0, MANY, NULL, "of data, batches, leaders and weights"},
    {"evaluate_every", WHOLE, OWN(evaluate_every), "100", 1, MANY, NULL, "rounds"},
    {"density", NUMBER, LGC(density), "0.001", 0.000001, 1, NULL, "share of a tensor's values"},
    {"innovation", NUMBER, LGC(innovation), "0.1", 0.000001, 1, NULL, "share of the learned picks"},
    {"momentum", NUMBER, LGC(momentum), "0.9", 0, 0.999999, NULL, "of the clients' velocities"},
    {"exact", WHOLE, LGC(exact_rounds), "100", 0, MANY, NULL, "rounds in which all values go"},
    {"training", WHOLE, LGC(training_rounds), "200", 0, MANY, NULL,
     "rounds at least that the autoencoder is trained in"},
    {"accept", NUMBER, LGC(accept), "0.9", 0.000001, 1000000, NULL,
     "reconstruction loss below which codes are used, as a share of the mean square"},
    {"code", CODEC, LGC(code), "float16", 0, 0, NULL, "codec of codes"},
    {"feedback", CHOICE, LGC(feedback), "decoded", 0, 0, feedbacks,
     "decoded: buffers keep what decoding missed; cleared: the paper's"},
    {"width", WHOLE, LGC(width), "64", 2, 256, NULL, "of the autoencoder"},
    {"channels", WHOLE, LGC(channels), "4", 1, 64, NULL, "of a code, for 16 values"},
    {"coder_rate", NUMBER, LGC(training.learning_rate), "0.001", 0, 1000, NULL, "of its training"},
    {"coder_momentum", NUMBER, LGC(training.momentum), "0", 0, 0.999999, NULL, "of its training"},
    {"coder_clip", NUMBER, LGC(training.clip), "0", 0, 1000000, NULL, "of its training"},
    {"similarity", NUMBER, LGC(training.similarity), "0.5", 0, 1000000, NULL, "lambda_2"},
    {"late", WHOLE, OWN(late), "0", 0, MANY, NULL, "round in which the last client joins"},
    {"lose", WHOLE, OWN(lose), "0", 0, MANY, NULL,
     "the leader's update is lost in every so manieth round"},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static bool wrong(const struct key *key, const char *value, const char *instead)
{
    fprintf(stderr, "bench-lgc: %s=%s: %s\n", key->name, value, instead);
    return false;
}

static bool read_number(const struct key *key, const char *value, void *member)
{
    char *end = NULL;
    char range[80];
    errno = 0;
    const double number = strtod(value, &end);
    const bool whole = key->kind == WHOLE;
    if (errno != 0 || end == value || *end != '\0' || !(number >= key->least) ||
        !(number <= key->most) || (whole && number != (double)(uint64_t)number)) {
        snprintf(range, sizeof range, "a %snumber from %.9g to %.9g is needed",
                 whole ? "whole " : "", key->least, key->most);
        return wrong(key, value, range);
    }
    if (!whole) {
        *(float *)member = (float)number;
    } else if (key->offset == WORLD(seed)) {
        *(uint64_t *)member = (uint64_t)number;
    } else {
        *(uint32_t *)member = (uint32_t)number;
    }
    return true;
}

static bool read_choice(const struct key *key, const char *value, void *member)
{
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(value, key->choices[i]) == 0) {
            *(int *)member = i;
            return true;
        }
    }
    return wrong(key, value, key->meaning);
}

static bool read_codec(const struct key *key, const char *value, struct tern_codec *codec)
{
    struct tern_codec_refusal refusal;
    char sentence[TERN_CODEC_SENTENCE_MAX];
    if (tern_codec_parse(value, codec, &refusal) == TERN_OK) {
        return true;
    }
    tern_codec_explain(&refusal, sentence);
    return wrong(key, value, sentence);
}

static bool read_scheme(const struct key *key, const char *value, struct tern_lgc_options *options)
{
    static const char prefix[] = "codec:";
    options->rival = strncmp(value, prefix, sizeof prefix - 1) == 0;
    return options->rival ? read_codec(key, value + sizeof prefix - 1, &options->codec)
                          : read_choice(key, value, (uint8_t *)options + key->offset);
}

static bool read_value(const struct key *key, const char *value, struct tern_lgc_options *options)
{
    void *member = (uint8_t *)options + key->offset;
    switch (key->kind) {
    case TEXT:
        *(const char **)member = value;
        return true;
    case WHOLE:
    case NUMBER:
        return read_number(key, value, member);
    case CHOICE:
        return read_choice(key, value, member);
    case CODEC:
        return read_codec(key, value, member);
    case SCHEME:
        return read_scheme(key, value, options);
    }
    return false;
}

static bool read_word(const char *word, struct tern_lgc_options *options)
{
    const char *equals = strchr(word, '=');
    const size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; equals != NULL && i < KEYS; i++) {
        if (strlen(keys[i].name) == len && strncmp(word, keys[i].name, len) == 0) {
            return read_value(&keys[i], equals + 1, options);
        }
    }
    fprintf(stderr, "bench-lgc: '%s' is no KEY=VALUE that is known; bench-lgc help lists them\n",
            word);
    return false;
}

bool tern_lgc_options_read(char **words, int count, struct tern_lgc_options *options)
{
    *options = (struct tern_lgc_options){.rival = false};
    for (int i = 0; i < KEYS; i++) {
        if (!read_value(&keys[i], keys[i].preset, options)) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (!read_word(words[i], options)) {
            return false;
        }
    }
    options->lgc.seed = options->world.seed;
    return true;
}

void tern_lgc_options_print(void)
{
    for (int i = 0; i < KEYS; i++) {
        printf("  %-14s %-12s %s\n", keys[i].name, keys[i].preset, keys[i].meaning);
    }
}
