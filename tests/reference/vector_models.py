"""Vectors of models, containers and spec strings."""

import hashlib
import random

import tern_reference as ref
from tern_reference import container, model
from vector_text import bits, line


def model_cases():
    for spec in (
        "softmax:64-6",
        "softmax:64-10",
        "mlp:784-128-10",
        "mlp:30-20-10-5",
        "cnn:28x28x1-8-16-10",
        "cnn:33x30x3-16-32-10",
    ):
        made = ref.Model(spec)
        yield line("model", spec, str(made.count)) + line("hash", made.hash().hex())
        for offset, count in made.segments:
            yield line("segment", str(offset), str(count))
        for i, (name, dims, bound) in enumerate(made.tensors):
            sizes = "x".join(str(d) for d in dims)
            yield line("tensor", name, sizes, str(made.offsets[i]), bits([bound]))
        for seed in (1, 2**63 + 12345):
            weights = made.initial_weights(seed)
            digest = hashlib.sha256(ref.put_f32(weights)).hexdigest()
            yield line("weights", str(seed), digest, bits(weights[:4]))
            yield line("replica", str(seed), model.seed_replica(made.hash(), seed).hex())
        yield "\n"


CONTAINERS = (
    ("softmax:64-6", "float32"),
    ("softmax:64-10", "3lc:s=1"),
    ("mlp:30-20-10-5", "3lc:s=1.9"),
    ("mlp:30-20-10-5", "stochastic-ternary:coder=range"),
    ("mlp:30-20-10-5", "qsgd:coder=elias"),
    ("mlp:30-20-10-5", "sparse:p=0.02"),
    ("mlp:30-20-10-5", "uniform"),
)


def container_cases():
    rng = random.Random(5)
    for model_spec, spec in CONTAINERS:
        made = ref.Model(model_spec)
        # On a grid, most of them zero, so that the file stays short.
        values = [
            rng.choice((0.0, rng.randint(-4, 4) / 4)) if rng.random() < 0.1 else 0.0
            for _ in range(made.count)
        ]
        context = ref.Context(seed=11, round=3, client=5)
        data, fed_back = container.encode(spec, made, values, context)
        yield line("container", model_spec, spec) + line("input", bits(values))
        yield line("bytes", data.hex()) + line("fed-back", bits(fed_back))
        yield line("values", bits(container.decode(made, data))) + "\n"


def share_cases():
    """A leader's container, and that of a client that was given its indices."""
    rng = random.Random(6)
    for model_spec, spec in (
        ("softmax:64-6", "scalecom:p=0.02"),
        ("mlp:30-20-10-5", "scalecom:p=0.01,coder=bitmap"),
        ("mlp:30-20-10-5", "scalecom:p=0.05,coder=gaps"),
    ):
        made = ref.Model(model_spec)
        density = ref.specs.parse(spec)[1]["millionths"]["p"]
        offset, count = made.segments[-1]
        leader = [rng.randint(-8, 8) / 4 for _ in range(made.count)]
        if len(made.segments) > 1:
            leader[offset : offset + count] = [0.0] * count
        other = [rng.randint(-9, 9) / 4 for _ in range(made.count)]
        data, _ = container.encode(spec, made, leader)
        indices = container.share(made, data, density)
        own, fed_back = container.encode(spec, made, other, ref.Context(indices=indices))
        stripped = container.strip(made, own)
        yield line("leader", model_spec, spec, data.hex()) + line("indices", indices.hex())
        yield line("input", bits(other)) + line("own", own.hex())
        yield line("stripped", stripped.hex())
        yield line("joined", container.join(made, indices, stripped).hex()) + "\n"


def spec_texts():
    yield from ("", "float", "3LC", " 3lc", "float32:", "float16:s=1")
    for name, parameters in ref.specs.CODECS.items():
        yield from (name, name + ":", name + ":z=1")
        for key, parameter in parameters.items():
            for text in (*parameter.examples(), "", "-1", "x", "1e0", "0x1", "99999999999"):
                yield "%s:%s=%s" % (name, key, text)
            yield "%s:%s" % (name, key)
            first = parameter.examples()[0]
            yield "%s:%s=%s,%s=%s" % (name, key, first, key, first)
        if len(parameters) > 1:
            yield name + ":" + ",".join(
                "%s=%s" % (key, parameters[key].examples()[-1]) for key in reversed(parameters)
            )


def spec_cases():
    for text in spec_texts():
        yield line("spec", text)
        try:
            yield line("canonical", ref.specs.canonical(text)) + "\n"
        except ref.Refused as refused:
            yield line("refused", str(refused)) + "\n"
