#!/usr/bin/python3
"""What one token can cost: no body is read that cannot count, no log and no meter grow without bound."""

import signal
import sqlite3
import sys
import time

import harness
from hand_client import HandClient
from harness import Aggregator, Workspace, check
from http_by_hand import request_bytes
from protobuf import first, parse

REQUESTS = 100  # a minute
LOG_LINES = 60  # a minute
MADE_UP = 4_000_000_000


def head_of(path, token, length):
    """The request without its body."""
    return request_bytes("PUT", path, token=token, headers=[f"Content-Length: {length}"]).replace(
        b"Content-Length: 0\r\n", b"")


def refused_from_head(client, path, length):
    with client.connect() as connection:
        connection.send(head_of(path, client.token, length))
        status, _, body = connection.receive()
        return status, first(parse(body), 1)


def bodies_are_not_read_for_nothing(client):
    for path in (f"/v1/updates/{MADE_UP}/1", "/v1/updates/1/1", "/v1/updates/0/1"):
        answer = refused_from_head(client, path, 9000)
        check(answer == (422, b"unknown-round"), f"{path} of 9,000 bytes is answered {answer} before its body")


def strangers_to_a_round_are_told_so(aggregator, client):
    code = aggregator.join_code(uses=2)
    for member in (client, HandClient(aggregator.port, aggregator.ca).enroll(code)):
        with member.connect() as connection:
            member.checkin(connection, replica=member.seed_replica())
    deadline = time.monotonic() + 60
    while not aggregator.json("rounds"):
        check(time.monotonic() < deadline, "no round opens")
        time.sleep(0.05)
    late = HandClient(aggregator.port, aggregator.ca).enroll(code)
    for path, name in (("/v1/updates/1/1", b"not-in-cohort"), ("/v1/updates/2/1", b"unknown-round")):
        answer = refused_from_head(late, path, 9000)
        check(answer == (422, name), f"{path} of who has no task is answered {answer}")


def made_up_rounds_are_refused(client):
    with client.connect() as connection:
        for i in range(30):
            status, _, _ = connection.request("PUT", f"/v1/updates/{MADE_UP + i}/1", token=client.token,
                                              body=b"x" * 100)
            check(status == 422, f"a made-up round is answered {status}")


def too_large_is_rate_limited(client, log):
    counts = {}
    with client.connect() as connection:
        for _ in range(3 * REQUESTS):
            status, _, _ = connection.request("PUT", "/v1/updates/1/1", token=client.token, body=b"x" * 15000)
            counts[status] = counts.get(status, 0) + 1
    # The allowance refills while this goes on, by less than it is in all.
    check(set(counts) == {413, 429} and counts[413] <= 2 * REQUESTS, f"answers: {counts}")
    lines = [line for line in log.read_text().splitlines() if "event=request " in line]
    check(3 <= len(lines) <= 2 * LOG_LINES, f"{len(lines)} lines in the log")
    check(any(f" client={client.client_id} status=413 " in line for line in lines), "none says whose")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:64-32-10"},  # 2,410 values: updates of some 10,000 bytes
            "codec": {"codec": "float32"},
            "round": {"min_clients": 2},
            "limits": {"requests_per_minute": REQUESTS},
            "log": {"requests_per_minute": LOG_LINES},
        }).start()
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        bodies_are_not_read_for_nothing(client)
        made_up_rounds_are_refused(client)
        too_large_is_rate_limited(client, workspace.path / "aggregator.log")
        aggregator.kill(signal.SIGTERM)  # stores what was metered
        rounds = sqlite3.connect(aggregator.state / "tern.db").execute(
            "SELECT DISTINCT round FROM meter WHERE client = ?", [client.client_id]).fetchall()
        check(rounds == [(0,)], f"the meter has the rounds {rounds}")
        aggregator.start()
        strangers_to_a_round_are_told_so(aggregator, client)


if __name__ == "__main__":
    sys.exit(harness.main(test))
