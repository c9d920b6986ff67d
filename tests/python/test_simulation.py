"""Whole federations of this process's functions, and what ends one early."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy

import tern

EXACT = {"codec.codec": "float32", "codec.codec_down": "float32", "round.strategy": "fedavg"}
START = {"w": numpy.zeros((2, 2), numpy.float32), "steps": numpy.array(3, numpy.int64)}


def towards(model, task):
    """Adds the client's own number to every weight."""
    model["w"] += task.data
    return model, 10, 0.5


def measure(model, task):
    return 5, float(numpy.abs(model["w"] - task.data).mean()), {"accuracy": 1.0, "mae": 2.0}


class Simulations(unittest.TestCase):
    def test_every_client_counts_in_every_round(self):
        seen = []
        done = tern.simulate(START, [1.0, 2.0, 3.0], towards, evaluate=measure, test=6.0, rounds=3, settings=EXACT,
                             progress=seen.append)
        self.assertEqual([row["round"] for row in seen], [1, 2, 3])
        numpy.testing.assert_array_equal(done.model["w"], numpy.full((2, 2), 6, numpy.float32))  # 3 times the mean
        self.assertEqual((done.model["steps"], done.model["steps"].dtype), (3, numpy.int64))
        history = done.history()
        self.assertEqual((history["round"], history["applied"]), ([1, 2, 3], [3, 3, 3]))
        self.assertEqual((history["accuracy"], history["accuracy_model"][-1]), ([1.0] * 3, "global"))
        self.assertTrue(all(up > 3 * 16 for up in history["wire_up"]))
        self.assertEqual(done.status["version"], 3)
        self.assertGreater(done.seconds, 0)

    def test_how_good_the_model_is_ends_what_is_printed(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            tern.simulate(START, [1.0, 2.0], towards, evaluate=measure, test=6.0, rounds=2, settings=EXACT)
        lines = out.getvalue().splitlines()
        self.assertRegex(lines[-1], r"^accuracy 1\.0000, mae 2\.0000, loss \d\.\d+: global model of version 2$")
        self.assertTrue(lines[0].startswith("round 1: 2 updates"), lines)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            tern.simulate(START, [1.0, 2.0], towards, rounds=1, settings=EXACT)
        self.assertEqual(len(out.getvalue().splitlines()), 1)

    def test_cohorts_and_client_settings(self):
        clients = set()

        def train(model, task):
            clients.add(task.client)
            self.assertEqual((task.local_steps, task.batch_size), (7, 4))
            return towards(model, task)

        done = tern.simulate(START, [1.0] * 4, train, rounds=4, cohort=2, progress=None,
                             settings=EXACT | {"train.local_steps": 7, "train.batch_size": 4, "client.name": "same"})
        self.assertEqual(done.history()["applied"], [2] * 4)
        numpy.testing.assert_array_equal(done.model["w"], numpy.full((2, 2), 4, numpy.float32))
        self.assertGreaterEqual(len(clients), 2)

    def test_the_folder_is_kept_where_one_is_named(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, "kept")
            tern.simulate("softmax:2-2", [1.0], lambda model, task: (model, 1, 0.5), rounds=1, progress=None, folder=folder)
            self.assertTrue((folder / "state" / "tern.db").exists())
            self.assertIn("event=", (folder / "client-0.log").read_text())
            with self.assertRaisesRegex(tern.SimulationError, "is not empty"):
                tern.simulate(START, [1.0], towards, folder=folder)

    def test_what_a_trainer_raises_ends_it_at_once(self):
        class Odd(Exception):
            pass

        def fail(model, task):
            raise Odd(f"client of {task.data}")

        with self.assertRaisesRegex(Odd, "client of 1.0"):
            tern.simulate(START, [1.0], fail, rounds=1)
        with self.assertRaisesRegex(tern.TrainerError, "lacks the tensor 'w'"):
            tern.simulate(START, [1.0], lambda model, task: ({}, 1, 0.5), rounds=1)

    def test_what_cannot_be_is_said_before_anything_starts(self):
        many = [0.0] * 201
        cases = (({"data": []}, "takes 1 to 200"), ({"data": many}, "tern-fleet simulates more"), ({"cohort": 3}, "cohort is 3"), ({"rounds": 0}, "rounds is 0"),
                 ({"settings": {"rounds": 3}}, "SECTION.KEY"), ({"test": 1.0}, "nothing evaluates"),
                 ({"settings": {"round.deadlin": "1h"}}, "no key 'deadlin'"), ({"settings": {"client.waits": "1h"}}, "waits"),
                 ({"programs": "/nowhere"}, "no program tern-aggregator in /nowhere"),
                 ({"model": {"n": numpy.array(1)}}, "nothing to train"))
        for changed, says in cases:
            with self.subTest(says=says), self.assertRaisesRegex(tern.SimulationError, says):
                tern.simulate(**{"model": START, "data": [1.0, 2.0], "trainer": towards, "progress": None} | changed)

    def test_one_that_stands_still_ends(self):
        """Two clients must have enrolled for a round, and there is one."""
        with self.assertRaisesRegex(tern.SimulationError, "nothing has happened for 1 s"):
            tern.simulate(START, [1.0], towards, rounds=1, patience=1.0, settings={"round.min_clients": 2})

    def test_nothing_is_left_when_the_process_is_killed(self):
        program = textwrap.dedent("""
            import os, signal, numpy, tern
            def train(model, task):
                os.kill(os.getpid(), signal.SIGKILL)
            tern.simulate({"w": numpy.zeros(4, numpy.float32)}, [1.0], train, folder=os.environ["FOLDER"])
        """)
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, "kept")
            killed = subprocess.run([sys.executable, "-c", program], env=os.environ | {"FOLDER": str(folder)}, check=False)
            self.assertEqual(killed.returncode, -9)
            deadline = time.monotonic() + 60
            while self.running(folder):
                self.assertLess(time.monotonic(), deadline, f"still running: {self.running(folder)}")
                time.sleep(0.05)

    @staticmethod
    def running(folder):
        """Processes whose working directory is the simulation's."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(folder):
                    found.append((process.name, (process / "cmdline").read_text()))
            except OSError:
                continue
        return found


if __name__ == "__main__":
    unittest.main()
