"""Noise and its epsilon by the real programs: a helper, an aggregator and five clients whose privacy budgets end the federation.
A sixth client demands more noise and refuses by name. Kills of the helper and the aggregator count no round twice and none
away."""

import json
import math
import re
import signal
import sqlite3
import struct
import subprocess

from harness import PATIENCE, Aggregator, Workspace, check, main, wait_until
from helper import CLASSES, FEATURES, MODEL, Helper, masked_client as client

NOISE, DELTA = 2.0, 1e-5
LOSS = 1 / NOISE**2  # of one round
CLIENTS, COHORT, MOST = 5, 3, 3  # rounds of one client
PICKY = 0  # the client that demands more noise; the others are 1 to CLIENTS


def epsilon(loss):
    """Of rho = loss / 2 zCDP: the least, over orders, of the RDP of that order as (epsilon, DELTA)."""
    orders = (1 + 10 ** (i / 2000) for i in range(-4000, 8000))
    return min(loss * a / 2 + math.log1p(-1 / a) - math.log(DELTA * a) / (a - 1) for a in orders)


def settings(helper):
    return {
        **helper.settings_of_aggregator(),
        "federation": {"model": MODEL},
        "round": {"min_interval": "1ms", "min_clients": COHORT, "cohort": COHORT, "quorum": COHORT, "rounds": 100,
                  "come_back_min": "50ms", "strategy": "fedavg:norm_bound=0", "divergence_rounds": 0},
        "privacy": {"noise": NOISE, "clip": 0.3, "delta": DELTA,
                    "epsilon_max": (epsilon(MOST * LOSS) + epsilon((MOST + 1) * LOSS)) / 2},
        "train": {"local_steps": 5, "evaluate": "no"}}


def counted(workspace, number):
    """The rounds that counted a client's update, by its own log."""
    text = (workspace.path / f"client-{number}.log").read_text()
    return [int(found) for found in re.findall(r"event=settled round=(\d+) sequence=\d+ result=counted", text)]


def check_epsilon(aggregator, rounds, what):
    """rounds: of the client with the most."""
    report = aggregator.json("privacy")
    expected = epsilon(rounds * LOSS) if rounds else 0
    check(report["refusals"] == [] and math.isclose(report["epsilon"], expected, rel_tol=1e-3),
          f"{what}: {report['epsilon']} is not {expected} of {rounds} rounds: {report}")


def rows(aggregator, query):
    with sqlite3.connect(aggregator.state / "tern.db") as db:
        return db.execute(query).fetchall()


def check_refusal(workspace, aggregator):
    """Round 1 has the client that demands more noise as a member, and waits for it."""
    log = workspace.path / f"client-{PICKY}.log"
    wait_until("no client refuses", lambda: "secure.min_noise" in log.read_text())
    check(counted(workspace, PICKY) == [], log.read_text())


def check_kill_before_sum(aggregator, helper):
    """The helper is killed before the aggregator asks it for the sum of round 1, for which another client replaces the one that
    refuses."""
    wait_until("some clients have no ticket", lambda: rows(aggregator, "SELECT count(*) FROM tickets WHERE state = 1")[0][0] > CLIENTS)
    wait_until("round 1 has not two updates", lambda: rows(aggregator, "SELECT count(*) FROM updates")[0][0] == COHORT - 1)
    helper.kill()
    check_epsilon(aggregator, 0, "before a sum is asked for")
    aggregator.verb("revoke", "1")
    aggregator.log_line("event=helper-gives-no-sum")
    check_epsilon(aggregator, 1, "while the helper is dead")
    helper.start()


def check_noise(aggregator):
    """Without noise no value of the mean of three updates of -1, 0 and 1 is more than three times another one of its tensor."""
    weights, biases = FEATURES * CLASSES, CLASSES
    found = []
    for (body,) in rows(aggregator, "SELECT body FROM secure_sums"):
        values = [abs(value) for value in struct.unpack(f"<{weights + biases}f", body[-4 * (weights + biases) :])[:weights] if value]
        found.append(max(values) / min(values))
    check(found and max(found) > COHORT + 0.5, f"no sum has noise: {found}")


def check_end(workspace, aggregator, helper):
    line = aggregator.log_line("event=federation-ended")
    check("reason=privacy-spent" in line, line)
    rounds = aggregator.json("rounds")
    check(all(row["state"] == "committed" and row["noise"] == 1000 * NOISE and row["mean_loss"] is None for row in rounds), f"{rounds}")
    found = {number: counted(workspace, number) for number in range(1, CLIENTS + 1)}
    check(sorted(sum(found.values(), [])) == sorted(COHORT * [row["round"] for row in rounds]), f"{found}")
    losses = {row["name"]: row["privacy_loss"] for row in aggregator.json("clients")}
    for number, of in found.items():
        check(len(of) <= MOST and math.isclose(losses[str(number)], len(of) * LOSS, rel_tol=1e-6), f"{number}: {of}, {losses}")
    check(sum(len(of) == MOST for of in found.values()) > CLIENTS - COHORT, f"{found}")
    check_epsilon(aggregator, MOST, "at the end")
    check_noise(aggregator)
    log = helper.verb("log")
    check(all(log.count(f"sum federation=pumps round={row['round']} ") == 1 for row in rounds), log)


def check_restart(workspace, aggregator, helper):
    """The end needs no helper."""
    helper.kill()
    aggregator.kill()
    aggregator.start()
    again = workspace.start(*client(workspace, aggregator, helper, 1, "run"), log="again")
    check(again.wait(timeout=PATIENCE) == 0, "a client did not end after a restart of the aggregator")
    check("the privacy budget is spent" in aggregator.verb("status"), "status names no end")
    check(json.loads(aggregator.admin("/api/v1/waiting"))["reason"] == "ended", "the service names no end")
    status = json.loads(aggregator.admin("/api/v1/status"))
    check(status["finished"] and status["mean_loss"] is None, f"{status}")
    check_epsilon(aggregator, MOST, "after a restart")


def test():
    with Workspace() as workspace:
        helper = Helper(workspace).start()
        aggregator = Aggregator(workspace, settings(helper)).start()
        code = aggregator.join_code(uses=CLIENTS + 1)
        for number in range(CLIENTS + 1):
            demanded = 3 if number == PICKY else NOISE
            subprocess.run(client(workspace, aggregator, helper, number, "enroll", code, min_noise=demanded), check=True,
                           stdout=subprocess.DEVNULL, timeout=PATIENCE)
        running = []
        for number in range(CLIENTS + 1):
            # The one that refuses asks once: after three times another client would replace it by itself.
            once = ("--set", "client.retry_min=1h", "--set", "client.retry_max=1h") if number == PICKY else ()
            running.append(workspace.start(*client(workspace, aggregator, helper, number, "run"), *once, log=f"client-{number}"))
            if number == COHORT - 1:
                check_refusal(workspace, aggregator)
        check_kill_before_sum(aggregator, helper)
        for process in running[PICKY + 1 :]:
            check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
        check_end(workspace, aggregator, helper)
        check_restart(workspace, aggregator, helper)
        aggregator.kill(signal.SIGTERM)
        check("Replaying all" in aggregator.verb("verify"), "the sums make other versions")


main(test)
