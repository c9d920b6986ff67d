"""FORMAT.md section 3.8: whole steps with a dead zone, in planes under an adaptive binary range coder."""

import math

from .range_coder import Coder, Decoder
from .values import Refused, check_scale, cut, f32, get_f32, put_f32

MODE = 0x60
MOST = 259  # steps of a value
ROOM = 512  # of the largest magnitude below infinity
SAMPLE, PASSES, HALVINGS, GUESSES = 1024, 16, 6, 12
OCTAVE = 4096
TWO_LANES, BLOCK, PAST, LEVELS = 16384, 60, 4, 5


# --- The step ---


def exponent_of(peak):
    return math.frexp(peak)[1] - 1


def units_of(magnitude, peak):
    """The magnitude's whole units: 2^-23 of the peak's power of two."""
    return int(math.ldexp(magnitude, 23 - exponent_of(peak)))


def step_at(place):
    return (OCTAVE + place % OCTAVE) << place // OCTAVE


def place_of(step):
    octave = step.bit_length() - 13
    return octave * OCTAVE + (step >> octave) - OCTAVE


def steps_of(units, rate):
    return (units * rate + 439804651110) >> 40


class Trial:
    """What comes of a step: T, A and K, and the share of the squares that is left."""

    def __init__(self, units, place):
        self.place = place
        self.rate = 2**40 // step_at(place)
        steps = [steps_of(u, self.rate) for u in units]
        self.total = float(sum(u * u >> 15 for u in units)) * 32768
        self.product = float(sum(u * k for u, k in zip(units, steps)))
        self.square = float(sum(k * k for k in steps))
        self.left = 1.0
        if self.square:
            self.left = (self.total - self.product * self.product / self.square) / self.total


class Search:
    def __init__(self, error, finest, coarsest):
        self.error, self.low, self.high = error, finest, coarsest
        self.slope = OCTAVE / 1.3862944

    def middle(self):
        return self.low + (self.high - self.low) // 2

    def next(self, last, number, found):
        if last.left != 0 and self.slope is not None:
            at = float(last.place) + (0.998 * self.error - last.left) / last.left * self.slope
            if number < GUESSES and self.low < at < self.high:
                return int(at)
        down = 16 << number
        if not found and self.high - self.low > down:
            return self.high - down
        return self.middle()

    def seek(self, units, place, halvings):
        best = last = None
        for number in range(PASSES):
            before, last = last, Trial(units, place)
            good = last.left <= self.error
            if good:
                best, self.low = last, place
            else:
                self.high = place
            if good and last.left >= 0.996 * self.error or self.high - self.low <= 1:
                break
            if number > halvings:
                change = before.left - last.left
                self.slope = None
                if change != 0:
                    self.slope = last.left * (float(before.place) - float(last.place)) / change
            place = self.middle() if number < halvings else self.next(last, number, best is not None)
        return best or last


