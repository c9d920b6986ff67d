"""Promise 1, as an equation over a run that goes wrong in every way at once.

Six clients and the aggregator are killed (SIGKILL) at random, 400 times over four trials
(TRIALS; 300 times where a sanitizer watches); a proxy cuts connections at random bytes, losing requests and replies; over-selection
makes some updates late. At the end, for every client and every round r:

    applied[block r] + buffer[block r] + dropped[block r] is the whole change of round r, or nothing,

and the number of rounds that are there equals the updates the client encoded. A lost
update leaves a block missing, one counted twice leaves it doubled.

Dropped is what the directive limit took from the buffer, by what the aggregator has stored of each
round, late ones included; under other policies it is nothing.

The same holds when clients start training ahead of their replica, where the buffer is part of what
was trained, and when late updates count in the round that is open. And whatever happens to these
clients, none is taken for one that lost, restored or cloned its buffer.
"""

import random
import signal
import sqlite3
import time

from fault_proxy import FaultProxy
from harness import HELPERS, SANITIZED, Aggregator, Failure, Workspace, check, main, run

CLIENTS = 6
# Policy of error buffers, strategy, kills.
TRIALS = [("limit", "fednova", 60 if SANITIZED else 130), ("keep", "fednova", 60 if SANITIZED else 90),
          ("step-ahead", "fednova", 90), ("keep", "fedbuff", 90)]
DIRECTIVES = {"keep": 0, "step-ahead": 3, "limit": 4}
BLOCK = 8
ROUNDS = 400
TOLERANCE = 1e-3  # trained - replica rounds to the last bit of the replica's weights
SEED = 20261
PROGRAM = HELPERS / "conservation_client"


class Fleet:
    def __init__(self, workspace, aggregator, proxy):
        self.workspace, self.aggregator = workspace, aggregator
        self.url = f"https://localhost:{proxy.port}"
        self.code = aggregator.join_code(uses=CLIENTS)
        self.running = [None] * CLIENTS

    def directory(self, index):
        return self.workspace.path / f"client{index}"

    def command(self, index, url, *more):
        return [PROGRAM, "run", url, self.aggregator.ca, self.directory(index), self.code, *more]

    def enroll(self, index):
        """Enrols past the proxy, which could eat the reply and with it the code's use."""
        direct = f"https://localhost:{self.aggregator.port}"
        run(*self.command(index, direct, "--settle"))

    def start(self, index):
        self.running[index] = self.workspace.start(*self.command(index, self.url),
                                                   log=f"client{index}")

    def kill(self, index):
        self.running[index].kill()
        self.running[index].wait()

    def settle(self, index):
        direct = f"https://localhost:{self.aggregator.port}"
        run(*self.command(index, direct, "--settle"))


def book(*arguments):
    lines = run(PROGRAM, *arguments).split("\n")
    client, sequence, pending = (int(field) for field in lines[0].split())
    return client, sequence, pending, [[float(word) for word in line.split()] for line in lines[1:] if line]


def check_client(fleet, index, database):
    client, encoded, pending, buffer = book("buffer", fleet.directory(index))
    check(pending == 0, f"client {client} still has a pending update")
    _, stored, _, applied = book("applied", database, client)
    present = 0
    for round_number in range(len(buffer) // BLOCK):
        total = [sum(applied[round_number * BLOCK + i] + buffer[round_number * BLOCK + i])
                 for i in range(BLOCK)]
        whole = [2.0 ** -i for i in range(BLOCK)]
        if all(abs(t - w) < TOLERANCE for t, w in zip(total, whole)):
            present += 1
        elif not all(abs(t) < TOLERANCE for t in total):
            raise Failure(f"client {client}, round {round_number}: applied + buffer + dropped is {total}, "
                          f"neither {whole} nor nothing")
    check(present == encoded, f"client {client} encoded {encoded} updates, {present} are accounted for")
    return encoded, stored, sum(abs(dropped) for _, dropped in applied)


def cause_trouble(rng, kills, fleet, aggregator):
    """Kills somebody every few tens of milliseconds, mostly clients, and starts it again."""
    aggregator_kills = 0
    for _ in range(kills):
        time.sleep(rng.uniform(0.02, 0.25))
        if rng.random() < 0.2:
            aggregator.kill(signal.SIGKILL)
            aggregator.start()
            aggregator_kills += 1
        else:
            index = rng.randrange(CLIENTS)
            fleet.kill(index)
            fleet.start(index)
    return aggregator_kills


def check_ledger(database, policy):
    with sqlite3.connect(database) as reader:
        rows = reader.execute("SELECT client, finding, directive FROM ledger").fetchall()
    check(len(rows) == CLIENTS, f"the ledger has {len(rows)} clients")
    for client, finding, directive in rows:
        check(finding == 0, f"client {client} is suspected: finding {finding}")
        check(directive == DIRECTIVES[policy], f"client {client} was told {directive}")


def trial(policy, strategy, kills):
    rng = random.Random(SEED)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": f"softmax:{ROUNDS + 1}-{BLOCK}", "seed": 5},
            "round": {"cohort": 3, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS,
                      "deadline": "1500ms", "rounds": ROUNDS, "come_back_min": "20ms",
                      "come_back_max": "1s"},
            "codec": {"codec": "3lc:s=1.5"},
            "error_feedback": {"policy": policy},
            "strategy": {"name": strategy, "staleness_max": 2},
            "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000},
        }).start()
        proxy = FaultProxy(aggregator.port, SEED, cut_probability=0.25)
        fleet = Fleet(workspace, aggregator, proxy)
        for index in range(CLIENTS):
            fleet.enroll(index)
        for index in range(CLIENTS):
            fleet.start(index)
        aggregator_kills = cause_trouble(rng, kills, fleet, aggregator)
        for index in range(CLIENTS):
            fleet.kill(index)
        for index in range(CLIENTS):
            fleet.settle(index)
        aggregator.kill(signal.SIGTERM)

        aggregator.verb("verify")
        database = aggregator.state / "tern.db"
        check_ledger(database, policy)
        encoded = stored = dropped = 0
        for index in range(CLIENTS):
            of_client = check_client(fleet, index, database)
            encoded += of_client[0]
            stored += of_client[1]
            dropped += of_client[2]
        log = "".join(path.read_text(errors="replace") for path in workspace.path.glob("client*.log"))
        late, repeated = log.count(" late"), log.count(" duplicate")
        with sqlite3.connect(database) as reader:
            rounds = reader.execute("SELECT max(round) FROM rounds").fetchone()[0]
            buffered = reader.execute("SELECT count(*) FROM updates WHERE merged > 0").fetchone()[0]
        print(f"{policy}, {strategy}: {kills} kills ({aggregator_kills} of the aggregator), "
              f"{proxy.cuts} cut connections, "
              f"{rounds} rounds: {encoded} updates encoded, {stored} applied once, "
              f"{buffered} of them late, {encoded - stored} given back ({late} seen late), "
              f"{repeated} repeated, {dropped:.1f} dropped; "
              "all accounted for")
        check(stored > 20, "too few updates went through to prove anything")
        check((buffered > 0) == (strategy == "fedbuff"), f"{buffered} late updates were used")
        check((dropped > 1) == (policy == "limit"), f"{dropped} was dropped under {policy}")
        check(encoded > stored, "no update was ever given back: the test misses its point")


def test():
    for policy, strategy, kills in TRIALS:
        trial(policy, strategy, kills)


main(test)
