"""Vectors of manifests, and of containers whose segments have rules of their own."""

import random

import tern_reference as ref
from tern_reference import container, model
from vector_text import bits, line

COMPRESS, FUSE, DENSE, SKIP, LOCAL = model.COMPRESS, model.FUSE, model.DENSE, model.SKIP, model.LOCAL

TENSORS = (
    [(COMPRESS, "w", (3, 5))],
    [(COMPRESS, "w", (3, 300)), (SKIP, "bn", ())],
    [(DENSE, "stats", (4,)), (FUSE, "b.1", (6,)), (SKIP, "frozen", (2, 2, 2, 1, 1, 1, 1, 1)),
     (COMPRESS, "w.1", (40,)), (FUSE, "b.2", ()), (COMPRESS, "w.2", (5, 7)), (DENSE, "var", (3,))],
    [(SKIP, "gefr\u00f6ren", (9,))],
    [(LOCAL, "head.w", (3, 4)), (SKIP, "stem", (5,)), (COMPRESS, "body", (6, 7)), (LOCAL, "head.b", (3,)), (DENSE, "mean", (2,))],
)

SPECS = ("float32", "3lc:s=1.75", "density:p=0.2,coder=range", "int8", "scalecom:p=0.2")

REFUSED = (
    b"", b"TMF1", b"TMF2\1\0\1w\0", b"TMF1\0", b"TMF1\1\5\1w\0", b"TMF1\1\0\0\0", b"TMF1\1\0\1\xff\0",
    b"TMF1\1\0\1\x1b\0", b"TMF1\1\0\2\xc2\x80\0", b"TMF1\1\0\1w\x09", b"TMF1\1\0\1w\1\0",
    b"TMF1\x81\0\0\1w\0", b"TMF1\1\0\1w\0\0", b"TMF1\2\0\1w\0\0\1w\0", b"TMF1\x81\x08",
    b"TMF1\1\0\x80\1", b"TMF1\1\0\1w\1\x81\x80\x80\x80\1",
    b"TMF1\1\0\1w\2\x80\x80\x80\x40\x80\x80\x80\x40",
    b"TMF1\2\0\1v\1\x80\x80\x80\x80\1\0\1w\0",
)


def container_case(made, spec, rng):
    """What is frozen does not change, and of what is local nobody is told; everything else does."""
    values = [rng.randint(-9, 9) / 8 for _ in range(made.count)]
    for segment, (offset, count) in enumerate(made.segments):
        if made.rule_of[segment] in (SKIP, LOCAL):
            values[offset : offset + count] = [0.0] * count
    data, fed_back = container.encode(spec, made, values, ref.Context(seed=11, round=3, client=5))
    yield line("container", spec) + line("input", bits(values))
    yield line("bytes", data.hex()) + line("fed-back", bits(fed_back))
    yield line("values", bits(container.decode(made, data)))


def accepted(tensors, rng):
    data = model.put_manifest(tensors)
    made = ref.Model(None, data)
    yield line("manifest", data.hex()) + line("hash", made.hash().hex())
    for (offset, count), rule in zip(made.segments, made.rule_of):
        yield line("segment", str(offset), str(count), str(rule))
    for i, (rule, name, dims) in enumerate(tensors):
        sizes = "x".join(str(size) for size in dims) or "-"
        yield line("tensor", name, sizes, str(made.offsets[i]), str(rule))
    yield line("first", model.first_replica(made.hash(), [0.5] * made.count).hex())
    for spec in SPECS:
        yield from container_case(made, spec, rng)
    yield "\n"


def cases():
    rng = random.Random(8)
    for tensors in TENSORS:
        yield from accepted(tensors, rng)
    for data in REFUSED:
        try:
            ref.Model(None, data)
            raise AssertionError("%r is no refused manifest" % data)
        except ref.Refused as refused:
            yield line("manifest", data.hex()) + line("refused", str(refused)) + "\n"
