#!/usr/bin/env python3
"""A trainer in plain numpy for perceptrons with low-rank adapters, as make_lora.py makes them: the trunk stays as it
is, and of each layer W + lora_b lora_a is used.

Set it up on the client:
    [client]
    trainer = command
    trainer_command = python3 /opt/trainers/train_lora_numpy.py --data /srv/digits
    trainer_persistent = yes
"""
import numpy

from tern_trainer import load_model, save_model, save_result, serve_idx
from train_numpy import batches, forward, gradients, score


def merged(model):
    """The perceptron that trunk and adapters are together."""
    plain = {name: values for name, values in model.items() if ".lora_" not in name}
    for name in plain:
        layer, _, kind = name.rpartition(".")
        if kind == "weight":
            plain[name] = plain[name] + model[f"{layer}.lora_b"] @ model[f"{layer}.lora_a"]
    return plain


def adapter_gradients(model, images, labels):
    """By the chain rule from those of the merged weights."""
    loss, found = gradients(merged(model), images, labels)
    back = {}
    for name in model:
        layer, _, kind = name.rpartition(".")
        if kind == "lora_a":
            back[name] = model[f"{layer}.lora_b"].T @ found[f"{layer}.weight"]
        elif kind == "lora_b":
            back[name] = found[f"{layer}.weight"] @ model[f"{layer}.lora_a"].T
    return loss, back


def train(task, images, labels):
    model, base = load_model(task["model"]), load_model(task["base"])
    velocity = {name: numpy.zeros_like(values) for name, values in model.items() if ".lora_" in name}
    rng = numpy.random.default_rng(task["seed"])
    losses = []
    for batch in batches(len(labels), task["batch_size"], task["local_steps"], rng):
        loss, found = adapter_gradients(model, images[batch], labels[batch])
        losses.append(loss)
        for name, step in found.items():
            step = step + task["weight_decay"] * model[name] + task["prox_mu"] * (model[name] - base[name])
            velocity[name] = task["momentum"] * velocity[name] + step
            model[name] -= task["learning_rate"] * velocity[name]
    save_model(task["output"], model)
    save_result(task["result"], num_examples=len(labels), loss=float(numpy.mean(losses)))


def evaluate(task, images, labels):
    loss, _, right = score(forward(merged(load_model(task["model"])), images)[-1], labels)
    save_result(task["result"], num_examples=len(labels), loss=loss, accuracy=right / len(labels))


if __name__ == "__main__":
    serve_idx(train, evaluate)
