"""Runs a whole federation on this machine: a real tern-aggregator and one real tern-client per part of the data, over
TLS on loopback. The process that calls simulate() is the trainer, so functions and data need not be files.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tern.federation import Federation, FederationError, flat_round, history_of
from tern.models import load_model, save_model, trainable
from tern.table import Table
from tern.trainers import Evaluate, Train, Trainer

CLIENTS_MAX = 200  # two processes each
SOCKET_PATH_MAX = 100  # bytes, of a unix socket's path
LOOK_S = 0.2  # how often rounds and processes are looked at
LOG_TAIL = 3000  # characters
GRACE_S = 10.0  # that a process has to end by itself


class SimulationError(Exception):
    """A program is missing or failed, a setting was refused, or the simulation makes no progress."""


@dataclasses.dataclass(frozen=True)
class Simulation:
    """The results of a simulation."""

    model: dict[str, Any]  # the last version of the global model, {name: array}, each tensor in its dtype
    status: dict[str, Any]  # as `tern-aggregator status --json` has it
    seconds: float  # from the first check-in on
    all_rounds: Table  # as `tern-aggregator rounds --json` has them, metrics as evaluated_NAME

    def rounds(self) -> Table:
        """All rounds, as Federation.rounds(), with accuracy, other figures and bytes."""
        return self.all_rounds

    def history(self) -> Table:
        """A table of rounds: losses, accuracy on test data, bytes of all clients together, seconds."""
        return history_of(list(self.all_rounds))


# --- Settings


def _check_clients(data: Sequence[Any], cohort: int, rounds: int) -> None:
    if rounds < 1:
        raise SimulationError(f"rounds is {rounds}; a simulation has 1 or more, after which it ends")
    if not 1 <= len(data) <= CLIENTS_MAX:
        raise SimulationError(f"simulate() makes a process of each of the data's {len(data)} parts, and takes 1 to "
                              f"{CLIENTS_MAX}; tern-fleet simulates more, of built-in models (docs/EXPERIMENTS.md)")
    if not 1 <= cohort <= len(data):
        raise SimulationError(f"cohort is {cohort}, and there are {len(data)} clients")


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits settings into those of the aggregator and those of clients (client.KEY)."""
    for name in settings:
        if name.count(".") != 1:
            raise SimulationError(f"a setting is named SECTION.KEY, as round.deadline; not {name!r}")
    of_clients = {name: value for name, value in settings.items() if name.startswith("client.")}
    return {name: value for name, value in settings.items() if name not in of_clients}, of_clients


def _settings(rounds: int, cohort: int, clients: int) -> dict[str, Any]:
    """Default settings of the aggregator: every client takes part, and rounds start without delay."""
    return {"federation.state": "state", "federation.seed": 1, "server.address": "127.0.0.1", "server.port": 0,
            "server.port_file": "port", "admin.address": "unix:admin.sock", "round.rounds": rounds,
            "round.cohort": cohort, "round.quorum": cohort, "round.min_clients": clients, "round.min_interval": "0",
            "round.deadline": "24h"}


def _text(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _write_ini(path: pathlib.Path, settings: Mapping[str, Any]) -> None:
    sections: dict[str, list[str]] = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, []).append(f"{key} = {_text(value)}\n")
    path.write_text("".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()), encoding="utf-8")


# --- Programs


def _program(name: str, programs: str | os.PathLike[str] | None) -> str:
    folder = programs if programs is not None else os.environ.get("TERN_BIN_DIR")
    found = shutil.which(name, path=os.fspath(folder) if folder is not None else None)
    if found is None:
        raise SimulationError(f"there is no program {name} in {folder or 'PATH'}: install Tern's packages, or name the "
                              "folder of a build by programs= or TERN_BIN_DIR")
    return os.path.abspath(found)


def _tail(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:].strip() if path.exists() else ""


