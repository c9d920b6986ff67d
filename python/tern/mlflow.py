"""Logs a federation's rounds to an MLflow tracking server by its REST API (2.0). MLflow itself is not needed here.

    run = tern.mlflow.log(tern.Federation(...), "http://127.0.0.1:5000", "pumps")   # all rounds until now
    run.update()                                                                    # those since
    run.finish()

One run is one federation: each committed round is a step, with every number of rounds() that says how it went.
What a server asks for in the way of names and passwords is taken from MLFLOW_TRACKING_TOKEN, or from
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, as MLflow's own clients do.
"""
from __future__ import annotations

import base64
import json
import math
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tern.table import Table

API = "/api/2.0/mlflow/"
METRICS_MAX = 1000  # in one request of log-batch
LAST_ROUND = "tern.last_round"  # tag: the last round that the run has
# Numbers of a round that are its settings, its clock or its name, and not how it went.
NO_METRICS = {"round", "base_version", "opened_ms", "closed_ms", "deadline_ms", "target", "quorum"}
NO_METRIC_ENDS = ("_worst_client",)  # likewise
# What does not change while a federation lasts, or is worth keeping of its first round.
PARAMETERS = ("strategy", "strategy_parameters", "codec_up", "codec_down", "server_learning_rate")


class MlflowError(Exception):
    """The tracking server refused a request, or was not reachable. code: its error_code, or ""."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Source(Protocol):
    """Source of rounds: a Federation or a Simulation."""

    def rounds(self) -> Table:
        """Returns a table of all rounds."""


def _authorization() -> dict[str, str]:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return {"Authorization": f"Bearer {token}"}
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    if user is None:
        return {}
    both = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}".encode()
    return {"Authorization": "Basic " + base64.b64encode(both).decode()}


class _Server:
    def __init__(self, uri: str, timeout: float) -> None:
        if urllib.parse.urlsplit(uri).scheme not in ("http", "https"):
            raise ValueError(f"tracking_uri is http://... or https://..., not {uri!r}")
        self.uri = uri.rstrip("/")
        self._timeout = timeout

    def ask(self, path: str, body: Mapping[str, Any] | None = None, **query: str) -> dict[str, Any]:
        """Sends a POST with a body, or a GET; returns the answer's JSON. MlflowError."""
        url = self.uri + API + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} | _authorization())
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise _refused(path, error) from error
        except (OSError, ValueError) as error:
            raise MlflowError(f"no answer of MLflow's from {self.uri}: {error}") from error


def _refused(path: str, error: urllib.error.HTTPError) -> MlflowError:
    try:
        said = json.loads(error.read())
        code, message = said["error_code"], said.get("message", "")
    except (ValueError, KeyError, TypeError):
        code, message = "", error.reason
    return MlflowError(f"MLflow refused {path} with {error.code} {code}: {message}", code)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _experiment(server: _Server, name: str) -> str:
    """Returns the id of the experiment with this name, which it makes if needed."""
    try:
        return server.ask("experiments/get-by-name", experiment_name=name)["experiment"]["experiment_id"]
    except MlflowError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
    return server.ask("experiments/create", {"name": name})["experiment_id"]


def _metrics(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Returns the metrics of one round: step is the round, the timestamp its end."""
    for name, value in row.items():
        if name in NO_METRICS or name.endswith(NO_METRIC_ENDS) or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if math.isfinite(value):
            yield {"key": name, "value": value, "timestamp": row["closed_ms"], "step": row["round"]}


class Run:
    """An MLflow run that logs a federation's rounds."""

    def __init__(self, server: _Server, federation: Source, run_id: str, last_round: int) -> None:
        self._server = server
        self._federation = federation
        self.run_id = run_id
        self.last_round = last_round  # the last one that was logged; 0 = none

    def update(self) -> int:
        """Logs the rounds committed since the last call; returns their number. MlflowError: rounds already sent stay
        logged, and the next update() continues after them."""
        rounds = [row for row in self._federation.rounds()
                  if row["state"] == "committed" and row["round"] > self.last_round]
        params = [{"key": name, "value": str(rounds[0][name])} for name in PARAMETERS
                  if rounds and self.last_round == 0 and rounds[0].get(name) is not None]
        batch: list[dict[str, Any]] = []
        for at, row in enumerate(rounds):
            batch += _metrics(row)
            is_last = at + 1 == len(rounds)
            if is_last or len(batch) + len(list(_metrics(rounds[at + 1]))) + len(params) + 1 > METRICS_MAX:
                self._send(batch, params, row["round"])
                batch, params = [], []
        return len(rounds)

    def _send(self, metrics: list[dict[str, Any]], params: list[dict[str, str]], last_round: int) -> None:
        self._server.ask("runs/log-batch", {"run_id": self.run_id, "metrics": metrics, "params": params,
                                            "tags": [{"key": LAST_ROUND, "value": str(last_round)}]})
        self.last_round = last_round

    def finish(self, status: str = "FINISHED") -> None:
        """Logs the remaining rounds, and ends the run. status: FINISHED, FAILED or KILLED."""
        self.update()
        self._server.ask("runs/update", {"run_id": self.run_id, "status": status, "end_time": _now_ms()})


def log(federation: Source, tracking_uri: str, experiment: str, *, run_name: str = "tern", run_id: str | None = None,
        timeout: float = 30.0) -> Run:
    """Logs the rounds of a federation, and returns the Run, which takes those to come.

    federation: a Federation or a Simulation. tracking_uri: "http://127.0.0.1:5000", of MLflow's server.
    experiment: its name; made when there is none. run_id: of a run that an earlier log() made, to go on with it:
    nothing is logged twice. timeout: seconds without an answer.

    MlflowError: the server refused or is not there. ValueError: another kind of address."""
    server = _Server(tracking_uri, timeout)
    if run_id is None:
        tags = [{"key": "mlflow.runName", "value": run_name}, {"key": "mlflow.source.name", "value": "tern"}]
        made = server.ask("runs/create", {"experiment_id": _experiment(server, experiment),
                                          "start_time": _now_ms(), "tags": tags})
        run = Run(server, federation, made["run"]["info"]["run_id"], 0)
    else:
        found = server.ask("runs/get", run_id=run_id)["run"]["data"]
        last = {tag["key"]: tag["value"] for tag in found.get("tags", [])}.get(LAST_ROUND, 0)
        run = Run(server, federation, run_id, int(last))
    try:
        run.update()
    except MlflowError as error:
        error.add_note(f"The run {run.run_id} has the rounds until {run.last_round}: run_id={run.run_id!r} goes on.")
        raise
    return run
