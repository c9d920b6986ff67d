#include "data/generated.h"
#include "tests/cases.h"
#include "util/crc32c.h"
#include <string.h>

#define COUNT 600
#define SPEAKERS 20
#define CELLS (TERN_AUDIO_BANDS * TERN_AUDIO_FRAMES)

static uint32_t digest(uint64_t seed, bool test)
{
    uint32_t crc = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t spectrogram[CELLS];
        uint32_t speaker;
        const uint16_t label = tern_audio_draw(seed, test, i, SPEAKERS, spectrogram, &speaker);
        const uint8_t ends[2] = {(uint8_t)label, (uint8_t)speaker};
        crc = tern_crc32c(crc, spectrogram, sizeof spectrogram);
        crc = tern_crc32c(crc, ends, sizeof ends);
    }
    return crc;
}

// These digests were computed once; every machine must give them.
CASE(bits_are_the_same_everywhere)
{
    assert_int_equal(digest(1, false), 0xb1ae227au);
    assert_int_equal(digest(1, true), 0xf6d46e92u);
}

CASE(seeds_differ)
{
    assert_int_not_equal(digest(1, false), digest(2, false));
}

// Neither all at the floor nor all at the ceiling of the levels.
static void check_levels(const uint8_t *spectrogram)
{
    uint32_t sum = 0;
    uint32_t clipped = 0;
    for (int i = 0; i < CELLS; i++) {
        sum += spectrogram[i];
        clipped += spectrogram[i] == 0 || spectrogram[i] == 255;
    }
    assert_in_range(sum / CELLS, 15, 240);
    assert_true(clipped < CELLS / 2);
}

CASE(all_sounds_and_speakers_occur)
{
    uint32_t seen[TERN_AUDIO_CLASSES] = {0};
    uint32_t of_speaker[SPEAKERS] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t spectrogram[CELLS];
        uint32_t speaker;
        const uint16_t label = tern_audio_draw(5, false, i, SPEAKERS, spectrogram, &speaker);
        assert_true(label < TERN_AUDIO_CLASSES && speaker < SPEAKERS);
        check_levels(spectrogram);
        seen[label]++;
        of_speaker[speaker]++;
    }
    for (int k = 0; k < TERN_AUDIO_CLASSES; k++) {
        assert_in_range(seen[k], COUNT / 40, COUNT / 4);
    }
    for (int s = 0; s < SPEAKERS; s++) {
        assert_in_range(of_speaker[s], COUNT / SPEAKERS / 5, 3 * COUNT / SPEAKERS);
    }
}
