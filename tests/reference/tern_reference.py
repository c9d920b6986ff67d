"""Encoder and decoder of docs/FORMAT.md, written from that page alone.

Small and slow on purpose: one value at a time, no shared code with libtern. Section numbers are
those of FORMAT.md. Plain Python 3, standard library only.
"""

import hashlib
import math
import struct


class Refused(Exception):
    """A payload or input that FORMAT.md refuses; the text is the result's name."""


# --- 1. Conventions ---


def f32(value):
    """Rounds to float32. Of a sum or product of two float32 the float64 result is exact enough
    that rounding it again is rounding once."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def put_f32(values):
    return struct.pack("<%df" % len(values), *values)


def get_f32(data):
    return list(struct.unpack("<%df" % (len(data) // 4), data))


def put_varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def get_varint(data, at):
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


# --- 3. Payload ---

ZERO, FLOAT32, FLOAT16, RUNS, PACKED = 0x00, 0x01, 0x02, 0x10, 0x11
POWERS = (81, 27, 9, 3, 1)


def parse_spec(spec):
    """Section 4: (name, s)."""
    name, _, parameters = spec.partition(":")
    if name in ("float32", "float16") and ":" not in spec:
        return name, 1.0
    if name != "3lc":
        raise Refused("unknown")
    if ":" not in spec:
        return name, 1.0
    if not parameters.startswith("s="):
        raise Refused("bad-argument")
    return name, f32(float(parameters[2:]))


def encode(spec, values):
    """Returns (payload, what the payload does not carry)."""
    name, s = parse_spec(spec)
    if any(math.isnan(t) or math.isinf(t) for t in values):
        raise Refused("non-finite")
    if name == "float32":
        payload, residual = encode_float32(values)
    elif name == "float16":
        payload, residual = encode_float16(values)
    else:
        payload, residual = encode_3lc(values, s)
    if all(d == 0 for d in decode(payload, len(values))):
        return bytes([ZERO]), list(values)
    return payload, residual


def encode_float32(values):
    return bytes([FLOAT32]) + put_f32(values), [0.0] * len(values)


def encode_float16(values):
    try:
        body = b"".join(struct.pack("<e", t) for t in values)
    except OverflowError:
        raise Refused("non-finite") from None
    halves = struct.unpack("<%de" % len(values), body)
    return bytes([FLOAT16]) + body, [f32(t - h) for t, h in zip(values, halves)]


def encode_3lc(values, s):
    peak = max((abs(t) for t in values), default=0.0)
    m = f32(peak * s)
    if math.isinf(m):
        raise Refused("non-finite")
    if m == 0:
        return bytes([ZERO]), list(values)
    # m / 2 is exact in float64.
    q = [(t > m / 2) - (t < -m / 2) for t in values]
    residual = [f32(t - f32(m * d)) for t, d in zip(values, q)]
    return bytes([RUNS]) + put_f32([m]) + code_runs(pack_planar(q)), residual


def pack_planar(q):
    """Section 3.5."""
    length = -(-len(q) // 5)
    digits = [d + 1 for d in q] + [1] * (5 * length - len(q))
    return bytes(
        sum(digits[k * length + j] * POWERS[k] for k in range(5)) for j in range(length)
    )


def code_runs(packed):
    """Section 3.6."""
    out = bytearray()
    at = 0
    while at < len(packed):
        if packed[at] != 121:
            out.append(packed[at])
            at += 1
            continue
        run = 1
        while at + run < len(packed) and packed[at + run] == 121:
            run += 1
        at += run
        out += bytes([255]) * (run // 14)
        rest = run % 14
        if rest == 1:
            out.append(121)
        elif rest > 1:
            out.append(241 + rest)
    return bytes(out)


def decode(payload, n):
    if len(payload) == 0:
        raise Refused("corrupt")
    mode, body = payload[0], payload[1:]
    if mode == ZERO:
        if body:
            raise Refused("corrupt")
        return [0.0] * n
    if mode == FLOAT32:
        return decode_dense(body, n, 4, "<%df")
    if mode == FLOAT16:
        return decode_dense(body, n, 2, "<%de")
    if mode in (RUNS, PACKED):
        return decode_ternary(body, n, mode == RUNS)
    raise Refused("unknown")


def decode_dense(body, n, size, form):
    if len(body) != size * n:
        raise Refused("corrupt")
    values = list(struct.unpack(form % n, body))
    if any(math.isnan(v) or math.isinf(v) for v in values):
        raise Refused("non-finite")
    return values


def decode_ternary(body, n, runs):
    if len(body) < 4:
        raise Refused("corrupt")
    (m,) = struct.unpack("<f", body[:4])
    if math.isnan(m) or math.isinf(m) or math.copysign(1, m) < 0:
        raise Refused("non-finite")
    if m == 0:
        raise Refused("corrupt")
    length = -(-n // 5)
    packed = bytearray()
    for byte in body[4:]:
        if byte > 242 and not runs:
            raise Refused("corrupt")
        packed += bytes([byte]) if byte < 243 else bytes([121]) * (byte - 241)
    if len(packed) != length:
        raise Refused("corrupt")
    digits = [packed[j] // POWERS[k] % 3 for k in range(5) for j in range(length)]
    if any(d != 1 for d in digits[n:]):
        raise Refused("corrupt")
    return [0.0 if d == 1 else m if d == 2 else -m for d in digits[:n]]


def accumulate(payload, n, weight, acc):
    """Section 3.7: returns the new values."""
    dense = payload[:1] in (bytes([FLOAT32]), bytes([FLOAT16]))
    return [
        f32(a + f32(weight * v)) if dense or v != 0 else a
        for a, v in zip(acc, decode(payload, n))
    ]


# --- 2. Container ---


def encode_container(spec, model, values):
    out, residual = b"", []
    for offset, count in model.segments:
        payload, rest = encode(spec, values[offset : offset + count])
        out += put_varint(len(payload)) + payload
        residual += rest
    return out, residual


def decode_container(model, data):
    values, at = [], 0
    for _, count in model.segments:
        length, at = get_varint(data, at)
        if length > len(data) - at:
            raise Refused("corrupt")
        values += decode(data[at : at + length], count)
        at += length
    if at != len(data):
        raise Refused("corrupt")
    return values


# --- 6. Model layout ---


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
                u = (next(draws) >> 8) / 2**24
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


# --- 7. Random numbers ---


def philox(key, counter):
    mask = 2**32 - 1
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p, r = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (r >> 32) ^ c1 ^ k0, r & mask, (p >> 32) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def stream(seed, purpose, a, b):
    block = 0
    while True:
        counter = (block % 2**32, (purpose << 16) + (block >> 32), a, b)
        yield from philox((seed % 2**32, seed >> 32), counter)
        block += 1


# --- 8. Replica ids ---


def seed_replica(model_hash, seed):
    return hashlib.sha256(b"tern replica seed" + model_hash + struct.pack("<Q", seed)).digest()


def step_replica(before, download):
    label = b"tern replica step"
    return hashlib.sha256(label + before + hashlib.sha256(download).digest()).digest()
