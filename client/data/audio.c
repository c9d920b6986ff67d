#include "data/generated.h"
#include "util/math.h"

// --- The reader

// The generated sounds as a kind of data: "audio:train=6000,test=2000,speakers=50,seed=1".

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
    TERN_TRY(tern_generated_allocate(spec, limits, &set, &shape, false, data, parts));
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

// --- Drawing

// For the same bits on every machine: only +, -, *, / and the functions of util/math.h; and one random draw per statement,
// because C does not define the order within an expression.

#define BANDS TERN_AUDIO_BANDS
#define FRAMES TERN_AUDIO_FRAMES
#define LOOKS 3        // averaged periodograms
#define MIX_ALPHA 1.0f // Dirichlet parameter of a speaker's mix of classes

enum sound {
    STEADY,
    RISING,
    FALLING,
    VIBRATO,
    TREMOLO,
    WARBLE,
    CHORD,
    CLICKS,
    BURST,
    BAND,
};

// A speaker, and the room in which the speaker is.
struct speaker {
    float mix[TERN_AUDIO_CLASSES];
    float pitch;    // band of a tone's middle
    float pace;     // factor by which all rates are multiplied
    float overtone; // power of the octave above a tone, as a fraction of the tone's
    float tilt;     // the microphone's change of log power per band
    float echo;     // fraction of a frame's power in the next frame
    float hum;      // band of the room's hum
    float hum_power;
    float noise; // power in the lowest band
    float fall;  // decrease of the noise's log power per band
};

// The properties of one sound.
struct sound_drawing {
    enum sound sound;
    float power;
    float begin; // frames
    float end;
    float pitch;  // band at the middle of the sound
    float sweep;  // bands from begin to end of a chirp or drift
    float swing;  // depth: bands for vibrato and warble, fraction of the power for tremolo
    float rate;   // periods per frame
    float phase;  // periods
    float second; // bands from the first tone to the second
    float width;  // bands of a line or of noise
};

static void make_speaker(uint64_t seed, uint32_t number, struct speaker *speaker)
{
    struct tern_prng rng;
    tern_generated_group_begin(&rng, seed, TERN_DATA_AUDIO_SPEAKER, number);
    tern_random_shares(&rng, MIX_ALPHA, speaker->mix, TERN_AUDIO_CLASSES);
    speaker->pitch = tern_random_between(&rng, 4.5f, 9.5f);
    speaker->pace = tern_expf(tern_random_between(&rng, -0.35f, 0.35f));
    speaker->overtone = tern_random_between(&rng, 0.0f, 0.5f);
    speaker->tilt = tern_random_between(&rng, -0.12f, 0.12f);
    speaker->echo = tern_random_between(&rng, 0.1f, 0.7f);
    speaker->hum = tern_random_between(&rng, 0.0f, 15.0f);
    speaker->hum_power = tern_random_between(&rng, 0.0f, 1.0f);
    speaker->noise = tern_expf(tern_random_between(&rng, -1.0f, 0.7f));
    speaker->fall = tern_random_between(&rng, 0.0f, 0.12f);
}

static void make_sound(const struct speaker *speaker, enum sound sound, struct tern_prng *rng,
                       struct sound_drawing *drawing)
{
    drawing->sound = sound;
    drawing->power = tern_expf(tern_random_between(rng, 1.4f, 3.4f));
    drawing->begin = tern_random_between(rng, 0.0f, 4.0f);
    const float length = tern_random_between(rng, 18.0f, 26.0f);
    drawing->end = drawing->begin + length;
    drawing->pitch = speaker->pitch + tern_random_between(rng, -1.5f, 1.5f);
    drawing->sweep = tern_random_between(rng, -0.7f, 0.7f);
    if (sound == RISING || sound == FALLING) {
        const float sweep = tern_random_between(rng, 3.0f, 8.0f);
        drawing->sweep = sound == RISING ? sweep : -sweep;
    }
    drawing->swing = tern_random_between(rng, 0.7f, 1.0f);
    drawing->swing *= sound == VIBRATO ? 2.0f : sound == WARBLE ? 1.6f : 1.0f;
    drawing->rate = speaker->pace * tern_random_between(rng, 0.09f, 0.2f);
    drawing->phase = tern_prng_float(rng);
    drawing->second = tern_random_between(rng, 1.8f, 4.5f);
    drawing->width = tern_random_between(rng, 0.7f, 1.2f);
    if (sound == BAND) {
        drawing->width = tern_random_between(rng, 1.8f, 3.5f);
    } else if (sound == BURST) {
        drawing->width = tern_random_between(rng, 4.0f, 9.0f);
        drawing->end = drawing->begin + 0.3f * length;
    }
}

