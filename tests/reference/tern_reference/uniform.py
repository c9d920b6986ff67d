"""FORMAT.md section 3.8: whole steps with a dead zone, under an adaptive binary range coder."""

import math

from .range_coder import Coder, Context, Decoder
from .values import Refused, bits_of, check_scale, cut, f32, from_bits, get_f32, lane_sum, put_f32

MODE = 0x60
MOST = 255  # steps of a value
ROOM = 512  # of the largest magnitude below infinity
SAMPLE, HALVINGS, PASSES, GUESSES = 1024, 14, 12, 5
NUDGE, NARROW = 2**20, 2**12


# --- The step ---


def steps_of(magnitude, step):
    return math.floor(f32(f32(magnitude / step) + f32(0.4)))


class Trial:
    """What comes of a step, given as bits: A and K, and the share of the squares that is left."""

    def __init__(self, values, total, bits):
        steps = [steps_of(abs(t), from_bits(bits)) for t in values]
        self.bits = bits
        self.product = lane_sum([abs(t) * k for t, k in zip(values, steps)])
        self.square = float(sum(k * k for k in steps))
        if self.square:
            self.left = (total - self.product * self.product / self.square) / total
        else:
            self.left = 1.0 if total > 0 else 0.0


def slope_of(a, b):
    """None where the shares do not tell."""
    if a.left == b.left:
        return None
    return a.left * (float(b.bits) - float(a.bits)) / (b.left - a.left)


def sample_of(values, stride):
    """One value in each stride, not all of the same columns of a matrix."""
    parts = [i * 2654435769 % 2**32 * stride // 2**32 for i in range(len(values) // stride)]
    return [values[i * stride + part] for i, part in enumerate(parts)]


def guess(last, slope, aim, low, high):
    if slope is None or last.left == 0:
        return None
    at = float(last.bits) + (aim - last.left) / last.left * slope
    return int(at) if low < at < high else None


def find_step(values, total, error):
    peak = max(abs(t) for t in values)
    low = max(1, bits_of(f32(peak / MOST)))
    if steps_of(peak, from_bits(low)) > MOST:
        low += 1
    high = bits_of(f32(peak * 1.625))
    n, stride = len(values), 1
    if n >= 2 * SAMPLE:
        stride = n // SAMPLE
    sample = sample_of(values, stride)
    squares = lane_sum([t * t for t in sample])

    good, coarse = low, high
    for _ in range(HALVINGS):
        middle = good + (coarse - good) // 2
        if Trial(sample, squares, middle).left <= error:
            good = middle
        else:
            coarse = middle
    bits = good
    if stride == 1:
        return Trial(values, total, bits)

    best = None
    before, last = Trial(sample, squares, bits + NUDGE), Trial(sample, squares, bits)
    slope = slope_of(last, before)
    for number in range(PASSES):
        if high - low <= NARROW or bits <= low:
            break
        before, last = last, Trial(values, total, bits)
        if last.left <= error:
            best, low = last, bits
            if last.left >= 0.996 * error:
                break
        else:
            high = bits
        if number > 0:
            slope = slope_of(last, before)
        bits = guess(last, slope, 0.998 * error, low, high) if number < GUESSES else None
        if bits is None and best is None:
            bits = max(low, high - (NUDGE // 32 << number))
        elif bits is None:
            bits = low + (high - low) // 2
    return best or Trial(values, total, low)


# --- The model ---


class Model:
    def __init__(self, coder):
        self.coder = coder
        self.zero = [Context(32768) for _ in range(9)]
        self.sign = [Context(32768) for _ in range(3)]
        self.exponent = [[Context(49152) for _ in range(7)] for _ in range(3)]
        self.mantissa = [[Context(32768) for _ in range(3)] for _ in range(7)]
        self.last = self.before = 0

    def value(self, k=None):
        """Codes k, with its sign, or without one reads it."""
        decide, last, before = self.coder.decide, min(abs(self.last), 2), min(abs(self.before), 2)
        told = k is not None
        self.coder.make_room()
        steps = 0
        if decide(self.zero[3 * last + before], int(k != 0) if told else None):
            context = self.sign[0 if self.last == 0 else 1 if self.last > 0 else 2]
            negative = decide(context, int(k < 0) if told else None)
            steps = self.steps(self.exponent[last], abs(k) if told else None)
            steps = -steps if negative else steps
        self.last, self.before = steps, self.last
        return steps

    def steps(self, exponents, k):
        decide, e = self.coder.decide, 0
        while e < 7:
            if e == 3:
                self.coder.make_room()
            if not decide(exponents[e], None if k is None else int(k.bit_length() - 1 > e)):
                break
            e += 1
        if e > 0:
            self.coder.make_room()
        steps = 1
        for i in range(e):
            node = steps - 1 if i < 2 else None
            context = self.mantissa[e - 1][node] if i < 2 else Context(32768)
            bit = None if k is None else k >> (e - 1 - i) & 1
            steps = 2 * steps + decide(context, bit)
        return steps


# --- Payloads ---


def encode(parameters, values, context):
    if math.isinf(f32(max(abs(t) for t in values) * ROOM)):
        raise Refused("non-finite")
    total = lane_sum([t * t for t in values])
    found = find_step(values, total, parameters["error"])
    scale = f32(min(total / found.product, 1.5 * found.product / found.square))
    step, model, fed_back = from_bits(found.bits), Model(Coder()), []
    for t in values:
        k = steps_of(abs(t), step)
        k = -k if t < 0 else k
        model.value(k)
        fed_back.append(f32(t - f32(k * scale)) if k else t)
    return bytes([MODE]) + put_f32([scale]) + model.coder.finish(), fed_back


def listed(mode, body, n):
    """Pairs of an index and a value, of the values that are not 0."""
    head, data = cut(body, 4)
    (scale,) = get_f32(head)
    check_scale(scale, MOST)
    if scale == 0:
        raise Refused("corrupt")
    model = Model(Decoder(data))
    signed = []
    for i in range(n):
        signed.append(model.value())
        # Decisions beyond the end cannot end where the bytes do.
        if len(model.coder.out) > len(data) + 8:
            raise Refused("corrupt")
    if model.coder.finish() != data:
        raise Refused("corrupt")
    return [(i, f32(k * scale)) for i, k in enumerate(signed) if k != 0]


def decode(body, n):
    values = [0.0] * n
    for i, value in listed(MODE, body, n):
        values[i] = value
    return values


ENCODERS = {"uniform": encode}
DECODERS = {MODE: decode}
