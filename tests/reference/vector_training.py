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


NUMBERS = (
    "linear:5-1,loss=mse",
    "mlp:7-6-1,loss=mae",
    "cnn:6x6x1-2-3-1,loss=mse",
    "mlp:6-4-6,loss=reconstruction",
)


def number_cases():
    """An example of each loss of numbers, and an autoencoder's figures over several."""
    rng = random.Random(9)
    for spec in NUMBERS:
        made = ref.Model(spec)
        weights = made.initial_weights(rng.randrange(2**64))
        weights = [w if w else rng.randint(-8, 8) / 32 for w in weights]
        yield line("numbers", spec) + line("weights", bits(weights))
        features = 36 if spec.startswith("cnn:") else int(spec.split(":")[1].split("-")[0])
        errors = []
        labels = [0, 0, 1, 0, 0, 2, 0, 1]
        for label in labels:
            inputs = [rng.randint(-32, 32) / 16 * (2 if label else 1) for _ in range(features)]
            z = training.logits(made, spec, weights, inputs)
            target = rng.randint(-32, 32) / 16
            name = training.loss_of(spec)
            wanted = inputs if name == "reconstruction" else [target]
            errors.append(training.loss_of_numbers(name, z, wanted))
            yield line("item", str(label), bits([target])) + line("inputs", bits(inputs))
            yield line("loss", "%.9f" % errors[-1], "%.9f" % z[0])
        normal = [e for e, label in zip(errors, labels) if not label]
        threshold = training.quantile(normal, 0.75)
        yield line(
            "figures",
            "%.9f" % training.area_under_curve(errors, labels),
            "%.9f" % threshold,
            str(sum(e > threshold for e in errors)),
        )
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
    yield from number_cases()
    yield from batch_cases()
