"""Secure rounds by the real programs: a helper, an aggregator that sees the sum of masked updates alone, and five clients.
Kills of all of them lose nothing: every masked update is settled once, no mask hides two updates, and verify replays the
sums."""

import random
import re
import signal
import sqlite3
import subprocess

from harness import LONG, PATIENCE, Aggregator, Workspace, check, main
from helper import MODEL, Helper, masked_client as client

CLIENTS, ROUNDS = 5, 500 if LONG else 4
KILLS = 400 if LONG else 3


def settings(helper):
    return {
        **helper.settings_of_aggregator(),
        "federation": {"model": MODEL},
        "round": {"min_interval": "1ms", "min_clients": CLIENTS, "cohort": CLIENTS, "rounds": ROUNDS,
                  "come_back_min": "50ms", "strategy": "fedavg:norm_bound=0"},
        "train": {"local_steps": 5}}


def settlements(workspace, number):
    """(round, result) of every settlement that a client logged."""
    text = (workspace.path / f"client-{number}.log").read_text()
    return re.findall(r"event=settled round=(\d+) sequence=\d+ result=(\w+)", text)


def kill_some(workspace, aggregator, helper, running):
    """Kills the aggregator, the helper and clients while rounds go on, and starts each again."""
    draw = random.Random(33)
    victims = [*range(CLIENTS), "helper", "aggregator"]
    for kill in range(KILLS):
        committed = aggregator.json("status")["rounds_committed"]
        if committed >= ROUNDS:
            break
        victim = draw.choice(victims) if LONG else ("helper", "aggregator", 0)[kill]
        if victim == "helper":
            helper.kill()
            helper.start()
        elif victim == "aggregator":
            aggregator.kill()
            aggregator.start()
        else:
            running[victim].kill()
            running[victim].wait(timeout=PATIENCE)
            running[victim] = workspace.start(*client(workspace, aggregator, helper, victim, "run"), log=f"client-{victim}")


def check_settlements(workspace, committed):
    """A client that is killed may have settled an update without a line in its log."""
    for number in range(CLIENTS):
        found = settlements(workspace, number)
        check(len(found) == len(set(number for number, _ in found)), f"client {number}: {found}")
        for settled, result in found:
            check((result == "counted") == (int(settled) in committed), f"client {number}: {found}, {committed}")
        check(LONG or len(found) >= ROUNDS - 1, f"client {number}: {found}")


def check_store(aggregator):
    with sqlite3.connect(aggregator.state / "tern.db") as db:
        bodies = db.execute("SELECT count(*) FROM update_bodies").fetchone()[0]
        check(bodies == 0, f"{bodies} masked updates are still stored")
        twice = db.execute("SELECT client, sequence FROM updates GROUP BY client, sequence HAVING count(*) > 1").fetchall()
        check(not twice, f"keys of masks that were used twice: {twice}")


def check_sums(aggregator, helper):
    rounds = aggregator.json("rounds")
    committed = [row["round"] for row in rounds if row["state"] == "committed"]
    check(len(committed) == ROUNDS and all(row["mode"] == "secure" for row in rounds), f"{rounds}")
    check(rounds[-1]["mean_loss"] < rounds[0]["mean_loss"], "nothing was learnt")
    log = helper.verb("log")
    for number in committed:
        check(log.count(f"sum federation=pumps round={number} ") == 1, log)
    return set(committed)


def test():
    with Workspace() as workspace:
        helper = Helper(workspace).start()
        aggregator = Aggregator(workspace, settings(helper)).start()
        status = aggregator.verb("status")
        check("sums of 3 updates or more, a weak protection" in status, status)
        code = aggregator.join_code(uses=CLIENTS)
        for number in range(CLIENTS):
            subprocess.run(client(workspace, aggregator, helper, number, "enroll", code), check=True,
                           stdout=subprocess.DEVNULL, timeout=PATIENCE)
        running = [workspace.start(*client(workspace, aggregator, helper, number, "run"), log=f"client-{number}")
                   for number in range(CLIENTS)]
        aggregator.log_line("event=round ", times=1)
        kill_some(workspace, aggregator, helper, running)
        for process in running:
            check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
        check_settlements(workspace, check_sums(aggregator, helper))
        check(aggregator.json("status")["mode"] == "secure", "status names no mode")
        aggregator.kill(signal.SIGTERM)
        check(f"Replaying all {ROUNDS} rounds" in aggregator.verb("verify"), "the sums make other versions")
        check_store(aggregator)


main(test)
