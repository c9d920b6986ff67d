#include "blocks.h"

#include "Vtern_inceptionn_decode.h"
#include "Vtern_inceptionn_encode.h"
#include "Vtern_ternary_decode.h"
#include "Vtern_ternary_encode.h"
#include "verilated.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

namespace
{

// One transfer of a stream: up to 32 bytes, of which tkeep says which count.
struct Beat {
    uint32_t words[8] = {};
    uint32_t keep = 0;
    uint32_t user = 0;
    bool last = false;

    bool operator==(const Beat &other) const
    {
        return std::equal(words, words + 8, other.words) && keep == other.keep &&
               user == other.user && last == other.last;
    }
};

unsigned sender_pauses, receiver_pauses;
uint64_t random_state = 1;

bool pauses(unsigned of_256)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 32 & 255) < of_256;
}

// Ports are wide, or one word.
template <size_t N> void set(VlWide<N> &port, const uint32_t *words)
{
    for (size_t i = 0; i < N; i++) {
        port[i] = words[i];
    }
}
template <class T> void set(T &port, const uint32_t *words)
{
    port = static_cast<T>(words[0]);
}
template <size_t N> void get(const VlWide<N> &port, uint32_t *words)
{
    for (size_t i = 0; i < N; i++) {
        words[i] = port[i];
    }
}
template <class T> void get(const T &port, uint32_t *words)
{
    words[0] = port;
}

uint32_t user_of(const Vtern_ternary_encode &)
{
    return 0;
}
template <class M> uint32_t user_of(const M &model)
{
    return model.m_axis_tuser;
}

[[noreturn]] void give_up(const char *why)
{
    std::fprintf(stderr, "blocks: %s\n", why);
    std::abort();
}

// A block out of reset.
template <class M> M &made()
{
    static VerilatedContext context;
    static M *model = nullptr;
    if (model == nullptr) {
        model = new M{&context};
        model->rst = 1;
        for (int i = 0; i < 8; i++) {
            model->clk = i & 1;
            model->eval();
        }
        model->rst = 0;
    }
    return *model;
}

// Sends the beats and hands on what comes out, until `lasts` segments have ended. The parameters
// have been set, and stood for some cycles. Returns the cycles it took.
template <class M, class Take>
uint64_t run(M &model, const std::vector<Beat> &beats, unsigned lasts, Take take)
{
    using Keep = std::remove_reference_t<decltype(model.s_axis_tkeep)>;
    const uint64_t most = 1000 + 100 * static_cast<uint64_t>(beats.size()) * 256;
    size_t next = 0;
    Beat held;
    bool was_held = false;
    uint64_t cycles = 0;
    uint64_t idle = 0;
    for (int i = 0; i < 4; i++) {
        model.clk = 0;
        model.eval();
        model.clk = 1;
        model.eval();
    }
    while (lasts > 0) {
        if (!model.s_axis_tvalid && next < beats.size() && !pauses(sender_pauses)) {
            set(model.s_axis_tdata, beats[next].words);
            model.s_axis_tkeep = static_cast<Keep>(beats[next].keep);
            model.s_axis_tlast = beats[next].last;
            model.s_axis_tvalid = 1;
        }
        model.m_axis_tready = !pauses(receiver_pauses);
        model.clk = 0;
        model.eval();
        if (was_held && !model.m_axis_tvalid) {
            give_up("a beat was taken back");
        }
        if (model.m_axis_tvalid) {
            Beat out;
            get(model.m_axis_tdata, out.words);
            out.keep = model.m_axis_tkeep;
            out.last = model.m_axis_tlast;
            out.user = out.last ? user_of(model) : 0;
            if (was_held && !(out == held)) {
                give_up("a beat changed while it waited");
            }
            held = out;
            if (model.m_axis_tready) {
                take(out);
                lasts -= out.last;
                idle = 0;
            }
        }
        was_held = model.m_axis_tvalid && !model.m_axis_tready;
        const bool taken = model.s_axis_tvalid && model.s_axis_tready;
        model.clk = 1;
        model.eval();
        if (taken) {
            model.s_axis_tvalid = 0;
            next++;
            idle = 0;
        }
        cycles++;
        if (++idle > 10000 || cycles > most) {
            give_up("a block stands still");
        }
    }
    // A decoder drops what is left of a payload that is too long.
    for (unsigned i = 0; next < beats.size(); i++) {
        set(model.s_axis_tdata, beats[next].words);
        model.s_axis_tkeep = static_cast<Keep>(beats[next].keep);
        model.s_axis_tlast = beats[next].last;
        model.s_axis_tvalid = 1;
        model.clk = 0;
        model.eval();
        next += model.s_axis_tready;
        model.clk = 1;
        model.eval();
        if (i > 1000 + 16 * beats.size()) {
            give_up("a block does not take the rest");
        }
    }
    model.s_axis_tvalid = 0;
    return cycles;
}

