"""The client of the admin API against a service with a past, over TCP and over a unix socket."""
import os
import pathlib
import socket
import sqlite3
import sys
import threading
import time
import unittest

import tern

for folder in ("end_to_end", "browser"):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / folder))
from hand_client import HandClient  # noqa: E402
from harness import HELPERS, PATIENCE, Aggregator, Failure, Workspace, run  # noqa: E402
from large_federation import insert  # noqa: E402

ROUNDS = 1003  # more than one page of the API


def tell_figures(path):
    """What the evaluator tells of the versions of two rounds beside loss and accuracy, and two clients of the version
    that the last round began with."""
    evaluated = {"client": 4, "of_evaluator": 1, "num_examples": 200}
    held_out = {"version": ROUNDS - 1, "num_examples": 10}
    with sqlite3.connect(path) as database:
        insert(database, "metrics", [
            {"version": 1, "name": "round", "value": 0.5, **evaluated}, {"version": ROUNDS, "name": "r2", "value": 0.25, **evaluated},
            {"client": 1, "name": "mae", "value": 1, **held_out}, {"client": 2, "name": "mae", "value": 4, **held_out}])
    database.close()


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workspace = Workspace()
        cls.addClassCleanup(cls.workspace.__exit__, None, None, None)
        cls.port_file = cls.workspace.path / "admin.port"
        cls.aggregator = Aggregator(cls.workspace, {
            "federation": {"model": "mlp:16-8-4", "seed": 7},
            "admin": {"address": "127.0.0.1", "port": 0, "port_file": cls.port_file}})
        run(HELPERS / "make_federation", cls.aggregator.state / "tern.db", ROUNDS)
        tell_figures(cls.aggregator.state / "tern.db")
        cls.aggregator.start()
        deadline = time.monotonic() + PATIENCE
        while not (cls.port_file.exists() and cls.port_file.read_text().strip()):
            if time.monotonic() > deadline:
                raise Failure("the admin listener did not start")
            time.sleep(0.01)
        cls.token = cls.aggregator.state / "admin.token"
        cls.address = f"http://127.0.0.1:{cls.port_file.read_text().strip()}"

    def setUp(self):
        self.federation = tern.Federation(self.address, self.token)

    def test_status(self):
        status = self.federation.status()
        self.assertEqual((status["version"], status["model"]), (ROUNDS, "mlp:16-8-4"))
        self.assertEqual(status["rounds_committed"], self.aggregator.json("status")["rounds_committed"])

    def test_lists_are_whole(self):
        rounds = self.federation.rounds()
        self.assertEqual(rounds["round"][:ROUNDS], list(range(1, ROUNDS + 1)))
        self.assertEqual([row["round"] for row in self.federation.rounds(after=ROUNDS - 2)][:2], [ROUNDS - 1, ROUNDS])
        shown = self.aggregator.json("rounds", "--last", str(ROUNDS + 1))
        self.assertEqual(rounds[4]["mean_loss"], shown[4]["mean_loss"])
        clients = self.federation.clients()
        self.assertEqual(clients["id"], [1, 2, 3, 4])
        self.assertEqual(clients["evaluator"], [False, False, False, True])
        self.assertEqual(clients["error_norm"], [0.25, 0.25, 0.25, None])  # the evaluator has no error buffer
        self.assertEqual(clients["error_round"][:3], [ROUNDS] * 3)
        self.assertNotIn("ledger", clients.columns)

    def test_history_has_the_committed_rounds_in_few_columns(self):
        history = self.federation.history()
        self.assertEqual(history["round"], list(range(1, ROUNDS + 1)))
        self.assertEqual(history.columns[:4], ["round", "state", "applied", "mean_loss"])
        self.assertIn("seconds", history.columns)
        self.assertEqual(history["applied"][0], 3)
        self.assertAlmostEqual(history["mean_loss"][9], 0.1, places=6)

    def test_history_has_bytes(self):
        """history() has the bytes of the three updates and downloads of each round."""
        history = self.federation.history()
        shown = self.aggregator.json("rounds", "--last", str(ROUNDS + 1))
        self.assertEqual(history["wire_up"], [row["wire_up"] for row in shown[:ROUNDS]])
        self.assertEqual(history["wire_down"][-1], shown[ROUNDS - 1]["wire_down"])
        self.assertEqual(history["accuracy"], [row.get("accuracy") for row in shown[:ROUNDS]])

    def test_history_has_figures_by_any_name(self):
        """Those that are in a row already keep their own place, too."""
        history = self.federation.history()
        self.assertEqual(history["evaluated_r2"], [None] * (ROUNDS - 1) + [0.25])
        self.assertEqual(history["evaluated_round"], [0.5] + [None] * (ROUNDS - 1))
        self.assertEqual(history["held_out_mae"], [None] * (ROUNDS - 1) + [2.5])
        self.assertEqual(history["round"], list(range(1, ROUNDS + 1)))
        self.assertEqual(history["evaluated_loss"][0], 0.5)
        self.assertNotIn("held_out_mae_worst", history.columns)
        last = self.federation.rounds(after=ROUNDS - 1)[0]
        shown, = self.aggregator.json("rounds", "--where", f"round={ROUNDS}")
        told = {name: value for name, value in shown.items() if name.startswith("held_out_")}
        self.assertEqual({name: last[name] for name in told}, told)
        self.assertEqual((last["held_out_mae_worst"], last["held_out_mae_worst_client"]), (4, 2))
        self.assertNotIn("metrics", last)

    def test_codes_are_cancelled(self):
        self.federation.enroll_code(label="lost")
        codes = {row["label"]: row for row in self.federation.codes()}
        self.assertEqual((codes["lost"]["state"], codes["lost"]["enrolled"]), ("valid", 0))
        self.assertEqual(self.federation.cancel_code(codes["lost"]["id"]), {"id": codes["lost"]["id"], "was_valid": True})
        after = {row["label"]: row for row in self.federation.codes()}
        self.assertNotEqual(after["lost"]["state"], "valid")
        with self.assertRaisesRegex(tern.FederationError, "No join code has this id"):
            self.federation.cancel_code("00000000")

    def test_metrics(self):
        metrics = self.federation.metrics()
        self.assertEqual(metrics["tern_store_writable"], 1)
        self.assertTrue(any(name.startswith("tern_updates_total{") for name in metrics), sorted(metrics))

    def test_a_code_and_a_revocation(self):
        code = self.federation.enroll_code(uses=3, expires_s=3600, label="spring", tags={"site": "a", "line": "3"})
        listed = [row for row in self.aggregator.json("codes") if row["label"] == "spring"]
        self.assertEqual((len(listed), listed[0]["uses"], listed[0]["state"]), (1, 3, "valid"))
        self.assertEqual(listed[0]["tags"], "line=3,site=a")
        self.assertGreater(len(code), 8)
        self.assertEqual(self.federation.revoke(2), {"id": 2, "revoked": True, "was_revoked": False})
        self.assertEqual(self.federation.revoke(2)["was_revoked"], True)
        self.assertEqual(self.federation.clients()["revoked"], [False, True, False, False])

    def test_refusals_say_why(self):
        with self.assertRaisesRegex(tern.FederationError, "No client has this id") as caught:
            self.federation.revoke(99)
        self.assertEqual(caught.exception.status, 404)
        with self.assertRaisesRegex(tern.FederationError, "1..1000000") as caught:
            self.federation.enroll_code(uses=0)
        self.assertEqual(caught.exception.status, 422)
        with self.assertRaisesRegex(tern.FederationError, "tags"):
            self.federation.enroll_code(tags={"no space": "a"})
        with self.assertRaisesRegex(tern.FederationError, "the token is not") as caught:
            tern.Federation(self.address, "not-the-token-of-this-one").status()
        self.assertEqual(caught.exception.status, 401)

    def test_the_token_may_be_given_itself_or_by_its_file(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.token.parent)
        for token in (self.token.read_text(), self.token, str(self.token), "admin.token"):
            self.assertEqual(tern.Federation(self.address, token).status()["version"], ROUNDS)


