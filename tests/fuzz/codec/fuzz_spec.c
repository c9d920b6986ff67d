// Any text as a codec's or a model's spec string: a codec's canonical form parses to the same
// codec, a model's layout adds up.
#include "codec/codec.h"
#include "tensor/model.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void check_codec(const char *text)
{
    struct tern_codec codec;
    struct tern_codec again;
    struct tern_spec_refusal refusal;
    if (tern_codec_parse(text, &codec, &refusal) != TERN_OK) {
        REQUIRE(refusal.at >= text && refusal.at <= text + strlen(text));
        char sentence[TERN_SPEC_SENTENCE_MAX];
        tern_spec_explain(&refusal, sentence);
        REQUIRE(strlen(sentence) < sizeof sentence);
        return;
    }
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&codec, spec);
    REQUIRE(tern_codec_parse(spec, &again, NULL) == TERN_OK);
    REQUIRE(memcmp(&codec, &again, sizeof codec) == 0); // no padding: all fields are 4 bytes
}

static void check_model(const char *text)
{
    static struct tern_model model;
    if (tern_model_from_spec(&model, text) != TERN_OK) {
        return;
    }
    uint32_t end = 0;
    for (uint32_t i = 0; i < model.segment_count; i++) {
        REQUIRE(model.segments[i].offset == end);
        end += model.segments[i].count;
    }
    REQUIRE(end == model.count && end <= TERN_MODEL_MAX_VALUES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    check_codec(text);
    check_model(text);
    free(text);
    return 0;
}
