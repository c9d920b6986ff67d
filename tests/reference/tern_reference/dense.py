"""FORMAT.md section 3.2: every value in 32, 16, 8 bits, or 1."""

import math
import struct

from .values import Refused, bits_of, check_scale, cut, f32, finite, from_bits, get_f32
from .values import lane_sum, minus, put_f32

FLOAT32, FLOAT16, BFLOAT16, INT8, ONEBIT = 0x01, 0x02, 0x03, 0x04, 0x20


# --- Encoders: (payload, what is fed back), or None for mode zero ---


def encode_float32(parameters, values, context):
    return bytes([FLOAT32]) + put_f32(values), [0.0] * len(values)


def encode_float16(parameters, values, context):
    try:
        body = struct.pack("<%de" % len(values), *values)
    except OverflowError:
        raise Refused("non-finite") from None
    return with_rest(FLOAT16, body, values, decode_float16)


def encode_bfloat16(parameters, values, context):
    words = [bits_of(t) for t in values]
    halves = [(b + 0x7FFF + (b >> 16) % 2) >> 16 for b in words]
    if any(h & 0x7FFF >= 0x7F80 for h in halves):
        raise Refused("non-finite")
    body = struct.pack("<%dH" % len(values), *halves)
    return with_rest(BFLOAT16, body, values, decode_bfloat16)


def encode_int8(parameters, values, context):
    scale = f32(max(abs(t) for t in values) / 127)
    if scale == 0:
        return None
    if math.isinf(f32(127 * scale)):
        raise Refused("non-finite")
    # round() takes ties to even.
    q = [round(max(-127.0, min(127.0, f32(t / scale)))) for t in values]
    body = put_f32([scale]) + struct.pack("<%db" % len(q), *q)
    return with_rest(INT8, body, values, decode_int8)


def encode_onebit(parameters, values, context):
    negative = [t < 0 for t in values]
    a = side_mean([0.0 if side else abs(t) for t, side in zip(values, negative)], negative, False)
    b = side_mean([abs(t) if side else 0.0 for t, side in zip(values, negative)], negative, True)
    if a == 0 and b == 0:
        return None
    flags = sum(side << i for i, side in enumerate(negative))
    body = put_f32([a, b]) + flags.to_bytes(-(-len(values) // 8), "little")
    return with_rest(ONEBIT, body, values, decode_onebit)


def side_mean(magnitudes, negative, side):
    count = negative.count(side)
    return f32(lane_sum(magnitudes) / count) if count else 0.0


def with_rest(mode, body, values, decode):
    decoded = decode(body, len(values))
    return (bytes([mode]) + body, minus(values, decoded)) if any(decoded) else None


# --- Decoders ---


def exactly(body, size):
    if len(body) != size:
        raise Refused("corrupt")


def decode_floats(body, n, size, form):
    exactly(body, size * n)
    values = list(struct.unpack(form % n, body))
    if not finite(values):
        raise Refused("non-finite")
    return values


def decode_float32(body, n):
    return decode_floats(body, n, 4, "<%df")


def decode_float16(body, n):
    return decode_floats(body, n, 2, "<%de")


def decode_bfloat16(body, n):
    exactly(body, 2 * n)
    values = [from_bits(half << 16) for half in struct.unpack("<%dH" % n, body)]
    if not finite(values):
        raise Refused("non-finite")
    return values


def decode_int8(body, n):
    exactly(body, 4 + n)
    scale, q = get_f32(body[:4])[0], struct.unpack("<%db" % n, body[4:])
    check_scale(scale, 127)
    if scale == 0 or -128 in q:
        raise Refused("corrupt")
    return [f32(d * scale) for d in q]


def decode_onebit(body, n):
    exactly(body, 8 + -(-n // 8))
    means, flags = cut(body, 8)
    a, b = get_f32(means)
    check_scale(a)
    check_scale(b)
    bits = int.from_bytes(flags, "little")
    if bits >> n:
        raise Refused("corrupt")
    return [-b if bits >> i & 1 else a for i in range(n)]


ENCODERS = {
    "float32": encode_float32,
    "float16": encode_float16,
    "bfloat16": encode_bfloat16,
    "int8": encode_int8,
    "onebit": encode_onebit,
}
DECODERS = {
    FLOAT32: decode_float32,
    FLOAT16: decode_float16,
    BFLOAT16: decode_bfloat16,
    INT8: decode_int8,
    ONEBIT: decode_onebit,
}
