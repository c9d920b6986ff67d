#!/usr/bin/env python3
"""Runs tern-codec beside the reference on random inputs: the same payload, the same error buffer,
the same values back, and the same damaged payloads refused.

    differential.py TERN_CODEC [SEED]
"""

import os
import random
import subprocess
import sys
import tempfile

import tern_reference as ref

ROUNDS = 60
DAMAGED = 250


def random_spec(rng):
    return rng.choice(("float32", "float16", "3lc", "3lc:s=%.3f" % rng.uniform(1, 1.998)))


def random_input(rng):
    """Values of one random shape: a length, a scale, a share of large ones, runs of zeros."""
    n = rng.choice((rng.randrange(1, 12), rng.randrange(1, 400), rng.randrange(400, 6000)))
    scale = 2.0 ** rng.choice((0, -3, 12, rng.randrange(-140, 14)))
    density = rng.choice((0, 0.001, 0.02, 0.3, 1))
    values, zeros = [], 0
    while len(values) < n:
        if zeros == 0:
            zeros = rng.randrange(200) if rng.random() < 0.01 else 0
            value = 1 if rng.random() < density else 0.2
            values.append(ref.f32(rng.uniform(-value, value) * scale))
        else:
            zeros -= 1
            values.append(0.0)
    return values


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Codec:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        return subprocess.run(
            [self.program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ).returncode

    def decode(self, payload, n):
        """The values, or None when the payload is refused."""
        write(self.path("payload"), payload)
        code = self.run("decode", self.path("payload"), self.path("values"), "--count", str(n))
        return read(self.path("values")) if code == 0 else None


def check_encode(rng, codec):
    spec, buffer = random_spec(rng), []
    n = None
    if os.path.exists(codec.path("buffer")):
        os.unlink(codec.path("buffer"))
    for _ in range(3):
        values = random_input(rng) if n is None else [ref.f32(v * 0.5) for v in values[::-1]]
        n = len(values)
        total = [ref.f32(e + x) for e, x in zip(buffer or [0.0] * n, values)]
        if not buffer:
            total = values
        write(codec.path("input"), ref.put_f32(values))
        code = codec.run(
            *("encode", spec, codec.path("input"), codec.path("out")),
            *("--error-buffer", codec.path("buffer")),
        )
        payload, buffer = ref.encode(spec, total)
        assert code == 0, (spec, n, code)
        assert read(codec.path("out")) == payload, (spec, n)
        assert read(codec.path("buffer")) == ref.put_f32(buffer), (spec, n)
        assert codec.decode(payload, n) == ref.put_f32(ref.decode(payload, n)), (spec, n)
    return payload, n


def damage(rng, payload):
    payload = bytearray(payload)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(payload))
        kind = rng.randrange(5)
        if kind == 0:
            payload[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            payload[at] = rng.choice((rng.randrange(256), rng.randrange(240, 256)))
        elif kind == 2:
            payload.insert(at, rng.randrange(256))
        elif kind == 3 and len(payload) > 1:
            del payload[at]
        else:
            payload[0] = rng.randrange(0x13)
    return bytes(payload)


def check_damaged(rng, codec, payload, n):
    """Returns whether the payload was still valid."""
    payload = damage(rng, payload)
    values = codec.decode(payload, n)
    try:
        expected = ref.put_f32(ref.decode(payload, n))
    except ref.Refused:
        assert values is None, (payload.hex(), n)
        return False
    assert values == expected, (payload.hex(), n)
    return True


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) == 3 else 17)
    with tempfile.TemporaryDirectory() as folder:
        codec = Codec(sys.argv[1], folder)
        made = [check_encode(rng, codec) for _ in range(ROUNDS)]
        valid = sum(check_damaged(rng, codec, *rng.choice(made)) for _ in range(DAMAGED))
    assert 0 < valid < DAMAGED, valid
    print("%d encodings agree; of %d damaged payloads %d were valid" % (3 * ROUNDS, DAMAGED, valid))
    return 0


if __name__ == "__main__":
    sys.exit(main())