uint32_t low_bits(size_t count)
{
    return count >= 32 ? ~0u : (1u << count) - 1;
}

// Whole bytes, 32 or 1 a beat.
std::vector<Beat> beats_of(const void *data, size_t len, size_t width)
{
    const uint8_t *bytes = static_cast<const uint8_t *>(data);
    std::vector<Beat> beats((len + width - 1) / width);
    for (size_t i = 0; i < beats.size(); i++) {
        const size_t here = std::min(width, len - i * width);
        std::memcpy(beats[i].words, bytes + i * width, here);
        beats[i].keep = low_bits(here);
        beats[i].last = i + 1 == beats.size();
    }
    return beats;
}

size_t columns_of(size_t count)
{
    return (count + 4) / 5;
}

// Columns of five values, from five places of memory at once.
std::vector<Beat> columns(const float *values, size_t count)
{
    const size_t stride = columns_of(count);
    std::vector<Beat> beats(stride);
    for (size_t i = 0; i < stride; i++) {
        for (size_t part = 0; part < 5; part++) {
            const size_t at = part * stride + i;
            if (at < count) {
                std::memcpy(&beats[i].words[part], &values[at], sizeof(float));
                beats[i].keep |= 15u << 4 * part;
            } else {
                beats[i].words[part] = 0xdeadbeef; // nobody looks at it
            }
        }
        beats[i].last = i + 1 == stride;
    }
    return beats;
}

// Puts the bytes that a beat keeps behind one another. They are the first ones.
struct Bytes {
    uint8_t *at;

    void operator()(const Beat &beat)
    {
        const size_t len = static_cast<size_t>(__builtin_popcount(beat.keep));
        if (beat.keep != low_bits(len) || (!beat.last && len != 32 && len != 1)) {
            give_up("a beat has gaps");
        }
        std::memcpy(at, beat.words, len);
        at += len;
    }
};

std::vector<Beat> repeated(const std::vector<Beat> &once, unsigned times)
{
    std::vector<Beat> all;
    for (unsigned i = 0; i < times; i++) {
        all.insert(all.end(), once.begin(), once.end());
    }
    return all;
}

template <class M>
size_t encode(M &model, const std::vector<Beat> &beats, unsigned times, uint8_t *dst,
              struct block_facts *facts)
{
    Bytes bytes{dst};
    uint32_t user = 0;
    const uint64_t cycles = run(model, beats, times, [&](const Beat &beat) {
        bytes(beat);
        user = beat.last ? beat.user : user;
    });
    if (facts != nullptr) {
        *facts = {{(user & 1) != 0, (user & 2) != 0}, cycles};
    }
    return static_cast<size_t>(bytes.at - dst);
}

} // namespace

void blocks_pause(unsigned sender, unsigned receiver, uint64_t seed)
{
    sender_pauses = sender;
    receiver_pauses = receiver;
    random_state = seed | 1;
}

