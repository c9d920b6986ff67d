#!/usr/bin/python3
"""Clients that enrol and are never seen again, or that take each task and report none, ten to each honest one: soon the
rounds are as fast as in a federation without them. And one that takes each task in a federation that has nobody to ask
in its place: two rounds wait for it. Under a sanitizer, that rounds go on."""

import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from hand_client import HandClient, container  # noqa: E402
from harness import PATIENCE, SANITIZED, Aggregator, Workspace, check  # noqa: E402
from protobuf import first, parse  # noqa: E402

HONEST, SILENT, TAKERS = 6, 48, 12
VALUES = 10  # of softmax:4-2
DEADLINE_S = 1.0
# A round replaces those members that do not come after a quarter of its deadline, some 3 of 6 at a time, and notes at its
# deadline who took a task and did not report it, which twice is enough for: all of them have had their turn by then.
SETTLED_S = 12 * DEADLINE_S
ROUNDS_WITHOUT_SPARES = 20
WINDOW_S = 2  # in which both federations go on, sweep by sweep: what else the machine does meets both
FACTOR = 2  # of rounds a second; it was 40
TRIES = 10  # a machine that is busy with something else may fail one


def encode(values):
    """docs/FORMAT.md: a float32 payload."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)


class Member:
    """A client on a connection that stays; one that takes tasks alone if it is not honest, and is silent for `hold_s`
    after each."""

    def __init__(self, aggregator, code, honest=True, hold_s=0):
        self.honest, self.hold_s, self.silent_until = honest, hold_s, 0
        self.client = HandClient(aggregator.port, aggregator.ca).enroll(code)
        self.connection = self.client.connect()
        self.replica, self.sequence = self.client.seed_replica(), 0

    def look_in(self):
        """Does its task if there is one; returns the round, or None."""
        if time.monotonic() < self.silent_until:
            return None
        task = self.client.task(self.connection, replica=self.replica)
        self.silent_until = time.monotonic() + (0 if self.honest or task is None else self.hold_s)
        if task is None or not self.honest:
            return None
        self.sequence += 1
        body = self.client.update_body(task, container([0.01] * VALUES, encode))
        status, _, reply = self.connection.request("PUT", f"/v1/updates/{first(task, 2)}/{self.sequence}",
                                                   token=self.client.token, body=body)
        check(status == 200 or first(parse(reply), 1) == b"late", f"an update is answered {status}: {reply}")
        self.replica = first(task, 3)
        return first(task, 2)


class Federation:
    def __init__(self, workspace, min_clients=HONEST):
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2"},
            "round": {"min_clients": min_clients, "come_back_min": "10ms", "deadline": f"{DEADLINE_S * 1000:.0f}ms"},
            "codec": {"codec": "float32"},
            "limits": {"requests_per_minute": 0, "connections_per_address": 1000},
        }).start()
        self.members = []

    def join(self, takers, hold_s=0):
        code = self.aggregator.join_code(uses=HONEST + takers)
        self.members = [Member(self.aggregator, code, i >= takers, hold_s) for i in range(HONEST + takers)]

    def sweep(self):
        """Each member looks in once; returns the rounds that they had tasks of."""
        return {member.look_in() for member in self.members} - {None}


def rounds_of(federations, seconds, pause_s=0):
    """How many rounds each does in the same seconds."""
    begin, rounds = time.monotonic(), [set() for _ in federations]
    while time.monotonic() < begin + seconds:
        time.sleep(pause_s)
        for federation, done in zip(federations, rounds):
            done |= federation.sweep()
    return [len(done) for done in rounds]


def holds(federations, seconds):
    peace, war = rounds_of(federations, seconds)
    print(f"in {seconds:.0f} s, {peace} rounds in peace, {war} beside {SILENT} silent clients and {TAKERS} that only take tasks", flush=True)
    return war > 0 if SANITIZED else peace < FACTOR * war


def goes_on_without_spares():
    with Workspace() as workspace:
        federation = Federation(workspace, min_clients=HONEST + 1)
        federation.join(takers=1, hold_s=DEADLINE_S)
        done, end = set(), time.monotonic() + PATIENCE
        while len(done) < ROUNDS_WITHOUT_SPARES:
            check(time.monotonic() < end, f"only {len(done)} rounds in {PATIENCE} s")
            done |= federation.sweep()
        rounds = [row for row in federation.aggregator.json("rounds") if row["closed_ms"] > 0]
        waited = [row["round"] for row in rounds if row["closed_ms"] >= row["deadline_ms"]]
        print(f"without spares: of {len(rounds)} rounds, {waited} lasted until their deadline", flush=True)
        return len(waited) < len(rounds) / 2


def test():
    check(goes_on_without_spares(), "one client that does not report holds up rounds without spares")
    with Workspace() as first_workspace, Workspace() as second_workspace:
        peace, war = Federation(first_workspace), Federation(second_workspace)
        code = war.aggregator.join_code(uses=SILENT)
        for _ in range(SILENT):
            HandClient(war.aggregator.port, war.aggregator.ca).enroll(code)
        peace.join(takers=0)
        war.join(takers=TAKERS)
        rounds_of((peace, war), SETTLED_S, pause_s=.05)  # deadlines pass, whose number counts
        check(any(holds((peace, war), WINDOW_S) for _ in range(TRIES)), "clients that do not report slow the rounds down")


if __name__ == "__main__":
    sys.exit(harness.main(test))
