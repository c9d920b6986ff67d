#!/usr/bin/env python3
"""Accuracy under noise: the table of docs/SECURITY.md, "What noise costs".

Usage: noise_accuracy.py [COHORT/CLIENTS ...], by default 50/50 100/100 1000/10000. TERN_DATA_DIR holds Fashion-MNIST.
Clients with unequal labels (Dirichlet .5) train mlp:196-32-10 on images of 14 x 14 pixels: 30 rounds of 10 steps of 16 images,
momentum .4, rate .1 to 0 by a cosine, server momentum .5. Updates are quantised, limited and summed as FORMAT.md, sections 12.3
to 12.5, says; the noise is normal and rounded, drawn here and not by tern-helper. "none": float32 updates without masks.
CLIP in the environment is privacy.clip, NOISE the list of noise multipliers, SEED the seed. Epsilon is that of the client in most
rounds, of Canonne, Kamath and Steinke 2020 without amplification, at delta 1e-5.
"""
import os
import sys

import numpy as np

from sums_over_rounds import read

ROUNDS, STEPS, BATCH, RATE, MOMENTUM, DECAY, SERVER = 30, 10, 16, 0.1, 0.4, 0.001, 0.5
PIXELS, HIDDEN, CLASSES = 196, 32, 10
SIZES = (PIXELS * HIDDEN, HIDDEN * CLASSES, HIDDEN, CLASSES)
ENDS = np.cumsum(SIZES)
VALUES, TENSORS = ENDS[-1], len(SIZES)
SLICES = [slice(end - size, end) for size, end in zip(SIZES, ENDS)]
AT_ONCE = 50  # clients that train together


def images(kind):
    pixels = read(f"{kind}-images-idx3-ubyte", 16).reshape(-1, 14, 2, 14, 2).mean((2, 4), dtype=np.float32)
    return ((pixels.reshape(-1, PIXELS) / 255 - 0.286) / 0.353).astype(np.float32), read(f"{kind}-labels-idx1-ubyte", 8)


def shares(labels, clients, draw):
    """The rows of all clients one after the other, and each client's first row and number of rows, at least 1."""
    owner = np.empty(len(labels), int)
    for c in range(CLASSES):
        rows = draw.permutation(np.flatnonzero(labels == c))
        ends = (np.cumsum(draw.dirichlet([0.5] * clients)) * len(rows)).astype(int)
        owner[rows] = np.searchsorted(ends, np.arange(len(rows)), side="right").clip(max=clients - 1)
    counts = np.bincount(owner, minlength=clients)
    return np.argsort(owner, kind="stable"), (np.cumsum(counts) - counts).clip(max=len(labels) - 1), counts.clip(min=1)


def layers(w):
    first, second, bias, last = (w[..., part] for part in SLICES)
    return (first.reshape(*w.shape[:-1], PIXELS, HIDDEN), second.reshape(*w.shape[:-1], HIDDEN, CLASSES), bias[..., None, :],
            last[..., None, :])


def train(weights, x, y, rate, draw, rows):
    """Changes of the weights of some clients. rows(shape): random rows of each."""
    w = np.repeat(weights[None], rows(1).shape[0], 0)
    velocity = np.zeros_like(w)
    for _ in range(STEPS):
        at = rows(BATCH)
        w1, w2, b1, b2 = layers(w)
        hidden = np.maximum(x[at] @ w1 + b1, 0)
        p = hidden @ w2 + b2
        p = np.exp(p - p.max(2, keepdims=True))
        p = (p / p.sum(2, keepdims=True) - np.eye(CLASSES, dtype=np.float32)[y[at]]) / BATCH
        back = (p @ w2.transpose(0, 2, 1)) * (hidden > 0)
        parts = (x[at].transpose(0, 2, 1) @ back, hidden.transpose(0, 2, 1) @ p, back.sum(1), p.sum(1))
        velocity = MOMENTUM * velocity + np.concatenate([part.reshape(len(w), -1) for part in parts], 1) + DECAY * w
        w -= np.float32(rate) * velocity
    return w - weights


