"""FORMAT.md section 3.7: every value in 0, 1, 2 or 4 bytes, by its size."""

import struct

from .values import Refused, bits_of, cut, f32, finite, get_f32

BOUNDED, LITERAL = 0x50, 0x51
FIELD_BYTES = (0, 1, 2, 4)  # by tag
GROUP = 8


def steps(bound):
    return {1: 2.0 ** (1 - bound), 2: 2.0 ** (1 - bound)}


LITERAL_STEPS = {1: 2.0**-7, 2: 2.0**-15}


# --- Encoding ---


def bounded_tag(t, bound):
    """(tag, k)"""
    y = f32(abs(t) * 2.0 ** (bound - 1))
    if y >= 32767.5:
        return 3, None
    k = round(y)  # ties to even
    return (0 if k == 0 else 1 if k <= 127 else 2), k


def literal_tag(t, bound):
    exponent, fraction = bits_of(t) >> 23 & 0xFF, bits_of(t) % 2**23
    if exponent >= 127:
        return 3, None
    if exponent < 127 - bound:
        return 0, None
    v = (2**23 + fraction) >> (127 - exponent)
    return (2, v >> 8) if exponent >= 127 - bound // 2 else (1, v >> 16)


def field(t, tag, k):
    if tag == 3:
        return struct.pack("<f", t)
    negative = bits_of(t) >> 31
    if tag == 2:
        return struct.pack("<H", negative << 15 | k)
    return bytes([negative << 7 | k]) if tag == 1 else b""


def encode(parameters, values, context):
    bounded, bound = parameters["variant"] == "bounded", parameters["bound"]
    choose = bounded_tag if bounded else literal_tag
    body = bytes([bound]) if bounded else b""
    for at in range(0, len(values), GROUP):
        group = values[at : at + GROUP]
        chosen = [choose(t, bound) for t in group]
        tags = sum(tag << 2 * j for j, (tag, _) in enumerate(chosen))
        fields = [field(t, tag, k) for t, (tag, k) in zip(group, chosen)]
        body += struct.pack("<H", tags) + b"".join(fields)
    mode = BOUNDED if bounded else LITERAL
    if not any(value for _, value in listed(mode, body, len(values))):
        return None
    return bytes([mode]) + body, [0.0] * len(values)


# --- Decoding ---


def value_of(tag, data, step):
    if tag == 3:
        return get_f32(data)[0]
    number, sign = int.from_bytes(data, "little"), 1 << (8 * len(data) - 1)
    value = (number % sign) * step[tag]
    return -value if number & sign else value


def listed(mode, body, n):
    """Pairs of an index and a value, of those whose tag is not 0."""
    step = LITERAL_STEPS
    if mode == BOUNDED:
        first, body = cut(body, 1)
        if not 4 <= first[0] <= 20:
            raise Refused("corrupt")
        step = steps(first[0])
    found = []
    for at in range(0, n, GROUP):
        head, body = cut(body, 2)
        tags = int.from_bytes(head, "little")
        if tags >> 2 * min(GROUP, n - at):
            raise Refused("corrupt")
        for j in range(GROUP):
            tag = tags >> 2 * j & 3
            data, body = cut(body, FIELD_BYTES[tag])
            if tag:
                found.append((at + j, value_of(tag, data, step)))
    if body:
        raise Refused("corrupt")
    if not finite([value for _, value in found]):
        raise Refused("non-finite")
    return found


def decoder(mode):
    def decode(body, n):
        values = [0.0] * n
        for i, value in listed(mode, body, n):
            values[i] = value
        return values

    return decode


ENCODERS = {"inceptionn": encode}
DECODERS = {BOUNDED: decoder(BOUNDED), LITERAL: decoder(LITERAL)}
