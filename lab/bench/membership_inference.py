#!/usr/bin/env python3
"""Membership inference with canaries: the table of docs/SECURITY.md, "Whether an example was in the data".

Usage: membership_inference.py [FEDERATIONS]. TERN_DATA_DIR holds Fashion-MNIST.
As in sums_over_rounds.py, 100 devices train softmax:784-10 for 30 rounds. Each device has 5 candidates: images with a wrong
label, each in its data by a fair draw. The attacker knows the candidates and decides which were in the data. Its score is the
part of a candidate's gradient in what it sees, against the gradients of the same image with other wrong labels; directions that
images have in common count less (by the covariance of other images), as in a likelihood ratio of Gaussians. It sees the
device's updates (plain rounds), the sums (secure rounds), or the sums with noise: at most 1 % of a device's values
(privacy.clip) are not 0, and the sum gets normal noise, rounded, of deviation z * sqrt(K) for K values. The noise is simulated
here, not drawn by tern-helper. "loss" is the attack of everybody who has the final model. Intervals: 95 %, by bootstrap over
the candidates.
"""
import sys

import numpy as np

from sums_over_rounds import CLASSES, DEVICES, read, shares, updates

ROUNDS, CANDIDATES, CLIP = 30, 5, 0.01
RIDGE = 0.01  # added to the variance of each pixel, which is up to 0.2
NOISE = (0.1, 0.3)  # z
RESAMPLES = 200


def add_candidates(x, y, draw):
    """Puts half of the candidates into the data. Returns their images and labels by device, and which are in."""
    images = read("t10k-images-idx3-ubyte", 16).reshape(-1, 784)
    labels = read("t10k-labels-idx1-ubyte", 8)
    rows = draw.permutation(len(labels))[:DEVICES * CANDIDATES].reshape(DEVICES, CANDIDATES)
    candidates = np.ones((*rows.shape, 785), np.float32)
    candidates[:, :, :784] = images[rows] / np.float32(255)
    wrong = (labels[rows] + draw.integers(1, CLASSES, rows.shape)) % CLASSES
    inside = draw.random(rows.shape) < 0.5
    for device, place in zip(*np.nonzero(inside)):
        x[device, place] = candidates[device, place]
        y[device, place] = np.eye(CLASSES, dtype=np.float32)[wrong[device, place]]
    return candidates, labels[rows], wrong, inside


def scores(change, candidates, right, wrong, precision):
    """change [785, classes], or one for each device: what the attacker sees."""
    found = candidates @ (precision @ change)
    others = np.ones(found.shape, bool)
    for labels in (right, wrong):
        np.put_along_axis(others, labels[..., None], False, 2)
    return np.take_along_axis(found, wrong[..., None], 2)[..., 0] - np.mean(found, 2, where=others)


def losses(weights, candidates, wrong):
    logits = candidates @ weights
    logits -= logits.max(2, keepdims=True)
    return np.log(np.exp(logits).sum(2)) - np.take_along_axis(logits, wrong[..., None], 2)[..., 0]


def auc(score, inside):
    order = np.argsort(np.argsort(score))
    members = inside.sum()
    return (order[inside].sum() - members * (members - 1) / 2) / (members * (~inside).sum())


def true_positives(score, inside):
    """At 1 % false positives."""
    return (score[inside] > np.quantile(score[~inside], 0.99)).mean()


def with_interval(figure, score, inside, draw):
    picks = (draw.integers(0, len(score), len(score)) for _ in range(RESAMPLES))
    low, high = np.quantile([figure(score[pick], inside[pick]) for pick in picks], (0.025, 0.975))
    return f"{figure(score, inside):.3f} ({low:.3f} to {high:.3f})"


def federation(draw, z, test, precision):
    """Returns {attack: score of each candidate}, which candidates are in, and the accuracy of the model."""
    x, y = shares(draw)
    candidates, right, wrong, inside = add_candidates(x, y, draw)
    clip = 1 if z is None else CLIP
    sigma = 0 if z is None else z * np.sqrt(int(CLIP * 785 * CLASSES))
    found, scales, weights = updates(x, y, ROUNDS, draw, clip, sigma)
    name = "secure rounds" if z is None else f"secure rounds, noise z = {z}"
    attacks = {f"{name}: sums": scores(weights, candidates, right, wrong, precision),
               f"{name}: loss": -losses(weights, candidates, wrong)}
    if z is None:
        own = np.tensordot(np.array(scales, np.float32), found.astype(np.float32), 1).reshape(DEVICES, 785, CLASSES)
        attacks["plain rounds: the device's updates"] = scores(own, candidates, right, wrong, precision)
    accuracy = ((test[0] @ weights).argmax(1) == test[1]).mean()
    return attacks, inside, accuracy


def main():
    federations = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    images = read("t10k-images-idx3-ubyte", 16).reshape(-1, 784) / np.float32(255)
    test = np.hstack([images, np.ones((len(images), 1), np.float32)]), read("t10k-labels-idx1-ubyte", 8)
    precision = np.linalg.inv(np.cov(test[0], rowvar=False) + RIDGE * np.eye(785)).astype(np.float32)
    draw = np.random.default_rng(33)
    print(f"{federations * DEVICES * CANDIDATES} candidates, {federations} federations")
    print("what the attacker has".ljust(44), "AUC".ljust(24), "found at 1 % false alarms".ljust(26), "accuracy")
    for z in (None, 0, *NOISE):
        runs = [federation(draw, z, test, precision) for _ in range(federations)]
        inside = np.concatenate([run[1].ravel() for run in runs])
        accuracy = np.mean([run[2] for run in runs])
        for attack in runs[0][0]:
            score = np.concatenate([run[0][attack].ravel() for run in runs])
            print(attack.ljust(44), with_interval(auc, score, inside, draw).ljust(24),
                  with_interval(true_positives, score, inside, draw).ljust(26), f"{accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
