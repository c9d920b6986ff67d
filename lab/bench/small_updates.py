#!/usr/bin/python3
"""Processor time of a durable small update: of one aggregator on SQLite, on PostgreSQL, and with one to three gateways below it.

usage: small_updates.py [SECONDS [TURNS [CLIENTS]]]

CLIENTS clients (bench-crowd) of the aggregator, or of each gateway, check in, wait for a task and send an update of 200 bytes
(`softmax:64-10`), for SECONDS. Prints a line of JSON for each: updates a second, and milliseconds of processor time for an
update at the aggregator, at all gateways together, and in all processes of PostgreSQL.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "tests/postgres")]
import cluster  # noqa: E402
from harness import BIN, Aggregator, Gateway, Workspace, check  # noqa: E402


def cpu_s(pid):
    """Returns the processor seconds of a process and of its ended children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def server_cpu_s(postgres):
    pid = postgres.server.pid
    return sum(map(cpu_s, [pid, *pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]))


def settings(url, clients):
    return {"federation": {"model": "softmax:64-10", "seed": 1}, "store": {"url": url}, "server": {"threads": 2},
            "codec": {"codec": "3lc:s=1"},
            "limits": dict.fromkeys(("enrollments_per_minute", "requests_per_minute"), 0) | {"connections_per_address": 10000},
            "round": {"cohort": clients, "min_clients": 1, "rounds": 0, "come_back_min": "10ms", "deadline": "30s"}}


def start_crowd(workspace, aggregator, clients, workers, wait_ms=0):
    crowd = subprocess.Popen([BIN.parent / "bench-bin/bench-crowd", "127.0.0.1", str(aggregator.port), aggregator.ca,
                              aggregator.join_code(clients), f"enrolled={clients}", f"connected={clients}", f"workers={workers}",
                              f"wait={wait_ms}", "ms=600000000", "bytes=200"], stdout=subprocess.PIPE, text=True)
    workspace.processes.append(crowd)
    check(crowd.stdout.readline() == "connected\n", "the crowd did not come")
    return crowd


def measure(seconds, clients, gateways=0, postgres=None):
    with Workspace() as workspace:
        root = Aggregator(workspace, settings(postgres.url() if postgres else "", gateways or clients)).start()
        own = {**settings("", clients), "federation": {}}
        sites = [Gateway(workspace, root, f"site{i}", own).start() for i in range(gateways)] or [root]
        crowds = [start_crowd(workspace, site, clients, clients, 10000) for site in sites]

        def now():
            return [sum(site.metrics()['tern_updates_total{status="accepted"}'] for site in sites), time.monotonic(),
                    cpu_s(root.process.pid), sum(cpu_s(site.process.pid) for site in sites if site is not root),
                    server_cpu_s(postgres) if postgres else 0]
        before = now()
        time.sleep(seconds)
        updates, took, *used = (new - old for new, old in zip(now(), before))
        for crowd in crowds:
            crowd.send_signal(signal.SIGINT)
            check(json.loads(crowd.communicate()[0])["refused"] == 0, "updates were refused")
    return {"store": "postgresql" if postgres else "sqlite", "gateways": gateways, "updates_per_second": round(updates / took),
            **{f"{name}_ms": round(1000 * s / updates, 3) for name, s in zip(("aggregator", "gateways", "postgresql"), used)}}


def main(seconds=10, turns=3, clients=96):
    for _ in range(turns):
        for gateways in range(4):
            print(json.dumps(measure(seconds, clients, gateways)), flush=True)
        with cluster.Cluster() as postgres:
            print(json.dumps(measure(seconds, clients, postgres=postgres)), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