// Returns the tone's pitch in frame t, in bands.
static float pitch_at(const struct sound_drawing *drawing, float t)
{
    const float along = (t - drawing->begin) / (drawing->end - drawing->begin) - 0.5f;
    const float turn = tern_sin_turns(drawing->rate * t + drawing->phase);
    float pitch = drawing->pitch + drawing->sweep * along;
    if (drawing->sound == VIBRATO) {
        pitch += drawing->swing * turn;
    } else if (drawing->sound == WARBLE) {
        pitch += turn > 0.0f ? drawing->swing : -drawing->swing;
    }
    return pitch;
}

static float power_at(const struct sound_drawing *drawing, float t)
{
    if (t < drawing->begin || t >= drawing->end) {
        return 0.0f;
    }
    const float turn = tern_sin_turns(drawing->rate * t + drawing->phase);
    if (drawing->sound == TREMOLO) {
        return drawing->power * (1.0f + drawing->swing * turn);
    }
    if (drawing->sound == CLICKS) {
        return turn > 0.6f ? 2.0f * drawing->power : 0.0f;
    }
    return drawing->power;
}

// Returns the power in band b of a line or noise around `middle`, where it is 1.
static float line_power(float b, float middle, float width)
{
    const float off = (b - middle) / width;
    return 1.0f / (1.0f + off * off * off * off);
}

static float sound_at(const struct speaker *speaker, const struct sound_drawing *drawing, float b,
                      float t)
{
    const float power = power_at(drawing, t);
    if (power <= 0.0f) {
        return 0.0f;
    }
    if (drawing->sound == CLICKS) {
        return 0.5f * power;
    }
    const float pitch = pitch_at(drawing, t);
    float lines = line_power(b, pitch, drawing->width);
    if (drawing->sound == CHORD) {
        lines += line_power(b, pitch + drawing->second, drawing->width);
    } else if (drawing->sound != BAND && drawing->sound != BURST) {
        lines += speaker->overtone * line_power(b, pitch + 5.0f, drawing->width);
    }
    return power * lines;
}

static float room_at(const struct speaker *speaker, float b)
{
    return speaker->noise * tern_expf(-speaker->fall * b) +
           speaker->hum_power * line_power(b, speaker->hum, 0.7f);
}

// Draws the error of a power estimated from LOOKS periodograms, as a factor.
static float periodogram(struct tern_prng *rng)
{
    float sum = 0.0f;
    for (int i = 0; i < LOOKS; i++) {
        sum += tern_random_exponential(rng);
    }
    return sum / (float)LOOKS;
}

// Maps log power to a byte: 0.05 to 0, 60 to 255.
static uint8_t level_of(float power)
{
    const float least = tern_logf(0.05f);
    const float most = tern_logf(60.0f);
    float level = (tern_logf(power + 1e-3f) - least) / (most - least);
    level = level < 0.0f ? 0.0f : level > 1.0f ? 1.0f : level;
    return (uint8_t)(level * 255.0f + 0.5f);
}

uint16_t tern_audio_draw(uint64_t seed, bool test, uint32_t index, uint32_t speakers,
                         uint8_t *spectrogram, uint32_t *speaker)
{
    struct tern_prng rng;
    struct speaker voice;
    struct sound_drawing drawing;
    tern_prng_init(&rng, seed, TERN_PRNG_DATA, test ? TERN_DATA_AUDIO_TEST : TERN_DATA_AUDIO_TRAIN,
                   index);
    *speaker = tern_generated_group(&rng, seed, TERN_DATA_AUDIO_SPEAKER, speakers, index);
    make_speaker(seed, *speaker, &voice);
    const uint32_t sound = tern_random_index(&rng, voice.mix, TERN_AUDIO_CLASSES);
    make_sound(&voice, (enum sound)sound, &rng, &drawing);
    for (uint32_t b = 0; b < BANDS; b++) {
        const float band = (float)b;
        const float room = room_at(&voice, band);
        const float tilt = tern_expf(voice.tilt * (band - 7.5f));
        float heard = 0.0f;
        for (uint32_t t = 0; t < FRAMES; t++) {
            const float now = sound_at(&voice, &drawing, band, (float)t);
            heard = heard * voice.echo > now ? heard * voice.echo : now;
            const float chance = periodogram(&rng);
            spectrogram[b * FRAMES + t] = level_of((room + heard) * tilt * chance);
        }
    }
    return (uint16_t)sound;
}
