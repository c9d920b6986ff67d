"""Vectors of the codecs, and of the ternary coders by themselves."""

import dataclasses
import random

import tern_reference as ref
from tern_reference import index_sets, ternary_coders
from vector_text import bits, line, symbols

TINY = 2.0**-149
MAX = ref.f32(3.4028234663852886e38)

EVERY = (
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "onebit",
    "3lc:s=1",
    "3lc:s=1.75",
    "3lc:s=1.5,coder=auto",
    "3lc:s=1,coder=balanced",
    "3lc:s=1,clip=4.5",
    "3lc:s=1.25,clip=1,coder=packed",
    "density:p=0.1",
    "density:p=0.000001,coder=packed",
    "density:p=1,coder=zero-run",
    "density:p=0.01,least=12",
    "density:p=0.9,fit=yes",
    "density:p=0.05,least=3,fit=yes,coder=gaps",
    "stochastic-ternary",
    "stochastic-ternary:coder=packed",
    "sparse:p=0.1",
    "sparse:p=0.5,coder=gaps",
    "sparse:p=1,coder=bitmap",
    "qsgd",
    "qsgd:levels=1,norm=l2,coder=elias",
    "qsgd:levels=32767,bucket=32,coder=elias",
    "qsgd:levels=4,bucket=32,norm=l2",
    "inceptionn",
    "inceptionn:variant=literal",
    "inceptionn:bound=4",
    "uniform",
    "uniform:error=0.0001",
    "uniform:error=0.9",
    "dgc:p=0.2",
    "dgc:p=0.001,warmup=4,coder=bitmap",
    "dgc:p=0.001,warmup=1",
    "scalecom:p=0.3",
)
HALVES = ("float16", "bfloat16", "int8")
BOUNDED = (
    "inceptionn",
    "inceptionn:bound=4",
    "inceptionn:bound=20",
    "inceptionn:variant=literal",
    "inceptionn:bound=4,variant=literal",
    "inceptionn:bound=20,variant=literal",
)
UNIFORM = ("uniform", "uniform:error=0.001", "uniform:error=0.5")
NEAR = (1, -0.9999, 1.5, -3)
LIMITS = (
    "3lc:s=1.000001",
    "3lc:s=1.999",
    "3lc:s=1,clip=0.000001",
    "density:p=0.5",
    "density:p=1,fit=yes",
    "onebit",
)


def random_values(rng, n, density):
    """Mostly small values, and some that 3lc selects."""
    return [rng.uniform(-1, 1) if rng.random() < density else rng.gauss(0, 0.05) for _ in range(n)]


def inputs():
    """(name, values, specs)"""
    rng = random.Random(3)
    yield "none", [], EVERY
    yield "one", [-0.75], EVERY
    yield "ties", [0.5, -0.5, 1.0, -1.0, 0.25, -0.75, 0.75, 0.5000001, 0.0, 1.0, -1.0], EVERY
    yield "random", random_values(rng, 27, 0.4), EVERY
    yield "mostly-zero", [rng.choice((0.0,) * 9 + (1.0, -0.5, 2.0)) for _ in range(97)], EVERY
    yield "negative-zero", [-0.0, 0.0, -0.0], EVERY
    yield "negative-zero-beside-one", [-0.0, 1.0, -0.0, -1.0, 0.0, -0.0], EVERY
    yield "smallest-subnormal", [TINY, -TINY, 0.0, TINY], EVERY
    yield "subnormals", [k * TINY * sign for k in (1, 2, 3, 60, 127) for sign in (1, -1)], EVERY
    yield "largest", [MAX, -MAX, MAX / 2, 1.0, -MAX / 2], EVERY + LIMITS
    yield "quarter-of-largest", [MAX / 4, -MAX / 4, MAX / 8, 1.0], EVERY + LIMITS
    yield "nan", [1.0, float("nan")], EVERY
    yield "infinite", [float("-inf"), 1.0], EVERY
    yield "half-ties", [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8], HALVES
    yield "half-subnormals", [k * 2.0**-26 for k in range(-20, 21)], HALVES
    yield "half-to-zero", [2.0**-25, -(2.0**-25), 2.0**-40, 0.0], HALVES
    yield "half-limit", [65519.0, -65504.0, 65503.99, 1.0], HALVES
    yield "half-overflow", [65520.0, 1.0], HALVES
    yield "bfloat16-limit", [3.3895313e38, 1.0], HALVES
    yield "bfloat16-overflow", [3.3961775e38, 1.0], HALVES
    yield "half-carry", [2047.9999, 4095.9999, -0.99999994, 6.1035152e-05], HALVES
    yield "about-one", [0.99999994, 1.0, -1.0000001, 0.5, 127.5, 1e30], BOUNDED
    yield "about-bounds", [k * 2.0**-c for c in (4, 5, 10, 12, 21) for k in NEAR], BOUNDED
    yield "literal-to-zero", [0.0077, -0.005, 0.0], BOUNDED
    yield "peak", [1000.0] + [rng.gauss(0, 0.4) for _ in range(40)], UNIFORM
    yield "steep", [1.5**-i * (-1) ** i for i in range(60)], UNIFORM
    yield "room", [6.6461395e35, -1.0], UNIFORM
    yield "no-room", [6.646141e35, -1.0], UNIFORM
    yield "sampled", random_values(rng, 2500, 0.1), UNIFORM[:1]
    yield "lanes", ([0.0] * 799 + [1.0, -0.5, 0.25, 2.0]) * 21, UNIFORM[:1]
    yield "one-sided", [1.0, 2.0, 4.5, 0.1], LIMITS
    yield "other-side", [-1.0, -2.0, -4.5, -0.1], LIMITS


