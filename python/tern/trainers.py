"""Trainers of tern-client in Python: a function becomes a program that imports once and does one task after the other.

    @tern.trainer(data=load)
    def train(model, task):
        ...
        return model, len(labels), loss

    @train.evaluation
    def evaluate(model, task):
        return len(labels), loss, {"accuracy": right / len(labels)}

    if __name__ == "__main__":
        train.run()

docs/TRAINERS.md describes the interface below it: files for the models, JSON for the task and its answer.
"""
from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from tern.models import FRAMEWORKS, load_model, save_model, state_dict_of, to_array

INTERFACE = 1  # of docs/TRAINERS.md
# Limits of the metrics, beside loss and accuracy, that an evaluation sends (docs/PROTOCOL.md, "Metric").
METRICS_MAX = 4
METRIC_NAME_MAX = 15  # bytes
METRIC_NAME = re.compile("[a-z0-9_]+")
METRIC_NAMES_TAKEN = ("client", "clients", "invited", "model", "reported")
ANSWERS = 3  # the file descriptor that a persistent trainer answers on


class TrainerError(Exception):
    """A task that cannot be done, or an invalid answer. The client logs the reason, drops the task and requests
    another one later. A trainer may raise it, for example when training diverged."""


class Training(NamedTuple):
    """Result of training; a trainer may return a plain tuple of the first three or four fields."""

    model: Any  # {name: array} of all tensors that it was given, of the same shapes; or a torch Module
    num_examples: int  # in the local data set, 1 to 1,000,000,000: the weight of this client
    loss: float  # mean over the local steps
    metrics: Mapping[str, float] = {}  # for the client's log
    local_steps: int | None = None  # those that were done, when they were fewer than the task's


class Evaluation(NamedTuple):
    """Result of an evaluation; a plain tuple of the first two or three fields is enough."""

    num_examples: int  # evaluated, from 1
    loss: float  # mean over the examples
    metrics: Mapping[str, float] = {}  # "accuracy" (0 to 1), and up to four others: see _sent()


@dataclasses.dataclass(frozen=True)
class Task:
    """A client's task. In an evaluation the fields of training are 0."""

    kind: str  # "train" or "evaluate"
    data: Any  # of trainer(data=...), or this client's part in simulate()
    framework: str  # of the arrays that the trainer is given: "numpy" or "torch"
    fields: Mapping[str, Any]  # as the client wrote them, with the paths of the files
    round: int = 0  # 1, 2, ...
    client: int = 0  # number of this client in the federation
    local_steps: int = 0  # batches to train on, from 1
    batch_size: int = 0  # examples in a batch, from 1
    learning_rate: float = 0.0  # of this round
    momentum: float = 0.0  # of local SGD, 0 to below 1; starts from nothing each round
    weight_decay: float = 0.0  # times the weights, added to the gradient
    prox_mu: float = 0.0  # FedProx: prox_mu / 2 * |w - base|^2 is added to the loss; 0 = not
    seed: int = 0  # 0 to 2^32 - 1; of this client and round, the same when a task is tried again

    @functools.cached_property
    def base(self) -> dict[str, Any]:
        """The global model, for FedProx: {name: float32 array}. Read at first use."""
        return load_model(self.fields.get("base", self.fields["model"]), self.framework)

    def batches(self, count: int) -> Iterator[numpy.ndarray[Any, Any]]:
        """Yields indices into `count` examples: local_steps arrays of int64 [batch_size], or [count] if there are
        fewer examples. Each epoch has a new order, determined by the seed. ValueError: count is 0."""
        if count < 1:
            raise ValueError("there are no examples to make batches of")
        size = min(self.batch_size, count)
        generator = numpy.random.default_rng(self.seed)
        order, at = generator.permutation(count), 0
        for _ in range(self.local_steps):
            if at + size > count:
                order, at = generator.permutation(count), 0
            yield order[at:at + size]
            at += size


TASK_NUMBERS = [field.name for field in dataclasses.fields(Task)][4:]

