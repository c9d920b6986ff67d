#!/usr/bin/python3
"""Each trip to PostgreSQL fails at its k-th, for every k of two rounds while clients work, and of a start: the
connection is lost before it, after it was done, or in the middle of its answer; PostgreSQL ends the connection with a
message; a statement is refused; or the server behind the connection dies, upon which PostgreSQL restarts. Afterwards
rounds go on by themselves, no update is missing or counted twice, and the history replays.

./tern test tries some ks of each kind, at even distances; with its long tests every one of rounds, until a run needs no fault, and 60 of a start.
"""

import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
from conservation import Fleet, check_client, model, newest_version  # noqa: E402
from faults import fail_at_every_call, first_that_fails, spread  # noqa: E402
from harness import LONG, PATIENCE, Aggregator, Failure, Workspace, check, main, skip, within  # noqa: E402
from nodes import between, cluster, wait_until  # noqa: E402

CLIENTS = 3
ROUNDS = 20000 if LONG else 2000
VERSIONS = 2  # that a run has
PROGRESS = within(40, 120)  # seconds in which a round must be made, once there is nothing in its way
SAMPLE = 2  # ks of each kind
STARTS = 60  # ks of a start, of each kind, with long tests
# The name of a prepared statement in a message that binds it (PostgreSQL's manual, "Message Formats"); or a word of one
# that is text.
STATEMENT = re.compile(rb"B[\x00-\xff]{4}\x00([^\x00])|(?:SELEC|INSER|UPDAT|DELET|COMMI|BEGI)([TEN])")


def misspell(piece):
    """The piece with a statement that PostgreSQL refuses."""
    found = STATEMENT.search(piece)
    if found is None:
        return piece
    at = found.start(found.lastindex)
    return piece[:at] + b"#" + piece[at + 1:]


class Trips:
    """Counts what is sent to PostgreSQL, and does something at the k-th. A start of a connection is none."""

    def __init__(self, postgres):
        self.postgres = postgres
        self.kinds = {"lose": self.lose, "lose-reply": self.lose_reply, "cut-reply": self.cut_reply,
                      "end": self.end_connection, "refuse": self.refuse, "die": self.die}
        self.kind, self.at = None, 0
        self.seen = self.counted = self.failed = 0
        self.changed = 0  # those that something came of

    def arm(self, kind, k):
        self.counted = self.failed = 0
        self.at, self.kind = k, kind

    def disarm(self):
        self.kind = None

    def judge(self, piece):
        self.seen += 1
        if self.kind is None:
            return between.PASS, piece
        self.counted += 1
        if self.counted != self.at:
            return between.PASS, piece
        fate, instead = self.kinds[self.kind](piece)
        self.failed += 1
        self.changed += fate != between.PASS or instead != piece or self.kind in ("end", "die")
        return fate, instead

    # --- What happens

    @staticmethod
    def lose(piece):
        return between.LOSE, piece

    @staticmethod
    def lose_reply(piece):
        return between.LOSE_REPLY, piece

    @staticmethod
    def cut_reply(piece):
        return between.CUT_REPLY, piece

    @staticmethod
    def refuse(piece):
        return between.PASS, misspell(piece)

    def backends(self, what):
        return self.postgres.sql(f"SELECT {what} FROM pg_stat_activity WHERE usename = 'tern' AND pid <> pg_backend_pid()"
                                 " AND backend_type = 'client backend'").split()

    def end_connection(self, piece):
        self.backends("pg_terminate_backend(pid)")
        return between.PASS, piece

    def die(self, piece):
        for pid in self.backends("pid")[:1]:
            os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
        return between.PASS, piece


