"""FORMAT.md: ternary payloads. A quantizer turns values into a scale and symbols q = -1, 0, 1; a
coder (ternary_coders.py) turns the symbols into bytes."""

import math
from fractions import Fraction

from . import dense, draws, selection, ternary_coders
from .values import Refused, bits_of, check_scale, cut, f32, from_bits, get_f32, put_f32

CUTS = 16  # of magnitudes, two an octave


def assemble(parameters, m, q, values):
    """(payload, what is fed back); None when all symbols are zero."""
    if not any(q):
        return None
    if parameters["coder"] == "auto" and len(q) == 1:
        return dense.encode_float32(parameters, values, None)
    payload = ternary_coders.encode(parameters["coder"], put_f32([m]), q)
    return payload, [f32(t - f32(m * d)) for t, d in zip(values, q)]


def sign(value):
    return (value > 0) - (value < 0)


def encode_3lc(parameters, values, context):
    peak = max(abs(t) for t in values)
    if math.isinf(f32(peak * parameters["s"])):
        raise Refused("non-finite")
    if parameters["clip"]:
        peak = min(peak, f32(parameters["clip"] * mean_magnitude(values, values)))
    m = f32(peak * parameters["s"])
    if not m:
        return None
    half = m / 2  # exact in float64
    return assemble(parameters, m, [(t > half) - (t < -half) for t in values], values)


def encode_density(parameters, values, context):
    share = selection.how_many(parameters["millionths"]["p"], len(values))
    k = max(share, min(parameters["least"], len(values)))
    limit = selection.kth_magnitude(values, k)
    q = [sign(t) if abs(t) >= limit else 0 for t in values]
    if parameters["fit"] == "yes":
        half = f32(best_mean(values) / 2)
        q = [d if abs(t) > half else 0 for t, d in zip(values, q)]
    return assemble(parameters, mean_magnitude(values, q), q, values)


def fixed_point(values):
    """Magnitudes as whole numbers of 2^(E-30), and E."""
    exponent = math.frexp(max(abs(t) for t in values))[1] - 1
    unit = Fraction(2) ** (exponent - 30)
    return [Fraction(abs(t)) // unit for t in values], exponent


def mean_of(units, exponent):
    return f32(math.ldexp(max(1, sum(units) // len(units)), exponent - 30))


def mean_magnitude(values, q):
    """Returns the mean magnitude of the sent values, by a fixed-point sum that does not depend on the order."""
    units, exponent = fixed_point(values)
    return mean_of([a for a, d in zip(units, q) if d], exponent)


def best_mean(values):
    """The scale that takes most off the sum of squares, of those of the largest magnitudes."""
    best = most = 0
    units, exponent = fixed_point(values)
    bits = [bits_of(abs(t)) for t in values]
    top = max(bits)
    for j in range(1, CUTS + 1):
        taken = [a for a, b in zip(units, bits) if b > max(0, top - (j << 22))]
        mean = mean_of(taken, exponent)
        share = f32(mean / from_bits(top))
        off = f32(f32(share * share) * f32(len(taken)))
        if off > most:
            best, most = mean, off
    return best


def encode_stochastic(parameters, values, context):
    peak = max(abs(t) for t in values)
    q = [
        sign(t) if f32(draws.uniform(draw) * peak) < abs(t) else 0
        for t, draw in zip(values, draws.of_codec(context))
    ]
    made = assemble(parameters, peak, q, values)
    return made and (made[0], [0.0] * len(values))


def decoder(coder):
    def decode(body, n):
        scale, symbols = cut(body, 4)
        (m,) = get_f32(scale)
        check_scale(m)
        if m == 0:
            raise Refused("corrupt")
        return [m * d if d else 0.0 for d in coder.decode(symbols, n)]

    return decode


ENCODERS = {
    "3lc": encode_3lc,
    "density": encode_density,
    "stochastic-ternary": encode_stochastic,
}
DECODERS = {coder.mode: decoder(coder) for coder in ternary_coders.CODERS.values()}
