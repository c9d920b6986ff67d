"""Vectors of error buffers in each storage."""

import random

import tern_reference as ref
from tern_reference import container, error_buffer
from vector_text import bits, line

TINY = 2.0**-149
MAX = error_buffer.LARGEST


def contents():
    rng = random.Random(12)
    yield "random", [rng.gauss(0, 1) for _ in range(20)]
    yield "two-blocks", [0.0] * 60 + [rng.gauss(0, 2.0**k) for k in range(-5, 5)]
    yield "zero", [0.0, -0.0, 0.0]
    yield "subnormal", [TINY, -TINY, 3 * TINY, 200 * TINY, -130 * TINY]
    yield "largest", [MAX, -MAX, MAX / 2, 1.0]
    yield "near-largest", [3.3961775e38, -3.3895314e38, 3.39e38]
    yield "ties", [127.0, 0.5, 1.5, -2.5, 126.5, -0.5, 1 + 2.0**-8, 1 + 3 * 2.0**-8]


def stored():
    for name, values in contents():
        values = [ref.f32(v) for v in values]
        yield line("values", name, bits(values))
        for storage, kept in error_buffer.STORAGES.items():
            data = kept.put(values)
            yield line("stored", storage, data.hex())
            yield line("read", bits(kept.get(data, len(values))))
        yield "\n"


def damaged():
    nan, inf, one = bytes.fromhex("0000c07f"), ref.put_f32([float("inf")]), ref.put_f32([1.0])
    for storage, n, data in (
        ("float32", 1, nan),
        ("float32", 2, one + inf),
        ("bfloat16", 1, bytes.fromhex("807f")),
        ("bfloat16", 1, bytes.fromhex("c1ff")),
        ("int8", 1, nan + b"\1"),
        ("int8", 1, inf + b"\1"),
        ("int8", 1, ref.put_f32([-1.0]) + b"\1"),
        ("int8", 1, ref.put_f32([-0.0]) + b"\1"),
        ("int8", 1, ref.put_f32([2.0**121]) + b"\1"),
        ("int8", 1, ref.put_f32([2.0**122]) + b"\1"),
        ("int8", 2, one + b"\x81\x80"),
    ):
        yield line("damaged", storage, str(n), data.hex())
        try:
            error_buffer.STORAGES[storage].get(data, n)
            yield "accepted\n\n"
        except ref.Refused:
            yield "refused\n\n"


def steps():
    """A buffer, a change that is added to it, and what an encoder left of the sum."""
    rng = random.Random(13)
    for storage, kept in error_buffer.STORAGES.items():
        data = kept.put([ref.f32(rng.gauss(0, 1)) for _ in range(9)])
        change = [ref.f32(rng.gauss(0, 1)) for _ in range(9)]
        for decay, beta in ((1.0, 1.0), (0.0, 0.5), (0.7, 0.1), (1.0, 0.3)):
            decay, beta, values = ref.f32(decay), ref.f32(beta), kept.get(data, 9)
            total = error_buffer.total(values, decay, change)
            left = [ref.f32(t / 4) for t in total]
            after = kept.put(error_buffer.after(values, decay, beta, left))
            yield line("step", storage, bits([decay]), bits([beta])) + line("buffer", data.hex())
            yield line("change", bits(change)) + line("total", bits(total))
            yield line("left", bits(left)) + line("after", after.hex()) + "\n"


def limits():
    """A buffer and a change, of which the last value is in a dense segment where coded is 3."""
    rng = random.Random(15)
    e = [rng.gauss(0, 1) for _ in range(4)]
    cases = [
        (2.0, 4, [3 * v for v in e], [v / 7 for v in e[::-1]]),  # outweighs the change
        (2.0, 3, [3 * v for v in e[:3]] + [0.0], [v / 7 for v in e[:3]] + [1e6]),
        (2.0, 4, e, [2 * v for v in e]),  # does not
        (2.0, 4, [4.0, 0.0, 0.0, 0.0], [0.0, 0.0, -2.0, 0.0]),  # to the last bit
        (0.1, 4, e, e[::-1]),
        (0.0, 4, e, e),
        (2.0, 4, e, [0.0, -0.0, 0.0, 0.0]),
        (2.0, 4, [0.0, -0.0, 0.0, 0.0], e),
        (0.5, 4, [MAX / 2, MAX / 2, MAX, 0.0], [MAX / 8, 1.0, 0.0, 0.0]),  # a norm beyond float32
        (1e38, 4, [MAX, 0.0, 0.0, 0.0], [1e3, 0.0, 0.0, 0.0]),
        (2.0, 4, [1e-40, 2e-40, 0.0, 0.0], [TINY, 0.0, 0.0, 0.0]),
    ]
    for storage, kept in error_buffer.STORAGES.items():
        for c, coded, values, change in cases:
            c, change = ref.f32(c), [ref.f32(v) for v in change]
            data = kept.put([ref.f32(v) for v in values])
            values = kept.get(data, 4)
            decay = error_buffer.limit_decay(values, c, change[:coded])
            yield line("limit", storage, bits([c]), str(coded)) + line("buffer", data.hex())
            yield line("change", bits(change)) + line("decay", bits([decay]))
            yield line("total", bits(error_buffer.total(values, decay, change))) + "\n"


def give_back():
    """An update of two segments, of which the second begins inside a block."""
    rng = random.Random(14)
    spec = "mlp:90-6-2"
    model = ref.Model(spec)
    update = [rng.choice((1.0, -2.0)) if rng.random() < 0.004 else 0.0 for _ in range(model.count)]
    update[2], update[model.segments[-1][0]] = 1.0, 3e38
    data, _ = container.encode("3lc:s=1", model, update)
    for storage, kept in error_buffer.STORAGES.items():
        buffer = [0.0] * model.count
        buffer[::29] = [rng.choice((0.25, -1.0, 3e38)) for _ in buffer[::29]]
        before = kept.put([ref.f32(v) for v in buffer])
        after = error_buffer.given_back(storage, before, model, container.entries(model, data))
        yield line("give-back", storage, spec, data.hex()) + line("buffer", before.hex())
        yield line("after", after.hex()) + "\n"


def cases():
    for group in (stored, damaged, steps, limits, give_back):
        yield from group()
