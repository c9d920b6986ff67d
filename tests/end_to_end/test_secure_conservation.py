"""Conservation in secure rounds: aggregator, helper and five clients are killed (SIGKILL) at random, 15 times (400 times by
./tern test --long). At the end, what the error buffers have and what the sums of all rounds had is a whole number of the changes
that rounds make, one for each update that a client encoded. No mask hid two updates, and verify replays the sums."""

import random
import re
import signal
import sqlite3
import time

from conservation import BLOCK, PROGRAM, TOLERANCE, Fleet, book, expect_progress, newest_version
from harness import LONG, Aggregator, Workspace, check, main, run, wait_until
from helper import Helper
from mask_recorder import MaskRecorder

CLIENTS = 5
KILLS = 400 if LONG else 15
ROUNDS = 4000 if LONG else 500  # more than an idle machine does while there are kills


class SecureFleet(Fleet):
    """Clients with a helper."""

    def __init__(self, workspace, aggregator, port, helper):
        self.helper = [(helper.key, helper.code()) for _ in range(CLIENTS)]
        super().__init__(workspace, aggregator, CLIENTS, port)

    def command(self, index, url, *more):
        return super().command(index, url, "--helper", *self.helper[index], *more)

    def settle_all(self):
        """All at once, and the open round is closed: clients without a pending update send none."""
        for index in range(self.clients):
            self.kill(index)
        settling = [self.workspace.start(*self.command(index, self.url, "--settle"), log=f"settle{index}")
                    for index in range(self.clients)]

        def have_settled():
            self.aggregator.verb("close-round", ok=(0, 1, 4))  # there may be none
            return all(process.poll() is not None for process in settling)

        wait_until("a client did not settle its update", have_settled)
        check(all(process.returncode == 0 for process in settling), "a client failed")


def settings(helper):
    return {
        **helper.settings_of_aggregator(),
        "federation": {"model": f"softmax:8-{BLOCK}", "seed": 5},
        "round": {"min_interval": "1ms", "min_clients": CLIENTS, "cohort": CLIENTS, "rounds": ROUNDS, "deadline": "5m",
                  "come_back_min": "20ms", "come_back_max": "1s", "strategy": "fedavg:norm_bound=0"},
        "train": {"local_steps": 2},
        "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000}}


def kill_some(rng, aggregator, helper, fleet):
    """Kills a random one every few tens of milliseconds, and lets a round end after every third kill. Returns how often each was
    killed."""
    killed = {"aggregator": 0, "helper": 0, "client": 0}
    database = aggregator.state / "tern.db"
    for kill in range(KILLS):
        if kill % 3 == 0:
            version = newest_version(database)
            wait_until("no round ended between kills", lambda before=version: newest_version(database) > before)
        time.sleep(rng.uniform(0.02, 0.25))
        victim = rng.choice(list(killed))
        killed[victim] += 1
        if victim == "client":
            index = rng.randrange(CLIENTS)
            fleet.kill(index)
            fleet.start(index)
        else:
            program = aggregator if victim == "aggregator" else helper
            program.kill()
            program.start()
    return killed


def check_changes(fleet, database):
    """Returns the numbers of updates that the clients encoded, and of rounds with a sum."""
    with sqlite3.connect(database) as reader:
        last = reader.execute("SELECT max(round) FROM rounds").fetchone()[0]
    lines = run(PROGRAM, "sums", database, last).split()
    summed, total = int(lines[0]), [float(line) for line in lines[1:]]
    encoded = 0
    for index in range(CLIENTS):
        _, sequence, pending, buffer = book("buffer", fleet.directory(index))
        check(pending == 0, f"client {index} still has a pending update")
        encoded += sequence
        total = [value + left[0] for value, left in zip(total, buffer)]
    present = 0
    for number in range(len(total) // BLOCK):
        block = total[number * BLOCK:(number + 1) * BLOCK]
        times = round(block[0])
        check(times >= 0 and
              all(abs(value - times * 2.0 ** -i) < TOLERANCE for i, value in enumerate(block)),
              f"block {number}: sums + buffers are {block}, no number of whole changes")
        present += times
    check(present == encoded, f"the clients encoded {encoded} updates, {present} are accounted for")
    return encoded, summed


def check_settlements(workspace):
    """Each update was settled at most once. A client that was killed may have settled one without a line in its log."""
    count = 0
    for index in range(CLIENTS):
        text = "".join((workspace.path / f"{log}{index}.log").read_text() for log in ("client", "settle"))
        found = re.findall(r"^settled round (\d+) ", text, re.M)
        check(len(found) == len(set(found)), f"client {index}: {found}")
        count += len(found)
    return count


def test():
    rng = random.Random(33)
    with Workspace() as workspace:
        helper = Helper(workspace).start()
        aggregator = Aggregator(workspace, settings(helper)).start()
        recorder = MaskRecorder(workspace, aggregator.port)
        fleet = SecureFleet(workspace, aggregator, recorder.port, helper)
        fleet.start_all()
        killed = kill_some(rng, aggregator, helper, fleet)
        expect_progress(aggregator, "after the kills")
        fleet.settle_all()
        aggregator.kill(signal.SIGTERM)
        aggregator.verb("verify")
        database = aggregator.state / "tern.db"
        encoded, summed = check_changes(fleet, database)
        settled = check_settlements(workspace)
        keys = recorder.check(database)
        print(f"{sum(killed.values())} kills {killed}, {summed} rounds with a sum: {encoded} updates encoded, {recorder.uploads} "
              f"uploads, {keys} keys of masks, none twice; {settled} settlements logged; all changes accounted for")
        check(summed >= KILLS / 3, "too few rounds had a sum to prove anything")


main(test)
