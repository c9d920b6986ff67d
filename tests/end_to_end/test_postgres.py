#!/usr/bin/python3
"""A federation in PostgreSQL: clients train over TLS while the aggregator is killed, while PostgreSQL is stopped as
by a crash, and to the end. Nothing that was acknowledged is lost, and the model is, bit for bit, that of the same
federation in SQLite."""

import http.client
import pathlib
import re
import signal
import ssl
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "postgres"))
import cluster  # noqa: E402

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run, skip, wait_until  # noqa: E402

CLIENTS = 3
ROUNDS = 9

def settings(url=""):
    return {
        "federation": {"model": "mlp:256-16-10", "seed": 3},
        "store": {"url": url},
        "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": ROUNDS,
                  "come_back_min": "50ms", "come_back_max": "200ms"},
        "train": {"local_steps": 2, "batch_size": 4, "learning_rate": 0.05},
        "limits": {"requests_per_minute": 0},
    }

def of_client(workspace, aggregator, number):
    return [part for one in (
        f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=1s", "client.retry_min=100ms",
        "client.retry_max=1s", f"client.state_dir={workspace.path}/client{number}",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)]

def enroll(workspace, aggregator):
    code = aggregator.join_code(CLIENTS)
    for number in range(CLIENTS):
        run(BIN / "tern-client", "enroll", code, *of_client(workspace, aggregator, number))

def start_clients(workspace, aggregator):
    return [workspace.start(BIN / "tern-client", "run", *of_client(workspace, aggregator, number), log=f"client{number}")
            for number in range(CLIENTS)]

def committed(aggregator):
    return sum(round["state"] == "committed" for round in aggregator.json("rounds"))

def is_ready(aggregator):
    """What the service says to a load balancer: 200 or 503."""
    trust = ssl.create_default_context(cafile=aggregator.ca)
    connection = http.client.HTTPSConnection("localhost", aggregator.port, context=trust, timeout=PATIENCE)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    check(status in (200, 503), f"/readyz answers {status}")
    return status == 200

def model_of(aggregator):
    return re.search("Model SHA-256 ([0-9a-f]{64})", aggregator.verb("verify")).group(1)

def train(aggregator, workspace, disturb):
    aggregator.start()
    enroll(workspace, aggregator)
    clients = start_clients(workspace, aggregator)
    disturb(aggregator)
    wait_until("the rounds do not end", lambda: committed(aggregator) == ROUNDS)
    for client in clients:
        client.terminate()
        client.wait(timeout=PATIENCE)
    return model_of(aggregator)

def accepted(workspace):
    """Client and round of each answer that a client had."""
    found = set()
    for number in range(CLIENTS):
        log = (workspace.path / f"client{number}.log").read_text()
        found |= {(number + 1, int(round)) for round in re.findall(r"round=(\d+) .*answer=accepted", log)}
    return found

def in_sqlite():
    with Workspace() as workspace:
        return train(Aggregator(workspace, settings()), workspace, lambda aggregator: None)

def disturb_by(postgres):
    def disturb(aggregator):
        wait_until("no round ends", lambda: committed(aggregator) >= 2)
        aggregator.kill()
        aggregator.start()
        wait_until("no round ends after a kill", lambda: committed(aggregator) >= 4)
        postgres.stop(signal.SIGQUIT)
        wait_until("it does not answer 503 without its database", lambda: not is_ready(aggregator))
        aggregator.log_line("batch-failed")
        check(aggregator.process.poll() is None, "it ended without its database")
        postgres.start()
        wait_until("it does not go on by itself", lambda: is_ready(aggregator))
    return disturb

def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(postgres.url()))
        again = subprocess.run([BIN / "tern-aggregator", "init", "--config", aggregator.config, "--state",
                                workspace.path / "again"], capture_output=True, text=True, timeout=PATIENCE)
        check(again.returncode != 0 and "already holds a federation" in again.stderr, again.stderr)
        check(not (workspace.path / "again").exists(), "a refused init leaves a folder")
        model = train(aggregator, workspace, disturb_by(postgres))
        stored = {tuple(map(int, line.split("|")))
                  for line in postgres.sql("SELECT client, round FROM updates").splitlines()}
        acknowledged = accepted(workspace)
        check(len(acknowledged) > CLIENTS * 3, f"only {acknowledged} was accepted")
        check(acknowledged <= stored, f"{acknowledged - stored} was acknowledged, and is lost")
        check(len(stored) == CLIENTS * ROUNDS, f"{len(stored)} updates are stored")
        aggregator.kill(signal.SIGTERM)
        for verb in ("status", "clients", "rounds", "ledger", "schedule", "replicas", "report"):
            aggregator.verb(verb, *(["bytes"] if verb == "report" else []))
    expected = in_sqlite()
    check(model == expected, f"the model is {model}, and {expected} in SQLite")
    print(f"{len(acknowledged)} acknowledged updates, none lost; the model is that of SQLite")

main(test)
