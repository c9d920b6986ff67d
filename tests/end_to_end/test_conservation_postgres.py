#!/usr/bin/python3
"""The equation of conservation.py where the database is PostgreSQL's and three aggregators stand by for each other.

Six clients, the aggregator that leads, those that stand by, and PostgreSQL are killed at random under load, 30 times
over two trials (1,000 times by ./tern test --all), and a proxy cuts connections at random bytes: kill -9 of a client,
of an aggregator, of one of PostgreSQL's processes, upon which it restarts all of them; a stop of PostgreSQL as by a
crash; and a leader that hangs while its connection is given up, and goes on. Whatever ends is started again, as systemd
does. Afterwards rounds go on by themselves, the history replays, and no update is missing or counted twice.

In the second trial every client takes part in every round: then the model is, bit for bit, that of a run in SQLite that
nothing happens to.
"""

import os
import random
import re
import resource
import signal
import time

from conservation import Fleet, check_client, model, newest_version
from fault_proxy import FaultProxy
from harness import LONG, Aggregator, Workspace, check, main, run, skip, within
from nodes import LEADING, Node, cluster, give_up, port_to_keep, wait_until

CLIENTS = 6
NAMES = ("one", "two", "three")
# What happens so often in a trial of 15.
TROUBLE = {"client": 5, "leader": 3, "standby": 2, "hang": 2, "connection": 1, "backend": 1, "crash": 1}
TIMES = 34 if LONG else 1
ROUNDS = 5000 if LONG else 1000  # more than there are while there are kills
PROGRESS = within(30, 120)  # seconds in which rounds must go on, once there is nothing in their way
SEED = 20263


def settings(everybody, rounds=ROUNDS, url=""):
    """everybody: each client takes part in each round; else a round ends with half of those that were asked."""
    return {
        "federation": {"model": model(ROUNDS), "seed": 5},
        "store": {"url": url},
        "round": {"cohort": CLIENTS if everybody else 3, "over_selection": 0.0 if everybody else 1.0,
                  "quorum": CLIENTS if everybody else 1, "min_clients": CLIENTS,
                  "deadline": "10m" if everybody else "1500ms", "rounds": rounds, "come_back_min": "20ms",
                  "come_back_max": "500ms"},
        "codec": {"error_feedback": "keep" if everybody else "limit", "codec": "3lc:s=1.5"},
        "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000},
    }


class Door:
    """What clients see of several aggregators: one address, by which they come to one that takes connections."""

    address = "127.0.0.1"

    def __init__(self, first, nodes):
        self.ca, self.join_code = first.ca, first.join_code
        self.port = FaultProxy([node.port for node in nodes], SEED, cut_probability=0).port


