"""A service looks through its database by itself: it says when nothing was wrong, and ends when something is, also
where nobody reads it."""
import pathlib
import signal
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from hand_client import HandClient  # noqa: E402
from harness import Aggregator, Workspace, check, main  # noqa: E402

def wait_for(what, condition):
    deadline = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < deadline, what)
        time.sleep(0.02)

def overwrite_a_page_that_nobody_reads(path):
    """Damages a page of an index that only replays and pruning read."""
    with sqlite3.connect(path) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        page = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'updates_by_merged'").fetchone()[0]
    database.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x5a" * size)

def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"},
                                            "server": {"check_interval": "100ms"}}).start()
        log = workspace.path / "aggregator.log"
        wait_for("no check was done", lambda: aggregator.json("status")["checked_ms"] > 0)
        first = aggregator.json("status")["checked_ms"]
        wait_for("no check follows", lambda: aggregator.json("status")["checked_ms"] > first)
        check("no damage found" in aggregator.verb("status"), "status does not say it")
        HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())  # it serves meanwhile
        aggregator.kill(signal.SIGTERM)
        check("event=database-checked" in log.read_text(), "the log does not say it")
        check("database-damaged" not in log.read_text(), "damage was found where there is none")

        overwrite_a_page_that_nobody_reads(aggregator.state / "tern.db")
        aggregator.settings["server"]["check_interval"] = "0ms"
        aggregator.write_config()
        aggregator.start()
        for before, interval in (("0ms", "1d"), ("1d", "100ms")):  # not due for a day, then due
            aggregator.settings["server"]["check_interval"] = interval
            aggregator.write_config()
            check(aggregator.process.poll() is None, f"it ended before it was told to check every {interval}")
            aggregator.process.send_signal(signal.SIGHUP)
            aggregator.log_line(f"event=setting-changed key=server.check_interval from={before} to={interval}")
        process = aggregator.process
        check(process.wait(timeout=60) == 1, f"the service ended with {process.returncode}")
        said = log.read_text()
        check("event=database-damaged" in said and "restore a backup" in said, f"it said {said[-600:]}")

main(test)
