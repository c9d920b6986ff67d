#!/usr/bin/python3
"""Durable updates a second of one, two and three aggregators on one database of PostgreSQL, and of one with SQLite.

usage: several.py [SECONDS [TURNS [CLIENTS [WORKERS]]]]

Each takes its turn in one run: a cluster of its own with fsync, the aggregators, each pinned to a processor in turn, and a
crowd of clients (bench-crowd) for each of them, which check in and send updates of 200 bytes (`softmax:64-10`) for SECONDS.
CLIENTS and WORKERS (threads of the crowds) are of all together, and are shared evenly. What counts begins when all are enrolled
and connected. A line of JSON for each: updates a second, and milliseconds of processor time for an update, of
the aggregator that leads, of those that follow together, and of PostgreSQL with all its processes.
"""

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "tests/postgres")]
import cluster  # noqa: E402
from harness import BIN, Aggregator, Workspace, check  # noqa: E402
from nodes import Node  # noqa: E402

CROWD = BIN.parent / "bench-bin/bench-crowd"
TICKS = os.sysconf("SC_CLK_TCK")
PROCESSORS = sorted(os.sched_getaffinity(0))


def cpu_s(pid):
    """Returns the processor seconds of a process and of its ended children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def server_cpu_s(postgres):
    children = pathlib.Path(f"/proc/{postgres.server.pid}/task/{postgres.server.pid}/children").read_text().split()
    return sum(cpu_s(pid) for pid in [postgres.server.pid, *children])


def settings(url, clients):
    return {"federation": {"model": "softmax:64-10", "seed": 1}, "store": {"url": url}, "server": {"threads": 2},
            "codec": {"codec": "3lc:s=1"},
            "round": {"cohort": clients, "min_clients": 2, "rounds": 0, "come_back_min": "10ms", "deadline": "30s",
                      "eligible_within": "5s"},
            "limits": {"enrollments_per_minute": 0, "requests_per_minute": 0, "connections": 10000,
                       "connections_per_address": 10000}}


def stored(first, postgres):
    if postgres:
        return int(postgres.sql("SELECT count(*) FROM updates"))
    (database,) = first.state.glob("*.db")
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        return db.execute("SELECT count(*) FROM updates").fetchone()[0]


def start_crowd(workspace, port, first, code, clients, workers):
    crowd = subprocess.Popen([CROWD, "127.0.0.1", str(port), first.ca, code, f"enrolled={clients}", f"connected={clients}",
                              f"workers={workers}", "ms=600000", "bytes=200"], stdout=subprocess.PIPE, text=True)
    workspace.processes.append(crowd)
    return crowd


def measure(seconds, clients, workers, aggregators, postgres=None):
    """postgres: None for one aggregator with SQLite."""
    with Workspace() as workspace:
        first = Aggregator(workspace, settings(postgres.url("&application_name=one") if postgres else "", clients)).start()
        nodes = [Node(first, f"node{i}", postgres.url()).start().listens() for i in range(aggregators - 1)]
        pids = [first.process.pid, *(node.process.pid for node in nodes)]
        for i, pid in enumerate(pids):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {PROCESSORS[i % len(PROCESSORS)]})
        code = first.join_code(clients)
        crowds = [start_crowd(workspace, port, first, code, clients // aggregators, workers // aggregators)
                  for port in [first.port, *(node.port for node in nodes)]]
        for crowd in crowds:
            check(crowd.stdout.readline() == "connected\n", "a crowd did not come")

        def now():
            return [stored(first, postgres), time.monotonic(), [cpu_s(pid) for pid in pids], server_cpu_s(postgres) if postgres else 0]
        updates, began, used, server = now()
        time.sleep(seconds)
        updates_after, ended, used_after, server_after = now()
        for crowd in crowds:
            crowd.send_signal(signal.SIGINT)
        said = [json.loads(crowd.communicate()[0]) for crowd in crowds]
    updates = updates_after - updates
    used = [1000 * (after - before) / updates for before, after in zip(used, used_after)]
    return {"updates": updates, "updates_per_second": round(updates / (ended - began), 1), "leader_ms": round(used[0], 3),
            "followers_ms": round(sum(used[1:]), 3), "postgresql_ms": round(1000 * (server_after - server) / updates, 3),
            "refused": sum(crowd["refused"] for crowd in said)}


def main(seconds=10, turns=3, clients=96, workers=24):
    for turn in range(turns):
        print(json.dumps({"turn": turn + 1, "store": "sqlite", "aggregators": 1, **measure(seconds, clients, workers, 1)}), flush=True)
        for aggregators in (1, 2, 3):
            with cluster.Cluster() as postgres:
                print(json.dumps({"turn": turn + 1, "store": "postgresql", "aggregators": aggregators,
                                  **measure(seconds, clients, workers, aggregators, postgres)}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