static Vtern_inceptionn_encode &inceptionn_encoder(bool literal, unsigned bound)
{
    Vtern_inceptionn_encode &model = made<Vtern_inceptionn_encode>();
    model.cfg_literal = literal;
    model.cfg_bound = static_cast<CData>(bound);
    return model;
}

size_t block_inceptionn_encode(bool literal, unsigned bound, const float *values, size_t count,
                               uint8_t *dst, struct block_facts *facts)
{
    return encode(inceptionn_encoder(literal, bound), beats_of(values, count * sizeof(float), 32),
                  1, dst, facts);
}

size_t block_inceptionn_encode_again(bool literal, unsigned bound, const float *values,
                                     size_t count, unsigned times, uint8_t *dst)
{
    // Bytes() takes short beats for the last of a segment only.
    return encode(inceptionn_encoder(literal, bound),
                  repeated(beats_of(values, count * sizeof(float), 32), times), times, dst,
                  nullptr);
}

static Vtern_ternary_encode &ternary_encoder(bool packed, float scale, uint32_t threshold)
{
    Vtern_ternary_encode &model = made<Vtern_ternary_encode>();
    std::memcpy(&model.cfg_scale, &scale, sizeof scale);
    model.cfg_threshold = threshold;
    model.cfg_packed = packed;
    return model;
}

size_t block_ternary_encode(bool packed, float scale, uint32_t threshold, const float *values,
                            size_t count, uint8_t *dst, struct block_facts *facts)
{
    return encode(ternary_encoder(packed, scale, threshold), columns(values, count), 1, dst, facts);
}

size_t block_ternary_encode_again(bool packed, float scale, uint32_t threshold, const float *values,
                                  size_t count, unsigned times, uint8_t *dst)
{
    return encode(ternary_encoder(packed, scale, threshold),
                  repeated(columns(values, count), times), times, dst, nullptr);
}

size_t block_inceptionn_decode(const uint8_t *payload, size_t len, float *dst, size_t count,
                               struct block_facts *facts)
{
    Vtern_inceptionn_decode &model = made<Vtern_inceptionn_decode>();
    model.cfg_count = static_cast<IData>(count);
    size_t came = 0;
    uint32_t user = 0;
    const uint64_t cycles = run(model, beats_of(payload, len, 32), 1, [&](const Beat &beat) {
        const size_t here = static_cast<size_t>(__builtin_popcount(beat.keep)) / 4;
        if (beat.keep != low_bits(4 * here) || came + here > count) {
            give_up("other values than there are");
        }
        std::memcpy(dst + came, beat.words, here * sizeof(float));
        came += here;
        user = beat.user;
    });
    *facts = {{(user & 1) != 0, (user & 2) != 0}, cycles};
    return came;
}

size_t block_ternary_decode(const uint8_t *payload, size_t len, float *dst, size_t count,
                            struct block_facts *facts)
{
    Vtern_ternary_decode &model = made<Vtern_ternary_decode>();
    const size_t stride = columns_of(count);
    model.cfg_columns = static_cast<IData>(stride);
    model.cfg_missing = static_cast<CData>(5 * stride - count);
    size_t came = 0;
    size_t column = 0;
    uint32_t user = 0;
    const uint64_t cycles = run(model, beats_of(payload, len, 1), 1, [&](const Beat &beat) {
        for (size_t part = 0; part < 5; part++) {
            const bool real = (beat.keep >> 4 * part & 15) == 15;
            if (!real) {
                continue;
            }
            if (column >= stride || part * stride + column >= count) {
                give_up("a value where none is");
            }
            std::memcpy(&dst[part * stride + column], &beat.words[part], sizeof(float));
            came++;
        }
        column += beat.keep != 0;
        user = beat.user;
    });
    *facts = {{(user & 1) != 0, (user & 2) != 0}, cycles};
    return came;
}
