"""Connections cut at every byte position of an update request, and at every byte of its answer.

Whatever arrived in part must change nothing; what arrived whole is applied once,
however often it is repeated.
"""

import sqlite3
import struct
import subprocess

from hand_client import HandClient, container
from harness import BIN, Aggregator, Workspace, check, main
from protobuf import first, parse

DUPLICATE = 2  # UpdateStatus


def float32_payload(workspace):
    def encode(values):
        source, target = workspace.path / "in.f32", workspace.path / "out.tern"
        source.write_bytes(struct.pack(f"<{len(values)}f", *values))
        subprocess.run([BIN / "tern-codec", "encode", "float32", source, target], check=True)
        return target.read_bytes()
    return encode


def updates(aggregator):
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        return database.execute("SELECT count(*) FROM updates").fetchone()[0]


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2", "seed": 7},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "10m", "rounds": 3},
            "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000},
        }).start()
        code = aggregator.join_code(uses=2)
        one = HandClient(aggregator.port, aggregator.ca).enroll(code)
        two = HandClient(aggregator.port, aggregator.ca).enroll(code)
        with one.connect() as connection:
            task = one.task(connection, replica=one.seed_replica(), version=0)
        check(task is not None, "the first client has no task")
        body = one.update_body(task, container([0.5] * 10, float32_payload(workspace)))
        request = one.put_bytes(first(task, 2), 1, body)

        for position in range(len(request)):
            connection = one.connect()
            connection.send(request[:position])
            connection.tls.close()
        check(updates(aggregator) == 0, "a request that was cut left an update behind")

        statuses = []
        for _ in range(200):  # every one of these loses its reply
            connection = one.connect()
            connection.send(request)
            connection.tls.close()
        with one.connect() as connection:
            connection.send(request)
            status, _, reply = connection.receive()
            statuses.append((status, first(parse(reply), 1, 0)))
            connection.send(request)
            status, _, reply = connection.receive()
            statuses.append((status, first(parse(reply), 1, 0)))
        check(statuses[1] == (200, DUPLICATE), f"a repeated update was answered {statuses[1]}")
        check(updates(aggregator) == 1, "a repeated update was stored more than once")

        other = one.update_body(task, container([0.25] * 10, float32_payload(workspace)))
        with one.connect() as connection:
            connection.send(one.put_bytes(first(task, 2), 1, other))
            status, _, _ = connection.receive()
        check(status == 409, f"other bytes under the same key were answered {status}, not 409")

        with two.connect() as connection:
            task = two.task(connection, replica=two.seed_replica(), version=0)
            connection.send(two.put_bytes(first(task, 2), 1, two.update_body(
                task, container([-0.5] * 10, float32_payload(workspace)))))
            status, _, _ = connection.receive()
        check(status == 200, f"the second client's update was answered {status}")
        with one.connect() as connection:  # the round has closed; the same bytes still count once
            connection.send(request)
            status, _, reply = connection.receive()
        check((status, first(parse(reply), 1, 0)) == (200, DUPLICATE),
              f"a repeat after the round's end was answered {status}")
        check(updates(aggregator) == 2, "a repeat after the round's end was stored")
        aggregator.verb("verify")
        print(f"{len(request)} cuts, 200 lost replies: 2 updates stored, 2 applied")


main(test)
