#!/usr/bin/env python3
"""A trainer with PyTorch. The names and shapes in the federation's model must be those of your
module's state_dict(); here a perceptron with one hidden layer, the same as mlp:PIXELS-HIDDEN-10.

Set it up on the client:
    [client]
    trainer = command
    trainer_command = python3 /opt/trainers/train_pytorch.py --data /srv/digits
    trainer_persistent = yes

The last line lets it stay between tasks; without it PyTorch is imported for each.
"""
from collections import OrderedDict

import torch
from torch import nn

from tern_trainer import load_model, save_model, save_result, serve_idx


def perceptron(weights):
    """The module of {name: array}."""
    hidden, pixels = weights["fc1.weight"].shape
    module = nn.Sequential(OrderedDict([
        ("fc1", nn.Linear(pixels, hidden)), ("relu", nn.ReLU()),
        ("fc2", nn.Linear(hidden, weights["fc2.weight"].shape[0]))]))
    module.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
    return module


def proximal(parameters, base, mu):
    """FedProx: mu / 2 * |w - base|^2."""
    return mu / 2 * sum(((value - base[name]) ** 2).sum() for name, value in parameters.items())


def batches(dataset, task):
    """Batches without end, each epoch in another order."""
    generator = torch.Generator().manual_seed(task["seed"])
    while True:
        yield from torch.utils.data.DataLoader(
            dataset, batch_size=min(task["batch_size"], len(dataset)), shuffle=True,
            drop_last=True, generator=generator)


def train(build, task, images, labels):
    """Trains what is not frozen."""
    module = build(load_model(task["model"]))
    base = {name: torch.from_numpy(values) for name, values in load_model(task["base"]).items()}
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    optimizer = torch.optim.SGD(parameters.values(), lr=task["learning_rate"],
                                momentum=task["momentum"], weight_decay=task["weight_decay"])
    measure = nn.CrossEntropyLoss()
    dataset = torch.utils.data.TensorDataset(images, labels)
    total = 0.0
    for _, (part, answers) in zip(range(task["local_steps"]), batches(dataset, task)):
        optimizer.zero_grad()
        loss = measure(module(part), answers)
        total += loss.item()
        if task["prox_mu"] > 0:
            loss = loss + proximal(parameters, base, task["prox_mu"])
        loss.backward()
        optimizer.step()
    save_model(task["output"], {name: value.detach().numpy()
                                for name, value in module.state_dict().items()})
    save_result(task["result"], num_examples=len(labels), loss=total / task["local_steps"])


def evaluate(build, task, images, labels):
    module = build(load_model(task["model"]))
    with torch.no_grad():
        logits = module(images)
        loss = nn.CrossEntropyLoss()(logits, labels).item()
        right = (logits.argmax(dim=1) == labels).sum().item()
    save_result(task["result"], num_examples=len(labels), loss=loss, accuracy=right / len(labels))


def main(build):
    torch.set_num_threads(1)
    serve_idx(lambda task, images, labels: train(build, task, images, labels),
              lambda task, images, labels: evaluate(build, task, images, labels),
              lambda images, labels: (torch.from_numpy(images), torch.from_numpy(labels)))


if __name__ == "__main__":
    main(perceptron)
