#!/usr/bin/python3
"""A client that lies about its number of examples, and an evaluator that lies about accuracy and names ever new metrics, beside
three honest ones of each kind: the model keeps moving with the honest clients, figures stay among those of the honest evaluators,
and neither the database nor the log grows."""

import pathlib
import sqlite3
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from hand_client import HandClient, container  # noqa: E402
from harness import BIN, Aggregator, Workspace, check  # noqa: E402
from protobuf import first, message, parse  # noqa: E402

VALUES = 10  # of softmax:4-2
HONEST = 3
STEP = 0.5  # of each value, in an honest update
CLAIM = 10_000_000  # limits.num_examples
TIMES = 200
LINES = 8  # the 1st, 2nd, 4th, ... 128th time


def encode(values):
    """docs/FORMAT.md: a float32 payload."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)


class Evaluator(HandClient):
    def join(self, code):
        with self.connect() as connection:
            status, _, body = connection.request("POST", "/v1/enroll", body=message(f1=code, f2="judge", f3="test", f4=1))
        check(status == 200, f"enrolment answered {status}")
        reply = parse(body)
        self.client_id, self.token = first(reply, 1), first(reply, 2).decode()
        self.model_hash = first(parse(first(reply, 3)), 3)
        return self

    def report(self, connection, version, accuracy, examples=100, metric="f1_macro"):
        found = message(f1=version, f2=examples, f3=1.0 - accuracy, f4=accuracy, f5=message(f1=metric, f2=accuracy))
        body = self.checkin_body() + message(f12=found)
        return connection.request("POST", "/v1/checkin", token=self.token, body=body)[0]


def train(client, value, examples):
    with client.connect() as connection:
        task = client.task(connection, replica=client.seed_replica(), wait_ms=20000)
        check(task is not None, "no round opens")
        body = client.update_body(task, container([value] * VALUES, encode), num_examples=examples)
        status, _, _ = connection.request("PUT", f"/v1/updates/{first(task, 2)}/1", token=client.token, body=body)
        check(status == 200, f"an update is answered {status}")


def weights(aggregator, version):
    done = subprocess.run([BIN / "tern-aggregator", "export", "-", "--format", "f32", "--version", str(version), "--config", aggregator.config],
                          capture_output=True, check=True)
    return struct.unpack(f"<{VALUES}f", done.stdout)


def claims_of_examples(aggregator, code):
    """One of four clients claims 10M examples and sends zeros."""
    clients = [HandClient(aggregator.port, aggregator.ca).enroll(code) for _ in range(HONEST + 1)]
    for client in clients[:HONEST]:
        train(client, STEP, 1000)
    train(clients[HONEST], 0.0, CLAIM)
    aggregator.log_line("round=1 of=1 version=1")
    moved = [(after - before) / STEP for before, after in zip(weights(aggregator, 0), weights(aggregator, 1))]
    print(f"the model moves {moved[0]:.3f} of what the honest clients sent", flush=True)
    check(all(abs(part - 3 / 19) < 0.001 for part in moved), f"one claim moves the model to {moved} of the honest clients' way")
    aggregator.log_line("event=examples-bounded")


def best(aggregator):
    return subprocess.run([BIN / "tern-aggregator", "export", "-", "--format", "f32", "--best", "--config", aggregator.config],
                          capture_output=True, check=True).stderr.decode()


def lies_of_an_evaluator(aggregator, code):
    """One of four evaluators reports version 0, which the others skip, as perfect, and version 1 as useless."""
    liar, *honest = (Evaluator(aggregator.port, aggregator.ca).join(code) for _ in range(HONEST + 1))
    with liar.connect() as connection:
        check(liar.report(connection, 0, 1.0, 0xffffffff) == 422, "a claim beyond limits.num_examples is taken")
        check(liar.report(connection, 0, 1.0, CLAIM) == 200, "a report is refused")
        check(liar.report(connection, 1, 0.0, CLAIM) == 200, "a report is refused")
    status = aggregator.json("status")
    check(status["accuracy"] is None, f"one evaluator of four decides: {status['accuracy']}")
    check(status["quality"]["pending"] == {"version": 1, "model": "replica", "evaluators": 1, "evaluators_expected": 4}, status["quality"])
    check("training loss" in best(aggregator), "one evaluator of four decides the best version")
    for evaluator, accuracy in zip(honest, (0.75, 0.8125, 0.875)):
        with evaluator.connect() as connection:
            check(evaluator.report(connection, 1, accuracy) == 200, "a report is refused")
    status = aggregator.json("status")
    check(0.75 <= status["accuracy"] <= 0.875 and 0.75 <= status["metrics"]["f1_macro"] <= 0.875, f"a liar decides: {status['accuracy']}")
    check(status["accuracy_version"] == 1 and status["quality"]["evaluators"] == 4, status["quality"])
    check("version 1 is best by its replica's accuracy, 0.7500" in best(aggregator), best(aggregator))
    return liar


def floods(aggregator, liar):
    with liar.connect() as connection:
        for i in range(TIMES):
            check(liar.report(connection, i % 2, 1.0, 1 + i, f"name_{i}") == 200, "a report is refused")
            status, _, _ = connection.request("PUT", "/v1/statistics", token=liar.token, body=message(f1=1 + i))
            check(status >= 400, f"statistics are answered {status}")
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        rows, = database.execute("SELECT count(*) FROM metrics WHERE client = ?", [liar.client_id]).fetchone()
        reports, = database.execute("SELECT count(*) FROM evaluations WHERE client = ?", [liar.client_id]).fetchone()
    check(rows <= 2 and reports <= 2, f"an evaluator left {rows} metrics and {reports} reports of 2 versions")
    log = (aggregator.workspace.path / "aggregator.log").read_text().splitlines()
    for event in ("statistics-refused", "evaluation", "metric-dropped"):
        lines = sum(f"event={event} " in line and f"client={liar.client_id} " in line + " " for line in log)
        check(lines <= LINES, f"{lines} lines of {event}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2"},
            "round": {"strategy": "fedavg:norm_bound=0", "min_clients": HONEST + 1, "come_back_min": "10ms", "rounds": 1},
            "codec": {"codec": "float32"},
            "limits": {"requests_per_minute": 0},
        }).start()
        code = aggregator.join_code(uses=2 * (HONEST + 1))
        claims_of_examples(aggregator, code)
        floods(aggregator, lies_of_an_evaluator(aggregator, code))


if __name__ == "__main__":
    sys.exit(harness.main(test))
