"""Many clients fetch the snapshot of a large model at the same time, over slow links: the aggregator does
not hold it in memory for each of them, and each gets all of it."""

import base64
import hashlib

import safetensors_file
from hand_client import HandClient
from harness import SANITIZED, Aggregator, Workspace, check, main
from http_by_hand import request_bytes
from protobuf import first, parse

VALUES = 1_500_000
CLIENTS = 12
HALF = VALUES * 2


def memory(pid):
    """Bytes that are the process's own; those of files the kernel takes back when it needs them."""
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return 1024 * int(dict(line.split(":", 1) for line in lines)["RssAnon"].split()[0])


def read(connection, data, until):
    while len(data) < until:
        piece = connection.tls.recv(65536)
        check(piece, "the connection was closed")
        data += piece


def path_of_snapshot(client):
    with client.connect() as connection:
        task = client.task(connection, wait_ms=20000)
    check(task is not None, "there is no task")
    name = first(parse(first(task, 5)), 1)
    return name, "/v1/downloads/" + base64.urlsafe_b64encode(name).decode().rstrip("=")


def many_snapshots():
    with Workspace() as workspace:
        source = workspace.path / "model.safetensors"
        source.write_bytes(safetensors_file.make({"weight": ("F32", [VALUES], bytes(range(0, 64)) * (VALUES // 16))}))
        aggregator = Aggregator(workspace, {
            "federation": {"model": source},
            "limits": {"memory": "32Mi"},  # a snapshot is larger, as in earnest
            "round": {"cohort": CLIENTS, "min_clients": CLIENTS, "deadline": "1h"},
        }).start()
        code = aggregator.join_code(CLIENTS)
        clients = [HandClient(aggregator.port, aggregator.ca).enroll(code) for _ in range(CLIENTS)]
        name, path = path_of_snapshot(clients[0])
        connections = [client.connect() for client in clients]
        before, received = memory(aggregator.process.pid), [bytearray() for _ in clients]
        for client, connection, data in zip(clients, connections, received):
            connection.send(request_bytes("GET", path, token=client.token))
            read(connection, data, HALF)
        grown = memory(aggregator.process.pid) - before
        check(SANITIZED or grown < 2 * 4 * VALUES, f"{grown} bytes more are held for {CLIENTS} snapshots")
        for connection, data in zip(connections, received):
            head, _, start = bytes(data).partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            check(length > 4 * VALUES and b" 200 " in head, f"the answer is {head}")
            read(connection, data, len(head) + 4 + length)
            check(hashlib.sha256(bytes(data[len(head) + 4:])).digest() == name, "it is not what its name says")
            connection.tls.close()


main(many_snapshots)
