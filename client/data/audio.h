// Generates sounds as log-power spectrograms of 16 frequency bands (rows, the lowest first) by 32 frames (columns).
// Classes: 0 steady tone, 1 rising chirp, 2 falling chirp, 3 vibrato, 4 tremolo, 5 warble between two notes, 6 chord of two
// tones, 7 clicks, 8 noise burst, 9 noise of one band. Every speaker has its own pitch, pace, timbre and mix of classes, in
// a room with its own noise, hum and echo. Powers are exponentially distributed, as in a periodogram, so that a single cell
// carries little information. The same seed gives the same bits on every machine. Pure; reentrant.
#ifndef TERN_AUDIO_H
#define TERN_AUDIO_H

#include <stdbool.h>
#include <stdint.h>

#define TERN_AUDIO_BANDS 16
#define TERN_AUDIO_FRAMES 32
#define TERN_AUDIO_CLASSES 10

// Draws example `index` of the training or test part into spectrogram[TERN_AUDIO_BANDS * TERN_AUDIO_FRAMES], and returns its
// class. The result depends on the arguments alone. *speaker: the example's speaker, below `speakers`.
uint16_t tern_audio_draw(uint64_t seed, bool test, uint32_t index, uint32_t speakers,
                         uint8_t *spectrogram, uint32_t *speaker);

#endif
