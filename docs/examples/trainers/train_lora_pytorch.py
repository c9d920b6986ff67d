#!/usr/bin/env python3
"""A trainer with PyTorch for low-rank adapters beside a frozen trunk, as make_lora.py makes them; here of a perceptron
with one hidden layer.

Set it up on the client:
    [client]
    trainer = command
    trainer_command = python3 /opt/trainers/train_lora_pytorch.py --data /srv/digits
    trainer_persistent = yes
"""
from collections import OrderedDict

import torch
from torch import nn

from train_pytorch import main


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


main(build)
