#!/usr/bin/env python3
"""Runs libtern beside the reference on random inputs: the same payload, the same values fed back,
the same values decoded and added, and the same damaged payloads refused, for every codec of
libtern's table with random parameters and contexts.

    differential.py DRIVER [SECONDS [SEED]]
"""

import random
import subprocess
import sys
import time

import tern_reference as ref
from tern_reference import index_sets


NUMBER, WHOLE, CHOICE = range(3)  # enum tern_parameter_kind
MOMENTUM = 2  # enum tern_feedback
MILLION = 1000000
SECONDS = 15
DAMAGED = 4  # of each payload


# --- libtern, through its driver ---


def to_hex(data):
    return data.hex() or "-"


def from_hex(text):
    return b"" if text == "-" else bytes.fromhex(text)


class Libtern:
    def __init__(self, driver):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([driver], stdin=pipe, stdout=pipe, text=True)

    def ask(self, *words):
        self.last = " ".join(str(word) for word in words) + "\n"
        self.process.stdin.write(self.last)
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the driver ended at: " + self.last
        return line.split()

    def codecs(self):
        """{name: (keeps momentum, {key: (kind, least, most, choices)})}"""
        found, words = {}, self.ask("codecs")
        while words != ["end"]:
            keys = {}
            for at in range(3, len(words), 6):
                key, kind, least, most, _, choices = words[at : at + 6]
                keys[key] = int(kind), int(least), int(most), choices.split(",")
            found[words[0]] = int(words[1]) == MOMENTUM, keys
            words = self.answer()
        return found

    def encode(self, spec, values, context):
        result, *rest = self.ask(
            *("encode", spec, context.seed, context.round, context.client, context.segment),
            *(to_hex(ref.put_f32(values)), to_hex(ref.put_f32(context.velocity or []))),
            to_hex(context.indices or b""),
        )
        return rest[0] if result == "refused" else tuple(from_hex(word) for word in rest)

    def decode(self, payload, n, weight, acc):
        result, *rest = self.ask(
            "decode", n, repr(weight), to_hex(payload), to_hex(ref.put_f32(acc))
        )
        return rest[0] if result == "refused" else tuple(from_hex(word) for word in rest)


# --- Random inputs ---


def random_value(rng, kind, least, most, choices):
    if kind == CHOICE:
        return rng.choice(choices)
    # Small ones are as likely as large ones, and the ends come up.
    drawn = int(max(least, 1) * (most / max(least, 1)) ** rng.random())
    value = rng.choice((least, most, drawn, drawn, drawn, rng.randint(least, most)))
    return str(value) if kind == WHOLE else ("%.6f" % (value / MILLION))


def random_spec(rng, name, keys):
    chosen = [
        "%s=%s" % (key, random_value(rng, *limits))
        for key, limits in keys.items()
        if rng.random() < 0.7
    ]
    rng.shuffle(chosen)
    return name + ":" * bool(chosen) + ",".join(chosen)


def random_input(rng):
    """Values of one random shape: a length, a scale, a share of large ones, runs of zeros."""
    n = rng.choice((rng.randrange(1, 12), rng.randrange(1, 200), rng.randrange(200, 2500)))
    scale = 2.0 ** rng.choice((0, -3, 12, rng.randrange(-140, 14), rng.randrange(-20, 3)))
    density = rng.choice((0, 0.001, 0.02, 0.3, 1))
    grid = rng.choice((None, None, 4))  # many equal magnitudes
    values, zeros = [], 0
    while len(values) < n:
        if zeros == 0:
            zeros = rng.randrange(200) if rng.random() < 0.01 else 0
            size = 1 if rng.random() < density else 0.2
            value = rng.uniform(-size, size)
            values.append(ref.f32((round(value * grid) / grid if grid else value) * scale))
        else:
            zeros -= 1
            values.append(rng.choice((0.0, -0.0)))
    return values


def random_context(rng, momentum, values):
    context = ref.Context(
        rng.getrandbits(64), rng.choice((0, 1, 2, 3, 5, 9, 2**32 - 1)), rng.getrandbits(32)
    )
    context.segment = rng.choice((0, 1, 64))
    if momentum:
        context.velocity = [ref.f32(v * rng.uniform(-1, 1)) for v in values[::-1]]
    return context


