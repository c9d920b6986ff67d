#!/usr/bin/python3
"""What an update takes where several aggregators serve one database of PostgreSQL: a cluster of its own, so many
aggregators, and a crowd of clients for each of them, all sending updates.

usage: several.py BUILD AGGREGATORS [UPDATES [CLIENTS [WORKERS]]]

UPDATES, CLIENTS and WORKERS are of all together, and are shared evenly: CLIENTS is a multiple of WORKERS, and WORKERS of AGGREGATORS. Prints updates a second, and milliseconds of processor time for an update:
of the one that leads, of those that follow together, and of PostgreSQL.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(sys.argv[1]).resolve()
os.environ.setdefault("TERN_BIN_DIR", str(build / "bin"))
os.environ.setdefault("TERN_BUILD_DIR", str(build))
for folder in ("tests/end_to_end", "tests/postgres"):
    sys.path.insert(0, str(ROOT / folder))
import cluster  # noqa: E402
from harness import Aggregator, Workspace  # noqa: E402
from following import Node  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """Of a process and those that it has started and waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def server_cpu_s(postgres):
    children = pathlib.Path(f"/proc/{postgres.server.pid}/task/{postgres.server.pid}/children").read_text().split()
    return sum(cpu_s(pid) for pid in [postgres.server.pid, *children])


def settings(url, clients):
    return {"federation": {"model": "softmax:64-10", "seed": 1}, "store": {"url": url}, "server": {"threads": 2},
            "round": {"cohort": clients // 4, "over_selection": 0.2, "min_clients": 2, "rounds": 0, "min_interval": "0ms",
                      "deadline": "10s", "eligible_within": "5s"},
            "limits": {"enrollments_per_minute": 0, "requests_per_minute": 0, "connections_per_address": clients + 100}}


def main(aggregators, updates=12000, clients=96, workers=24):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, settings(postgres.url("&application_name=one"), clients)).start()
        nodes = [Node(first, f"node{i}", postgres).start() for i in range(aggregators - 1)]
        ports, code = [first.port, *(node.port for node in nodes)], first.join_code(clients)
        processes = [first.process.pid, *(node.process.pid for node in nodes)]
        before, server_before, began = [cpu_s(pid) for pid in processes], server_cpu_s(postgres), time.monotonic()
        crowds = [subprocess.Popen([build / "bench-bin/bench-crowd", "127.0.0.1", str(port), first.ca, code,
                                    f"enrolled={clients // aggregators}", f"connected={clients // aggregators}",
                                    f"workers={workers // aggregators}", "ms=600000", f"updates={updates // aggregators}"],
                                   stdout=subprocess.PIPE, text=True) for port in ports]
        said = [json.loads(crowd.communicate()[0].partition("connected\n")[2]) for crowd in crowds]
        took = time.monotonic() - began
        used = [now - then for now, then in zip((cpu_s(pid) for pid in processes), before)]
        server = server_cpu_s(postgres) - server_before
        stored = int(postgres.sql("SELECT count(*) FROM updates"))
    print(json.dumps({
        "aggregators": aggregators, "updates": stored, "updates_per_second": round(stored / took, 1),
        "leader_ms": round(1000 * used[0] / stored, 3), "followers_ms": round(1000 * sum(used[1:]) / stored, 3),
        "postgresql_ms": round(1000 * server / stored, 3), "crowds": said}, indent=1))


main(*map(int, sys.argv[2:]))
