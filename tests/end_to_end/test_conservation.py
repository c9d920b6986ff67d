"""Promise 1, as an equation over a run that goes wrong in every way at once.

Six clients and the aggregator are killed (SIGKILL) at random, 96 times over four trials
(TRIALS; 2,000 times by ./tern test --all); a proxy cuts connections at random bytes, losing requests and replies; over-selection
makes some updates late. Once the kills are over, rounds go on by themselves, and at the end the equation of
conservation.py holds.

The same holds when clients start training ahead of their replica, where the buffer is part of what
was trained, and when late updates count in the round that is open. And whatever happens to these
clients, none is taken for one that lost, restored or cloned its buffer.
"""

import random
import signal
import sqlite3
import time

from conservation import Fleet, check_client, expect_progress, model
from fault_proxy import FaultProxy
from harness import LONG, Aggregator, Workspace, check, main

CLIENTS = 6
# Kills of each trial: every second one is of the aggregator, the others of clients.
KILLS = 500 if LONG else 24
TRIALS = [("limit", "fednova"), ("keep", "fednova"), ("step-ahead", "fednova"), ("keep", "fedbuff")]  # policy of error buffers, strategy
DIRECTIVES = {"keep": 0, "step-ahead": 3, "limit": 4}
ROUNDS = 5000 if LONG else 1000  # more than an idle machine does while there are kills
SEED = 20261


def cause_trouble(rng, fleet, aggregator):
    """Kills somebody every few tens of milliseconds, aggregator and clients by turns, and starts it again."""
    aggregator_kills = 0
    for kill in range(KILLS):
        time.sleep(rng.uniform(0.02, 0.25))
        if kill % 2 == 0:
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
        rows = reader.execute("SELECT client, anomaly, directive FROM ledger").fetchall()
    check(len(rows) == CLIENTS, f"the ledger has {len(rows)} clients")
    for client, anomaly, directive in rows:
        check(anomaly == 0, f"client {client} is suspected: anomaly {anomaly}")
        check(directive == DIRECTIVES[policy], f"client {client} was told {directive}")


def trial(policy, strategy):
    rng = random.Random(SEED)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": model(ROUNDS), "seed": 5},
            "round": {"strategy": "fedbuff:staleness_max=2" if strategy == "fedbuff" else strategy,
                      "cohort": 3, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS,
                      "deadline": "1500ms", "rounds": ROUNDS, "come_back_min": "20ms",
                      "come_back_max": "1s"},
            "codec": {"error_feedback": policy, "codec": "3lc:s=1.5"},
            "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000},
        }).start()
        proxy = FaultProxy(aggregator.port, SEED, cut_probability=0.25)
        fleet = Fleet(workspace, aggregator, CLIENTS, proxy.port)
        fleet.start_all()
        aggregator_kills = cause_trouble(rng, fleet, aggregator)
        expect_progress(aggregator, "after the kills")
        fleet.settle_all()
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
        print(f"{policy}, {strategy}: {KILLS} kills ({aggregator_kills} of the aggregator), "
              f"{proxy.cuts} cut connections, "
              f"{rounds} rounds: {encoded} updates encoded, {stored} applied once, "
              f"{buffered} of them late, {encoded - stored} given back ({late} seen late), "
              f"{repeated} repeated, {dropped:.1f} dropped; "
              "all accounted for")
        check(stored > 20, "too few updates went through to prove anything")
        check((buffered > 0) == (strategy == "fedbuff"), f"{buffered} late updates were used")
        check((dropped > 0.1) == (policy == "limit"), f"{dropped} was dropped under {policy}")
        # Under fedbuff late ones are used.
        check(encoded > stored or buffered > 0, "no update was ever given back: the test misses its point")


def test():
    for policy, strategy in TRIALS:
        trial(policy, strategy)


main(test)
