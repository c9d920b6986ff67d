#!/usr/bin/python3
"""Aggregators on one database of PostgreSQL: while one leads another stands by and listens to nobody; when the first is
killed the second goes on within seconds, at the same address, and nothing that was acknowledged is lost. One that hangs is
ended by the one that stands by, and ends by itself, with the reason, when it goes on. One that stands by takes new settings
at SIGHUP. One that takes over within a restored round finishes it."""

import os
import re
import signal
import socket
import time

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run, skip
from nodes import Node, cluster, give_up, port_to_keep, wait_until

CLIENTS = 2
ROUNDS = 4000  # more than there are before the test ends
SETTINGS = {
    "federation": {"model": "mlp:256-16-10", "seed": 3},
    "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": ROUNDS,
              "come_back_min": "50ms", "come_back_max": "200ms"},
    "train": {"local_steps": 2, "batch_size": 4, "learning_rate": 0.05},
    "limits": {"requests_per_minute": 0},
}


def nodes(aggregator):
    return [(node["name"], node["leads"]) for node in aggregator.json("status")["aggregators"]]


def committed(aggregator):
    return sum(round["state"] == "committed" for round in aggregator.json("rounds"))


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def of_client(workspace, aggregator, number):
    return [part for one in (
        f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=1s", "client.retry_min=100ms",
        "client.retry_max=1s", f"client.state_dir={workspace.path}/client{number}",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)]


def acknowledged(workspace):
    return {(number + 1, int(round)) for number in range(CLIENTS) for round in re.findall(
        r"round=(\d+) .*answer=accepted", (workspace.path / f"client{number}.log").read_text())}


def take_over(first, second):
    """From one that is killed to one that stands by."""
    check(listens(first.port), "nobody listens")
    before = committed(first)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    began = time.monotonic()
    second.leads()
    took = time.monotonic() - began
    wait_until("no round ends after it took over", lambda: committed(first) > before + 1)
    return took


def take_new_settings(first, two):
    """All aggregators have a new deadline; the one that stands by takes it once it is told to, too."""
    def differs():
        return [one["setting"] for node in first.json("status")["aggregators"] for one in node["differs"]]
    first.settings["round"]["deadline"] = "9m"
    first.write_config()
    first.process.send_signal(signal.SIGHUP)
    wait_until("a difference of settings is not named", lambda: differs() == ["round.deadline"])
    two.process.send_signal(signal.SIGHUP)
    wait_until("one that stands by keeps its settings", lambda: not differs())
    check("event=setting-changed key=round.deadline" in two.said(), two.said())


def keeps_dead_rows(postgres, name):
    """Whether PostgreSQL keeps for it what becomes dead, each time that one looks."""
    return all(postgres.sql("SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"
                            f" AND application_name = '{name}'") != "0" for _ in range(10))


