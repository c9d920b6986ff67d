"""FORMAT.md section 10: what a client keeps of what it has not yet sent."""

import math
import struct

from . import payload
from .values import Refused, bits_of, check_scale, f32, finite, from_bits, get_f32, put_f32

LARGEST = from_bits(0x7F7FFFFF)
BLOCK = 64


# --- Storages: values to bytes and back ---


class Float32:
    block = 1
    put = staticmethod(put_f32)

    @staticmethod
    def get(data, n):
        return accept(get_f32(data))


class Bfloat16:
    block = 1

    @staticmethod
    def put(values):
        halves = []
        for value in values:
            bits = bits_of(value)
            half = (bits + 0x7FFF + (bits >> 16) % 2) >> 16
            halves.append(half - 1 if half & 0x7FFF == 0x7F80 else half)
        return struct.pack("<%dH" % len(halves), *halves)

    @staticmethod
    def get(data, n):
        return accept([from_bits(half << 16) for half in struct.unpack("<%dH" % n, data)])


class Int8:
    block = BLOCK

    @staticmethod
    def put(values):
        return b"".join(put_block(values[at : at + BLOCK]) for at in range(0, len(values), BLOCK))

    @staticmethod
    def get(data, n):
        values, at = [], 0
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            (scale,) = get_f32(data[at : at + 4])
            check_scale(scale, 127)
            q = struct.unpack("<%db" % count, data[at + 4 : at + 4 + count])
            if -128 in q:
                raise Refused("corrupt")
            values += [f32(scale * d) for d in q]
            at += 4 + count
        return values


def put_block(values):
    scale = f32(max(abs(v) for v in values) / 127)
    if math.isinf(f32(127 * scale)):
        scale = from_bits(bits_of(scale) - 1)
    q = [max(-127, min(127, round(f32(v / scale)))) if scale else 0 for v in values]
    return put_f32([scale]) + struct.pack("<%db" % len(q), *q)


def accept(values):
    if not finite(values):
        raise Refused("corrupt")
    return values


STORAGES = {"float32": Float32, "bfloat16": Bfloat16, "int8": Int8}


# --- What becomes of a buffer ---


def norm(values):
    """As ErrorFacts and limits take it."""
    square = 0.0
    for v in values:
        square += v * v
    return f32(min(math.sqrt(square), LARGEST))


def limit_decay(values, c, change):
    """d under a limit; change: of the segments that are coded."""
    most, held = c * norm(change), norm(values)
    return f32(most / held) if held > most else 1.0


def decayed(values, d):
    return [v if d == 1 else 0.0 if d == 0 else f32(d * v) for v in values]


def total(values, d, change):
    """t, what is encoded."""
    made = [f32(e + x) for e, x in zip(decayed(values, d), change)]
    if not finite(made):
        raise Refused("non-finite")
    return made


def after(values, d, beta, rest):
    """The buffer once `rest` was left by the encoder."""
    if beta == 1:
        return rest
    other = f32(1 - beta)
    return [f32(f32(other * e) + f32(beta * r)) for e, r in zip(decayed(values, d), rest)]


def limited(value):
    return max(-LARGEST, min(LARGEST, value))


def given_back(storage, data, model, container):
    """The bytes of a buffer to which an update, one payload for each segment, is given back."""
    kept, n = STORAGES[storage], model.count
    for (offset, count), entry in zip(model.segments, container):
        added = [0.0] * n
        added[offset : offset + count] = payload.decode(entry, count)
        values = kept.get(data, n)
        made = kept.put([limited(f32(e + w)) for e, w in zip(values, added)])
        data = keep_untouched(kept, data, made, added)
    return data


def keep_untouched(kept, before, made, added):
    """Blocks to which nothing is added keep their bytes."""
    out, at = b"", 0
    for first in range(0, len(added), kept.block):
        block = added[first : first + kept.block]
        size = len(kept.put(block))
        out += (made if any(block) else before)[at : at + size]
        at += size
    return out
