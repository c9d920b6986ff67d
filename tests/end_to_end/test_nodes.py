#!/usr/bin/python3
"""Three aggregators on one database of PostgreSQL: one leads, two follow, and clients send each request to another one of
them. The model is the same as with one aggregator on SQLite, also when one that leads and one that follows are killed in
the middle of it and PostgreSQL is restarted, or one that leads hangs and goes on later, and nothing that was acknowledged is
lost."""

import re
import signal
import time

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run, skip, within
from nodes import Node, cluster, wait_until
from spreading_proxy import SpreadingProxy

CLIENTS = 3
ROUNDS = 30
TAKES_OVER_S = within(10)  # without keepalives, PostgreSQL keeps the connection of a stopped process
SETTINGS = {
    "federation": {"model": "mlp:256-16-10", "seed": 3},
    "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": ROUNDS,
              "come_back_min": "50ms", "come_back_max": "200ms"},
    "train": {"local_steps": 2, "batch_size": 4, "learning_rate": 0.05},
    "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0},
}

def of_client(workspace, ca, port, number):
    return [part for one in (
        f"client.server=https://127.0.0.1:{port}", f"client.ca={ca}", "client.wait=5s", "client.retry_min=100ms",
        "client.retry_max=1s", f"client.state_dir={workspace.path}/client{number}",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)]

def start_clients(workspace, first, port):
    code = first.join_code(CLIENTS)
    for number in range(CLIENTS):
        run(BIN / "tern-client", "enroll", code, *of_client(workspace, first.ca, port, number))
    return [workspace.start(BIN / "tern-client", "run", *of_client(workspace, first.ca, port, number),
                            log=f"client{number}") for number in range(CLIENTS)]

def committed(aggregator):
    return sum(round["state"] == "committed" for round in aggregator.json("rounds"))

def model_of(aggregator):
    return aggregator.json("verify")["model_sha256"]

def end(clients):
    for client in clients:
        client.terminate()
        client.wait(timeout=PATIENCE)

def acknowledged(workspace):
    return {(number + 1, int(round)) for number in range(CLIENTS) for round in re.findall(
        r"round=(\d+) .*answer=accepted", (workspace.path / f"client{number}.log").read_text())}

def alone():
    with Workspace() as workspace:
        first = Aggregator(workspace, SETTINGS).start()
        clients = start_clients(workspace, first, first.port)
        wait_until("the rounds do not end", lambda: committed(first) == ROUNDS)
        end(clients)
        return model_of(first)

def goes_on(first, what, seconds=PATIENCE):
    """Until a round ends that was not over before. Returns how long that took."""
    before = committed(first)
    began = time.monotonic()
    wait_until(f"no round ends after {what}", lambda: committed(first) > before + 1, seconds)
    return time.monotonic() - began

def roles(aggregator):
    return sorted((node["name"], node["role"]) for node in aggregator.json("status")["aggregators"])

def check_all_took_part(postgres, proxy, ports):
    check(all(proxy.used.get(port, 0) > ROUNDS / 3 for port in ports), f"connections: {proxy.used}")
    wait_until("requests or answers are left", lambda: postgres.sql(
        "SELECT (SELECT count(*) FROM relayed) + (SELECT count(*) FROM answers)") == "0", 10)
    outside = postgres.sql("SELECT count(*) FROM meter WHERE purpose = 3 AND round = 0")
    check(outside == "0", "the bytes of downloads count for no round")

def check_nothing_is_lost(workspace, postgres):
    stored = {tuple(map(int, line.split("|")))
              for line in postgres.sql("SELECT client, round FROM updates").splitlines()}
    check(acknowledged(workspace) <= stored, f"{acknowledged(workspace) - stored} was acknowledged, and is lost")
    check(len(stored) == CLIENTS * ROUNDS, f"{len(stored)} updates are stored")

