"""FORMAT.md, gaps: the distance to the next value that is not zero, Golomb-Rice coded with a
parameter that follows their mean."""

from .bits import Reader, Writer
from .values import Refused

LONGEST = 16  # quotients from here on are not written in unary


class Mean:
    """What the gaps so far say about the next."""

    def __init__(self):
        self.mean = 128  # in sixteenths
        self.seen = 0

    def parameter(self):
        x = self.mean + 8
        return min(24, max(1, (x - (x >> 5)) >> 4).bit_length() - 1)

    def add(self, gap):
        self.seen = min(8, self.seen + 1)
        h = self.seen.bit_length()
        self.mean += (gap * 16 >> h) - (self.mean >> h)


def put_gap(out, gap, k):
    if gap >> k < LONGEST:
        out.put(0, gap >> k)
        out.put(1, 1)
        out.put(gap & ((1 << k) - 1), k)
    else:
        width = gap.bit_length() - 1
        out.put(0, LONGEST)
        out.put(width, 6)
        out.put(gap - (1 << width), width)


def get_gap(source, k):
    quotient = 0
    while quotient < LONGEST and source.get(1) == 0:
        quotient += 1
    if quotient < LONGEST:
        return quotient << k | source.get(k)
    width = source.get(6)
    gap = 1 << width | source.get(width)
    if gap >> k < LONGEST:
        raise Refused("corrupt")
    return gap


class Gaps:
    mode = 0x14

    @staticmethod
    def encode(q):
        out, mean, gap = Writer(), Mean(), 0
        for d in q:
            if d == 0:
                gap += 1
                continue
            put_gap(out, gap, mean.parameter())
            out.put(int(d < 0), 1)
            mean.add(gap)
            gap = 0
        if gap > 0:
            put_gap(out, gap, mean.parameter())
        return out.bytes()

    @staticmethod
    def decode(body, n):
        source, mean, q = Reader(body), Mean(), []
        while len(q) < n:
            gap = get_gap(source, mean.parameter())
            if gap > n - len(q):
                raise Refused("corrupt")
            q += [0] * gap
            if len(q) < n:
                q.append(-1 if source.get(1) else 1)
                mean.add(gap)
        source.finish()
        return q
