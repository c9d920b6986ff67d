"""`compact` beside a service that runs: the file becomes smaller, clients are answered meanwhile, rounds go on and
nothing is lost; also where it is killed on its way. A verb that may not run beside a service says so.
"""

import contextlib
import signal
import sqlite3
import subprocess
import time

from conservation import Fleet, check_client, expect_progress, model, newest_version
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

CLIENTS, ROUNDS = 3, 2000
FREE = 100_000_000  # bytes, several steps of compact
PIECE = 10_000_000   # that is written at once, since the service waits meanwhile, and gives up after 5 seconds


class Running:
    def __init__(self, workspace):
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": model(ROUNDS), "seed": 3},
            "round": {"cohort": 2, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS, "deadline": "1500ms",
                      "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "500ms"},
            "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
            "limits": {"requests_per_minute": 1000000, "history_bytes": 0},
        }).start()
        self.database = self.aggregator.state / "tern.db"
        self.fleet = Fleet(workspace, self.aggregator, CLIENTS)
        self.fleet.start_all()

    def size(self):
        """Returns the size by the database's page count; the file shrinks at the next checkpoint of the log."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as database:
            return database.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]

    def free_space(self):
        """As a prune leaves it."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as database:
            database.execute("CREATE TABLE much (piece BLOB)")
            for _ in range(FREE // PIECE):
                with database:
                    database.execute("INSERT INTO much VALUES (zeroblob(?))", (PIECE,))
            with database:
                database.execute("DROP TABLE much")
        check(self.size() > FREE, "there is nothing to give back")

    def start_compact(self):
        return subprocess.Popen([BIN / "tern-aggregator", "compact", "--config", self.aggregator.config],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def compact_and_kill(self):
        """After its first step and before its last."""
        before = self.size()
        process = self.start_compact()
        deadline = time.monotonic() + PATIENCE
        while self.size() == before:
            check(process.poll() is None and time.monotonic() < deadline, "compact gave nothing back")
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        check(self.size() > FREE / 10, "it was killed too late to prove anything")

    def compact(self):
        """Rounds go on meanwhile."""
        before, version = self.size(), newest_version(self.database)
        result = self.aggregator.json("compact")
        check(result["after_bytes"] < before - FREE / 10, f"it gave back too little: {result}")
        return newest_version(self.database) - version


def test():
    with Workspace() as workspace:
        running = Running(workspace)
        expect_progress(running.aggregator, "nothing")
        running.free_space()
        running.compact_and_kill()
        expect_progress(running.aggregator, "a compact that was killed")
        versions = running.compact()
        expect_progress(running.aggregator, "a compact")
        check(running.aggregator.process.poll() is None, "the service ended")
        refused = subprocess.run([BIN / "tern-aggregator", "restore", running.database, "--config", running.aggregator.config],
                                 capture_output=True, text=True)
        check(refused.returncode != 0 and "serve" in refused.stderr, f"restore beside a service: {refused.stderr}")

        running.fleet.settle_all()
        running.aggregator.kill(signal.SIGTERM)
        running.aggregator.verb("verify")
        check(running.database.stat().st_size < FREE / 2, f"the file has {running.database.stat().st_size} bytes")
        complaints = [line for line in (workspace.path / "aggregator.log").read_text().splitlines()
                      if "event=halted" in line or "level=error" in line]
        check(complaints == [], f"the service complains: {complaints}")
        updates = sum(check_client(running.fleet, index, running.database)[1] for index in range(CLIENTS))
        print(f"{versions} versions were made while the file was compacted; {updates} updates are applied once")


main(test)