class Elsewhere(unittest.TestCase):
    def test_a_unix_socket(self):
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, {"federation": {"model": "softmax:4-2"}}).start()
            federation = tern.Federation(f"unix:{workspace.path}/admin.sock", aggregator.state / "admin.token")
            self.assertEqual(federation.status()["model"], "softmax:4-2")
            self.assertEqual((len(federation.rounds()), len(federation.history())), (0, 0))
            self.assertEqual(federation.history().columns, ["round", "state", "applied", "mean_loss"])
            aggregator.kill()
            with self.assertRaisesRegex(tern.FederationError, "Does the aggregator run"):
                federation.status()

    def test_rounds_are_closed(self):
        """One without an update goes on with others."""
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, {
                "federation": {"model": "softmax:8-2"},
                "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "1d", "come_back_min": "10ms"}}).start()
            federation = tern.Federation(f"unix:{workspace.path}/admin.sock", aggregator.state / "admin.token")
            with self.assertRaisesRegex(tern.FederationError, "no round is open"):
                federation.close_round()
            self.assertIn("2", federation.waiting()["now"])  # clients
            code = federation.enroll_code(uses=2)
            for client in [HandClient(aggregator.port, aggregator.ca).enroll(code) for _ in range(2)]:
                with client.connect() as connection:
                    client.checkin(connection, replica=client.seed_replica())
            self.wait_for(lambda: "open_round" in federation.status())
            attempts = federation.rounds()["attempts"][0]
            self.assertEqual(federation.close_round(), {"round": 1, "reported": 0})
            self.wait_for(lambda: federation.rounds()["attempts"][0] > attempts)
            with self.assertRaisesRegex(tern.FederationError, "No round has this number") as caught:
                federation.close_round(7)
            self.assertEqual(caught.exception.status, 404)
            self.assertEqual(federation.waiting()["waits_for"], 2)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_addresses(self):
        for address in ("127.0.0.1:9443", "ftp://127.0.0.1", "http://"):
            with self.assertRaisesRegex(ValueError, "unix:/path"):
                tern.Federation(address, "0123456789abcdef")
        with self.assertRaises(FileNotFoundError):
            tern.Federation(token="/nowhere/admin.token")

    def test_an_answer_that_is_cut_short(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                link = server.accept()[0]
                link.recv(65536)
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{")
                link.close()

            thread = threading.Thread(target=answer)
            thread.start()
            with self.assertRaisesRegex(tern.FederationError, "no answer from"):
                tern.Federation(f"http://127.0.0.1:{server.getsockname()[1]}", "0123456789abcdef").status()
            thread.join()


if __name__ == "__main__":
    unittest.main()
