#!/usr/bin/python3
"""A model whose checkpoint takes several transactions: the aggregator is killed as soon as a round is committed,
goes on from what is whole, and ends with one checkpoint."""

import signal
import sqlite3
import subprocess

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, wait_until

KILLS = 3
ROUNDS = KILLS + 1


def client(workspace, aggregator, verb, *arguments):
    settings = [f"client.server={aggregator.url}", f"client.ca={aggregator.ca}",
                f"client.state_dir={workspace.path}/client", "client.wait=10s", "client.retry_min=100ms",
                "data.source=digits:train=50,test=50,size=16"]
    done = subprocess.run([BIN / "tern-client", verb, *arguments,
                           *(part for one in settings for part in ("--set", one))],
                          capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == 0, f"{verb} exited {done.returncode}: {done.stderr}")
    return done.stderr


def stored(aggregator):
    """Returns the versions of which a checkpoint has vectors in the database, each with its number of parts. The kinds above 3
    are parts of downloads and of replicas."""
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        return database.execute("select version, count(*) from weights where kind <= 3 "
                                "group by version order by version").fetchall()


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-4000-10", "seed": 3},  # five parts of 1 MiB in each vector
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": ROUNDS},
            "train": {"local_steps": 1, "batch_size": 4, "learning_rate": 0.05},
            "codec": {"codec": "float32"},  # a checkpoint is due with every round
        }).start()
        client(workspace, aggregator, "enroll", aggregator.join_code())
        for number in range(1, ROUNDS):
            check("answer=accepted" in client(workspace, aggregator, "once"), f"round {number}: no update was accepted")
            wait_until("nothing of a checkpoint was stored", lambda: stored(aggregator)[-1][0] == number)
            aggregator.kill()
            aggregator.start()
        client(workspace, aggregator, "once")
        wait_until("older checkpoints are left", lambda: stored(aggregator) == [(ROUNDS, 15)])
        aggregator.kill(signal.SIGTERM)
        check(len(aggregator.json("rounds")) == ROUNDS, "a round was lost")
        aggregator.verb("verify")
        print(f"{KILLS} kills while a checkpoint was written")


main(test)
