"""FORMAT.md section 3.5: some of the values, as they are."""

from . import index_sets, selection
from .values import Refused, cut, finite, get_f32, put_f32

BITMAP, GAPS, INDICES, SHARED = 0x30, 0x31, 0x32, 0x33
ZERO = b"\x00"

# dgc's densities while it warms up, in millionths.
WARM_UP = (250000, 62500, 15625, 4000)


# --- Encoders ---


def encode_sparse(parameters, values, context):
    chosen = selection.largest(values, parameters["millionths"]["p"])
    return assemble(parameters, values, chosen)


def encode_dgc(parameters, values, context):
    density = parameters["millionths"]["p"]
    rounds, this = parameters["warmup"], context.round
    if 1 <= this <= rounds:
        density = max(density, WARM_UP[4 * (this - 1) // rounds])
    chosen = selection.largest(values, density)
    for i in chosen:
        context.velocity[i] = 0.0
    return assemble(parameters, values, chosen)


def encode_scalecom(parameters, values, context):
    if context.indices is None:
        return encode_sparse(parameters, values, context)
    return assemble(parameters, values, leaders_choice(context.indices, len(values)))


def check_indices(parameters, n, context):
    """Comes before anything, also before mode zero."""
    if context.indices is not None:
        chosen = leaders_choice(context.indices, n)
        if len(chosen) > selection.how_many(parameters["millionths"]["p"], n):
            raise Refused("corrupt")


def leaders_choice(payload, n):
    if payload == ZERO:
        return []
    if payload[:1] != bytes([INDICES]):
        raise Refused("corrupt")
    return index_sets.get(payload[1:], n, 0)[0]


def assemble(parameters, values, chosen):
    """(payload, what is fed back), or None for mode zero."""
    if not any(values[i] for i in chosen):
        return None
    rest = list(values)
    for i in chosen:
        rest[i] = 0.0
    listed = put_f32([values[i] for i in chosen])
    payloads = {
        "bitmap": bytes([BITMAP]) + put_bitmap(chosen, len(values)) + listed,
        "gaps": bytes([GAPS]) + index_sets.put(chosen, len(values)) + listed,
    }
    shortest = min(payloads.values(), key=len)
    return payloads.get(parameters["coder"], shortest), rest


def put_bitmap(indices, n):
    return sum(1 << i for i in indices).to_bytes(-(-n // 8), "little")


# --- Decoders ---


def get_bitmap(body, n):
    bitmap, values = cut(body, -(-n // 8))
    bits = int.from_bytes(bitmap, "little")
    if bits >> n or len(values) != 4 * bits.bit_count():
        raise Refused("corrupt")
    return [i for i in range(n) if bits >> i & 1], values


def listed(mode, body, n):
    """Pairs of an index and a value."""
    indices, data = get_bitmap(body, n) if mode == BITMAP else index_sets.get(body, n, 4)
    values = get_f32(data)
    if not finite(values):
        raise Refused("non-finite")
    if not any(values):
        raise Refused("corrupt")
    return list(zip(indices, values))


def decoder(mode):
    def decode(body, n):
        values = [0.0] * n
        for i, value in listed(mode, body, n):
            values[i] = value
        return values

    return decode


ENCODERS = {"sparse": encode_sparse, "dgc": encode_dgc, "scalecom": encode_scalecom}
DECODERS = {BITMAP: decoder(BITMAP), GAPS: decoder(GAPS)}


# --- Rounds of scalecom: one payload at a time ---


def share(payload, n, density):
    """The leader's payload to the indices that the others are given."""
    if payload == ZERO:
        return ZERO
    if payload[0] not in DECODERS:
        raise Refused("corrupt")
    indices = [i for i, _ in listed(payload[0], payload[1:], n)]
    if len(indices) > selection.how_many(density, n):
        raise Refused("corrupt")
    return bytes([INDICES]) + index_sets.put(indices, n)


def strip(payload, n):
    """What another client sends."""
    if payload[0] not in DECODERS:
        return payload
    return bytes([SHARED]) + put_f32([value for _, value in listed(payload[0], payload[1:], n)])


def join(payload, indices, n):
    """What the aggregator makes of that; indices: of share()."""
    if payload[0] != SHARED:
        return payload
    if len(payload) - 1 != 4 * len(leaders_choice(indices, n)) or indices == ZERO:
        raise Refused("corrupt")
    return bytes([GAPS]) + indices[1:] + payload[1:]
