#!/usr/bin/python3
"""PostgreSQL crashes with a commit on its way. Numbers of transactions that had not reached its log are given anew then:
what somebody else commits under the number must not pass for what was lost."""

import signal
import threading

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run, skip
from nodes import Node, between, cluster, wait_until

WRITES = ("enroll-code", "--uses", "7")


class Crash:
    """Lets PostgreSQL crash in place of the first COMMIT, and others have as many transactions as there were."""

    def __init__(self, postgres):
        self.postgres = postgres
        self.number = self.again = 0
        self.is_due, self.is_over = threading.Event(), threading.Event()

    def judge(self, piece):
        if self.is_due.is_set() or b"COMMIT\0" not in piece:
            return between.PASS, piece
        self.is_due.set()
        self.is_over.wait()
        return between.LOSE, piece

    def come(self):
        """On the thread that PostgreSQL shall not outlive."""
        check(self.is_due.wait(PATIENCE), "nothing is committed")
        # None of psql's own: it only reads.
        self.number = int(self.postgres.sql("SELECT max(CAST(CAST(backend_xid AS TEXT) AS BIGINT)) FROM pg_stat_activity"))
        self.postgres.stop(signal.SIGQUIT)
        self.postgres.start()
        while self.again < self.number:
            self.again = int(self.postgres.sql("SELECT pg_current_xact_id()"))
        self.is_over.set()


def uses(postgres):
    return postgres.sql("SELECT count(*) FROM codes WHERE uses_left = 7")


def start_while_it_is_away(postgres, aggregator):
    """A start waits for PostgreSQL, which recovers, and can be stopped meanwhile."""
    node = Node(aggregator, "starting", postgres.url())
    postgres.stop(signal.SIGQUIT)
    for ends in (True, False):
        node.start()
        wait_until("it does not wait for PostgreSQL", lambda: "event=start-waits" in node.said())
        if ends:
            code = node.kill(signal.SIGTERM)
            check(code == 0, f"told to stop, it ends by {code}")
    postgres.start()
    node.leads()


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        postgres.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")  # the log is not written before a commit
        postgres.stop()
        postgres.start()
        aggregator = Aggregator(workspace, {"store": {"url": postgres.url()}})
        # A page of the log that is full is written before a commit: the transaction begins on a page of its own.
        postgres.sql("SELECT pg_switch_wal()")
        crash = Crash(postgres)
        with between.Between(postgres, crash.judge) as way:
            command = [BIN / "tern-aggregator", *WRITES, "--config", aggregator.config, "--set", f"store.url={way.url()}"]
            verb = workspace.start(*command, log="verb")
            crash.come()
            code = verb.wait(timeout=PATIENCE)
            check(crash.again == crash.number, f"the number was {crash.number} and is not given anew: {crash.again}")
            check(code == 1 and uses(postgres) == "0", f"it ended by {code}, and {uses(postgres)} codes are stored")
            run(*command)
        check(uses(postgres) == "1", "it was not stored, and it says that it was")
        start_while_it_is_away(postgres, aggregator)
        print(f"the number {crash.number} was given anew; the commit that was lost failed")


main(test)
