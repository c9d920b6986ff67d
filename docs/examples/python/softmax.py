#!/usr/bin/env python3
"""A federation on this machine, cell by cell (# %%: editors and Jupyter's jupytext show them as a notebook): eight
clients, each with two classes of its own, train a softmax in numpy. Needs Tern's programs, numpy and nothing else:

    python3 softmax.py
"""
# %% Data: points around four centres, 40 of each client, that has two of the four classes; and 400 to test on.
import numpy

import tern

CLASSES, FEATURES, CLIENTS = 4, 16, 8
random = numpy.random.default_rng(7)
centres = random.normal(size=(CLASSES, FEATURES))


def draw(count, classes):
    """Points [count, FEATURES] of these classes, and their labels [count]."""
    labels = random.choice(classes, count)
    return centres[labels] + random.normal(size=(count, FEATURES)), labels


data = [draw(40, [client % CLASSES, (client + 1) % CLASSES]) for client in range(CLIENTS)]
test = draw(400, range(CLASSES))


# %% The model, and what a client does with it. task.data is the client's own part of `data`.
def scores(model, points, labels):
    """Mean cross entropy, its gradient by the logits, and the share that is right."""
    logits = points @ model["weight"].T + model["bias"]
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - numpy.log(numpy.exp(logits).sum(axis=1, keepdims=True))
    rows = numpy.arange(len(labels))
    gradient = numpy.exp(logs)
    gradient[rows, labels] -= 1
    return -logs[rows, labels].mean(), gradient / len(labels), (logits.argmax(axis=1) == labels).mean()


@tern.trainer
def train(model, task):
    """Local steps of SGD: the model, the number of examples, the mean loss."""
    points, labels = task.data
    losses = []
    for batch in task.batches(len(labels)):
        loss, gradient, _ = scores(model, points[batch], labels[batch])
        model["weight"] -= task.learning_rate * gradient.T @ points[batch]
        model["bias"] -= task.learning_rate * gradient.sum(axis=0)
        losses.append(loss)
    return model, len(labels), numpy.mean(losses)


@train.evaluation
def evaluate(model, task):
    """The number of examples, the mean loss, figures."""
    points, labels = task.data
    loss, _, right = scores(model, points, labels)
    return len(labels), loss, {"accuracy": right}


start = {"weight": numpy.zeros((CLASSES, FEATURES), numpy.float32), "bias": numpy.zeros(CLASSES, numpy.float32)}

# %% The federation: a real aggregator and eight real clients. Settings are those of aggregator.ini.
done = tern.simulate(start, data, train, test=test, rounds=8,
                     settings={"train.local_steps": 10, "train.batch_size": 20, "train.learning_rate": 0.1})

# %% What came of it: one row a round. Bytes are of all clients together, TLS and IP headers included.
print(done.history())

# %% The model of the last version, and its file, which PyTorch, numpy and `tern-aggregator init` read.
tern.save_model(done.model, "softmax.safetensors")
_, _, accuracy = scores(tern.load_model("softmax.safetensors"), *test)
_, _, before = scores(start, *test)
print(f"accuracy {before:.4f} before, {accuracy:.4f} after {len(done.history())} rounds")
