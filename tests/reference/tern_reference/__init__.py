"""Encoder and decoder of docs/FORMAT.md, written from that page alone: a second specification.

Small and slow on purpose: plain Python, one value at a time, standard library only, no code shared
with libtern. One module for each topic of FORMAT.md.
"""

from . import container, draws, model, specs
from .model import Model
from .payload import MODES, Context, accumulate, decode, encode
from .values import Refused, f32, finite, get_f32, put_f32

__all__ = [
    "MODES",
    "Context",
    "Model",
    "Refused",
    "accumulate",
    "container",
    "decode",
    "draws",
    "encode",
    "f32",
    "finite",
    "get_f32",
    "model",
    "put_f32",
    "specs",
]
