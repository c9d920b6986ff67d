"""Vectors of what built-in models compute, and of the batches they are trained on."""

import itertools
import random

import tern_reference as ref
from tern_reference import training
from vector_text import bits, line

NETWORKS = ("softmax:5-3", "mlp:7-6-5-4", "cnn:6x6x1-2-3-4", "cnn:7x9x2-3-2-3")


def network_cases():
    rng = random.Random(8)
    for spec in NETWORKS:
        made = ref.Model(spec)
        seed = rng.randrange(2**64)
        weights = made.initial_weights(seed)
        # Biases begin as zero, and would hide where they go.
        weights = [w if w else rng.randint(-8, 8) / 32 for w in weights]
        yield line("network", spec) + line("weights", bits(weights))
        sizes = spec.split(":")[1].replace("x", "-").split("-")
        features = int(sizes[0])
        if spec.startswith("cnn:"):
            features *= int(sizes[1]) * int(sizes[2])
        for _ in range(4):
            inputs = [rng.randint(-32, 32) / 16 for _ in range(features)]
            z = training.logits(made, spec, weights, inputs)
            label = rng.randrange(int(sizes[-1]))
            yield line("example", str(label)) + line("inputs", bits(inputs))
            yield line("expected", "%.9f" % training.loss(z, label), str(training.answer(z)))
        yield "\n"


def batch_cases():
    for seed, round_number, client, count, size, steps in (
        (42, 1, 1, 5, 1, 12),
        (42, 1, 2, 5, 1, 12),
        (42, 2, 1, 5, 1, 12),
        (2**64 - 1, 2**32 - 1, 2**32 + 3, 10, 3, 8),
        (7, 3, 9, 4, 32, 3),
        (7, 4, 9, 12, 4, 7),
    ):
        words = (seed, round_number, client, count, size)
        yield line("batches", *(str(word) for word in words))
        made = training.batches(seed, round_number, client, count, size)
        for batch in itertools.islice(made, steps):
            yield line("step", *(str(i) for i in batch))
        yield "\n"


def cases():
    yield from network_cases()
    yield from batch_cases()