def undisturbed(model):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url("&application_name=one")}}).start()
        nodes = [Node(first, name, postgres.url()).start().listens() for name in ("two", "three")]
        ports = [first.port, *(node.port for node in nodes)]
        proxy = SpreadingProxy(ports)
        clients = start_clients(workspace, first, proxy.port)
        wait_until("the rounds do not end", lambda: committed(first) == ROUNDS)
        end(clients)
        check_all_took_part(postgres, proxy, ports)
        check_nothing_is_lost(workspace, postgres)
        check(model_of(first) == model, "the model is another one than with one aggregator on SQLite")

def disturbed(model):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url("&application_name=one")}}).start()
        two, three = (Node(first, name, postgres.url()).start().listens() for name in ("two", "three"))
        proxy = SpreadingProxy([first.port, two.port, three.port])
        clients = start_clients(workspace, first, proxy.port)
        goes_on(first, "the start")
        first.kill()
        took = goes_on(first, "the leader was killed", TAKES_OVER_S)
        first.start()
        goes_on(first, "it came back")
        leader, follower = (two, three) if ("two", "leads") in roles(first) else (three, two)
        follower.kill()
        goes_on(first, "a follower was killed")
        follower.start().listens()
        proxy.ports = [first.port, leader.port, follower.port]
        postgres.stop()
        postgres.start()
        goes_on(first, "PostgreSQL was restarted")
        # Another one may have been first to lead when PostgreSQL came back; then this one has ended by itself.
        code = leader.kill(signal.SIGTERM)
        log = (workspace.path / f"node-{leader.name}.log").read_text()
        check(code == 0 or code == 1 and "event=displaced" in log, f"it does not end by a signal, but by {code}")
        wait_until("the rounds do not end", lambda: committed(first) == ROUNDS)
        end(clients)
        check_nothing_is_lost(workspace, postgres)
        check(model_of(first) == model, "the model is another one than with one aggregator on SQLite")
        print(f"rounds went on {took:.1f} s after the leader was killed")

def take_over_from(hung, others, first):
    """One that leads is stopped. Returns how long it takes until another one leads."""
    said = []
    hung.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    new = []
    while not new:
        check(time.monotonic() < began + TAKES_OVER_S, f"nobody leads after {TAKES_OVER_S} s: {roles(first)}, {said}")
        said += [node.ready() for node in others]
        new = [node for node in others if (node.name, "leads") in roles(first)]
    took = time.monotonic() - began
    check(any(status == 503 and f"cannot relay requests: {hung.name} (" in why and "has sent no heartbeat" in why
              for status, why in said), f"nobody names it: {said}")
    check(any("event=leader-ended" in node.said() for node in others), "it was not ended by the others")
    wait_until("the one that leads is not ready", lambda: new[0].ready() == (200, "ok"))
    return took

def hung(model):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url("&application_name=one")}}).start()
        nodes = [Node(first, name, postgres.url()).start().listens() for name in ("one-more", "two", "three")]
        first.kill(signal.SIGTERM)
        wait_until("nobody leads", lambda: any(role == "leads" for _, role in roles(first)), TAKES_OVER_S)
        proxy = SpreadingProxy([node.port for node in nodes])
        clients = start_clients(workspace, first, proxy.port)
        goes_on(first, "the start")
        leader = next(node for node in nodes if (node.name, "leads") in roles(first))
        others = [node for node in nodes if node is not leader]
        proxy.ports = [node.port for node in others]
        took = take_over_from(leader, others, first)
        check(committed(first) < ROUNDS, "all rounds were over before")
        leader.process.send_signal(signal.SIGCONT)
        code = leader.process.wait(timeout=PATIENCE)
        check(code == 1 and "event=displaced" in leader.said(), f"it goes on, or ends by {code}")
        leader.start().listens()
        wait_until("the rounds do not end", lambda: committed(first) == ROUNDS)
        end(clients)
        check_nothing_is_lost(workspace, postgres)
        check(model_of(first) == model, "the model is another one than with one aggregator on SQLite")
        print(f"another one led {took:.1f} s after the one that led was stopped")

def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    model = alone()
    undisturbed(model)
    disturbed(model)
    hung(model)

main(test)
