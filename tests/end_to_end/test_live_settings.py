"""SIGHUP takes other settings while clients work: rounds go on by the new ones, no update is missing or counted
twice, the history replays, and a file that is wrong changes nothing.
"""

import contextlib
import signal
import sqlite3
import time

from conservation import Fleet, check_client, expect_progress, model
from harness import PATIENCE, Aggregator, Workspace, check, main

CLIENTS, ROUNDS = 3, 2000
COLUMNS = "target, quorum, strategy, codec_up"


class Running:
    def __init__(self, workspace):
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": model(ROUNDS), "seed": 7},
            "round": {"cohort": 2, "over_selection": 0, "quorum": 2, "min_clients": CLIENTS, "deadline": "5s",
                      "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "500ms"},
            "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
            "limits": {"requests_per_minute": 1000000, "history_bytes": 0},
        }).start()
        self.log = workspace.path / "aggregator.log"
        self.reloads = 0
        self.fleet = Fleet(workspace, self.aggregator, CLIENTS)
        self.fleet.start_all()

    def newest_round(self):
        with contextlib.closing(sqlite3.connect(self.aggregator.state / "tern.db", timeout=20)) as database:
            return database.execute(f"SELECT {COLUMNS} FROM rounds ORDER BY round DESC LIMIT 1").fetchone()

    def reload(self, event, **sections):
        """Until the log says so; returns what it says of single settings."""
        before = self.log.read_text()
        for section, keys in sections.items():
            self.aggregator.settings.setdefault(section, {}).update(keys)
        self.aggregator.write_config()
        self.aggregator.process.send_signal(signal.SIGHUP)
        line = self.aggregator.log_line(f"event={event}", before.count(f"event={event}") + 1)
        return line, self.log.read_text()[len(before):]

    def expect(self, what, **sections):
        """Rounds of these columns, by these settings."""
        self.reload("reloaded", **sections)
        deadline = time.monotonic() + PATIENCE
        while True:
            expect_progress(self.aggregator, f"a reload for {what}", 1)
            row = dict(zip(COLUMNS.split(", "), self.newest_round()))
            if all(str(row[key]).startswith(str(value)) for key, value in what.items()):
                return
            check(time.monotonic() < deadline, f"rounds are {row}, not {what}")


def test():
    with Workspace() as workspace:
        running = Running(workspace)
        expect_progress(running.aggregator, "nothing")
        running.expect({"target": 3, "quorum": 1}, round={"cohort": 3, "quorum": 1})
        said = running.reload("reloaded", round={"quorum": 3}, limits={"long_poll": "2s"},
                              federation={"seed": 8}, server={"threads": 2})[1]
        for words in ("event=setting-changed key=round.quorum from=1 to=3",
                      "event=setting-changed key=limits.long_poll from=1m to=2s",
                      'event=setting-not-taken key=federation.seed from=7 to=8 reason="only init reads it"',
                      'event=setting-not-taken key=server.threads from=1 to=2 reason="needs a restart"'):
            check(words in said, f"no {words} in:\n{said}")
        # The port was 0, which any is, when it started.
        check(said.replace("key=server.port ", "").count("key=") == 4, f"more settings are named:\n{said}")

        # Each is wrong in another way: the file, one setting, two together, what the federation takes.
        for wrong, why in (({"round": {"quorum": 2, "cohort": "many"}}, "cohort = 'many'"),
                           ({"round": {"quorum": 2, "strategy": "fedbest"}}, "there is no strategy"),
                           ({"round": {"quorum": 2, "come_back_min": "1h"}}, "come_back_min is above"),
                           ({"round": {"quorum": 2, "strategy": "krum:attackers=0.49"}}, "krum:attackers=0.49 needs")):
            good = {section: dict(keys) for section, keys in running.aggregator.settings.items()}
            line, said = running.reload("reload-failed", **wrong)
            check(why in line, f"{why} is not named: {line}")
            check("event=setting-" not in said, f"a bad file changed something:\n{said}")
            running.aggregator.settings = good
        running.expect({"target": 3, "quorum": 3})

        running.expect({"target": 2, "strategy": "fedavg", "codec_up": "float32"}, round={"cohort": 2, "quorum": 2, "strategy": "fedavg"},
                       codec={"codec": "float32"})
        running.expect({"codec_up": "3lc"}, codec={"codec": "3lc:s=1.2"},
                       limits={"keep_versions": 64, "memory": "32Mi", "norm": "1e5"})
        for cohort in (3, 1, 2, 3, 2):  # in the midst of whatever is going on
            running.reload("reloaded", round={"cohort": cohort, "quorum": 1})
        expect_progress(running.aggregator, "many reloads")

        running.fleet.settle_all()
        running.aggregator.kill(signal.SIGTERM)
        running.aggregator.verb("verify")
        updates = sum(check_client(running.fleet, index, running.aggregator.state / "tern.db")[1]
                      for index in range(CLIENTS))
        print(f"{updates} updates are applied once")


main(test)
