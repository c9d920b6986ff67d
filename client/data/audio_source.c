// The generated sounds as a kind of data: "audio:train=6000,test=2000,speakers=50,seed=1".
#include "data/audio.h"
#include "data/generated.h"

enum tern_result tern_read_audio(struct tern_data_spec *spec, const struct tern_data_limits *limits,
                                 struct tern_data *data)
{
    struct tern_generated set = {.train = 6000, .test = 2000, .groups = 50, .seed = 1};
    struct tern_generated_part parts[2];
    const struct tern_dataset shape = {.height = TERN_AUDIO_BANDS,
                                       .width = TERN_AUDIO_FRAMES,
                                       .channels = 1,
                                       .class_count = TERN_AUDIO_CLASSES};
    TERN_TRY(tern_generated_options(spec, limits, "speakers", &set));
    TERN_TRY(tern_spec_scaling(spec, data));
    TERN_TRY(tern_spec_done(spec, "train, test, speakers, seed, mean, std"));
    TERN_TRY(tern_generated_take(spec, limits, &set, &shape, false, data, parts));
    for (unsigned test = 0; test < 2; test++) {
        const struct tern_generated_part *part = &parts[test];
        for (uint32_t i = 0; i < part->count; i++) {
            uint8_t *spectrogram = part->bytes + (size_t)i * TERN_AUDIO_BANDS * TERN_AUDIO_FRAMES;
            part->labels[i] =
                tern_audio_draw(set.seed, test != 0, i, set.groups, spectrogram, &part->groups[i]);
        }
    }
    return TERN_OK;
}