class _Processes:
    """Child processes that end with the `with` block or, if setpriv is installed, when this process is killed."""

    def __init__(self, folder: pathlib.Path, programs: str | os.PathLike[str] | None) -> None:
        self.folder = folder
        self.aggregator = _program("tern-aggregator", programs)
        self.client = _program("tern-client", programs)
        self.openssl = _program("openssl", os.environ.get("PATH", os.defpath))
        guard = shutil.which("setpriv")
        self._guard = [guard, "--pdeathsig", "KILL"] if guard else []
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, *command: str) -> str:
        """Runs a program to its end and returns its output. SimulationError has the output of a failed one."""
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SimulationError(f"{pathlib.Path(command[0]).name} {command[1]} failed with {done.returncode}: "
                                  f"{done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen([*self._guard, *command], cwd=self.folder, stdin=subprocess.DEVNULL,
                                                  stdout=log, stderr=log)

    def log(self, name: str) -> str:
        return _tail(self.folder / f"{name}.log")

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in self.running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# --- The trainer of all clients


class _Tasks:
    """Receives the clients' tasks from a socket, one after the other."""

    def __init__(self, path: pathlib.Path, clients: int) -> None:
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            raise SimulationError(f"the path {path} is too long for a socket; name a shorter folder= (or TMPDIR)")
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(path))
        self._listener.listen(clients)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def ready(self) -> Iterator[tuple[int, str, socket.socket]]:
        """Yields client, path of a task, and the connection for its answer, for tasks that arrive within LOOK_S. A
        client sends "NUMBER PATH" and waits for the answer, so a connection never holds a second line."""
        for key, _ in self._selector.select(LOOK_S):
            if key.fileobj is self._listener:
                link = self._listener.accept()[0]
                self._selector.register(link, selectors.EVENT_READ, link.makefile("rb"))
                continue
            link = key.fileobj  # type: ignore[assignment]
            client, _, path = key.data.readline().decode().rstrip("\n").partition(" ")
            if path:
                yield int(client), path, link
            else:  # its trainer has ended
                self._selector.unregister(link)
                link.close()


# --- The federation


