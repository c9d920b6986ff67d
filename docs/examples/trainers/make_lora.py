#!/usr/bin/env python3
"""Puts low-rank adapters beside the weights of a model (LoRA, Hu et al., ICLR 2022, section 4.1):

    python3 make_lora.py trunk.safetensors adapted.safetensors --rank 8
    tern-aggregator init --model adapted.safetensors --rules '*.weight: skip, *.bias: skip'

Each matrix NAME.weight [out][in] gets NAME.lora_a [rank][in], random, and NAME.lora_b [out][rank], zeros, so that
the model is the trunk's until something is learnt. The rules freeze the trunk: it is downloaded once, and only
adapters are sent.
"""
import argparse

import numpy

from tern_trainer import load_model, save_model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trunk")
    parser.add_argument("adapted")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = numpy.random.default_rng(arguments.seed)
    model = load_model(arguments.trunk)
    for name in [name for name, values in model.items() if name.endswith(".weight") and values.ndim == 2]:
        out, inputs = model[name].shape
        layer = name[:-len(".weight")]
        model[f"{layer}.lora_a"] = rng.normal(0, inputs ** -0.5, (arguments.rank, inputs))
        model[f"{layer}.lora_b"] = numpy.zeros((out, arguments.rank))
    save_model(arguments.adapted, model)


main()
