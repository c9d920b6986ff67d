"""FORMAT.md section 3.6: values of a bucket at levels of the bucket's norm, chosen at random."""

import math

from . import draws
from .bits import Reader, Writer
from .values import Refused, check_scale, cut, f32, lane_sum
from .values import get_f32, get_varint, put_f32, put_varint

DENSE, ELIAS = 0x40, 0x41
MOST_LEVELS, LEAST_BUCKET = 32767, 32
LARGEST_NUMBER = 2**29 - 1


# --- Elias omega ---


def put_omega(out, k):
    text = "0"
    while k > 1:
        digits = bin(k)[2:]
        text = digits + text
        k = len(digits) - 1
    for character in text:
        out.put(int(character), 1)


def get_omega(source):
    k = 1
    while source.get(1):
        if k > 32:
            raise Refused("corrupt")
        value = 1
        for _ in range(k):
            value = 2 * value + source.get(1)
        k = value
    if k > LARGEST_NUMBER:
        raise Refused("corrupt")
    return k


# --- Encoding ---


def norm(bucket, kind):
    if kind == "max":
        return max(abs(t) for t in bucket)
    return f32(math.sqrt(lane_sum([t * t for t in bucket])))


def level(t, scale, levels, u):
    """With the sign of t."""
    a = f32(f32(abs(t) / scale) * levels) if scale else 0.0
    l = math.floor(a) + (u < f32(a - math.floor(a)))
    return -l if t < 0 else l


def encode(parameters, values, context):
    n, s, d = len(values), parameters["levels"], parameters["bucket"]
    peak = max(abs(t) for t in values)
    if parameters["norm"] == "l2" and math.isinf(f32(peak * 2**14)):
        raise Refused("non-finite")
    scales = [norm(values[at : at + d], parameters["norm"]) for at in range(0, n, d)]
    signed = [
        level(t, scales[i // d], s, draws.uniform(draw))
        for (i, t), draw in zip(enumerate(values), draws.of_codec(context))
    ]
    if not any(value_of(l, scales[i // d], s) for i, l in enumerate(signed)):
        return None
    head = put_varint(s) + put_varint(d if d < n else 0) + put_f32(scales)
    if parameters["coder"] == "dense":
        return bytes([DENSE]) + head + put_fields(signed, s), [0.0] * n
    return bytes([ELIAS]) + head + put_elias(signed), [0.0] * n


def put_fields(signed, s):
    out, width = Writer(), s.bit_length()
    for l in signed:
        out.put(abs(l), width)
        out.put(int(l < 0), 1)
    return out.bytes()


def put_elias(signed):
    out, before = Writer(), -1
    chosen = [(i, l) for i, l in enumerate(signed) if l != 0]
    for i, l in chosen:
        put_omega(out, i - before)
        out.put(int(l < 0), 1)
        put_omega(out, abs(l))
        before = i
    return put_varint(len(chosen)) + out.bytes()


# --- Decoding ---


def value_of(signed, scale, s):
    value = f32(scale * f32(abs(signed) / s))
    return -value if signed < 0 else value


def get_head(body, n):
    """Levels, bucket, scales (not yet looked at), and the rest."""
    s, at = get_varint(body, 0)
    d, at = get_varint(body, at)
    if n == 0 or not 1 <= s <= MOST_LEVELS or 1 <= d < LEAST_BUCKET or d >= n:
        raise Refused("corrupt")
    d = d or n
    scales, rest = cut(body[at:], 4 * -(-n // d))
    return s, d, get_f32(scales), rest


def get_fields(data, n, s):
    source, width, signed = Reader(data), s.bit_length(), []
    for _ in range(n):
        l, negative = source.get(width), source.get(1)
        if l > s or (l == 0 and negative):
            raise Refused("corrupt")
        signed.append((len(signed), -l if negative else l))
    source.finish()
    return signed


def get_elias(data, count, n, s):
    source, at, signed = Reader(data), -1, []
    for _ in range(count):
        at += get_omega(source)
        negative, l = source.get(1), get_omega(source)
        if at >= n or l > s:
            raise Refused("corrupt")
        signed.append((at, -l if negative else l))
    source.finish()
    return signed


def listed(mode, body, n):
    """Pairs of an index and a value: all values of mode qsgd-dense, of qsgd-elias those with a
    level."""
    s, d, scales, data = get_head(body, n)
    count = n
    if mode == DENSE and len(data) != -(-n * (s.bit_length() + 1) // 8):
        raise Refused("corrupt")
    if mode == ELIAS:
        count, at = get_varint(data, 0)
        data = data[at:]
        if not 1 <= count <= n:
            raise Refused("corrupt")
    for scale in scales:
        check_scale(scale)
    signed = get_fields(data, n, s) if mode == DENSE else get_elias(data, count, n, s)
    return [(i, value_of(l, scales[i // d], s)) for i, l in signed]


def decoder(mode):
    def decode(body, n):
        values = [0.0] * n
        for i, value in listed(mode, body, n):
            values[i] = value
        return values

    return decode


ENCODERS = {"qsgd": encode}
DECODERS = {DENSE: decoder(DENSE), ELIAS: decoder(ELIAS)}
