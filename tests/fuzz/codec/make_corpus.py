#!/usr/bin/env python3
"""Writes the seeds of the codecs' fuzz targets from the vectors (reference/make_vectors.py): valid payloads of every mode,
and values for every codec, and containers.

    make_corpus.py VECTORS CORPUS
"""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "reference"))
import tern_reference as ref  # noqa: E402

# The modes of each target, in the order of its source.
FAMILIES = {
    "dense": (0x00, 0x01, 0x02, 0x03, 0x04, 0x20, 0x50, 0x51),
    "ternary": (0x10, 0x11),
    "entropy": (0x14, 0x15, 0x60),
    "sparse": (0x30, 0x31, 0x32, 0x33, 0x40, 0x41),
}
CODECS = 14
PER_MODE = 6
LONGEST = 300


def pairs(path):
    """(words of a line, words of the next)"""
    with open(path) as file:
        lines = [line.split() for line in file if line.strip() and line[0] != "#"]
    return zip(lines, lines[1:])


def payloads(vectors):
    """(count, payload) of valid payloads."""
    for words, after in pairs(os.path.join(vectors, "payloads.txt")):
        if words[0] == "payload" and after[0] == "values" and len(words) == 4:
            yield int(words[2]), bytes.fromhex(words[3])
    count = 0
    for words, _ in pairs(os.path.join(vectors, "codecs.txt")):
        if words[0] == "input":
            count = sum(int(word.partition("*")[2] or 1) for word in words[2:])
        if words[0] == "payload":
            yield count, bytes.fromhex(words[1])


def write(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def write_payloads(vectors, corpus):
    found = {}
    for count, payload in payloads(vectors):
        if len(payload) <= LONGEST:
            found.setdefault(payload[0], []).append((count, payload))
    for family, modes in FAMILIES.items():
        for at, mode in enumerate(modes):
            # Longer ones reach more.
            longest = sorted(set(found.get(mode, ())), key=lambda item: (-len(item[1]), item))
            for i, (count, payload) in enumerate(longest[:PER_MODE]):
                data = bytes([at]) + count.to_bytes(2, "little") + payload[1:]
                write(os.path.join(corpus, "codec_" + family), "%02x-%d" % (mode, i), data)


def write_values(corpus):
    rng = random.Random(1)
    for codec in range(CODECS):
        data = bytes([codec]) + rng.randbytes(40) + bytes([0xC5] * 30) + rng.randbytes(30)
        for target in ("codec_encode", "codec_kernels"):
            write(os.path.join(corpus, target), "codec-%d" % codec, data)


# Writes containers of the model that fuzz_container.c reads.
def write_containers(corpus):
    rng = random.Random(2)
    model = ref.Model("mlp:40-30-20-5")
    for spec in ("3lc:coder=range", "qsgd:coder=elias", "uniform", "scalecom:p=0.01", "scalecom:coder=gaps"):
        values = [float(rng.choice((0, 0, 0, 1, -2))) for _ in range(model.count)]
        data, _ = ref.container.encode(spec, model, values)
        write(os.path.join(corpus, "codec_container"), spec.replace(":", "-"), data)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_payloads(*sys.argv[1:])
    write_values(sys.argv[2])
    write_containers(sys.argv[2])