def find_step(values, error):
    peak = max(abs(t) for t in values)
    units = [units_of(abs(t), peak) for t in values]
    most = units_of(peak, peak)
    coarsest = place_of(most + most // 2 + most // 8)
    finest = place_of(most) - 8 * OCTAVE
    while math.ldexp(step_at(finest), exponent_of(peak) - 23) < 2.0**-149:
        finest += OCTAVE
    stride = 1 if len(units) < 2 * SAMPLE else len(units) // SAMPLE
    parts = [i * 2654435769 % 2**32 * stride // 2**32 for i in range(len(units) // stride)]
    sample = [units[i * stride + part] for i, part in enumerate(parts)]
    search = Search(error, finest, coarsest)
    found = search.seek(sample, search.middle(), HALVINGS)
    if stride > 1:
        found = Search(error, finest, coarsest).seek(units, found.place, 0)
    if found.left > error:
        found = Trial(units, finest)
    scale = min(found.total / found.product, 1.5 * found.product / found.square)
    return [steps_of(u, found.rate) for u in units], f32(math.ldexp(scale, exponent_of(peak) - 23))


# --- The model ---


class Chance:
    def __init__(self, p):
        self.p = p

    def learn(self, decision):
        self.p += 16 + (0 if decision else 2016) - self.p // 32


class Even:
    p = 32768

    def learn(self, decision):
        pass


class Lane:
    """Codes blocks of values or, with none given, reads them."""

    def __init__(self, coder):
        self.coder = coder
        self.nonzero = [Chance(32768) for _ in range(16)]
        self.more = [[Chance(42000) for _ in range(8)] for _ in range(LEVELS - 1)]
        self.sign = [Chance(32768) for _ in range(5)]
        self.tree = [Chance(32768) for _ in range(8)]
        self.known = [0] * PAST  # the last values

    def plane(self, places, context_of, told, found):
        """Decides for each place; found(place, decision) notes it. Makes room before every fourth."""
        for number, at in enumerate(places):
            if number % 4 == 0:
                self.coder.make_room()
            context, turn = context_of(at)
            decision = None if told is None else told(at) ^ turn
            found(at, self.coder.decide(context, decision) ^ turn)

    def block(self, count, values=None):
        size = [abs(k) for k in self.known] + [0] * (count + 1)
        negative = [int(k < 0) for k in self.known] + [0] * count
        places = range(PAST, PAST + count)
        whole = None if values is None else [0] * PAST + [abs(k) for k in values]

        def flags(at):
            return sum((size[at - 4 + i] > 0) << i for i in range(4))

        def grow(at, decision):
            size[at] += decision

        self.plane(places, lambda at: (self.nonzero[flags(at)], 0), whole and (lambda at: int(whole[at] > 0)), grow)
        for level in range(1, LEVELS):
            def more(at, level=level):
                before, behind = size[at - 1], size[at + 1]
                context = (before >= level) + 2 * (before > level) + 4 * (behind >= level)
                return self.more[level - 1][context], 0

            self.plane([at for at in places if size[at] >= level], more,
                       whole and (lambda at, level=level: int(whole[at] > level)), grow)
        for at in places:
            if size[at] == LEVELS:
                size[at] = self.large(whole and whole[at])

        def sign(at):
            last, before = size[at - 1] > 0, size[at - 2] > 0
            if last and before and negative[at - 1] != negative[at - 2]:
                return self.sign[4], negative[at - 1]
            return self.sign[before + 2 * last], negative[at - 1] if last else negative[at - 2]

        def turn(at, decision):
            negative[at] = decision

        told = None if values is None else lambda at: int(values[at - PAST] < 0)
        self.plane([at for at in places if size[at] > 0], sign, told, turn)
        signed = [-k if minus else k for k, minus in zip(size, negative)]
        self.known = signed[-PAST:]
        return signed[PAST:]

    def large(self, k=None):
        decide = self.coder.decide
        bits = None if k is None else (k - LEVELS + 1).bit_length() - 1
        self.coder.make_room()
        node = 1
        for i in (2, 1, 0):
            node = 2 * node + decide(self.tree[node], None if k is None else bits >> i & 1)
        beyond = 1
        for i in reversed(range(node - 8)):
            beyond = 2 * beyond + decide(Even(), None if k is None else (k - LEVELS + 1) >> i & 1)
        return beyond + LEVELS - 1


def put_lane(steps):
    lane = Lane(Coder())
    for first in range(0, len(steps), BLOCK):
        block = steps[first:first + BLOCK]
        lane.block(len(block), block)
    return lane.coder.finish()


def get_lane(data, n):
    lane, steps = Lane(Decoder(data)), []
    while len(steps) < n:
        # Decisions beyond the end cannot end where the bytes do.
        if len(lane.coder.out) > len(data) + 8:
            raise Refused("corrupt")
        steps += lane.block(min(BLOCK, n - len(steps)))
    if lane.coder.finish() != data:
        raise Refused("corrupt")
    return steps


# --- Payloads ---


def put_steps(steps):
    """The body behind the scale."""
    if len(steps) < TWO_LANES:
        return put_lane(steps)
    half = len(steps) - len(steps) // 2
    first = put_lane(steps[:half])
    return len(first).to_bytes(4, "little") + first + put_lane(steps[half:])


def get_steps(data, n):
    if n < TWO_LANES:
        return get_lane(data, n)
    head, data = cut(data, 4)
    length = int.from_bytes(head, "little")
    if length > len(data):
        raise Refused("corrupt")
    half = n - n // 2
    return get_lane(data[:length], half) + get_lane(data[length:], n - half)


def encode(parameters, values, context):
    if math.isinf(f32(max(abs(t) for t in values) * ROOM)):
        raise Refused("non-finite")
    sizes, scale = find_step(values, parameters["error"])
    steps = [-k if t < 0 else k for k, t in zip(sizes, values)]
    fed_back = [f32(t - f32(k * scale)) if k else t for k, t in zip(steps, values)]
    return bytes([MODE]) + put_f32([scale]) + put_steps(steps), fed_back


def listed(mode, body, n):
    """Pairs of an index and a value, of the values that are not 0."""
    head, data = cut(body, 4)
    (scale,) = get_f32(head)
    check_scale(scale, MOST)
    if scale == 0:
        raise Refused("corrupt")
    return [(i, f32(k * scale)) for i, k in enumerate(get_steps(data, n)) if k != 0]


def decode(body, n):
    values = [0.0] * n
    for i, value in listed(MODE, body, n):
        values[i] = value
    return values


ENCODERS = {"uniform": encode}
DECODERS = {MODE: decode}
