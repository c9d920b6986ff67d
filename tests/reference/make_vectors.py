#!/usr/bin/env python3
"""Writes tests/vectors from the reference, or with --check compares what is there with it.

    make_vectors.py [--check] FOLDER

One item a line; float32 values as the hexadecimal of their bits, bytes as pairs of digits.
"""

import os
import random
import struct
import sys

import tern_reference as ref

TINY = 2.0**-149
MAX = ref.f32(3.4028234663852886e38)


def bits(values):
    return " ".join("%08x" % word for (word,) in struct.iter_unpack("<I", ref.put_f32(values)))


def line(key, *items):
    return " ".join((key,) + items).rstrip() + "\n"


def random_values(rng, n, density):
    """Mostly small values, and some that 3lc selects."""
    return [
        ref.f32(rng.uniform(-1, 1) if rng.random() < density else rng.gauss(0, 0.05))
        for _ in range(n)
    ]


def inputs():
    """Pairs of a name and values, for every codec."""
    rng = random.Random(3)
    for n in range(12):
        yield "length-%d" % n, random_values(rng, n, 0.5)
    for n, density in ((64, 0.0), (67, 0.9), (128, 0.1), (333, 0.02), (700, 0.003)):
        yield "density-%g-of-%d" % (density, n), random_values(rng, n, density)
    yield "all-zero", [0.0] * 9
    yield "negative-zero", [-0.0, 0.0, -0.0, 0.0, 0.0, -0.0]
    yield "negative-zero-beside-one", [-0.0, 1.0, -0.0, -1.0, 0.0, -0.0]
    yield "smallest-subnormal", [TINY, -TINY, 0.0, TINY]
    yield "odd-subnormals", [k * TINY * sign for k in range(1, 8) for sign in (1, -1)]
    yield "ties", [0.5, -0.5, 1.0, -1.0, 0.25, -0.75, 0.75, 0.5000001]
    yield "largest", [MAX, -MAX, MAX / 2, 1.0, -MAX / 2]
    yield "half-largest", [MAX / 4, -MAX / 4, MAX / 8, 1.0]
    yield "half-ties", [1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 3 * 2.0**-25, -(2.0**-24)]
    yield "half-subnormals", [k * 2.0**-26 for k in range(-20, 21)]
    yield "half-to-zero", [2.0**-25, -(2.0**-25), 2.0**-40, 0.0]
    yield "half-limit", [65519.0, -65504.0, 65503.99, 1.0]
    yield "half-overflow", [65520.0, 1.0]
    yield "half-carry", [2047.9999, 4095.9999, -0.99999994, 6.1035152e-05]
    # Zero runs of each length about the limits of one and two run bytes, between values of 1.
    for zeros in (1, 2, 3, 13, 14, 15, 16, 27, 28, 29, 30, 43):
        run = [1.0] + [0.0] * zeros + [-1.0]
        yield "zero-run-%d" % zeros, run + [0.0] * (4 * len(run))


def codec_cases():
    specs = ("float32", "float16", "3lc:s=1", "3lc:s=1.5", "3lc:s=1.75", "3lc:s=1.999")
    for name, values in inputs():
        values = [ref.f32(v) for v in values]
        for spec in specs[2:3] if name.startswith("zero-run") else specs:
            yield line("case", name, spec) + line("input", bits(values))
            try:
                payload, residual = ref.encode(spec, values)
            except ref.Refused as refused:
                yield line("refused", str(refused)) + "\n"
                continue
            decoded = ref.decode(payload, len(values))
            yield line("payload", payload.hex()) + line("values", bits(decoded))
            yield line("residual", bits(residual)) + "\n"


