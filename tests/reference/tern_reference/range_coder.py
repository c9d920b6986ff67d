"""FORMAT.md, range: gaps and signs under an adaptive binary range coder, low bits beside it."""

from .bits import Reader, Writer
from .values import Refused

WHOLE = 2**64
CLASSES = 25
ESCAPE = 7  # of a tree: the gap is longer
FIRST = (
    (63488, 63488, 63488, 55938, 55938, 55938, 54292),
    (62126, 53364, 50588, 44353, 44353, 44353, 34237),
    (49841, 44002, 33464, 38561, 38561, 38561, 19690),
    (49662, 43920, 33282, 38516, 38516, 38516, 19560),
    (49618, 43900, 33237, 38505, 38505, 38505, 19528),
)


# --- The coder ---


class Context:
    """How likely a decision is 0, in 65536ths."""

    def __init__(self, p):
        self.p = p
        self.w = 64

    def learn(self, decision):
        target = 512 if decision else 65024
        self.p += (target - self.p) >> self.w // 16
        self.w = min(112, self.w + 1)


class Coder:
    """Writes decisions. Keeps the interval; what is written and `low` are one number."""

    def __init__(self):
        self.out = bytearray()
        self.low, self.range = 0, WHOLE - 1

    def make_room(self):
        while self.range < 2**56:
            self.out.append(self.low >> 56)
            self.low = self.low << 8 & (WHOLE - 1)
            self.range <<= 8

    def decide(self, context, decision):
        b = (self.range >> 16) * context.p
        if decision:
            self.low += b
            self.range -= b
        else:
            self.range = b
        if self.low >= WHOLE:
            self.low -= WHOLE
            self.carry()
        context.learn(decision)
        return decision

    def carry(self):
        at = len(self.out) - 1
        while self.out[at] == 255:
            self.out[at] = 0
            at -= 1
        self.out[at] += 1

    def finish(self):
        for m in range(1, 9):
            unit = 2 ** (64 - 8 * m)
            v = -(-self.low // unit) * unit
            if v + unit <= self.low + self.range:
                break
        if v == WHOLE:
            v = 0
            self.carry()
        return bytes(self.out) + v.to_bytes(8, "big")[:m]


class Decoder(Coder):
    """Reads decisions, and writes them again to know how long they are."""

    def __init__(self, data):
        super().__init__()
        self.data = data
        self.at = 8
        self.offset = int.from_bytes(data[:8].ljust(8, b"\0"), "big")  # of the number above low

    def make_room(self):
        before = len(self.out)
        super().make_room()
        for _ in range(len(self.out) - before):
            byte = self.data[self.at] if self.at < len(self.data) else 0
            self.offset = self.offset << 8 | byte
            self.at += 1

    def decide(self, context, decision=None):
        b = (self.range >> 16) * context.p
        decision = int(self.offset >= b)
        self.offset -= b if decision else 0
        return super().decide(context, decision)


# --- The model ---


class Model:
    def __init__(self, coder):
        self.coder = coder
        self.trees = [[None] + [Context(p) for p in FIRST[min(c, 4)]] for c in range(CLASSES)]
        self.signs = [Context(32768) for _ in range(4)]
        self.mean, self.seen, self.last = 128, 0, 0

    def first_class(self):
        return min(24, (self.mean + 8).bit_length() - 1 - 3)

    def decide_tree(self, c, v=None):
        """Codes v, or without one reads it."""
        self.coder.make_room()
        node = 1
        for bit in (2, 1, 0):
            told = None if v is None else v >> bit & 1
            node = 2 * node + self.coder.decide(self.trees[c][node], told)
        return node - 8

    def decide_sign(self, gap, sign=None):
        """Codes or reads the sign behind a gap, and learns from both."""
        s = self.coder.decide(self.signs[self.last + 2 * (gap == 0)], sign)
        self.last = s
        self.seen = min(4, self.seen + 1)
        h = self.seen.bit_length()
        a = min(16 * gap, 4 * (self.mean + 16))
        self.mean += (a >> h) - (self.mean >> h)
        return s


def low_bits(c):
    return max(0, c - 2)


def put_gap(model, out, gap):
    c = model.first_class()
    while gap >> low_bits(c) >= ESCAPE:
        model.decide_tree(c, ESCAPE)
        gap -= ESCAPE << low_bits(c)
        c = min(CLASSES - 1, c + 1)
    model.decide_tree(c, gap >> low_bits(c))
    out.put(gap & ((1 << low_bits(c)) - 1), low_bits(c))


def get_gap(model, source, most):
    c, gap = model.first_class(), 0
    while (v := model.decide_tree(c)) == ESCAPE:
        gap += ESCAPE << low_bits(c)
        c = min(CLASSES - 1, c + 1)
        if gap > most:
            raise Refused("corrupt")
    gap += v << low_bits(c) | source.get(low_bits(c))
    if gap > most:
        raise Refused("corrupt")
    return gap


class Range:
    mode = 0x15

    @staticmethod
    def encode(q):
        model, out, gap = Model(Coder()), Writer(), 0
        for d in q:
            if d == 0:
                gap += 1
                continue
            put_gap(model, out, gap)
            model.decide_sign(gap, int(d < 0))
            gap = 0
        if gap > 0:
            put_gap(model, out, gap)
        return model.coder.finish() + out.bytes()[::-1]

    @staticmethod
    def decode(body, n):
        model, source, q = Model(Decoder(body)), Reader(body[::-1]), []
        while len(q) < n:
            gap = get_gap(model, source, n - len(q))
            q += [0] * gap
            if len(q) < n:
                q.append(-1 if model.decide_sign(gap) else 1)
        coded = model.coder.finish()
        if body[: len(coded)] != coded:
            raise Refused("corrupt")
        source.data = source.data[: len(body) - len(coded)]
        source.finish()
        return q