def take_over_restored_round(first, node, postgres):
    """The leader is killed when it has opened the restored round and is storing the version."""
    version = int(postgres.sql("SELECT max(version) FROM versions"))
    postgres.hold("versions")
    first.verb("rollback", "--version", str(version - 3), "--why", "the test undoes it", "--abandon-round")
    wait_until("it does not store the restored version", lambda: postgres.sql(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'versions'::regclass") == "1")
    open_round = "SELECT round || '|' || mode || '|' || state FROM rounds ORDER BY round DESC LIMIT 1"
    before = postgres.sql(open_round).split("|")
    check(before[1:] == ["2", "0"], f"no restored round is open: {before}")
    first.kill()
    check(give_up(postgres, "one"), "the first did not lead")
    postgres.release()
    node.leads()
    wait_until("it does not finish the restored round", lambda: postgres.sql("SELECT max(version) FROM versions") == str(version + 1))
    after = first.json("rounds")
    check([row["round"] for row in after if row["mode"] == "restored"] == [int(before[0])], f"rounds are {after[-3:]}")
    hashes = postgres.sql(f"SELECT count(DISTINCT model_sha256) FROM versions WHERE version IN ({version - 3}, {version + 1})")
    check(hashes == "1", "the restored version has other bits")
    first.verb("verify")


def hang(node, postgres):
    """As a machine that is gone does: it says nothing any more, and the server gives its connection up."""
    node.process.send_signal(signal.SIGSTOP)
    check(give_up(postgres, node.name), f"{node.name} holds no lock")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url("&application_name=one")}}).start()
        two, three = Node(first, "two", postgres.url(), first.port), Node(first, "three", postgres.url(), port_to_keep())
        two.start()
        two.waits()
        check(not keeps_dead_rows(postgres, "two"), "who stands by keeps all dead rows of the database")
        check(nodes(first) == [("one", True), ("two", False)], f"status lists {nodes(first)}")
        take_new_settings(first, two)
        code = first.join_code(CLIENTS)
        for number in range(CLIENTS):
            run(BIN / "tern-client", "enroll", code, *of_client(workspace, first, number))
        clients = [workspace.start(BIN / "tern-client", "run", *of_client(workspace, first, number), log=f"client{number}")
                   for number in range(CLIENTS)]
        wait_until("no round ends", lambda: committed(first) >= 2)
        took = take_over(first, two)
        deadline = postgres.sql("SELECT deadline_ms - opened_ms FROM rounds ORDER BY round DESC LIMIT 1")
        check(deadline == "540000", f"it leads with the deadline that it was started with: {deadline}")
        three.start()
        three.waits()
        check(not listens(three.port) and not (three.state / "admin.sock").exists(), "one that stands by listens")
        check(nodes(first) == [("two", True), ("three", False)], f"status lists {nodes(first)}")
        two.process.send_signal(signal.SIGSTOP)
        three.leads()
        check("event=leader-ended" in three.said(), "the one that hangs was not ended by the one that stands by")
        two.process.send_signal(signal.SIGCONT)
        check(two.process.wait(timeout=PATIENCE) == 1, f"it goes on, or ends by {two.process.returncode}")
        # The second, where it was stopped within a commit.
        check(any(why in two.said() for why in ("another aggregator serves the database", "during a commit")), two.said())
        # Another one has led and has ended before it goes on: what it remembers is not how things are.
        two.start()
        two.waits()
        hang(three, postgres)
        before = committed(first)
        two.leads()
        wait_until("no round ends while three hangs", lambda: committed(first) > before)
        two.process.terminate()
        check(two.process.wait(timeout=PATIENCE) == 0, "it does not end by a signal")
        three.process.send_signal(signal.SIGCONT)
        wait_until("it does not read again what others wrote", lambda: "is read again" in three.said())
        wait_until("it does not lead again", lambda: nodes(first) == [("three", True)])
        first.process = None
        three.process.terminate()
        check(three.process.wait(timeout=PATIENCE) == 0, "it does not end by a signal")
        first.start()
        before = committed(first)
        wait_until("no round ends under the first again", lambda: committed(first) > before + 1)
        for client in clients:
            client.terminate()
            client.wait(timeout=PATIENCE)
        stored = {tuple(map(int, line.split("|")))
                  for line in postgres.sql("SELECT client, round FROM updates").splitlines()}
        check(acknowledged(workspace) <= stored, f"{acknowledged(workspace) - stored} was acknowledged, and is lost")
        done = committed(first)
        applied = sum(round <= done for _, round in stored)
        check(applied == CLIENTS * done, f"{applied} updates of {done} rounds are stored")
        first.verb("verify")
        two.start()
        wait_until("it does not stand by again", lambda: nodes(first)[1:] == [("two", False)])
        two.process.terminate()
        check(two.process.wait(timeout=PATIENCE) == 0, "one that stands by does not end by a signal")
        three.start()
        three.waits()
        take_over_restored_round(first, three, postgres)
        print(f"it took over in {took:.2f} s")


main(test)
