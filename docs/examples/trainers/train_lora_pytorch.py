#!/usr/bin/env python3
"""A trainer with PyTorch for low-rank adapters beside a frozen trunk, as make_lora.py makes them; here of a perceptron
with one hidden layer.

Set it up on the client:
    [client]
    trainer = command
    trainer_command = python3 /opt/trainers/train_lora_pytorch.py --data /srv/digits
    trainer_persistent = yes
"""
import argparse
import functools
from collections import OrderedDict

import torch
from torch import nn

from tern_trainer import load_model, read_idx, save_model, save_result, serve


class LoraLinear(nn.Linear):
    """W + lora_b lora_a, of which W and the bias are frozen. Its state_dict() has the names of make_lora.py."""

    def __init__(self, inputs, outputs, rank):
        super().__init__(inputs, outputs)
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.empty(rank, inputs))
        self.lora_b = nn.Parameter(torch.empty(outputs, rank))

    def forward(self, values):
        return super().forward(values) + values @ self.lora_a.T @ self.lora_b.T


def build(weights):
    def layer(name):
        outputs, inputs = weights[f"{name}.weight"].shape
        return name, LoraLinear(inputs, outputs, len(weights[f"{name}.lora_a"]))

    module = nn.Sequential(OrderedDict([layer("fc1"), ("relu", nn.ReLU()), layer("fc2")]))
    module.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
    return module


def batches(dataset, task):
    """Batches without end, each epoch in another order."""
    generator = torch.Generator().manual_seed(task["seed"])
    while True:
        yield from torch.utils.data.DataLoader(
            dataset, batch_size=min(task["batch_size"], len(dataset)), shuffle=True, drop_last=True,
            generator=generator)


def train(task, images, labels):
    module = build(load_model(task["model"]))
    base = {name: torch.from_numpy(values) for name, values in load_model(task["base"]).items()}
    adapters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    optimizer = torch.optim.SGD(adapters.values(), lr=task["learning_rate"], momentum=task["momentum"],
                                weight_decay=task["weight_decay"])
    measure = nn.CrossEntropyLoss()
    dataset = torch.utils.data.TensorDataset(images, labels)
    total = 0.0
    for _, (part, answers) in zip(range(task["local_steps"]), batches(dataset, task)):
        optimizer.zero_grad()
        loss = measure(module(part), answers)
        total += loss.item()
        if task["prox_mu"] > 0:
            loss = loss + task["prox_mu"] / 2 * sum(((value - base[name]) ** 2).sum()
                                                    for name, value in adapters.items())
        loss.backward()
        optimizer.step()
    save_model(task["output"], {name: value.detach().numpy() for name, value in module.state_dict().items()})
    save_result(task["result"], num_examples=len(labels), loss=total / task["local_steps"])


def evaluate(task, images, labels):
    module = build(load_model(task["model"]))
    with torch.no_grad():
        logits = module(images)
        loss = nn.CrossEntropyLoss()(logits, labels).item()
        right = (logits.argmax(dim=1) == labels).sum().item()
    save_result(task["result"], num_examples=len(labels), loss=loss, accuracy=right / len(labels))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with IDX files, .gz or not")
    parser.add_argument("task", nargs="?", help="the client adds it, unless the trainer is persistent")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Read when first needed, once.
    data = functools.cache(lambda part: [torch.from_numpy(one) for one in read_idx(arguments.data, part)])
    serve(lambda task: train(task, *data("train")) if task["kind"] == "train"
          else evaluate(task, *data("t10k")))


main()
