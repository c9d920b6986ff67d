"""FORMAT.md section 3: any codec's values to one payload, and any payload to values."""

import dataclasses

from . import dense, inceptionn, qsgd, sparse, specs, ternary, uniform
from .values import Refused, f32, finite

ZERO = 0x00


@dataclasses.dataclass
class Context:
    """What encoding depends on beside codec and values."""

    seed: int = 0
    round: int = 0
    client: int = 0
    segment: int = 0
    velocity: list = None  # dgc's u; changed by encode()
    indices: bytes = None  # scalecom: what the round's leader chose


FAMILIES = (dense, ternary, sparse, qsgd, inceptionn, uniform)
ENCODERS = {name: encode for family in FAMILIES for name, encode in family.ENCODERS.items()}
DECODERS = {mode: decode for family in FAMILIES for mode, decode in family.DECODERS.items()}

MODES = {ZERO, *DECODERS}
NO_FEEDBACK = {"stochastic-ternary", "qsgd", "inceptionn"}

# Families that list the values they have.
LISTS = (sparse, qsgd, inceptionn, uniform)


def encode(spec, values, context=None):
    """Returns (payload, what is fed back)."""
    name, parameters = specs.parse(spec)
    if not finite(values):
        raise Refused("non-finite")
    context, made = context or Context(), None
    if name == "scalecom":
        sparse.check_indices(parameters, len(values), context)
    if any(values):
        made = ENCODERS[name](parameters, values, context)
    if made is None:
        keeps = name not in NO_FEEDBACK
        made = bytes([ZERO]), list(values) if keeps else [0.0] * len(values)
    return made


def decode(payload, n):
    if len(payload) == 0:
        raise Refused("corrupt")
    mode, body = payload[0], payload[1:]
    if mode == ZERO:
        if body:
            raise Refused("corrupt")
        return [0.0] * n
    if mode not in DECODERS:
        raise Refused("unknown")
    return DECODERS[mode](body, n)


def added(payload, n):
    """Section 3.9: pairs of an index and what is added there."""
    values = decode(payload, n)
    mode, body = payload[0], payload[1:]
    for family in LISTS:
        if mode in family.DECODERS:
            return family.listed(mode, body, n)
    skips = mode == ZERO or mode in ternary.DECODERS
    return [(i, v) for i, v in enumerate(values) if not skips or v != 0]


def accumulate(payload, n, weight, acc):
    """Returns the new values."""
    acc = list(acc)
    for i, value in added(payload, n):
        acc[i] = f32(acc[i] + f32(weight * value))
    return acc
