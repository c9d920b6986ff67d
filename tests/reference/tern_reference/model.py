"""FORMAT.md sections 6 and 8: model layout, model hash, initial weights, replica ids."""

import hashlib
import math
import struct

from .draws import stream, uniform
from .values import f32, put_f32


class Model:
    def __init__(self, spec):
        self.tensors = list(built_in(spec))  # (name, dims, init_bound)
        counts = [math.prod(dims) for _, dims, _ in self.tensors]
        order = [i for i, c in enumerate(counts) if c >= 512]
        small = [i for i, c in enumerate(counts) if c < 512]
        self.offsets, self.segments, at = {}, [], 0
        for i in order:
            self.offsets[i] = at
            self.segments.append((at, counts[i]))
            at += counts[i]
        fused = at
        for i in small:
            self.offsets[i] = at
            at += counts[i]
        if small:
            self.segments.append((fused, at - fused))
        self.count = at

    def hash(self):
        data = b"tern model" + struct.pack("<I", len(self.tensors))
        for name, dims, bound in self.tensors:
            data += struct.pack("<I", len(name)) + name.encode()
            data += struct.pack("<I%dI" % len(dims), len(dims), *dims) + put_f32([bound])
        return hashlib.sha256(data).digest()

    def initial_weights(self, seed):
        weights = [0.0] * self.count
        for i, (_, dims, bound) in enumerate(self.tensors):
            draws = stream(seed, 1, i, 0)
            for k in range(math.prod(dims)):
                u = uniform(next(draws))
                weights[self.offsets[i] + k] = f32(bound * (2 * u - 1)) if bound else 0.0
        return weights


def layer(name, dims, gain):
    bound = f32(math.sqrt(f32(gain / math.prod(dims[1:]))))
    return [(name + ".weight", dims, bound), (name + ".bias", dims[:1], 0.0)]


def built_in(spec):
    family, _, sizes = spec.partition(":")
    sizes = [int(size) for size in sizes.replace("x", "-").split("-")]
    if family == "cnn":
        h, w, depth, a, b, classes = sizes
        dense = (classes, (h // 4) * (w // 4) * b)
        return (
            layer("conv1", (a, 3, 3, depth), 6)
            + layer("conv2", (b, 3, 3, a), 6)
            + layer("fc1", dense, 3)
        )
    tensors = []
    for i in range(len(sizes) - 1):
        gain = 3 if i + 2 == len(sizes) else 6
        tensors += layer("fc%d" % (i + 1), (sizes[i + 1], sizes[i]), gain)
    return tensors


def seed_replica(model_hash, seed):
    return hashlib.sha256(b"tern replica seed" + model_hash + struct.pack("<Q", seed)).digest()


def step_replica(before, download):
    label = b"tern replica step"
    return hashlib.sha256(label + before + hashlib.sha256(download).digest()).digest()
