#!/usr/bin/env python3
"""A trainer in plain numpy: multilayer perceptrons of any depth, mini-batch SGD.

Set it up on the client:
    [client]
    trainer = command
    trainer_command = python3 /opt/trainers/train_numpy.py --data /srv/digits
    trainer_persistent = yes

The last line lets it stay between tasks; without it, it is started for each.
"""
import sys

import numpy

from tern_trainer import load_model, save_model, save_result, serve_idx


def layers(model):
    """The names' common parts in order: fc1, fc2, ..."""
    return sorted((name[:-len(".weight")] for name in model if name.endswith(".weight")),
                  key=lambda layer: int(layer[2:]))


def forward(model, images):
    """The values of every layer, the input first; relu between, none behind the last."""
    values = [images]
    names = layers(model)
    for name in names:
        out = values[-1] @ model[f"{name}.weight"].T + model[f"{name}.bias"]
        values.append(out if name == names[-1] else numpy.maximum(out, 0))
    return values


def score(logits, labels):
    """Mean cross entropy, its gradient by the logits, and how many are right."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))
    rows = numpy.arange(len(labels))
    gradient = numpy.exp(logs)
    gradient[rows, labels] -= 1
    right = int((logits.argmax(axis=1) == labels).sum())
    return -float(logs[rows, labels].mean()), gradient / len(labels), right


def gradients(model, images, labels):
    values = forward(model, images)
    loss, back, _ = score(values[-1], labels)
    found = {}
    for i, name in reversed(list(enumerate(layers(model)))):
        found[f"{name}.weight"] = back.T @ values[i]
        found[f"{name}.bias"] = back.sum(axis=0)
        back = (back @ model[f"{name}.weight"]) * (values[i] > 0)
    return loss, found


def batches(count, size, steps, rng):
    """Indices of `steps` batches, epoch by epoch in a new order."""
    size = min(size, count)
    order, at = rng.permutation(count), 0
    for _ in range(steps):
        if at + size > count:
            order, at = rng.permutation(count), 0
        yield order[at:at + size]
        at += size


def fitting_model(path, images, labels):
    """The model, when it is one for these examples; else says which would be."""
    model = load_model(path)
    if any(not name.startswith("fc") for name in model):
        sys.exit("this trainer is for models mlp:PIXELS-HIDDEN-CLASSES")
    sizes = [model[f"{name}.weight"].shape[0] for name in layers(model)]
    pixels, classes = images.shape[1], int(labels.max()) + 1
    if model[f"{layers(model)[0]}.weight"].shape[1] != pixels or sizes[-1] < classes:
        hidden = "".join(f"{size}-" for size in sizes[:-1])
        fits = f"{'mlp' if hidden else 'softmax'}:{pixels}-{hidden}{max(sizes[-1], classes)}"
        sys.exit(f"images of {pixels} pixels in {classes} classes need a model such as {fits}")
    return model


def train(task, images, labels):
    model, base = fitting_model(task["model"], images, labels), load_model(task["base"])
    velocity = {name: numpy.zeros_like(values) for name, values in model.items()}
    rng = numpy.random.default_rng(task["seed"])
    losses = []
    for batch in batches(len(labels), task["batch_size"], task["local_steps"], rng):
        loss, found = gradients(model, images[batch], labels[batch])
        losses.append(loss)
        for name, values in model.items():
            step = (found[name] + task["weight_decay"] * values
                    + task["prox_mu"] * (values - base[name]))  # FedProx
            velocity[name] = task["momentum"] * velocity[name] + step
            values -= task["learning_rate"] * velocity[name]
    save_model(task["output"], model)
    save_result(task["result"], num_examples=len(labels), loss=float(numpy.mean(losses)),
                metrics={"first_loss": losses[0], "last_loss": losses[-1]})


def evaluate(task, images, labels):
    model = fitting_model(task["model"], images, labels)
    loss, _, right = score(forward(model, images)[-1], labels)
    save_result(task["result"], num_examples=len(labels), loss=loss, accuracy=right / len(labels))


if __name__ == "__main__":
    serve_idx(train, evaluate)