class Service:
    def __init__(self, workspace, postgres):
        self.postgres = postgres
        self.trips = Trips(postgres)
        self.way = between.Between(postgres, self.trips.judge)
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": model(ROUNDS), "seed": 5},
            "store": {"url": self.way.url()},
            "round": {"cohort": 2, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS, "deadline": "1500ms",
                      "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "500ms"},
            "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
            "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000, "history_bytes": 0},
        }).start()
        self.fleet = Fleet(workspace, self.aggregator, CLIENTS)
        self.fleet.start_all()

    def version(self):
        self.postgres.wait()
        for tries in range(20):
            try:
                return newest_version(self.postgres)
            except AssertionError:  # it is restarting
                check(tries < 19, "PostgreSQL does not answer")
                time.sleep(0.2)

    def expect_progress(self, after):
        version = self.version()
        wait_until(f"no round for {PROGRESS} s: {after}", lambda: self.version() > version, PROGRESS)
        check(self.aggregator.process.poll() is None, f"the aggregator ended: {after}")

    # --- Runs

    def run_of_rounds(self):
        first = self.version()
        wait_until("no rounds", lambda: self.version() >= first + VERSIONS, PROGRESS)

    def fail_once(self, kind, k):
        """Whether there was a k-th trip before the run was over."""
        first = self.version()
        self.trips.arm(kind, k)
        wait_until(f"no round for {PROGRESS} s: {kind} at trip {k}",
                   lambda: self.trips.failed > 0 or self.version() >= first + VERSIONS, PROGRESS)
        self.trips.disarm()
        self.expect_progress(f"{kind} at trip {k}")
        return self.trips.failed > 0

    def start_again(self):
        self.stop()
        self.aggregator.start()

    def fail_at_start(self, kind, k):
        """It either comes up, or says that it was the database; the next start succeeds."""
        self.stop()
        self.trips.arm(kind, k)
        try:
            self.aggregator.start()
        except Failure:
            code = self.aggregator.process.wait(timeout=PATIENCE)
            check(code == 1, f"{kind} at trip {k} of a start ended it by {code}")
        self.trips.disarm()
        if self.aggregator.process.poll() is not None:
            self.postgres.wait()
            self.aggregator.start()
        self.expect_progress(f"{kind} at trip {k} of a start")
        return self.trips.failed > 0

    def stop(self):
        """Under a sanitizer nothing may be left."""
        self.aggregator.kill(signal.SIGTERM)
        check(self.aggregator.process.returncode == 0, f"it ended by {self.aggregator.process.returncode}")

    def trips_during(self, happens):
        before = self.trips.seen
        happens()
        return self.trips.seen - before

    def finish(self):
        self.fleet.settle_all()
        self.stop()
        self.aggregator.verb("verify")
        return sum(check_client(self.fleet, index, self.postgres.url())[1] for index in range(CLIENTS))


def ks_that_fail(fail, count, is_long_start):
    if is_long_start:
        return [k for k in (first_that_fails(fail, k) for k in spread(count, STARTS)) if k > 0]
    return fail_at_every_call(fail, count, SAMPLE)


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        service = Service(workspace, postgres)
        service.expect_progress("nothing")
        tried = {}
        for when, fail, happens in (("", service.fail_once, service.run_of_rounds),
                                    (" of a start", service.fail_at_start, service.start_again)):
            count = service.trips_during(happens)
            for kind in service.trips.kinds:
                ks = ks_that_fail(lambda k: fail(kind, k), count, LONG and happens == service.start_again)
                check(ks, f"{kind}: no trip{when} was reached")
                tried[kind + when] = len(ks)
            print(f"{count} trips{when}", flush=True)
        updates = service.finish()
        log = (workspace.path / "aggregator.log").read_text(errors="replace")
        for said in ("restore a backup", "event=halted", "Sanitizer"):
            check(said not in log, f"a failing connection was taken for damage, or worse: {said}")
        print(f"{updates} updates are applied once; trips that failed: {tried}")
        check(service.trips.changed > sum(tried.values()) * 0.9, f"only {service.trips.changed} were changed")
        service.way.end()


main(test)
