"""Files of every older version of the database are served with real clients: a federation is
stopped in the middle of a round, its file is written anew with an older version's tables, and the
clients that were there, one that had been away and one that comes new train on to the end. All
rounds, those before and those after, give the recorded bits again.
"""

import pathlib
import signal
import sqlite3
import subprocess
import time

from harness import BIN, PATIENCE, Aggregator, Failure, Workspace, check, main, run

ROUNDS = 14
BEFORE = 5  # committed when the file grows old
FIXTURES = pathlib.Path(__file__).parent.parent / "store" / "fixtures"


# --- Old files

def make_older(path, version):
    """Rewrites the database with that version's tables: what they have no column for is gone."""
    old = path.with_suffix(".old")
    source = sqlite3.connect(path)
    source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    source.close()
    target = sqlite3.connect(old)
    for line in (FIXTURES / f"v{version}.sql").read_text().splitlines():
        if line.startswith(("PRAGMA", "CREATE")):
            target.execute(line)
    target.execute("ATTACH ? AS new", (str(path),))
    tables = [row[0] for row in target.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
    for table in tables:
        columns = ", ".join(row[1] for row in target.execute(f"PRAGMA main.table_info({table})"))
        target.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    target.commit()
    target.close()
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    old.replace(path)


def ask(path, sql):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return database.execute(sql).fetchone()[0]
    finally:
        database.close()


# --- A federation

def settings():
    return {
        "federation": {"model": "mlp:256-16-10", "seed": 3},
        "round": {"cohort": 3, "quorum": 1, "min_clients": 2, "rounds": ROUNDS, "deadline": "700ms",
                  "min_interval": "200ms", "come_back_min": "20ms", "come_back_max": "200ms"},
        "strategy": {"name": "fedavg", "normalise": "yes"},
        "downloads": {"plan": "trunk"},
        "limits": {"requests_per_minute": 1000000},
    }


class Client:
    def __init__(self, workspace, aggregator, name, evaluator=False):
        self.workspace, self.aggregator, self.name = workspace, aggregator, name
        self.options = ["--set", f"client.server={aggregator.url}",
                        "--set", f"client.ca={aggregator.ca}", "--set", f"client.name={name}",
                        "--set", f"client.state_dir={workspace.path / name}",
                        "--set", f"client.evaluator={'yes' if evaluator else 'no'}",
                        "--set", "data.source=digits:train=200,test=50,size=16",
                        "--set", "client.wait=1s", "--set", "client.retry_min=100ms"]
        self.process = None
        run(BIN / "tern-client", "enroll", *self.options, aggregator.join_code())

    def start(self):
        self.process = self.workspace.start(BIN / "tern-client", "run", *self.options,
                                            log=self.name)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{self.name} does not come to its end") from late
        check(code == 0, f"{self.name} ended with {code}")


def committed(aggregator):
    return sum(row["state"] == "committed" for row in aggregator.json("rounds"))


def wait_for_rounds(aggregator, rounds):
    deadline = time.monotonic() + PATIENCE
    while committed(aggregator) < rounds:
        check(time.monotonic() < deadline, f"no {rounds} rounds came about")
        time.sleep(0.05)


def serve(version):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings()).start()
        stays, away = (Client(workspace, aggregator, name) for name in ("stays", "away"))
        judge = Client(workspace, aggregator, "judge", evaluator=True)
        for client in (stays, away, judge):
            client.start()
        wait_for_rounds(aggregator, 2)
        away.kill()
        wait_for_rounds(aggregator, BEFORE)
        for client in (stays, judge):
            client.kill()
        aggregator.kill(signal.SIGTERM)

        path = aggregator.state / "tern.db"
        before = ask(path, "SELECT count(*) FROM versions")
        make_older(path, version)
        check(ask(path, "PRAGMA user_version") == version, "the file is not an old one")

        aggregator.settings["downloads"]["plan"] = "cheapest"
        aggregator.write_config()
        aggregator.start()
        newest = ask(path, "PRAGMA user_version")
        check(newest > version, f"the file stays at version {newest}")
        new = Client(workspace, aggregator, "new")
        for client in (stays, away, judge, new):
            client.start()
        for client in (stays, away, judge, new):
            client.finish()
        check(committed(aggregator) == ROUNDS, f"{committed(aggregator)} rounds were committed")
        check(before >= BEFORE + 1, f"only {before} versions were there before")
        aggregator.verb("verify")
        rows = {row["name"]: row for row in aggregator.json("replicas")["clients"]}
        for client in (stays, away, new):
            check(rows[client.name]["known"], f"{client.name} holds {rows[client.name]}")
        missed = {row["client"]: row["invited"] - row["reported"]
                  for row in aggregator.json("report", "fairness")["rows"]}
        check(missed[2] >= 2, f"nobody was away: {missed}")
        aggregator.kill(signal.SIGTERM)


def test():
    versions = sorted(int(path.stem[1:]) for path in FIXTURES.glob("v*.sql"))
    for version in versions[:-1]:
        serve(version)


main(test)