def payload_list():
    """Payloads by hand: (name, n, payload). Some are what no encoder writes."""
    one = ref.put_f32([1.0])
    runs, packed = bytes([0x10]), bytes([0x11])
    yield "empty", 3, b""
    yield "unknown-mode", 3, b"\x7f"
    yield "zero", 3, b"\x00"
    yield "zero-of-none", 0, b"\x00"
    yield "zero-with-body", 3, b"\x00\x00"
    yield "float32-of-none", 0, b"\x01"
    yield "float32-short", 2, b"\x01" + one + one[:3]
    yield "float32-long", 2, b"\x01" + one * 2 + b"\x00"
    yield "float32-infinite", 2, b"\x01" + one + ref.put_f32([float("-inf")])
    yield "float32-nan", 1, b"\x01" + bytes.fromhex("010080ff")
    yield "float16-negative-zero", 2, b"\x02" + bytes.fromhex("0080003c")
    yield "float16-infinite", 1, b"\x02" + bytes.fromhex("007c")
    yield "float16-nan", 1, b"\x02" + bytes.fromhex("01fe")
    yield "float16-short", 2, b"\x02" + bytes.fromhex("003c00")
    yield "ternary-no-scale", 5, packed + one[:3]
    yield "ternary-no-digits", 5, packed + one
    yield "ternary-of-none", 0, packed + one
    yield "runs-of-none", 0, runs + one
    yield "runs-of-none-with-digit", 0, runs + one + b"\x79"
    yield "scale-zero", 5, packed + ref.put_f32([0.0]) + b"\x79"
    yield "scale-negative-zero", 5, packed + ref.put_f32([-0.0]) + b"\x79"
    yield "scale-negative", 5, packed + ref.put_f32([-1.0]) + b"\x79"
    yield "scale-infinite", 5, packed + ref.put_f32([float("inf")]) + b"\x79"
    yield "scale-nan", 5, packed + bytes.fromhex("0000c07f") + b"\x79"
    yield "scale-subnormal", 5, packed + ref.put_f32([TINY]) + b"\x00"
    yield "packed-all-digits", 5 * 243, packed + one + bytes(range(243))
    yield "packed-zeros", 20, packed + one + b"\x79" * 4
    yield "packed-run-byte", 10, packed + one + b"\xf3"
    yield "packed-above-limit", 5, packed + one + b"\xf3"
    yield "packed-short", 10, packed + one + b"\x00"
    yield "packed-long", 10, packed + one + b"\x00\x01\x02"
    yield "runs-without-run", 10, runs + one + b"\x00\xf2"
    yield "runs-two", 10, runs + one + b"\xf3"
    yield "runs-fourteen", 70, runs + one + b"\xff"
    yield "runs-passing-the-end", 65, runs + one + b"\xff"
    yield "runs-short", 75, runs + one + b"\xff"
    yield "runs-split", 5 * 16, runs + one + b"\xf4\x79\x79\xfa\xf3"
    yield "runs-byte-after-end", 70, runs + one + b"\xff\x79"
    for n in range(1, 12):
        for byte in (0, 1, 80, 120, 122, 241, 242):
            length = -(-n // 5)
            yield "padding-%d-last-%d" % (n, byte), n, packed + one + b"\x79" * (length - 1) + bytes(
                [byte]
            )
    yield "padding-behind-run", 66, runs + one + b"\xfe\x78"
    yield "padding-before-run", 13, runs + one + b"\x78\xf3"
    yield "padding-good-before-run", 13, runs + one + b"\x00\xf3"


def payload_cases():
    for name, n, payload in payload_list():
        yield line("payload", name, str(n), payload.hex())
        try:
            yield line("values", bits(ref.decode(payload, n))) + "\n"
        except ref.Refused as refused:
            yield line("refused", str(refused)) + "\n"


def model_cases():
    for spec in (
        "softmax:64-6",
        "softmax:64-10",
        "mlp:784-128-10",
        "mlp:30-20-10-5",
        "cnn:28x28x1-8-16-10",
        "cnn:33x30x3-16-32-10",
    ):
        model = ref.Model(spec)
        yield line("model", spec, str(model.count)) + line("hash", model.hash().hex())
        for offset, count in model.segments:
            yield line("segment", str(offset), str(count))
        for i, (name, dims, bound) in enumerate(model.tensors):
            sizes = "x".join(str(d) for d in dims)
            yield line("tensor", name, sizes, str(model.offsets[i]), bits([bound]))
        for seed in (1, 2**63 + 12345):
            weights = model.initial_weights(seed)
            digest = ref.hashlib.sha256(ref.put_f32(weights)).hexdigest()
            yield line("weights", str(seed), digest, bits(weights[:4]))
            yield line("replica", str(seed), ref.seed_replica(model.hash(), seed).hex())
        yield "\n"


def container_cases():
    rng = random.Random(5)
    for model_spec in ("softmax:64-6", "softmax:64-10", "mlp:30-20-10-5"):
        model = ref.Model(model_spec)
        for spec in ("float32", "3lc:s=1", "3lc:s=1.9"):
            values = random_values(rng, model.count, 0.03)
            data, residual = ref.encode_container(spec, model, values)
            yield line("container", model_spec, spec) + line("input", bits(values))
            yield line("bytes", data.hex()) + line("residual", bits(residual))
            yield line("values", bits(ref.decode_container(model, data))) + "\n"


FILES = {
    "codecs.txt": codec_cases,
    "payloads.txt": payload_cases,
    "models.txt": model_cases,
    "containers.txt": container_cases,
}


def main():
    check = "--check" in sys.argv[1:]
    folders = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for name, cases in FILES.items():
        path = os.path.join(folders[0], name)
        text = "# Made by tests/reference/make_vectors.py\n\n" + "".join(cases())
        if not check:
            with open(path, "w") as file:
                file.write(text)
            continue
        with open(path) as file:
            if file.read() != text:
                print("%s is not what the reference makes of it" % path, file=sys.stderr)
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
