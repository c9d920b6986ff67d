"""Whether a coder would gain by looking at a value's neighbours in the tensor, by ideal code length.

    neighbours.py TERN_CODEC STATE_DB --count N --stride S [--stride S ...] [--every N]

Reads the first payload of stored updates and codes its symbols once more, on paper: for each value whether it
is zero, then its sign, with adaptive probabilities in contexts of the local density and of the value before.
`stride S` adds to the context whether the values S and 2 S before are zero: of a matrix whose rows have S
values, those above. Prints bytes in all, beside what the payloads take, which are to be range-coded. What is
printed is a bound for a binary arithmetic coder with these contexts, which would make a decision for each value.
"""
import argparse
import math
import sqlite3
import tempfile

from real_updates import Codec, container_of, payloads_of

DENSITY_MEMORY = 24  # values over which the local density is a mean
SLOWEST = 60         # decisions after which a probability learns no slower


class Chance:
    """The probability of a 1, learnt; take() is the cost of a decision in bits."""

    def __init__(self, first):
        self.one = first
        self.seen = 0

    def take(self, one):
        cost = -math.log2(self.one if one else 1 - self.one)
        self.one += (one - self.one) / (min(self.seen, SLOWEST) + 1.6)
        self.one = min(max(self.one, 1e-4), 1 - 1e-4)
        self.seen += 1
        return cost


def code_bits(symbols, stride):
    """stride: 0 looks at no values above."""
    places, signs = {}, {}
    bits, density = 0.0, 0.05
    for at, symbol in enumerate(symbols):
        before = symbols[at - 1] if at > 0 else 0
        above = [stride > 0 and at >= k * stride and symbols[at - k * stride] != 0 for k in (1, 2)]
        level = int(-2 * math.log2(density))
        key = (level, before != 0, *above)
        if key not in places:
            places[key] = Chance(min(density, 0.5))
        bits += places[key].take(int(symbol != 0))
        density = max(density + ((symbol != 0) - density) / DENSITY_MEMORY, 1e-5)
        if symbol != 0:
            bits += signs.setdefault(before, Chance(0.5)).take(int(symbol < 0))
    return bits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("state")
    parser.add_argument("--count", type=int, required=True, help="values of the first segment")
    parser.add_argument("--stride", type=int, action="append", default=[])
    parser.add_argument("--every", type=int, default=20, help="looks at the updates of each so many rounds")
    options = parser.parse_args()
    strides = [0, *options.stride]
    taken, coded, updates = 0, dict.fromkeys(strides, 0.0), 0
    base = sqlite3.connect("file:%s?mode=ro" % options.state, uri=True)
    with tempfile.TemporaryDirectory() as folder:
        codec = Codec(options.program, folder)
        for (body,) in base.execute("SELECT body FROM updates JOIN update_bodies USING (id) "
                                    "WHERE round % ? = 0", (options.every,)):
            payload = next(payloads_of(container_of(body)))
            symbols = [(value > 0) - (value < 0) for value in codec.decode(payload, options.count)]
            taken += len(payload)
            updates += 1
            for stride in strides:
                coded[stride] += code_bits(symbols, stride) / 8
    print("%d updates, range-coded: %d bytes" % (updates, taken))
    for stride in strides:
        name = "values %d and %d before, too" % (stride, 2 * stride) if stride else "density and value before"
        print("%-32s %9.0f bytes, %.3f of the range coder's" % (name, coded[stride], coded[stride] / taken))


main()
