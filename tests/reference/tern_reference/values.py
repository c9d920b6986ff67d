"""FORMAT.md section 1: float32 arithmetic on Python floats, little-endian numbers, varints."""

import math
import struct


class Refused(Exception):
    """A payload or input that FORMAT.md refuses; the text is the result's name."""


def f32(value):
    """Rounds to float32; NaN and infinities stay. Of one sum, difference, product, quotient or
    square root of float32 the float64 result is exact enough that rounding it again is rounding
    once."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def put_f32(values):
    return struct.pack("<%df" % len(values), *values)


def get_f32(data):
    return list(struct.unpack("<%df" % (len(data) // 4), data))


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def finite(values):
    return all(math.isfinite(v) for v in values)


def check_scale(scale, most=1):
    """Scales are finite, also times the largest level, and have no sign."""
    if not math.isfinite(f32(scale * most)) or math.copysign(1, scale) < 0:
        raise Refused("non-finite")


def minus(values, decoded):
    """What error feedback keeps: t - decoded."""
    return [f32(t - d) for t, d in zip(values, decoded)]


def lane_sum(values):
    s = [0.0] * 8
    for i, value in enumerate(values):
        s[i % 8] += value
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def cut(data, size):
    """The first `size` bytes and the rest."""
    if len(data) < size:
        raise Refused("corrupt")
    return data[:size], data[size:]


def put_varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def get_varint(data, at):
    """The number at data[at] and where it ends."""
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise Refused("corrupt")
        byte = data[at + i]
        value += (byte % 128) << (7 * i)
        if byte < 128:
            if (byte == 0 and i > 0) or value >= 2**64:
                raise Refused("corrupt")
            return value, at + i + 1
    raise Refused("corrupt")
