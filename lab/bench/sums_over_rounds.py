#!/usr/bin/env python3
"""What the sums of many secure rounds reveal about one device: the table of docs/SECURITY.md, "Sums of many rounds".

Usage: sums_over_rounds.py [ROUNDS]. TERN_DATA_DIR holds Fashion-MNIST.
100 devices with 200 images each train softmax:784-10; their labels are unequal (Dirichlet .3). Updates are quantised as in
secure rounds (-1, 0, 1, about 30 % not zero, the rest in error buffers). An aggregator that sees only the sum of a list in each
round estimates the mean update of a device from the difference between rounds with and without it. The table has the cosine
between this estimate and the true one, both minus the mean of all devices: 0 reveals nothing, 1 everything.
"""
import gzip
import os
import pathlib
import sys

import numpy as np

DEVICES, EXAMPLES, CLASSES, STEPS, BATCH, RATE, DENSITY = 100, 200, 10, 10, 32, 0.05, 0.3
PICK = 7  # every seventh value is compared


def read(name, header):
    path = pathlib.Path(os.environ["TERN_DATA_DIR"]) / name
    with gzip.open(path.with_name(path.name + ".gz")) if not path.exists() else open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8)[header:]


def shares(draw):
    """Images [devices, examples, 785], the last value 1 for the bias, and one-hot labels [devices, examples, classes]."""
    images = read("train-images-idx3-ubyte", 16).reshape(-1, 784)
    labels = read("train-labels-idx1-ubyte", 8)
    by_class = [np.flatnonzero(labels == c) for c in range(CLASSES)]
    mixtures = draw.dirichlet([0.3] * CLASSES, DEVICES)
    rows = np.array([[draw.choice(by_class[c]) for c in draw.choice(CLASSES, EXAMPLES, p=mixture)] for mixture in mixtures])
    x = np.ones((DEVICES, EXAMPLES, 785), np.float32)
    x[:, :, :784] = images[rows] / np.float32(255)
    return x, np.eye(CLASSES, dtype=np.float32)[labels[rows]]


def train(weights, x, y, draw):
    """The changes of the weights by local SGD on each device."""
    w = np.repeat(weights[None], DEVICES, 0)
    device = np.arange(DEVICES)[:, None]
    for _ in range(STEPS):
        rows = draw.integers(0, EXAMPLES, (DEVICES, BATCH))
        batch = x[device, rows]
        logits = batch @ w
        p = np.exp(logits - logits.max(2, keepdims=True))
        p /= p.sum(2, keepdims=True)
        w -= RATE / BATCH * batch.transpose(0, 2, 1) @ (p - y[device, rows])
    return w - weights


def quantised(ratio, clip):
    """Values -1, 0 and 1; of each device at most a share `clip` of them is not 0, the largest ones."""
    q = np.clip(np.rint(ratio), -1, 1)
    if clip < 1:
        flat = np.abs(ratio).reshape(DEVICES, -1)
        least = -np.partition(-flat, int(clip * flat.shape[1]), 1)[:, int(clip * flat.shape[1])]
        q[np.abs(ratio) <= least[:, None, None]] = 0
    return q


def updates(x, y, rounds, draw, clip=1, sigma=0):
    """[rounds, devices, values]: the quantised updates of all devices in each round; the scale of each round; the final weights.
    sigma: standard deviation of the noise that is added to each sum."""
    density = min(DENSITY, clip / 2)
    weights = np.zeros((785, CLASSES), np.float32)
    residual = np.zeros((DEVICES, 785, CLASSES), np.float32)
    found = np.empty((rounds, DEVICES, 785 * CLASSES), np.int8)
    scale, scales = None, []
    for r in range(rounds):
        residual += train(weights, x, y, draw)
        scale = np.quantile(np.abs(residual), 1 - density) * 2 if scale is None else scale
        q = quantised(residual / scale, clip)
        residual -= scale * q
        noise = np.rint(draw.normal(0, sigma, q.shape[1:])) if sigma else 0
        scales.append(scale)
        scale = scale * np.clip((q != 0).mean() / density, 0.5, 2)
        weights += np.float32(scale) * (q.mean(0) + noise / np.float32(DEVICES))
        found[r] = q.reshape(DEVICES, -1)
    return found, scales, weights


def lists(policy, rounds, device, draw):
    """[rounds, devices]: who is in the list of each round."""
    if policy.startswith("random"):
        cohort = int(policy.split()[1])
        members = np.zeros((rounds, DEVICES), bool)
        for row in members:
            row[draw.permutation(DEVICES)[:cohort]] = True
        return members
    members = np.ones((rounds, DEVICES), bool)
    members[draw.permutation(rounds)[:rounds // 2], device] = False
    return members


def divided(members, groups, draw):
    """[rounds, devices]: the group of each device in each round, -1 without the device. draw: an order of its own for each round;
    None: the order of secure rounds, the same in all."""
    order = np.argsort(np.arange(1, DEVICES + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    found = np.full(members.shape, -1)
    for row, inside in zip(found, members):
        listed = [device for device in (order if draw is None else draw.permutation(DEVICES)) if inside[device]]
        row[listed] = np.arange(len(listed)) * groups // len(listed)
    return found


def cosine(divided_lists, found, device):
    """The estimate is the difference between sums of a group with the device and without it, over all groups."""
    values = found[:, :, ::PICK]
    rest, counts = [], []
    for group in range(divided_lists.max() + 1):
        members = divided_lists == group
        rest.append(np.einsum("rd,rdv->rv", members.astype(np.float32), values, dtype=np.float32))
        counts.append(members.sum(1, keepdims=True))
    common = (sum(rest) / sum(counts)).mean(0)  # the mean update of a device, which the released sums show
    estimate, weights = np.zeros(values.shape[2]), 0
    for group, (sums, count) in enumerate(zip(rest, counts)):
        sums = sums - count * common
        sums -= np.apply_along_axis(np.convolve, 0, sums, np.ones(5) / 5, "same")  # the slow change of all devices
        inside = divided_lists[:, device] == group
        weight = inside.sum() * (~inside).sum()
        if weight:
            estimate += weight * (sums[inside].mean(0) - sums[~inside].mean(0))
            weights += weight
    if not weights:
        return np.nan  # a short run may have no list without the device
    truth = values[:, device].mean(0) - values.mean((0, 1))
    return float(estimate @ truth / (np.linalg.norm(estimate) * np.linalg.norm(truth)))


# (name, list, groups, whether each round has an order of its own)
POLICIES = (("all, without the device in half of the rounds", "one", 1, False), ("random 50 of 100", "random 50", 1, False),
            ("random 80 of 100", "random 80", 1, False), ("all but 5 at random", "random 95", 1, False),
            ("the same in 3 groups", "random 95", 3, False), ("the same in 5 groups", "random 95", 5, False),
            ("in 5 groups drawn anew in each round", "random 95", 5, True))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    draw = np.random.default_rng(33)
    found, _, _ = updates(*shares(draw), rounds, draw)
    steps = [n for n in (10, 30, 100, 300, 1000) if n <= rounds]
    print("list of each round".ljust(44), *(f"{n:>6}" for n in steps))
    for name, policy, groups, anew in POLICIES:
        values = []
        for n in steps:
            of_devices = [cosine(divided(lists(policy, n, device, draw), groups, draw if anew else None), found[:n], device)
                          for device in range(0, DEVICES, 10)]
            values.append(np.nanmean(of_devices))
        print(name.ljust(44), *(f"{value:6.2f}" for value in values))


if __name__ == "__main__":
    main()
