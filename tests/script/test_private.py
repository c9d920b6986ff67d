"""lab/private/demo.py with 8 clients and 3 rounds: masked and open sums agree; a sum that differs by one bit, a masked update in
the aggregator's database, and a value of an update's size in the helper's ledger fail it."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TERN_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "lab"))
from failover.programs import Failure  # noqa: E402
from private import demo  # noqa: E402

CLIENTS = 8
ROUNDS = 3
OVERRIDES = [*(f"{key}={CLIENTS}" for key in ("fleet.clients", "round.cohort", "round.quorum", "round.min_clients")),
             f"round.rounds={ROUNDS}", "data.source=digits:train=400,test=100,size=16,seed=1", "privacy.clip=0.3"]


def change(database, statement):
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


class Private(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="tern-private-")))
        run = self.folder / "run"
        subprocess.run(["bash", "-c", '. "$0/common.sh"; . "$0/experiment.sh"; make_certificates "$1"',
                        SOURCE / "cmake/verbs", run], check=True)
        self.arguments = argparse.Namespace(config=SOURCE / "configs/experiments/private.ini", folder=run,
                                            results=self.folder / "results.json", programs=BUILD / "bin",
                                            overrides=OVERRIDES)

    def test_masked_and_open_sums_agree_and_a_different_bit_is_found(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            demo.run(self.arguments)
        for setting in ("federation.ini", "--set downloads.plan=trunk", f"--set secure.min_clients={CLIENTS}", "--set secure.helper_key=",
                        "--set privacy.clip=0.3"):
            self.assertIn(setting, printed.getvalue(), "settings that repeat the federation")
        run, results = self.arguments.folder, json.loads(self.arguments.results.read_text(encoding="utf-8"))
        self.assertIn(f"agree, to the bit, in {ROUNDS} of {ROUNDS} rounds", (run / "saw.txt").read_text(encoding="utf-8"))
        self.assertEqual(results["open_sum_clients"], [CLIENTS] * ROUNDS)

        database = run / "aggregator/tern.db"
        demo.check_sums(database, results, CLIENTS, ROUNDS, False)
        change(database, "UPDATE secure_sums SET body = CAST(substr(body, 1, length(body) - 1) || X'7F' AS BLOB) WHERE round = 2")
        with self.assertRaisesRegex(Failure, r"differ in rounds \[2\]"):
            demo.check_sums(database, results, CLIENTS, ROUNDS, False)

        payload = max(results["record_payload_up"])
        demo.check_what_is_kept(run, payload)
        change(run / "helper/helper.db", f"CREATE TABLE more AS SELECT zeroblob({payload}) AS body")
        with self.assertRaisesRegex(Failure, "which may be an update"):
            demo.check_what_is_kept(run, payload)
        change(database, "INSERT INTO update_bodies SELECT max(id), X'00' FROM updates")
        with self.assertRaisesRegex(Failure, "still has 1 masked updates"):
            demo.check_what_is_kept(run, payload)


if __name__ == "__main__":
    unittest.main()