def quantised(ratio, places):
    """-1, 0 and 1, at most `places` of them not 0, and how many were not before that limit."""
    q = np.clip(np.rint(ratio), -1, 1)
    before = q != 0
    if places < VALUES:
        size = np.abs(ratio)
        q[size <= -np.partition(-size, places, 1)[:, places, None]] = 0
    return q, before


def federation(cohort, clients, z, clip, seed):
    """Returns the accuracy, and the rounds of the client in most of them. z: None = float32."""
    draw = np.random.default_rng(seed)
    (x, y), (test, right) = images("train"), images("t10k")
    order, first, count = shares(y, clients, draw)
    w = np.concatenate([draw.uniform(-1, 1, size) * np.sqrt(6 / fans) if fans else np.zeros(size)
                        for size, fans in zip(SIZES, (PIXELS + HIDDEN, HIDDEN + CLASSES, 0, 0))]).astype(np.float32)
    means = [np.abs(w[part]).mean() or np.abs(w).mean() for part in SLICES]
    scales = np.array([0.25 * RATE * STEPS * mean for mean in means])
    places = int(np.ceil((clip or 1) * VALUES))
    most = max(1, int(np.sqrt(places / (25 * TENSORS))))
    variance = (z or 0) ** 2 * (places + TENSORS * most**2)
    buffers = np.zeros((clients, VALUES), np.float16)
    taken, velocity = np.zeros(clients, int), np.zeros(VALUES, np.float32)
    for r in range(ROUNDS):
        members = draw.permutation(clients)[:cohort]
        taken[members] += 1
        rate = RATE * (1 + np.cos(np.pi * r / ROUNDS)) / 2
        total, counters, step = np.zeros(VALUES), np.zeros(TENSORS), np.repeat(scales, SIZES).astype(np.float32)
        for some in np.array_split(members, max(1, cohort // AT_ONCE)):
            change = train(w, x, y, rate, draw, lambda shape, some=some: order[
                first[some, None] + (draw.random((len(some), shape)) * count[some, None]).astype(int)])
            if z is None:
                total += change.sum(0)
                continue
            t = buffers[some] + change
            q, before = quantised(t / step, places)
            buffers[some] = t - step * q
            total += q.sum(0)
            density = np.stack([before[:, part].mean(1) for part in SLICES])
            counters += np.floor(np.minimum(most, most * density / (2 * places / VALUES)) + 0.5).sum(1)
        if z is not None:
            total = step * (total + np.rint(draw.normal(0, np.sqrt(variance), VALUES)))
            target = most * cohort / 2
            excess = np.maximum(0, (counters + np.rint(draw.normal(0, np.sqrt(variance), TENSORS))) / target)
            gain = 0.5 * target**2 / (target**2 + variance)
            scales = scales * np.minimum(2, 1 - gain + gain * excess)
        velocity = SERVER * velocity + total / np.sqrt(cohort**2 + (z or 0) ** 2 * VALUES)
        w = (w + velocity).astype(np.float32)
    w1, w2, b1, b2 = layers(w)
    return ((np.maximum(test @ w1 + b1, 0) @ w2 + b2).argmax(1) == right).mean(), taken.max()


def epsilon(loss, delta=1e-5):
    order = 1 + np.exp(np.arange(-10, 14, 0.001))
    return np.min(loss * order / 2 + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))


def main():
    clip, seed = float(os.environ.get("CLIP", 0.5)), int(os.environ.get("SEED", 1))
    levels = [None, *map(float, os.environ.get("NOISE", "0.3 1 3").split())]
    for sizes in sys.argv[1:] or ["50/50", "100/100", "1000/10000"]:
        cohort, clients = map(int, sizes.split("/"))
        for z in levels:
            accuracy, rounds = federation(cohort, clients, z, clip, seed)
            bound = f"epsilon {epsilon(rounds / z**2):6.1f} of {rounds} rounds" if z else "no bound"
            print(f"{cohort:5} of {clients:5}, z = {'none' if z is None else z:4}: accuracy {accuracy:.3f}, {bound}", flush=True)


if __name__ == "__main__":
    main()