class Service:
    def __init__(self, workspace, postgres, given):
        self.postgres = postgres
        self.random = random.Random(SEED)
        self.first = Aggregator(workspace, given)
        self.nodes = [Node(self.first, name, postgres.url(), port_to_keep()) for name in NAMES]
        for node in self.nodes:
            node.start()
        self.done = dict.fromkeys(TROUBLE, 0)
        self.ends = 0  # of aggregators, by themselves
        wait_until("nobody leads", lambda: any("listening on" in node.said() for node in self.nodes), PROGRESS)
        self.fleet = Fleet(workspace, Door(self.first, self.nodes), CLIENTS,
                           FaultProxy([node.port for node in self.nodes], SEED, cut_probability=0.15).port)

    def start_ended(self):
        """As systemd does."""
        for node in self.nodes:
            code = node.process.poll()
            if code is not None:
                check(code in (1, -signal.SIGKILL), f"{node.name} ended by {code}")
                self.ends += code == 1
                node.start()

    def leader(self):
        """The one that leads, once one does."""
        deadline = time.monotonic() + PROGRESS
        while True:
            self.start_ended()
            leading = self.postgres.sql(f"SELECT a.application_name {LEADING}")
            for node in self.nodes:
                if node.name == leading:
                    return node
            check(time.monotonic() < deadline, f"nobody leads within {PROGRESS} s")
            time.sleep(0.05)

    def expect_progress(self, versions=2):
        version, deadline = newest_version(self.postgres), time.monotonic() + PROGRESS
        while newest_version(self.postgres) < version + versions:
            self.start_ended()
            check(time.monotonic() < deadline, f"no round for {PROGRESS} s after {self.done}")
            time.sleep(0.05)

    # --- What goes wrong

    def client(self):
        index = self.random.randrange(CLIENTS)
        self.fleet.kill(index)
        self.fleet.start(index)

    def kill_leader(self):
        self.leader().kill()

    def standby(self):
        leader = self.leader()
        self.random.choice([node for node in self.nodes if node is not leader]).kill()

    def hang(self):
        """It says nothing for a while, and the server gives it up or does not."""
        leader = self.leader()
        leader.process.send_signal(signal.SIGSTOP)
        if self.random.random() < 0.8:
            give_up(self.postgres, leader.name)
        time.sleep(self.random.uniform(0, 1))
        leader.process.send_signal(signal.SIGCONT)

    def connection(self):
        """It is ended, and the one that led by it goes on."""
        give_up(self.postgres, self.leader().name)

    def backend(self):
        leader = self.leader()
        pid = self.postgres.sql(f"SELECT a.pid {LEADING} AND a.application_name = '{leader.name}'")
        if pid:
            os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.1)
        self.postgres.wait()

    def crash(self):
        self.postgres.stop(signal.SIGQUIT)
        time.sleep(self.random.uniform(0, 0.5))
        self.postgres.start()

    def go_wrong(self):
        kinds = [kind for kind, times in TROUBLE.items() for _ in range(times * TIMES)]
        self.random.shuffle(kinds)
        does = {kind: getattr(self, "kill_leader" if kind == "leader" else kind) for kind in TROUBLE}
        for kind in kinds:
            time.sleep(self.random.uniform(0.02, 0.4))
            does[kind]()
            self.done[kind] += 1
            self.start_ended()
            if kind != "client" and self.random.random() < 0.5:
                self.expect_progress(1)  # so that not all of it comes upon a service that is down

    # --- The end

    def finish(self):
        """Returns its newest version and the hash of that."""
        self.expect_progress()
        self.fleet.settle_all()
        for node in self.nodes:
            node.kill()
        verified = self.first.verb("verify")
        self.expect_no_suspects()
        return newest_version(self.postgres), re.search("Model SHA-256 ([0-9a-f]{64})", verified).group(1)

    def expect_no_suspects(self):
        anomalies = self.postgres.sql("SELECT anomaly FROM ledger").split()
        check(anomalies == ["0"] * CLIENTS, f"the ledger suspects clients: {anomalies}")

    def told(self):
        """How many updates were answered late, and how many were known already, as the clients heard."""
        logs = "".join(path.read_text(errors="replace") for path in self.first.workspace.path.glob("client*.log"))
        return logs.count(" late"), logs.count(" duplicate")


def check_conservation(service, everybody):
    counts = [check_client(service.fleet, index, service.postgres.url()) for index in range(CLIENTS)]
    encoded, stored, dropped = (sum(column) for column in zip(*counts))
    late, repeated = service.told()
    print(f"seed {SEED}, {service.done}: {encoded} updates encoded, {stored} applied once, {encoded - stored} given back "
          f"({late} seen late), {repeated} repeated, {dropped:.1f} dropped; {service.ends} times an aggregator ended by "
          "itself; all accounted for", flush=True)
    check(stored > 20, "too few updates went through to prove anything")
    check(everybody or encoded > stored, "no update was ever given back: the test misses its point")
    check(everybody or dropped > 0, "no directive ever reduced an error buffer: the test misses its point")


def in_sqlite(rounds):
    """The model of so many rounds that nothing happens to."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(True, rounds)).start()
        fleet = Fleet(workspace, aggregator, CLIENTS)
        fleet.start_all()
        wait_until("the rounds do not end", lambda: newest_version(aggregator.state / "tern.db") >= rounds)
        aggregator.kill(signal.SIGTERM)
        return re.search("Model SHA-256 ([0-9a-f]{64})", aggregator.verb("verify")).group(1)


def trial(everybody):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        service = Service(workspace, postgres, settings(everybody, url=postgres.url()))
        service.fleet.start_all()
        service.go_wrong()
        newest, found = service.finish()
        check_conservation(service, everybody)
    if everybody:
        expected = in_sqlite(newest)
        check(found == expected, f"the model is {found} after {newest} rounds, and {expected} in SQLite")
        print(f"the model of {newest} rounds is that of SQLite")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    for everybody in (False, True):
        trial(everybody)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processors")


main(test)
