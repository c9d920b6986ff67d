"""tern-helper's command line: the example settings, what each verb prints and refuses, and a log that was changed."""
import base64
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["TERN_BIN_DIR"]) / "tern-helper"
SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
PATIENCE = 60


class Verbs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tern-helper-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.ledger = self.folder / "tern-helper-state" / "helper.db"

    def run_verb(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    def done(self, *arguments):
        result = self.run_verb(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def json(self, *arguments):
        return json.loads(self.done(*arguments, "--json"))

    def refused(self, code, words, *arguments):
        result = self.run_verb(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(words, result.stderr)

    def test_the_example_is_what_the_program_prints(self):
        self.assertEqual(self.done("--settings"), (SOURCE / "configs/helper.example.ini").read_text(encoding="utf-8"))

    def test_init_makes_one_key_and_never_replaces_it(self):
        key = self.json("init")["public_key"]
        point = base64.urlsafe_b64decode(key + "=")
        self.assertEqual((len(point), point[0]), (65, 4))
        self.assertEqual(self.ledger.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.ledger.parent.stat().st_mode & 0o777, 0o700)
        self.refused(1, "has a signing key that devices rely on", "init")
        self.assertEqual(self.json("status")["public_key"], key)

    def test_verbs_without_a_ledger_name_init(self):
        for verb in (("status",), ("log",), ("code", "north"), ("federation", "add", "north"), ("revoke", "north", "1")):
            self.refused(1, "`tern-helper init` makes it", *verb)
        self.assertFalse(self.ledger.exists())

    def test_a_federation_has_one_token_at_a_time(self):
        self.done("init")
        token = self.json("federation", "add", "north")["token"]
        self.assertRegex(token, r"^[\w-]{22}$")
        self.refused(1, "north exists already; `tern-helper federation token north` replaces", "federation", "add", "north")
        self.assertNotEqual(self.json("federation", "token", "north")["token"], token)
        self.refused(1, "there is no federation south", "federation", "token", "south")
        self.refused(2, "write federation add NAME", "federation", "drop", "north")
        self.refused(2, "1 to 32 letters", "federation", "add", "a b")
        self.refused(2, "1 to 32 letters", "federation", "add", "x" * 33)

    def test_codes_have_uses_and_an_end(self):
        self.done("init")
        self.done("federation", "add", "north")
        made = self.json("code", "north", "--uses", "3", "--expires", "1h", "--label", "site")
        self.assertRegex(made["code"], r"^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$")
        self.assertEqual((made["id"], made["uses"]), (1, 3))
        self.assertEqual(self.json("status")["federations"][0]["codes"], 1)
        self.refused(1, "there is no federation 'south'", "code", "south")
        self.refused(2, "--uses '0'", "code", "north", "--uses", "0")
        self.refused(2, "a duration", "code", "north", "--expires", "soon")
        # Neither code nor token is in any file: the ledger has their hashes.
        for file in self.ledger.parent.iterdir():
            self.assertNotIn(made["code"].encode(), file.read_bytes())
        self.assertEqual(self.json("revoke", "north", "--code", "1")["revoked"], 0)
        self.assertEqual(self.json("status")["federations"][0]["codes"], 0)

    def test_revoke_names_what_is_missing(self):
        self.done("init")
        self.done("federation", "add", "north")
        self.refused(1, "north has no client 4", "revoke", "north", "4")
        self.refused(1, "north has no code 4", "revoke", "north", "--code", "4")
        self.refused(2, "'four' is not the id of a client", "revoke", "north", "four")
        self.refused(2, "FEDERATION CLIENT, or FEDERATION --code ID", "revoke", "north")
        self.refused(2, "FEDERATION CLIENT, or FEDERATION --code ID", "revoke", "north", "1", "--code", "1")

    def test_renew_begins_epochs_until_all_secrets_are_erased(self):
        self.done("init")
        self.done("federation", "add", "north")
        first, last = (self.json("renew", "north")["epoch"] for _ in range(2))
        self.assertEqual(last, first + 2)
        with sqlite3.connect(self.ledger) as ledger:
            self.assertEqual(ledger.execute("SELECT epoch FROM epochs").fetchall(), [(last - 1,), (last,)])
        ledger.close()
        self.refused(1, "there is no federation 'south'", "renew", "south")

    def test_only_answered_rounds_are_released(self):
        self.done("init")
        self.done("federation", "add", "north")
        self.refused(1, "round 31 of federation north was not answered", "release", "north", "31")
        self.refused(2, "'0' is not the number of a round", "release", "north", "0")
        self.refused(1, "there is no federation 'south'", "release", "south", "31")

    def test_few_clients_are_called_weak(self):
        self.done("init")
        self.assertFalse(self.json("status")["weak"])
        self.assertTrue(self.json("status", "--set", "helper.min_clients=5")["weak"])
        self.assertIn("weak", self.done("status", "--set", "helper.min_clients=5"))
        self.refused(2, "min_clients", "status", "--set", "helper.min_clients=1")

    def test_a_changed_log_is_found(self):
        self.done("init")
        self.done("federation", "add", "north")
        self.done("code", "north")
        self.assertEqual([entry["number"] for entry in self.json("log")], [1, 2, 3])
        with sqlite3.connect(self.ledger) as ledger:
            ledger.execute("DROP TRIGGER log_unchanged")
            ledger.execute("UPDATE log SET fact = 'federation name=south' WHERE number = 2")
        ledger.close()
        self.refused(1, "entry 2 does not follow from the entries before it", "log")

    def test_serve_explains_how_to_make_a_certificate(self):
        self.done("init")
        self.refused(2, "openssl req -x509", "serve")


if __name__ == "__main__":
    unittest.main()
