"""Access to an aggregator's admin API (docs/OPERATIONS.md, "Admin API") over TCP on loopback or a unix socket."""
from __future__ import annotations

import http.client
import json
import os
import re
import socket
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tern.table import Table

PAGE = 1000  # entries that the API gives at once, at most
ROUNDS_PAGE = 100  # rounds that are asked for at once: for held-out figures the aggregator reads a row of each client
PREFIX = "/api/v1/"
DEFAULT_ADDRESS = "http://127.0.0.1:9443"
UNIX = "unix:"

# Columns of history() that the aggregator has, in this order; the evaluators' other figures and those of the clients'
# held-out data follow "accuracy".
HISTORY = ("round", "state", "applied", "mean_loss", "median_loss", "accuracy", "accuracy_model", "learning_rate",
           "local_steps", "wire_up", "wire_down", "seconds")

SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*(?:\{.*\})?) (?P<value>\S+)")


class FederationError(Exception):
    """The aggregator refused a request, or was not reachable. status: HTTP status; 0: no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _token(token: str | os.PathLike[str]) -> str:
    """Returns the token, or reads it if the text is a file's path: tokens made by `serve` contain no slash."""
    if isinstance(token, str) and "/" not in token and not os.path.exists(token):
        return token.strip()
    with open(token, encoding="ascii") as file:
        return file.read().strip()


