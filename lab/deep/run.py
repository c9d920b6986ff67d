#!/usr/bin/env python3
"""One federation of a deep model: a residual CNN with group norm in PyTorch, trained by real clients of a real
aggregator (tern.simulate()). `./tern experiment` calls it for a file with a section [deep].

    run.py EXPERIMENT.ini --json OUT.json [--set section.key=value]...

Keys: deep.width, values of the first convolution, of 7; fleet.clients; data.source, idx (Fashion-MNIST from data.dir, half
its height and width) or pictures:train=N,test=N,size=PIXELS,seed=N (lab/deep/pictures.py); data.alpha and data.seed of the
Dirichlet partition. All others are the aggregator's. $TERN_BIN_DIR: folder of the programs.

The results have what tables of a plan read of tern-fleet's (lab/comparison/rows.py).
"""
import argparse
import gzip
import hashlib
import json
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "python")]

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("tern: deep models are trained by PyTorch: ./tern setup torch installs it")
import numpy

import tern
from comparison.settings import effective, of_aggregator
from comparison.tables import size as bytes_text
from deep import pictures

CLASSES = 10
GROUPS = 4  # of a group norm


# --- The model


def conv(inputs, outputs, pool=False):
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(GROUPS, outputs), nn.ReLU()]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = conv(width, width), conv(width, width)

    def forward(self, x):
        return x + self.second(self.first(x))


def network(channels, side, width):
    """Pictures of more than 16 pixels are halved by the first convolution, others by the last."""
    large = side > 16
    return nn.Sequential(
        conv(channels, width, large), conv(width, 2 * width, True), Residual(2 * width),
        conv(2 * width, 4 * width, True), conv(4 * width, 8 * width, not large), Residual(8 * width),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * width, CLASSES))


# --- Data


def idx(folder, images, labels, most):
    """Loads Fashion-MNIST at 14x14."""
    with gzip.open(os.path.join(folder, images)) as file:
        x = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)[:most]
    with gzip.open(os.path.join(folder, labels)) as file:
        y = numpy.frombuffer(file.read(), numpy.uint8, offset=8)[:most]
    return F.avg_pool2d((torch.from_numpy(x.copy()).float() - 73) / 90, 2), torch.from_numpy(y.copy()).long()


