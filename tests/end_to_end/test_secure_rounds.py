"""Secure rounds by the real programs: a helper, an aggregator that sees the sum of masked updates alone, and six clients.
Kills of all of them lose nothing: every masked update is settled once, no mask hides two updates, and verify replays the
sums. Then the same with three groups, of whose means the model takes the median. test_secure_conservation.py has more kills."""

import json
import re
import signal
import sqlite3
import subprocess

from harness import PATIENCE, Aggregator, Workspace, check, main, run
from helper import MODEL, Helper, masked_client
from mask_recorder import MaskRecorder

CLIENTS, ROUNDS = 6, 4


def settings(helper, groups):
    sections = helper.settings_of_aggregator()
    sections["secure"]["groups"] = groups
    return {
        **sections,
        "federation": {"model": MODEL},
        "round": {"min_interval": "1ms", "min_clients": CLIENTS, "cohort": CLIENTS, "rounds": ROUNDS,
                  "come_back_min": "50ms", "strategy": "fedavg:norm_bound=0"},
        "train": {"local_steps": 5}}


def settlements(workspace, number):
    """(round, result) of every settlement that a client logged."""
    text = (workspace.path / f"client-{number}.log").read_text()
    return re.findall(r"event=settled round=(\d+) sequence=\d+ result=(\w+)", text)


def kill_each(workspace, aggregator, helper, running, command):
    """Kills the helper, the aggregator and a client while rounds go on, and starts each again."""
    helper.kill()
    helper.start()
    aggregator.kill()
    aggregator.start()
    running[0].kill()
    running[0].wait(timeout=PATIENCE)
    running[0] = workspace.start(*command, log="client-0")


def check_settlements(workspace, committed):
    """A client that is killed may have settled an update without a line in its log."""
    for number in range(CLIENTS):
        found = settlements(workspace, number)
        check(len(found) == len(set(number for number, _ in found)), f"client {number}: {found}")
        for settled, result in found:
            check((result == "counted") == (int(settled) in committed), f"client {number}: {found}, {committed}")
        check(len(found) >= ROUNDS - 1, f"client {number}: {found}")


def check_store(aggregator):
    with sqlite3.connect(aggregator.state / "tern.db") as db:
        bodies = db.execute("SELECT count(*) FROM update_bodies").fetchone()[0]
        check(bodies == 0, f"{bodies} masked updates are still stored")


def check_log(helper, status):
    """The log that a device saw in its last round is a part of the helper's."""
    seen = json.loads(run(*status))
    entries = json.loads(helper.verb("log", "--json"))
    check(entries[seen["log_count"] - 1]["head"] == seen["log_head"], f"{seen}")
    own = json.loads(helper.verb("status", "--json"))
    check((own["log_count"], own["log_head"]) == (len(entries), entries[-1]["head"]), f"{own}")
    check(f"log          {len(entries)} entries, head {own['log_head'][:12]}\n" in helper.verb("status"), "status")


def check_sums(aggregator, helper):
    rounds = aggregator.json("rounds")
    committed = [row["round"] for row in rounds if row["state"] == "committed"]
    check(len(committed) == ROUNDS and all(row["mode"] == "secure" for row in rounds), f"{rounds}")
    check(rounds[-1]["mean_loss"] < rounds[0]["mean_loss"], "nothing was learnt")
    log = helper.verb("log")
    for number in committed:
        check(log.count(f"sum federation=pumps round={number} ") == 1, log)
    return set(committed)


def federate(groups):
    with Workspace() as workspace:
        helper = Helper(workspace, min_clients=2).start()
        aggregator = Aggregator(workspace, settings(helper, groups)).start()
        status = aggregator.verb("status")
        check("sums of 2 updates or more, a weak protection" in status, status)
        check(("in 3 groups a round" in status) == (groups == 3), status)
        code = aggregator.join_code(uses=CLIENTS)
        recorder = MaskRecorder(workspace, aggregator.port)

        def command(number, *arguments):
            return masked_client(workspace, aggregator, helper, number, *arguments, server=f"https://localhost:{recorder.port}")

        for number in range(CLIENTS):
            subprocess.run(command(number, "enroll", code), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        running = [workspace.start(*command(number, "run"), log=f"client-{number}") for number in range(CLIENTS)]
        aggregator.log_line("event=round ", times=1)
        kill_each(workspace, aggregator, helper, running, command(0, "run"))
        for process in running:
            check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
        check_settlements(workspace, check_sums(aggregator, helper))
        check(aggregator.json("status")["mode"] == "secure", "status names no mode")
        aggregator.kill(signal.SIGTERM)
        check(f"Replaying all {ROUNDS} rounds" in aggregator.verb("verify"), "the sums make other versions")
        check_store(aggregator)
        recorder.check(aggregator.state / "tern.db")
        check_log(helper, command(1, "status", "--json"))


def visit(command):
    """The event that ended a visit of `once`, as a timer runs it: nothing is held, and every visit is a new process."""
    done = subprocess.run([*command, "--json", "--set", "client.wait=0"], capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode in (0, 4), f"once exited {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["ended_by"], done.stderr


def visits_of_a_timer():
    """Devices that run `tern-client once` do secure rounds: the first visit brings the ticket that it has sealed."""
    with Workspace() as workspace:
        helper = Helper(workspace, min_clients=2).start()
        sections = settings(helper, 1)
        sections["round"] |= {"min_clients": 3, "cohort": 3, "rounds": 2}
        aggregator = Aggregator(workspace, sections).start()
        code = aggregator.join_code(uses=3)
        for number in range(3):
            run(*masked_client(workspace, aggregator, helper, number, "enroll", code))
        visits = [visit(masked_client(workspace, aggregator, helper, number, "once")) for _ in range(8) for number in range(3)]
        for number, (_, log) in enumerate(visits):
            check(("event=ticket" in log) == (number < 3), f"visit {number}: {log}")
        rounds = [row for row in aggregator.json("rounds") if row["state"] == "committed"]
        check(len(rounds) == 2, f"rounds {rounds} after {[ended for ended, _ in visits]}")
        check([ended for ended, _ in visits].count("uploaded") == 6, f"{visits}")


def test():
    visits_of_a_timer()
    federate(1)
    federate(3)


main(test)
