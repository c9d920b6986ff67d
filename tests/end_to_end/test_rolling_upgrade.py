#!/usr/bin/python3
"""Aggregators of the next version, whose schema is another one, are started beside one of this version: they stand by.
When that ends, one of them leads and changes the schema, and the others stand by for it, without being started again.
Clients go on, and what one of this version would do then is refused by name."""

import signal
import subprocess

from hand_client import HandClient
from harness import HELPERS, PATIENCE, Aggregator, Workspace, check, main, run, skip
from nodes import Node, cluster, wait_until

SETTINGS = {
    "federation": {"model": "softmax:40-8", "seed": 7},
    "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "24h", "rounds": 3},
}
NEXT = HELPERS / "next_aggregator"


class Next(Node):
    def __init__(self, first, name, url):
        super().__init__(first, name, url)
        self.command[0] = NEXT


def listens(node):
    return "listening on" in node.said()


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url("&application_name=one")}}).start()
        client = HandClient(first.port, first.ca).enroll(first.join_code())
        nodes = [Next(first, name, postgres.url()).start() for name in ("two", "three", "four")]
        for node in nodes:
            node.waits()
        check(not any(listens(node) for node in nodes), "one that stands by listens")
        first.kill(signal.SIGTERM)
        wait_until("none of them listens", lambda: any(map(listens, nodes)), 20)

        def roles():
            return sorted(line.split("; ")[0].split(") ")[-1] for line in run(
                NEXT, "status", "--config", first.config).splitlines() if "connected" in line)
        wait_until("the others do not stand by", lambda: roles() == ["leads", "stands by", "stands by"], 20)
        said = [node.said() for node in nodes]
        check(sum("event=upgraded" in one for one in said) == 1, f"not one has changed the schema: {said}")
        (leader,) = filter(listens, nodes)
        with HandClient(leader.leads().port, first.ca).connect() as connection:
            check(client.task(connection, replica=client.seed_replica(), version=0), "it has no task for the client")
        old = Node(first, "old", postgres.url())
        refused = subprocess.run([*map(str, old.command)], capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(refused.returncode == 1 and "install a newer Tern" in refused.stderr, f"an older one: {refused.stderr}")
        for node in nodes:
            check(node.kill(signal.SIGTERM) == 0, f"{node.name} does not end by a signal")


main(test)