def data_of(settings):
    """(pictures, classes) to train on, and to test on."""
    kind, _, words = settings["data.source"].partition(":")
    given = dict(word.split("=", 1) for word in words.split(",") if word)
    train, test = int(given.get("train", 20000)), int(given.get("test", 2000))
    if kind == "idx":
        folder = settings.get("data.dir", "")
        return (idx(folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", train),
                idx(folder, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", test))
    if kind != "pictures":
        sys.exit("tern: data.source of a deep experiment is idx or pictures, not '%s'" % kind)
    x, y = map(torch.from_numpy, pictures.pictures(train + test, int(given.get("size", 24)), int(given.get("seed", 1))))
    return (x[:train], y[:train]), (x[train:], y[train:])


def shares(labels, clients, alpha, seed):
    """Indices of each client: of each class, shares that are drawn from a Dirichlet distribution."""
    draw = numpy.random.default_rng(100 + seed)
    parts = [[] for _ in range(clients)]
    for label in range(CLASSES):
        of_label = draw.permutation(numpy.flatnonzero(labels.numpy() == label))
        cuts = (numpy.cumsum(draw.dirichlet(numpy.full(clients, alpha)))[:-1] * len(of_label)).astype(int)
        for part, some in zip(parts, numpy.split(of_label, cuts)):
            part.extend(some.tolist())
    return [torch.tensor(part or [0]) for part in parts]


# --- The federation


class Task:
    """The model, its data, and what clients do with them."""

    def __init__(self, settings):
        (self.x, self.y), (self.test_x, self.test_y) = data_of(settings)
        torch.manual_seed(int(settings.get("federation.seed", 1)))
        self.net = network(self.x.shape[1], self.x.shape[-1], int(settings["deep.width"]))
        self.names, self.params = zip(*self.net.named_parameters())

    def weights(self):
        return {name: param.detach().clone() for name, param in zip(self.names, self.params)}

    def put(self, model):
        with torch.no_grad():
            for name, param in zip(self.names, self.params):
                param.copy_(torch.as_tensor(model[name]).view_as(param))

    def train(self, model, task):
        """SGD; batches are drawn anew for each step."""
        self.put(model)
        draw, total = torch.Generator().manual_seed(int(task.seed)), 0.0
        moves = [torch.zeros_like(param) for param in self.params]
        for _ in range(task.local_steps):
            chosen = task.data[torch.randint(len(task.data), (task.batch_size,), generator=draw)]
            loss = F.cross_entropy(self.net(self.x[chosen]), self.y[chosen])
            total += float(loss)
            with torch.no_grad():
                for param, move, gradient in zip(self.params, moves, torch.autograd.grad(loss, self.params)):
                    move.mul_(task.momentum).add_(gradient + task.weight_decay * param)
                    param.sub_(task.learning_rate * move)
        return self.weights(), len(task.data), total / task.local_steps

    def score(self, model):
        """Accuracy and loss on the test pictures."""
        self.put(model)
        with torch.no_grad():
            out = torch.cat([self.net(part) for part in self.test_x.split(500)])
        return float((out.argmax(1) == self.test_y).float().mean()), float(F.cross_entropy(out, self.test_y))

    def evaluate(self, model, task):
        accuracy, loss = self.score(model)
        return len(task.data), loss, {"accuracy": accuracy}


def shown(rounds):
    """Prints a round as tern-fleet does; the accuracy of its version comes later."""
    def show(row):
        clients = max(row["participants"], 1)
        print("[ROUND %d/%d] %d updates, mean loss %.4f, up %s down %s per client" % (
            row["round"], rounds, row["applied"], row["mean_loss"], bytes_text(row["wire_up"] / clients),
            bytes_text(row["wire_down"] / clients)), flush=True)
    return show


def federate(settings):
    """The results."""
    task, began = Task(settings), time.monotonic()
    clients, rounds = int(settings["fleet.clients"]), int(settings["round.rounds"])
    parts = shares(task.y, clients, float(settings.get("data.alpha", 0.5)), int(settings.get("data.seed", 1)))
    done = tern.simulate(
        task.weights(), parts, tern.trainer(framework="torch")(task.train), evaluate=task.evaluate, test=task.test_y,
        rounds=rounds, cohort=int(settings.get("round.cohort", clients)), patience=3600, progress=shown(rounds),
        settings={**of_aggregator(settings), "downloads.final_model": "none"})
    return results(task, clients, done, time.monotonic() - began)


def results(task, clients, done, seconds):
    """The evaluator measures the replica alone, as the final model is not downloaded."""
    rows = [row for row in done.rounds() if row["state"] == "committed"]
    values = numpy.concatenate([numpy.ravel(array) for array in done.model.values()]).astype("<f4")
    accuracy = [row.get("accuracy") for row in rows]
    measured = [value for value in accuracy if value is not None]
    return {"final_accuracy": measured[-1] if measured else None, "accuracy": accuracy,
            "global_accuracy": task.score(done.model)[0], "rounds": len(rows), "clients": clients,
            "cohort": max(row["applied"] for row in rows), "codec": rows[-1]["codec_up"],
            "codec_down": rows[-1]["codec_down"], "values": len(values), "seconds": seconds,
            "model_hash": hashlib.sha256(values.tobytes()).hexdigest(),
            "round_wire_up": [row["wire_up"] for row in rows], "round_wire_down": [row["wire_down"] for row in rows],
            **done.status["per_client_and_round"]}


def interrupted(*_):
    sys.exit(5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("experiment")
    parser.add_argument("--json", required=True)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, interrupted)
    try:
        found = federate(effective(options.experiment, options.sets))
    except tern.SimulationError as error:
        sys.exit("tern: %s" % error)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    print("accuracy %.4f (replica), %.4f (global); wire %s up %s down; %d values" % (
        found["final_accuracy"], found["global_accuracy"], bytes_text(found["wire_up"]),
        bytes_text(found["wire_down"]), found["values"]))


if __name__ == "__main__":
    main()