Train = Callable[[dict[str, Any], Task], Sequence[Any]]
Evaluate = Callable[[dict[str, Any], Task], Sequence[Any]]


# --- Answers


def _number(name: str, value: Any) -> float:
    value = float(value)
    if not math.isfinite(value):
        raise TrainerError(f"{name} is {value}: did the training diverge?")
    return value


def _count(value: Any) -> int:
    if int(value) != value or not 1 <= value <= 1_000_000_000:
        raise TrainerError(f"num_examples is {value}, and not a whole number from 1 to 1,000,000,000")
    return int(value)


def _metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): _number(f"the metric {name}", value) for name, value in metrics.items()}


class _Tensors(dict[str, Any]):
    """A model; a missing tensor raises TrainerError with the names of its tensors."""

    def __missing__(self, name: str) -> Any:
        raise TrainerError(f"the model has no tensor '{name}'; it has {', '.join(self)}. In train-check name the model "
                           "that the trainer is for, as a .safetensors file")


def _sent(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Checks that all metrics of an evaluation can be sent to the aggregator. TrainerError: one cannot."""
    others = [name for name in metrics if name not in ("accuracy", "loss")]
    for name in others:
        size = len(name.encode())
        if size > METRIC_NAME_MAX:
            raise TrainerError(f"the metric '{name}' has a name of {size} bytes, and {METRIC_NAME_MAX} are sent at most: shorten the name")
        if not METRIC_NAME.fullmatch(name) or name in METRIC_NAMES_TAKEN:
            raise TrainerError(f"the metric '{name}' would not be kept: a name has only a to z, 0 to 9 and _, and is none of "
                               f"{', '.join(METRIC_NAMES_TAKEN)}")
    if len(others) > METRICS_MAX:
        raise TrainerError(f"the evaluation has {len(others)} metrics beside loss and accuracy ({', '.join(others)}), and "
                           f"{METRICS_MAX} are sent at most: leave some out")
    return metrics


def _trained(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, numpy.ndarray[Any, Any]]:
    """Selects the requested tensors from a trainer's result. Tensors that are not trained (num_batches_tracked,
    float64) stay at the aggregator; any other extra float tensor is an error."""
    returned = {name: to_array(value) for name, value in state_dict_of(model).items()}
    found = {}
    for name, shape in shapes.items():
        if name not in returned:
            raise TrainerError(f"the trained model lacks the tensor '{name}'")
        values = returned.pop(name)
        if values.shape != shape:
            raise TrainerError(f"the trained tensor '{name}' has the shape {list(values.shape)}; the model's is "
                               f"{list(shape)}")
        found[name] = numpy.asarray(values, dtype=numpy.float32)
        if not numpy.isfinite(found[name]).all():
            raise TrainerError(f"the trained tensor '{name}' has values that are not finite: did the training diverge?")
    for name, values in returned.items():
        if values.dtype in (numpy.float32, numpy.float16):
            raise TrainerError(f"the trained model has a tensor '{name}' that the federation's has not")
    return found


def _write_result(path: str, fields: Mapping[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file, allow_nan=False)


# --- Trainers


class Trainer:
    """Wraps a training function as a trainer of tern-client. Calling it calls the function."""

    def __init__(self, train: Train, data: Callable[[], Any] | None = None, framework: str = "numpy") -> None:
        if framework not in FRAMEWORKS:
            raise ValueError(f"framework is one of {', '.join(FRAMEWORKS)}, not {framework!r}")
        self.framework = framework
        self._train = train
        self._evaluate: Evaluate | None = None
        self._load = data
        functools.update_wrapper(self, train)

    def __call__(self, model: dict[str, Any], task: Task) -> Sequence[Any]:
        return self._train(model, task)

    def evaluation(self, evaluate: Evaluate) -> Evaluate:
        """Decorator for the evaluation function: evaluate(model, task) -> (num_examples, loss, metrics)."""
        self._evaluate = evaluate
        return evaluate

    @property
    def evaluates(self) -> bool:
        """Whether there is an evaluation function."""
        return self._evaluate is not None

    @functools.cached_property
    def data(self) -> Any:
        """The result of trainer(data=...), which is called once, by the first task."""
        return self._load() if self._load is not None else None

    def _task(self, fields: Mapping[str, Any], data: Any) -> Task:
        if fields.get("interface") != INTERFACE:
            raise TrainerError(f"this version of Python's tern knows the trainers' interface {INTERFACE}, and not "
                               f"{fields.get('interface')}")
        numbers = {name: fields[name] for name in TASK_NUMBERS if name in fields}
        return Task(kind=fields["kind"], data=data, framework=self.framework, fields=fields, **numbers)

    def do(self, fields: Mapping[str, Any], data: Any = None) -> None:
        """Runs one task: reads its model, calls the function, writes its answer. fields: the task's JSON. data:
        becomes task.data. TrainerError, ModelError, OSError, and the function's exceptions."""
        task = self._task(fields, data)
        model = _Tensors(load_model(fields["model"], self.framework))
        if task.kind == "train":
            self._do_train(model, task)
        else:
            self._do_evaluate(model, task)

    def _do_train(self, model: dict[str, Any], task: Task) -> None:
        shapes = {name: tuple(values.shape) for name, values in model.items()}
        done = Training(*self._train(model, task))
        answer: dict[str, Any] = {"num_examples": _count(done.num_examples), "loss": _number("the loss", done.loss),
                                  "metrics": _metrics(done.metrics)}
        if done.local_steps is not None:
            answer["local_steps"] = int(done.local_steps)
        save_model(_trained(done.model, shapes), task.fields["output"])
        _write_result(task.fields["result"], answer)

    def _do_evaluate(self, model: dict[str, Any], task: Task) -> None:
        if self._evaluate is None:
            raise TrainerError("this trainer does not evaluate: decorate a function with @NAME.evaluation, NAME being "
                               "the trainer's")
        done = Evaluation(*self._evaluate(model, task))
        metrics = dict(_sent(_metrics(done.metrics)))
        answer: dict[str, Any] = {"num_examples": _count(done.num_examples), "loss": _number("the loss", done.loss)}
        if "accuracy" in metrics:
            answer["accuracy"] = metrics.pop("accuracy")
        _write_result(task.fields["result"], answer | {"metrics": metrics})

    def run(self, arguments: Sequence[str] | None = None) -> None:
        """Main function of the program: runs the task named by the last argument or, with client.trainer_persistent,
        one task after the other until the client ends. arguments: sys.argv by default. If a task raises, its answer
        has the reason, and the traceback goes to standard error, whose end the client logs."""
        if os.environ.get("TERN_PERSISTENT") == "1":
            for line in sys.stdin:
                os.write(ANSWERS, self._answer(line.rstrip("\n")).encode() + b"\n")
            return
        path = (sys.argv if arguments is None else arguments)[-1]
        if not path.endswith(".json"):
            sys.exit("this is a trainer of tern-client, which starts it with a task: client.trainer_command "
                     "(docs/TRAINERS.md); to try it: tern-client train-check")
        answer = self._answer(path)
        if answer != "done":
            sys.exit(answer)

    def _answer(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                fields = json.load(file)
            self.do(fields, self.data)
            return "done"
        except TrainerError as error:
            return "failed: " + " ".join(str(error).split())
        except (Exception, SystemExit) as error:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            return "failed: " + " ".join(f"{type(error).__name__}: {error}".split())


def trainer(train: Train | None = None, *, data: Callable[[], Any] | None = None,
            framework: str = "numpy") -> Any:
    """Decorator: makes a function a Trainer.

    train(model, task) -> (model, num_examples, loss) or (..., metrics): a Training. model is {name: float32 array} of
    all tensors that the aggregator gives to trainers, its own to change. Dense weights of built-in models are
    [out][in]. task: see Task.
    data: called once, when the first task asks; task.data is what it returns.
    framework: "torch" for tensors instead of numpy arrays, in `model` and `task.base`.
    """
    if train is not None:
        return Trainer(train, data, framework)
    return lambda function: Trainer(function, data, framework)
