"""FORMAT.md sections 6.1 and 6.5: what a built-in model computes, and which examples a step sees.

A tensor is a flat list in row-major order, a layer's output too; the arithmetic is that of Python.
"""

import math

from .draws import below, stream

BATCHES = 3  # purpose


def relu(values):
    return [max(value, 0.0) for value in values]


def dense(weight, bias, inputs):
    width = len(inputs)
    return [
        b + sum(w * x for w, x in zip(weight[k * width : (k + 1) * width], inputs))
        for k, b in enumerate(bias)
    ]


def convolve(weight, bias, image, height, width, depth):
    """[height][width][len(bias)] of [height][width][depth]."""
    out = []
    for y in range(height):
        for x in range(width):
            for k, b in enumerate(bias):
                total = b
                for i in range(3):
                    for j in range(3):
                        row, column = y + i - 1, x + j - 1
                        if 0 <= row < height and 0 <= column < width:
                            at = (row * width + column) * depth
                            tap = ((k * 3 + i) * 3 + j) * depth
                            total += sum(
                                weight[tap + c] * image[at + c] for c in range(depth)
                            )
                out.append(total)
    return out


def pool(image, height, width, depth):
    """The largest of each 2 x 2 square; an odd last row or column is left out."""

    def at(y, x, c):
        return image[(y * width + x) * depth + c]

    return [
        max(at(2 * y + i, 2 * x + j, c) for i in range(2) for j in range(2))
        for y in range(height // 2)
        for x in range(width // 2)
        for c in range(depth)
    ]


def logits(model, spec, weights, inputs):
    """Returns the logits of one example. weights: the flat vector."""

    def values(i):
        _, dims, _ = model.tensors[i]
        at = model.offsets[i]
        return weights[at : at + math.prod(dims)]

    layers = len(model.tensors) // 2
    if spec.startswith("cnn:"):
        height, width, depth = (int(n) for n in spec[4:].split("-")[0].split("x"))
    for layer in range(layers):
        weight, bias = values(2 * layer), values(2 * layer + 1)
        if len(model.tensors[2 * layer][1]) == 4:
            inputs = relu(convolve(weight, bias, inputs, height, width, depth))
            depth = len(bias)
            inputs = pool(inputs, height, width, depth)
            height, width = height // 2, width // 2
        else:
            inputs = dense(weight, bias, inputs)
            inputs = relu(inputs) if layer + 1 < layers else inputs
    return inputs


def loss_of(spec):
    """The name of a spec's loss."""
    return spec.partition(",loss=")[2] or "cross-entropy"


def loss_of_numbers(name, z, wanted):
    """wanted: the target, or the features."""
    if name == "mae":
        return abs(z[0] - wanted[0])
    return sum((a - b) ** 2 for a, b in zip(z, wanted)) / len(z)


def gradient_of_numbers(name, z, wanted):
    """Returns the gradient of the loss by each output."""
    if name == "mae":
        return [(z[0] > wanted[0]) - (z[0] < wanted[0])]
    return [2 * (a - b) / len(z) for a, b in zip(z, wanted)]


def area_under_curve(errors, anomalies):
    """The share of pairs in which the anomaly has the larger error; ties are half."""
    normal = [e for e, a in zip(errors, anomalies) if not a]
    other = [e for e, a in zip(errors, anomalies) if a]
    return sum((o > n) + (o == n) / 2 for o in other for n in normal) / (len(other) * len(normal))


def quantile(errors, share):
    """The smallest of them that at least so large a share do not exceed."""
    return sorted(errors)[max(math.ceil(share * len(errors)), 1) - 1]


def loss(z, label):
    peak = max(z)
    return math.log(sum(math.exp(value - peak) for value in z)) - (z[label] - peak)


def answer(z):
    return z.index(max(z))


def batches(seed, round_number, client, count, batch_size):
    """The examples of each step, as positions in the client's `count` training examples."""
    draws = stream(seed, BATCHES, round_number, client % 2**32)
    order = list(range(count))
    batch = min(batch_size, count)
    at = count  # nothing is left of the epoch before the first
    while True:
        if count - at < batch:
            for i in range(count, 1, -1):
                j = below(draws, i)
                order[i - 1], order[j] = order[j], order[i - 1]
            at = 0
        yield order[at : at + batch]
        at += batch
