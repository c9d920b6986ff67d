"""Runs a client written for Flower, unchanged: an object with get_parameters(), fit() and evaluate() as
flwr.client.NumPyClient has them. flwr itself is not needed.

    tern.save_model(tern.flower.initial_model(client, names), "start.safetensors")  # for tern-aggregator init
    tern.flower.trainer(client, names).run()                                        # is the trainer

Flower sends a list of arrays, Tern tensors with names. names: of the list's, in its order, e.g. net.state_dict();
"0000", "0001", ... where none are given. Whole numbers in the list (num_batches_tracked) are neither sent nor averaged:
fit() and evaluate() are given the client's own.

fit() is told by its config: server_round, local_steps, batch_size, learning_rate, momentum, weight_decay, proximal_mu,
seed; evaluate() gets an empty one. What fit() returns of "loss" or "train_loss" in its metrics is the loss of the
training; without either, evaluate() is called for it. "local_steps" in them says how many there were.
"""
from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy

from tern.models import trainable
from tern.trainers import Evaluation, Task, Trainer, TrainerError, Training

LOSSES = ("loss", "train_loss")


class NumPyClient(Protocol):
    """The methods of flwr.client.NumPyClient that Tern uses."""

    def get_parameters(self, config: dict[str, Any]) -> list[numpy.ndarray[Any, Any]]:
        """Returns the model's arrays."""

    def fit(self, parameters: list[numpy.ndarray[Any, Any]], config: dict[str, Any]
            ) -> tuple[list[numpy.ndarray[Any, Any]], int, dict[str, Any]]:
        """Trains; returns the new arrays, the number of examples, metrics."""

    def evaluate(self, parameters: list[numpy.ndarray[Any, Any]], config: dict[str, Any]
                 ) -> tuple[float, int, dict[str, Any]]:
        """Returns the loss, the number of examples, metrics."""


def _parameters(client: NumPyClient) -> list[numpy.ndarray[Any, Any]]:
    # Clients of older versions of Flower take no config here.
    takes_config = bool(inspect.signature(client.get_parameters).parameters)
    arrays = client.get_parameters({}) if takes_config else client.get_parameters()  # type: ignore[call-arg]
    return [numpy.asarray(array) for array in arrays]


def _named(arrays: list[numpy.ndarray[Any, Any]], names: Iterable[str] | None) -> dict[str, numpy.ndarray[Any, Any]]:
    wanted = [f"{at:04}" for at in range(len(arrays))] if names is None else list(names)
    if len(set(wanted)) != len(arrays):
        raise ValueError(f"the client has {len(arrays)} arrays, and there are {len(set(wanted))} different names")
    return dict(zip(wanted, arrays))


def initial_model(client: NumPyClient, names: Iterable[str] | None = None) -> dict[str, numpy.ndarray[Any, Any]]:
    """Returns the client's present model, {name: array}, to start a federation with; float64 becomes float32, which
    Tern trains. ValueError: too few names."""
    return trainable(_named(_parameters(client), names))


def _config(task: Task) -> dict[str, bool | bytes | float | int | str]:
    return {"server_round": task.round, "local_steps": task.local_steps, "batch_size": task.batch_size,
            "learning_rate": task.learning_rate, "momentum": task.momentum, "weight_decay": task.weight_decay,
            "proximal_mu": task.prox_mu, "seed": task.seed}


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Selects the numeric metrics; Flower also allows text and bytes."""
    return {name: float(value) for name, value in metrics.items() if isinstance(value, numbers.Real)}


class _Adapter:
    """Converts between the model of a task and the arrays of a client."""

    def __init__(self, make: Callable[[Task], NumPyClient], names: list[str] | None) -> None:
        self._make = make
        self._names = names

    def _fill(self, client: NumPyClient, model: Mapping[str, numpy.ndarray[Any, Any]]
              ) -> tuple[list[str], list[numpy.ndarray[Any, Any]]]:
        """Returns all names in the client's order, and the arrays: floats from the model, whole numbers from the
        client."""
        own = _named(_parameters(client), self._names)
        unknown = [name for name in model if name not in own]
        if unknown:
            raise TrainerError(f"the client has no array for the tensor '{unknown[0]}'")
        return list(own), [model[name].astype(array.dtype) if name in model else array for name, array in own.items()]

    def train(self, model: dict[str, numpy.ndarray[Any, Any]], task: Task) -> Training:
        """Calls fit() of the task's client."""
        client = self._make(task)
        names, arrays = self._fill(client, model)
        arrays, num_examples, metrics = client.fit(arrays, _config(task))
        found = [name for name in LOSSES if name in metrics]
        loss = metrics[found[0]] if found else self._loss(client, arrays)
        return Training(_named(arrays, names), num_examples, float(loss), _figures(metrics),
                        metrics.get("local_steps"))

    def _loss(self, client: NumPyClient, arrays: list[numpy.ndarray[Any, Any]]) -> float:
        loss, num_examples, _ = client.evaluate(arrays, {})
        if num_examples < 1:
            raise TrainerError("a loss is needed: let fit() return it among its metrics, or evaluate() measure it")
        return loss

    def evaluate(self, model: dict[str, numpy.ndarray[Any, Any]], task: Task) -> Evaluation:
        """Calls evaluate() of the task's client."""
        client = self._make(task)
        loss, num_examples, metrics = client.evaluate(self._fill(client, model)[1], {})
        return Evaluation(num_examples, float(loss), _figures(metrics))


def trainer(client: NumPyClient | Callable[[Any], NumPyClient], names: Iterable[str] | None = None) -> Trainer:
    """A Trainer that runs a NumPyClient.

    client: the client; or what makes it of task.data, its class or a function, as Flower's client_fn: that is called anew
    for each task, and lets simulate() train several. names: of its arrays, in their order.
    """
    is_made = hasattr(client, "fit") and not isinstance(client, type)

    def make(task: Task) -> Any:
        return client if is_made else client(task.data)  # type: ignore[operator]

    adapter = _Adapter(make, None if names is None else list(names))
    made = Trainer(adapter.train)
    made.evaluation(adapter.evaluate)
    return made
