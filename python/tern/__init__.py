"""Federated learning with Tern, from Python. docs/PYTHON.md is the manual.

    save_model, load_model   models as safetensors files, every tensor in its own dtype
    trainer                  makes a function a trainer of tern-client
    simulate                 a whole federation on this machine
    Federation               what an aggregator tells, and takes, through its API
    tern.flower              runs a Flower NumPyClient
    tern.mlflow              logs a federation's rounds to an MLflow server

Needs numpy. PyTorch and pandas are imported only when they are asked for.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tern._version import __version__
from tern.models import Inputs, ModelError, load_inputs, load_metadata, load_model, save_model
from tern.table import Table
from tern.trainers import Evaluation, Task, Trainer, TrainerError, Training, trainer

if TYPE_CHECKING:
    from tern import flower, mlflow
    from tern.federation import Federation, FederationError
    from tern.simulation import Simulation, SimulationError, simulate

# What devices do not need is imported when it is first asked for: HTTP, TLS and processes take a trainer's start longer
# than numpy does.
_LATER = {"flower": "flower", "mlflow": "mlflow", "Federation": "federation", "FederationError": "federation",
          "Simulation": "simulation", "SimulationError": "simulation", "simulate": "simulation"}

__all__ = ["Evaluation", "Federation", "FederationError", "Inputs", "ModelError", "Simulation", "SimulationError", "Table",
           "Task", "Trainer", "TrainerError", "Training", "__version__", "flower", "load_inputs", "load_metadata", "load_model",
           "mlflow", "save_model", "simulate", "trainer"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tern' has no attribute {name!r}")
    module = importlib.import_module(f"tern.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
