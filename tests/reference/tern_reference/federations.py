"""Whole federations in which every client takes part in every round with one local step: QSGD (Alistarh et al., NIPS
2017, algorithm 1) and QSVRG (section 3.3) as docs/FORMAT.md and docs/PROTOCOL.md have them.

Gradients are float64; what Tern rounds to float32 on its way (weights, changes, differences of replicas) is rounded
here, so that the quantiser's random numbers fall on the same side of the same values."""

import dataclasses
from collections.abc import Callable

from . import container, training
from .model import Model
from .payload import Context
from .values import f32


@dataclasses.dataclass
class Client:
    number: int  # that the aggregator gave it
    examples: int  # n_i
    gradient: Callable  # of (weights, positions of examples): their mean gradient, with the penalty


@dataclasses.dataclass
class Federation:
    model: Model
    codec: str  # spec of updates
    seed: int
    rate: float
    batch_size: int
    clients: list

    def change(self, client, weights, positions):
        """One step of plain SGD from `weights`: trained - base."""
        gradient = client.gradient(weights, positions)
        return [f32(f32(w - f32(self.rate * g)) - w) for w, g in zip(weights, gradient)]

    def batch(self, client, round_number):
        return next(training.batches(self.seed, round_number, client.number, client.examples, self.batch_size))

    def everything(self, client):
        return range(client.examples)

    def sent(self, codec, client, round_number, change):
        """What the aggregator decodes, and the bits of the container."""
        context = Context(seed=self.seed, round=round_number, client=client.number)
        data, _ = container.encode(codec, self.model, change, context)
        return container.decode(self.model, data), 8 * len(data)

    def collect(self, codec, round_number, change_of):
        """The mean of all clients' changes by their examples, and the bits of each."""
        total, mean, bits = sum(client.examples for client in self.clients), [0.0] * self.model.count, []
        for client in self.clients:
            values, size = self.sent(codec, client, round_number, change_of(client))
            mean = [m + client.examples / total * v for m, v in zip(mean, values)]
            bits.append(size)
        return mean, bits


def moved(weights, by):
    return [f32(w + m) for w, m in zip(weights, by)]


def qsgd(federation, weights, rounds):
    """Yields of each round the weights after it, and the bits that each client sent."""
    for number in range(1, rounds + 1):
        mean, bits = federation.collect(
            federation.codec, number,
            lambda client: federation.change(client, weights, federation.batch(client, number)))
        weights = moved(weights, mean)
        yield weights, bits


def qsvrg(federation, weights, rounds, epoch_steps):
    """The same. An epoch has the iterates x_1 .. x_T, T = epoch_steps, and a round for each but the first: x_1 is the
    anchor y, the first round steps along the full gradient there, and the last one publishes the mean of x_1 .. x_T,
    which is the next epoch's y."""
    number = 0
    while number < rounds:
        anchor, iterates = weights, [weights]
        mean, bits = federation.collect(
            "float32", number + 1,
            lambda client: federation.change(client, anchor, federation.everything(client)))
        full = [f32(x - y) for x, y in zip(moved(anchor, mean), anchor)]  # - rate * gradient of f at y
        while True:
            number += 1
            iterates.append(moved(iterates[-1], mean))
            if len(iterates) == epoch_steps:
                weights = [f32(sum(column) / epoch_steps) for column in zip(*iterates)]
                yield weights, bits
                break
            yield iterates[-1], bits
            if number == rounds:
                return
            mean, bits = federation.collect(
                federation.codec, number + 1,
                lambda client: reduced(federation, client, number + 1, iterates[-1], anchor, full))


def reduced(federation, client, round_number, weights, anchor, full):
    batch = federation.batch(client, round_number)
    here = federation.change(client, weights, batch)
    there = federation.change(client, anchor, batch)
    return [f32(f32(a - b) + c) for a, b, c in zip(here, there, full)]