def contexts(spec, values):
    """Contexts worth a case of their own."""
    context = ref.Context(seed=0x123456789ABCDEF, round=2, client=3, segment=1)
    rounds = (1, 2, 3, 4, 5) if "warmup" in spec and len(values) > 50 else (2,)
    if spec.startswith("dgc"):
        velocity = [ref.f32(v / 2) if ref.finite([v]) else 0.5 for v in values]
        for number in rounds:
            yield dataclasses.replace(context, round=number, velocity=list(velocity))
        return
    yield context
    if spec in ("stochastic-ternary", "qsgd") and len(values) > 20:
        yield dataclasses.replace(context, client=4)
        yield dataclasses.replace(context, segment=63, seed=2**64 - 1)
    if spec.startswith("scalecom"):
        for indices in leaders_choices(len(values)):
            yield dataclasses.replace(context, indices=indices)


def leaders_choices(n):
    """Payloads of mode sparse-indices: some that fit p = 0.3, and some that do not."""
    yield b"\x00"
    for chosen in ([n - 1], list(range(0, n, 4)), list(range(n))):
        if chosen and chosen[0] >= 0:
            yield b"\x32" + index_sets.put(chosen, n)
    if 0 < n < 5:
        yield b"\x32" + index_sets.put([n], n + 1)
        yield b"\x32"
        yield b"\x30"


def codec_case(spec, values, context):
    if context.velocity is not None:
        yield line("velocity", bits(context.velocity))
    if context.indices is not None:
        yield line("indices", context.indices.hex())
    numbers = context.seed, context.round, context.client, context.segment
    yield line("case", spec, *(str(number) for number in numbers))
    try:
        payload, fed_back = ref.encode(spec, values, context)
    except ref.Refused as refused:
        yield line("refused", str(refused))
        return
    yield line("payload", payload.hex()) + line("fed-back", bits(fed_back))
    if context.velocity is not None:
        yield line("velocity-after", bits(context.velocity))


def codec_cases():
    for name, values, specs in inputs():
        values = [ref.f32(v) for v in values]
        yield line("input", name, bits(values)) + "\n"
        for spec in specs:
            for context in contexts(spec, values):
                yield from codec_case(spec, values, context)
                yield "\n"


# --- Ternary coders ---


def symbol_strings():
    rng = random.Random(8)
    for n in range(1, 12):
        yield [rng.choice((-1, 0, 1)) for _ in range(n - 1)] + [1]
    # Runs of each length about the limits of one and two run bytes.
    for zeros in (1, 2, 13, 14, 15, 28, 29, 182, 183, 184):
        run = [1] + [0] * zeros + [-1]
        yield run + [0] * (4 * len(run))
    for zeros in (9, 10, 70, 75, 76, 1000):
        yield [0, 1] + [0] * zeros + [-1, 1]
    yield [0] * 40000 + [-1]
    yield [1] + [0] * 40000
    yield [1] * 40 + [0] * 40 + [-1] * 40
    for density, n in ((0.7, 200), (0.3, 200), (0.1, 400), (0.03, 700), (0.003, 4000)):
        yield [1] + [rng.choice((-1, 1)) if rng.random() < density else 0 for _ in range(n)]
    # Density that changes along the tensor.
    yield [1] + [rng.choice((-1, 1)) if rng.random() < i / 600 else 0 for i in range(600)]


def coder_cases():
    for q in symbol_strings():
        yield line("symbols", symbols(q))
        for name, coder in ternary_coders.CODERS.items():
            yield line(name, coder.encode(q).hex())
        yield "\n"