class _Run:
    """One simulation, from its settings to its results."""

    def __init__(self, processes: _Processes, data: Sequence[Any], trainer: Trainer,
                 progress: Callable[[dict[str, Any]], None] | None) -> None:
        self._processes = processes
        self._folder = processes.folder
        self._data = data
        self._trainer = trainer
        self._progress = progress
        self._shown = 0  # rounds
        self._moved = time.monotonic()  # when something happened last

    # Before the first round

    def make_aggregator(self, model: Any, settings: Mapping[str, Any]) -> None:
        """Makes the state directory and the certificate."""
        start = model
        if not isinstance(model, str):
            start = "start.safetensors"
            save_model(trainable(model), self._folder / start)
        _write_ini(self._folder / "aggregator.ini", {"federation.model": start} | dict(settings))
        self._verb("init")
        self._processes.run(self._processes.openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=DNS:localhost", "-keyout", "state/server.key", "-out", "state/server.crt")

    def _verb(self, *arguments: str) -> str:
        return self._processes.run(self._processes.aggregator, *arguments, "--config", "aggregator.ini")

    def serve(self) -> str:
        """Starts the aggregator and returns its address."""
        self._processes.start("aggregator", self._processes.aggregator, "serve", "--config", "aggregator.ini")
        port = self._folder / "port"
        while not (port.exists() and port.read_text(encoding="ascii").strip()):
            self._check_processes()
            time.sleep(0.02)
        return f"https://localhost:{port.read_text(encoding='ascii').strip()}"

    def start_clients(self, server: str, settings: Mapping[str, Any]) -> None:
        """Enrols and starts one client per part of the data, and the evaluator as the last, if there is one."""
        code = json.loads(self._verb("enroll-code", "--uses", str(len(self._data)), "--evaluator", "--json"))["code"]
        shutil.copy(pathlib.Path(__file__).with_name("_bridge.py"), self._folder / "bridge.py")
        for number in range(len(self._data)):
            name = f"client-{number}"
            bridge = f"'{sys.executable}' -I -S bridge.py trainer.sock {number}"
            _write_ini(self._folder / f"{name}.ini", {
                "client.server": server, "client.ca": "state/server.crt", "client.name": name,
                "client.state_dir": name, "client.trainer": "command", "client.trainer_command": bridge,
                "client.trainer_persistent": True, "client.trainer_timeout": 0,
                "client.evaluator": self._is_evaluator(number)} | dict(settings))
            self._processes.run(self._processes.client, "enroll", "--config", f"{name}.ini", code)
        for number in range(len(self._data)):
            name = f"client-{number}"
            self._processes.start(name, self._processes.client, "run", "--config", f"{name}.ini")

    def _is_evaluator(self, number: int) -> bool:
        return isinstance(self._data[number], _Test)

    # Rounds

    def train(self, tasks: _Tasks, patience: float) -> None:
        """Runs the clients' tasks until all have ended. Raises the trainer's exceptions and SimulationError."""
        federation = Federation(f"unix:{self._folder}/admin.sock", self._folder / "state" / "admin.token")
        self._moved = time.monotonic()
        while self._check_processes():
            for client, path, link in tasks.ready():
                link.sendall(self._do(client, path).encode() + b"\n")
                self._moved = time.monotonic()
            self._show(federation)
            if time.monotonic() - self._moved > patience:
                raise SimulationError(f"nothing has happened for {patience:g} s. The aggregator's log ends with\n"
                                      f"{self._processes.log('aggregator')}\nand a client's with\n"
                                      f"{self._processes.log('client-0')}")
        self._show(federation)

    def _do(self, client: int, path: str) -> str:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        if fields["kind"] == "evaluate" and not self._trainer.evaluates:
            return "failed: nothing evaluates"
        data = self._data[client]
        self._trainer.do(fields, data.data if isinstance(data, _Test) else data)
        return "done"

    def _show(self, federation: Federation) -> None:
        """Reports newly committed rounds. Ignores errors: the aggregator may be ending or busy."""
        try:
            rounds = federation.rounds(after=self._shown)
        except FederationError:
            return
        for row in rounds:
            if row["state"] == "committed":
                self._shown = row["round"]
                self._moved = time.monotonic()
                if self._progress is not None:
                    self._progress(row)

    def _check_processes(self) -> bool:
        """Returns whether a client still runs. SimulationError: a client failed, or the aggregator ended."""
        codes = {name: process.poll() for name, process in self._processes.running.items()}
        for name, code in codes.items():
            if code is not None and (code != 0 or name == "aggregator"):
                raise SimulationError(f"{name} ended with {code}. Its log ends with\n{self._processes.log(name)}")
        return any(code is None for name, code in codes.items() if name != "aggregator")

    # After the last

    def result(self, seconds: float) -> Simulation:
        """Reads the results from the running aggregator."""
        rounds = Table(map(flat_round, json.loads(self._verb("rounds", "--json", "--last", "1000000"))))
        self._verb("export", "--global", "final.safetensors")
        return Simulation(model=load_model(self._folder / "final.safetensors"),
                          status=json.loads(self._verb("status", "--json")), seconds=seconds, all_rounds=rounds)


@dataclasses.dataclass(frozen=True)
class _Test:
    """Test data, which is never trained on."""

    data: Any


@contextlib.contextmanager
def _folder(kept: str | os.PathLike[str] | None) -> Iterator[pathlib.Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="tern-", ignore_cleanup_errors=True) as temporary:
            yield pathlib.Path(temporary)
        return
    folder = pathlib.Path(kept).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SimulationError(f"the folder {folder} is not empty; a simulation does not go on where another one ended")
    yield folder


def print_round(row: dict[str, Any]) -> None:
    """Prints a line for a round, a row of Federation.rounds(). simulate() does this by default."""
    print(f"round {row['round']}: {row['applied']} updates, mean loss {row['mean_loss']:.4f}", flush=True)


def _print_end(status: Mapping[str, Any]) -> None:
    """Prints the figures of the last evaluated version."""
    if status.get("accuracy_model") is None:
        print("no accuracy: nothing was evaluated", flush=True)
        return
    figures = dict(status.get("metrics") or {}) | {"loss": status["evaluated_loss"]}
    if status.get("accuracy") is not None:
        figures = {"accuracy": status["accuracy"]} | figures
    found = ", ".join(f"{name} {value:.4f}" for name, value in figures.items() if value is not None)
    model = {"global": "global model"}.get(status["accuracy_model"], status["accuracy_model"])
    print(f"{found}: {model} of version {status['accuracy_version']}", flush=True)


def simulate(model: Any, data: Sequence[Any], trainer: Trainer | Train, *, evaluate: Evaluate | None = None,
             test: Any = None, rounds: int = 10, cohort: int | None = None,
             settings: Mapping[str, Any] | None = None, folder: str | os.PathLike[str] | None = None,
             programs: str | os.PathLike[str] | None = None, patience: float = 120.0,
             progress: Callable[[dict[str, Any]], None] | None = print_round) -> Simulation:
    """Runs a federation on this machine: a client for each part of the data, with all that lies between them in
    earnest: rounds, compression, error buffers, TLS.

    model: what it begins with: {name: array} of numpy arrays or torch tensors, a torch Module, or a built-in model by
    its name, e.g. "softmax:64-10". float64 is trained as float32.
    data: of each client; the trainer finds its part as task.data.
    trainer: a Trainer (of @tern.trainer, or tern.flower.trainer()), or a function train(model, task). It is called in
    this process, by the thread that called simulate(), for one client after the other.
    evaluate: the function that evaluates, where the trainer is a function. test: what the versions are evaluated on,
    as task.data.
    rounds: 1 or more. cohort: clients in each round, all by default.
    settings: {"SECTION.KEY": value} of the aggregator (`tern-aggregator --settings` lists them: "train.local_steps",
    "codec.codec", ...) and, as "client.KEY", of each client.
    folder: an empty one, or a new one, which keeps the aggregator's state and all logs; a temporary one by default.
    programs: the folder of tern-aggregator and tern-client; $TERN_BIN_DIR or PATH by default.
    patience: seconds without a task or a round after which it ends. progress: is given each round that was
    committed; by default each is printed and, with test, how good the last version is.

    Raises whatever the trainer raises, at once. SimulationError: see there. ModelError: the model cannot be written."""
    made = trainer if isinstance(trainer, Trainer) else Trainer(trainer)
    if evaluate is not None:
        made.evaluation(evaluate)
    if test is not None and not made.evaluates:
        raise SimulationError("test is evaluated on, and nothing evaluates: name evaluate=, or decorate a function with "
                              "the trainer's evaluation")
    members = cohort if cohort is not None else len(data)
    _check_clients(data, members, rounds)
    of_aggregator, of_clients = _split(settings or {})
    parts = [*data] + ([] if test is None else [_Test(test)])
    with _folder(folder) as workspace:
        processes = _Processes(workspace, programs)
        run = _Run(processes, parts, made, progress)
        run.make_aggregator(model, _settings(rounds, members, len(data)) | of_aggregator)
        with contextlib.closing(_Tasks(workspace / "trainer.sock", len(parts))) as tasks:
            try:
                run.start_clients(run.serve(), of_clients)
                began = time.monotonic()
                run.train(tasks, patience)
                done = run.result(time.monotonic() - began)
                if test is not None and progress is print_round:
                    _print_end(done.status)
                return done
            finally:
                processes.stop()
