"""FORMAT.md sections 6 and 8: model layout, model hash, manifests, initial weights, replica ids."""

import hashlib
import math
import struct

from .draws import stream, uniform
from .values import Refused, f32, get_varint, put_f32, put_varint


COMPRESS, FUSE, DENSE, SKIP, LOCAL = range(5)


class Model:
    def __init__(self, spec, manifest=None):
        """Makes a model from a spec string, or from the bytes of a manifest."""
        self.manifest = manifest
        if manifest is None:
            self.tensors = list(built_in(spec))  # (name, dims, init_bound)
            counts = [math.prod(dims) for _, dims, _ in self.tensors]
            self.rules = [COMPRESS if count >= 512 else FUSE for count in counts]
        else:
            found = read_manifest(manifest)
            self.tensors = [(name, dims, 0.0) for _, name, dims in found]
            self.rules = [rule for rule, _, _ in found]
        self.lay_out([math.prod(dims) for _, dims, _ in self.tensors])

    def lay_out(self, counts):
        self.offsets, self.segments, self.rule_of, at = {}, [], [], 0
        for rule in (COMPRESS, FUSE, DENSE, LOCAL, SKIP):
            start = at
            for i, count in enumerate(counts):
                if self.rules[i] != rule:
                    continue
                self.offsets[i] = at
                if rule == COMPRESS:
                    self.add_segment(rule, at, count)
                at += count
            if rule != COMPRESS and at > start:
                self.add_segment(rule, start, at - start)
        self.count = at

    def add_segment(self, rule, offset, count):
        self.segments.append((offset, count))
        self.rule_of.append(rule)

    def is_coded(self, segment):
        return self.rule_of[segment] in (COMPRESS, FUSE)

    def hash(self):
        if self.manifest is not None:
            return hashlib.sha256(self.manifest).digest()
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


def is_text(name):
    """UTF-8 without control characters."""
    try:
        return all(ord(c) > 0x1F and not 0x7F <= ord(c) <= 0x9F for c in name.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def take_number(data, at, most):
    value, at = get_varint(data, at)
    if value > most:
        raise Refused("too-large")
    return value, at


def take_byte(data, at, most):
    if at >= len(data) or data[at] > most:
        raise Refused("corrupt")
    return data[at], at + 1


def read_tensor(data, at):
    rule, at = take_byte(data, at, LOCAL)
    length, at = take_number(data, at, 127)
    name, at = data[at : at + length], at + length
    if at > len(data) or not is_text(name):
        raise Refused("corrupt")
    dim_count, at = take_byte(data, at, 8)
    dims = []
    for _ in range(dim_count):
        size, at = take_number(data, at, 2**28)
        dims.append(size)
    return (rule, name.decode(), tuple(dims)), at


def check_tensor(tensor, before):
    _, name, dims = tensor
    if not name or 0 in dims:
        raise Refused("bad-argument")
    count = math.prod(dims)
    if count > 2**28:
        raise Refused("too-large")
    if name in (other for _, other, _ in before):
        raise Refused("bad-argument")
    if count + sum(math.prod(other) for _, _, other in before) > 2**28:
        raise Refused("too-large")


def read_manifest(data):
    """(rule, name, dims) of each tensor (section 6.4)."""
    if data[:4] != b"TMF1":
        raise Refused("corrupt")
    count, at = take_number(data, 4, 1024)
    found = []
    for _ in range(count):
        tensor, at = read_tensor(data, at)
        check_tensor(tensor, found)
        found.append(tensor)
    if at != len(data):
        raise Refused("corrupt")
    if not found:
        raise Refused("bad-argument")
    return found


def put_manifest(tensors):
    data = b"TMF1" + put_varint(len(tensors))
    for rule, name, dims in tensors:
        name = name.encode()
        data += bytes([rule]) + put_varint(len(name)) + name + bytes([len(dims)])
        data += b"".join(put_varint(size) for size in dims)
    return data


def layer(name, dims, gain):
    bound = f32(math.sqrt(f32(gain / math.prod(dims[1:]))))
    return [(name + ".weight", dims, bound), (name + ".bias", dims[:1], 0.0)]


def built_in(spec):
    family, _, sizes = spec.partition(",")[0].partition(":")
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


def first_replica(model_hash, weights):
    label = b"tern replica weights"
    return hashlib.sha256(label + model_hash + hashlib.sha256(put_f32(weights)).digest()).digest()


def step_replica(before, download):
    label = b"tern replica step"
    return hashlib.sha256(label + before + hashlib.sha256(download).digest()).digest()