def random_indices(rng, n):
    """What a leader may have chosen, or not."""
    chosen = sorted(rng.sample(range(n), rng.randint(0, max(1, n // rng.choice((1, 10, 50))))))
    payload = b"\x32" + index_sets.put(chosen, n) if chosen else b"\x00"
    return payload if rng.random() < 0.8 else damage(rng, payload, list(ref.MODES))


def damage(rng, payload, modes):
    payload = bytearray(payload)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(payload))
        kind = rng.randrange(6)
        if kind == 0:
            payload[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            payload[at] = rng.choice((rng.randrange(256), rng.randrange(240, 256)))
        elif kind == 2:
            payload.insert(at, rng.randrange(256))
        elif kind == 3 and len(payload) > 1:
            del payload[at]
        elif kind == 4:
            payload[-1] = rng.randrange(256)
        else:
            payload[0] = rng.choice(modes)
    return bytes(payload)


# --- Comparing ---


def reference_encode(spec, values, context):
    try:
        payload, fed_back = ref.encode(spec, values, context)
    except ref.Refused as refused:
        return str(refused)
    return payload, ref.put_f32(fed_back), ref.put_f32(context.velocity or [])


def reference_decode(payload, n, weight, acc):
    try:
        values = ref.decode(payload, n)
    except ref.Refused as refused:
        return str(refused)
    return ref.put_f32(values), ref.put_f32(ref.accumulate(payload, n, weight, acc))


class Comparison:
    def __init__(self, libtern, rng):
        self.libtern = libtern
        self.rng = rng
        self.encoded = self.refused = self.damaged = self.valid = 0

    def decode(self, payload, n):
        """Returns whether the payload is valid."""
        weight = ref.f32(self.rng.choice((1.0, -0.5, self.rng.uniform(-2, 2))))
        acc = [ref.f32(self.rng.choice((0.0, -0.0, self.rng.gauss(0, 1)))) for _ in range(n)]
        expected = reference_decode(payload, n, weight, acc)
        actual = self.libtern.decode(payload, n, weight, acc)
        refused = isinstance(actual, str)  # for which of two reasons is open
        assert refused == isinstance(expected, str) and (refused or actual == expected), (
            *("decode", n, weight, payload.hex(), ref.put_f32(acc).hex()),
            *(actual, expected),
        )
        return not refused

    def one(self, name, momentum, keys):
        rng = self.rng
        spec = random_spec(rng, name, keys)
        values = random_input(rng)
        context = random_context(rng, momentum, values)
        if "warmup=" in spec and rng.random() < 0.7:
            rounds = ref.specs.parse(spec)[1]["warmup"]
            context.round = max(0, rng.choice((rounds // 2, rounds - 1, rounds, rounds + 1)))
        if name == "scalecom" and rng.random() < 0.6:
            context.indices = random_indices(rng, len(values))
        actual = self.libtern.encode(spec, values, context)
        expected = reference_encode(spec, values, context)
        assert actual == expected, (spec, context, ref.put_f32(values).hex(), actual, expected)
        if isinstance(actual, str):
            self.refused += 1
            return
        self.encoded += 1
        assert self.decode(actual[0], len(values))
        modes = list(ref.MODES)
        for _ in range(DAMAGED):
            self.damaged += 1
            self.valid += self.decode(damage(rng, actual[0], modes), len(values))


def main():
    if len(sys.argv) not in (2, 3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 17)
    libtern = Libtern(sys.argv[1])
    codecs = libtern.codecs()
    assert set(codecs) == set(ref.specs.CODECS), set(codecs) ^ set(ref.specs.CODECS)
    comparison = Comparison(libtern, rng)
    end = time.monotonic() + seconds
    # A busy machine takes longer, and compares as much.
    while time.monotonic() < end or comparison.encoded <= 10 * len(codecs):
        for name, (momentum, keys) in codecs.items():
            comparison.one(name, momentum, keys)
    assert 0 < comparison.valid < comparison.damaged
    print(
        "%(encoded)d encodings agree, %(refused)d are refused; of %(damaged)d damaged payloads "
        "%(valid)d are valid" % vars(comparison)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
