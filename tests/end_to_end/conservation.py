"""Clients whose every change can be recognised, and the equation over what became of it.

For every client and every round r,

    applied[block r] + buffer[block r] + dropped[block r] is the whole change of round r, or nothing,

and the number of rounds that are there equals the updates the client encoded. A lost update leaves a
block missing, one counted twice leaves it doubled. Dropped is what the directive limit took from the
buffer, by what the aggregator has stored of each round, late ones included; under other policies it is
nothing.
"""

import contextlib
import sqlite3
import time

from harness import HELPERS, Failure, check, run, within

BLOCK = 8
TOLERANCE = 1e-3  # trained - replica rounds to the last bit of the replica's weights
PROGRAM = HELPERS / "conservation_client"
PROGRESS = within(30, 120)  # seconds in which rounds must go on, once there is nothing in their way


def model(rounds):
    """For federations of so many rounds."""
    return f"softmax:{rounds + 1}-{BLOCK}"


class Fleet:
    """Conservation clients of one aggregator. port: where they reach it, else directly. prefix: the beginning
    of their commands. name: of their folders and logs."""

    def __init__(self, workspace, aggregator, clients, port=None, prefix=(), name="client"):
        self.name = name
        self.workspace, self.aggregator, self.clients = workspace, aggregator, clients
        self.prefix = prefix
        self.direct = f"https://{'localhost' if aggregator.address == '127.0.0.1' else aggregator.address}"
        self.direct += f":{aggregator.port}"
        self.url = f"https://localhost:{port}" if port else self.direct
        self.code = aggregator.join_code(uses=self.clients)
        self.running = [None] * self.clients

        for index in range(clients):
            self.enroll(index)

    def directory(self, index):
        return self.workspace.path / f"{self.name}{index}"

    def command(self, index, url, *more):
        return [PROGRAM, "run", url, self.aggregator.ca, self.directory(index), self.code, *more]

    def enroll(self, index):
        """Enrols past the proxy, which could eat the reply and with it the code's use."""
        run(*self.command(index, self.direct, "--settle"))

    def start(self, index):
        self.running[index] = self.workspace.start(*self.prefix, *self.command(index, self.url),
                                                   log=f"{self.name}{index}")

    def kill(self, index):
        self.running[index].kill()
        self.running[index].wait()

    def settle(self, index):
        run(*self.command(index, self.direct, "--settle"))

    def start_all(self):
        for index in range(self.clients):
            self.start(index)

    def settle_all(self):
        for index in range(self.clients):
            self.kill(index)
        for index in range(self.clients):
            self.settle(index)


def newest_version(database):
    """Returns the newest version in a file of SQLite, or in a cluster of PostgreSQL."""
    if hasattr(database, "sql"):
        return int(database.sql("SELECT max(version) FROM versions"))
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20)) as reader:
        return reader.execute("SELECT max(version) FROM versions").fetchone()[0]


def expect_progress(aggregator, after, versions=2):
    """Fails unless the next versions are made within a bounded time, by themselves. Returns the newest.
    after: what there was in their way."""
    database = aggregator.state / "tern.db"
    version = newest_version(database)
    deadline = time.monotonic() + PROGRESS
    while newest_version(database) < version + versions:
        check(aggregator.process.poll() is None, f"the aggregator ended: {after}")
        check(time.monotonic() < deadline, f"no round for {PROGRESS} s: {after}")
        time.sleep(0.02)
    return version + versions


def book(*arguments):
    lines = run(PROGRAM, *arguments).split("\n")
    client, sequence, pending = (int(field) for field in lines[0].split())
    return client, sequence, pending, [[float(word) for word in line.split()] for line in lines[1:] if line]


def applied_by(database, client):
    """The sum of its stored updates, by value."""
    return [values[0] for values in book("applied", database, client)[3]]


def check_client(fleet, index, database, forgotten=None):
    """forgotten: the sum, by value, of updates that the database held once, as a backup was made. Their rounds
    may have been done again: a change is there as often as it was made."""
    client, encoded, pending, buffer = book("buffer", fleet.directory(index))
    check(pending == 0, f"client {client} still has a pending update")
    _, stored, _, applied = book("applied", database, client)
    present = 0
    for round_number in range(len(buffer) // BLOCK):
        values = range(round_number * BLOCK, (round_number + 1) * BLOCK)
        total = [sum(applied[i] + buffer[i]) + (forgotten[i] if forgotten else 0) for i in values]
        times = round(total[0])
        whole = [times * 2.0 ** -i for i in range(BLOCK)]
        check(0 <= times <= (2 if forgotten else 1) and
              all(abs(t - w) < TOLERANCE for t, w in zip(total, whole)),
              f"client {client}, round {round_number}: applied + buffer + dropped is {total}, neither nothing "
              "nor whole")
        present += times
    check(present == encoded, f"client {client} encoded {encoded} updates, {present} are accounted for")
    return encoded, stored, sum(abs(dropped) for _, dropped in applied)