class Federation:
    """An aggregator. Each call sends one request, or several for a long list; no state is kept between calls."""

    def __init__(self, address: str = DEFAULT_ADDRESS, token: str | os.PathLike[str] = "tern-state/admin.token", *,
                 timeout: float = 30.0) -> None:
        """address: "http://127.0.0.1:9443" or "unix:/path", as set by admin.address and admin.port, or the end of a
        tunnel. token: of the admin listener, or the path of the file admin.token in the aggregator's state directory.
        timeout: seconds without an answer.

        ValueError: another kind of address. OSError: the token's file cannot be read."""
        url = urllib.parse.urlsplit(address)
        if not address.startswith(UNIX) and (url.scheme not in ("http", "https") or not url.hostname):
            raise ValueError(f"address is http://HOST:PORT or unix:/path, not {address!r}")
        self.address = address
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {_token(token)}"}

    # --- Requests

    def _connection(self) -> http.client.HTTPConnection:
        if self.address.startswith(UNIX):
            return _UnixConnection(self.address.removeprefix(UNIX), self._timeout)
        url = urllib.parse.urlsplit(self.address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return kind(url.hostname or "", url.port, timeout=self._timeout)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, self._headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise FederationError(f"no answer from {self.address}: {error}. Does the aggregator run, and are "
                                  "admin.address and admin.port these?") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise FederationError(_refusal(method, path, answer.status, content), answer.status)
        return content

    def _get(self, path: str) -> Any:
        return json.loads(self._ask("GET", PREFIX + path))

    def _list(self, path: str, key: str, after: int = 0, limit: int = PAGE, options: str = "") -> list[dict[str, Any]]:
        """Returns the rows of a list, without unknown values."""
        rows: list[dict[str, Any]] = []
        while True:
            after = rows[-1][key] if rows else after
            page = self._get(f"{path}?limit={limit}&after={after}{options}")
            rows += ({name: value for name, value in row.items() if value is not None} for row in page)
            if len(page) < limit:
                return rows

    # --- Looking

    def status(self) -> dict[str, Any]:
        """Returns model, newest version, counts, and the open round, with the names of `tern-aggregator status
        --json`."""
        return self._get("status")

    def clients(self) -> Table:
        """Returns a table of clients with the columns of `tern-aggregator clients`. Times are milliseconds since
        1970."""
        return Table(self._list("clients", "id"))

    def waiting(self) -> dict[str, Any]:
        """Returns what the federation waits for ("now"), what to do ("advice"), whether it needs help, and the
        members without an update that were seen longest ago."""
        return dict(self._get("waiting"))

    def rounds(self, after: int = 0) -> Table:
        """Returns a table of all rounds, including the open one: settings, losses, accuracy, bytes. Times are
        milliseconds since 1970. after: only later rounds.

        Accuracy and evaluated_NAME are the evaluators' medians for the version that the round committed. With
        train.evaluate, held_out_NAME has the clients' figures on their held-out data for the version before: the mean
        weighted by examples; _mean, unweighted; _deviation, _worst and _worst_client; held_out_clients and
        held_out_model."""
        return Table(self._rounds(after))

    def _rounds(self, after: int = 0) -> list[dict[str, Any]]:
        return [flat_round(row) for row in self._list("rounds", "round", after, ROUNDS_PAGE, "&columns=*")]

    def history(self) -> Table:
        """Returns a table of committed rounds: loss, accuracy and other reported figures, updates, seconds."""
        return history_of(self._rounds())

    def metrics(self) -> dict[str, float]:
        """Returns the metrics for Prometheus: {name with labels: value}."""
        text = self._ask("GET", "/metrics").decode()
        samples = (SAMPLE.match(line) for line in text.splitlines())
        return {sample["name"]: float(sample["value"]) for sample in samples if sample}

    # --- Changing

    def enroll_code(self, uses: int = 1, expires_s: int = 86400, label: str = "",
                    tags: Mapping[str, str] | None = None, evaluator: bool = False) -> str:
        """Makes a join code, which is shown only once. uses: 1 to 1,000,000 clients; expires_s: seconds, at most a
        year; tags: of the clients that enrol with it, as {"site": "a"}, for round.selection; evaluator: clients with
        client.evaluator = yes may enrol with it."""
        wanted = {"uses": uses, "expires_s": expires_s, "label": label, "evaluator": evaluator}
        if tags:
            wanted["tags"] = ",".join(f"{name}={value}" for name, value in tags.items())
        return str(json.loads(self._ask("POST", PREFIX + "enroll-codes", wanted))["code"])

    def codes(self) -> Table:
        """Returns a table of join codes by id, without the codes: state, uses left, number of enrolled clients."""
        return Table(self._get("enroll-codes"))

    def cancel_code(self, code: str) -> dict[str, Any]:
        """Cancels a join code: {"id", "was_valid"}. code: its id in codes(). FederationError with status 404: unknown
        id."""
        return dict(json.loads(self._ask("POST", f"{PREFIX}enroll-codes/{urllib.parse.quote(code, safe='')}/cancel")))

    def close_round(self, number: int | None = None) -> dict[str, Any]:
        """Closes the open round with the updates that have arrived, at least one: {"round", "reported"}. number: the
        round, by default the open one. FederationError with status 409: this round is not open."""
        if number is None:
            number = self.status().get("open_round", {}).get("round")
        if number is None:
            raise FederationError("no round is open; waiting() says what the next one waits for", 409)
        return dict(json.loads(self._ask("POST", f"{PREFIX}rounds/{int(number)}/close")))

    def revoke(self, client: int) -> dict[str, Any]:
        """Revokes a client for ever: {"id", "revoked", "was_revoked"}. FederationError with status 404: unknown id."""
        return json.loads(self._ask("POST", f"{PREFIX}clients/{int(client)}/revoke"))


def flat_round(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a round's row with the object "metrics" replaced by columns evaluated_NAME."""
    flat = {name: value for name, value in row.items() if name != "metrics"}
    return flat | {f"evaluated_{name}": value for name, value in (row.get("metrics") or {}).items()}


def history_of(rounds: list[dict[str, Any]]) -> Table:
    """Makes the table of history() from rows of rounds."""
    rows = [row | {"seconds": (row["closed_ms"] - row["opened_ms"]) / 1000} for row in rounds
            if row["state"] == "committed"]
    names = dict.fromkeys(name for row in rows for name in row)
    figures = [name for name in names if name.startswith("evaluated_") or
               name.startswith("held_out_") and f"{name}_worst" in names]
    behind = HISTORY.index("accuracy") + 1
    shown = [name for name in HISTORY[:behind] if name in names] + figures
    return Table(rows, shown + [name for name in HISTORY[behind:] if name in names] if rows else HISTORY[:4])


def _refusal(method: str, path: str, status: int, content: bytes) -> str:
    known = {401: "the token is not the admin listener's (admin.token in the state directory)",
             421: "the admin listener answers to names of its own machine only: localhost, 127.0.0.1"}
    try:
        message = known.get(status) or json.loads(content)["message"]
    except (ValueError, KeyError, TypeError):
        message = content.decode(errors="replace").strip()
    return f"{method} {path.partition('?')[0]} was refused with {status}: {message}"
