"""./tern experiment from start to end: results, determinism, and that nothing is left behind however
it ends."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TERN_BUILD_DIR"])
CONFIG = """
[federation]
model = softmax:256-10
seed = 3
[round]
cohort = 3
quorum = 3
min_clients = 5
rounds = {rounds}
come_back_min = 10ms
come_back_max = 100ms
[train]
local_steps = {steps}
batch_size = 8
learning_rate = 0.1
[codec]
codec = 3lc:s=1
[fleet]
clients = 5
[data]
source = digits:train=400,test=100,size=16,seed=1
partition = dirichlet
alpha = 0.5
"""
KEYS = {"final_accuracy", "accuracy", "rounds", "clients", "cohort", "seed", "codec", "model_hash",
        "seconds", "float32_payload", "payload_up", "payload_down", "http_up", "http_down",
        "tls_up", "tls_down", "wire_up", "wire_down", "values", "global_accuracy",
        "replica_accuracy", "replica_version", "round_trunk_down", "record_version",
        "record_client", "record_steps", "record_wire_up", "record_wire_down", "record_train_ms",
        "record_device_ms", "settings", "macro_f1", "class_accuracy", "class_precision",
        "class_f1", "confusion", "client_accuracy", "client_examples"}


class Experiment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def config(self, rounds=3, steps=5):
        path = self.folder / "experiment.ini"
        path.write_text(CONFIG.format(rounds=rounds, steps=steps))
        return path

    def start(self, *arguments, build=BUILD):
        def interruptible():  # a background job of a shell ignores SIGINT, and all that it starts
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        process = subprocess.Popen([SOURCE / "tern", "experiment", *arguments], text=True,
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "TMPDIR": str(self.temporary), "TERN_BUILD_DIR": str(build)},
                                   preexec_fn=interruptible)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        """A test that failed leaves nothing running."""
        if process.poll() is None:
            process.terminate()
        process.communicate()

    def run_to_end(self, *arguments):
        process = self.start(*arguments)
        out, self.err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, self.err)
        self.assert_nothing_is_left()
        return out

    def programs(self):
        """Processes that work in this test's folder."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.temporary).encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                pass
        return found

    def assert_nothing_is_left(self):
        self.assertEqual(self.programs(), [])
        self.assertEqual(list(self.temporary.iterdir()), [])

    def wait_for_round(self, process):
        for line in process.stdout:
            if line.startswith("[ROUND 1/"):
                return
        self.fail("no round came: " + process.stderr.read())

    def assert_a_reader_may_turn_away(self, *arguments):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(["/usr/bin/python3", "-B", SOURCE / "lab/compare.py", *arguments], text=True,
                              cwd=self.folder, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, ""))

    def test_results_are_flat_complete_and_the_same_twice(self):
        config = self.config()
        out = self.run_to_end(config, "--json", "one.json")
        self.assertIn("[ROUND 3/3] 3 updates, accuracy 0.", out)
        again = self.run_to_end(config, "--json", "two.json", "--set", "round.strategy=fedavgm:average_versions=2",
                                "--set", "fleet.store=files")  # where clients are kept changes nothing
        one, two = (json.loads((self.folder / name).read_text()) for name in
                    ("one.json", "two.json"))
        self.assertLessEqual(KEYS, set(one))
        self.assertEqual((one["rounds"], one["clients"], one["cohort"], one["seed"]), (3, 5, 3, 3))
        self.assertEqual(one["codec"], "3lc:s=1")
        self.assertEqual(len(one["accuracy"]), 3)
        self.assertEqual(one["final_accuracy"], one["accuracy"][-1])
        self.assertRegex(out, r"global model: accuracy 0\.")
        self.assertNotIn("averaged_accuracy", one)
        self.assertRegex(again, r"averaged model: accuracy 0\.")
        self.assertGreater(two["averaged_accuracy"], 0)
        self.assertRegex(again, r"averaged model: accuracy .*, macro F1 %.4f" % two["averaged_macro_f1"])
        self.assertEqual(len(one["replica_accuracy"]), 5)
        confusion = one["confusion"]
        self.assertEqual([len(row) for row in confusion], [10] * 10)
        self.assertEqual(sum(map(sum, confusion)), 100)
        right = [confusion[k][k] for k in range(10)]
        self.assertAlmostEqual(sum(right) / 100, one["global_accuracy"], places=6)
        self.assertAlmostEqual(right[3] / sum(confusion[3]), one["class_accuracy"][3])
        self.assertEqual(sum(one["client_examples"]), 400)
        self.assertEqual(len(one["client_accuracy"]), 5)
        self.assertEqual(one["record_version"], [1] * 3 + [2] * 3 + [3] * 3)
        self.assertAlmostEqual(sum(one["record_wire_up"]), sum(one["round_wire_up"]))
        self.assertEqual(set(one["record_steps"]), {5})
        for key in ("model_hash", "accuracy", "global_accuracy", "replica_accuracy",
                    "record_client", "record_payload_up", "payload_up", "payload_down"):
            self.assertEqual(one[key], two[key], key)
        self.assertEqual(len(one["model_hash"]), 64)
        self.assert_a_reader_may_turn_away("differ", "one.json", "two.json")
        for direction in ("up", "down"):
            layers = [one[f"{layer}_{direction}"] for layer in ("payload", "http", "tls", "wire")]
            self.assertEqual(layers, sorted(layers))
            self.assertGreater(layers[0], 0)
        self.assert_one_key_makes_it_uncompressed_and_a_baseline_compares(config, "one.json")

    def assert_one_key_makes_it_uncompressed_and_a_baseline_compares(self, config, compressed):
        out = self.run_to_end(config, "--set", "codec.codec=float32", "--json", "plain.json",
                              "--baseline", compressed, "--curves", "both.png")
        self.assertIn("the settings that differ:\n  codec.codec: float32, 3lc:s=1 in the other\n", out)
        self.assertTrue((self.folder / "both.png").read_bytes().startswith(b"\x89PNG"))
        both = self.run_to_end("--compare", compressed, "plain.json")
        self.assertIn("first run's bytes", both)
        self.assertIn("codec.codec: 3lc:s=1, float32 in the other", both)
        plain = json.loads((self.folder / "plain.json").read_text())
        self.assertEqual(plain["codec"], "float32")
        self.assertEqual(plain["settings"]["codec.codec"], "float32")
        self.assertAlmostEqual(plain["payload_up"], plain["float32_payload"], delta=16)
        self.assertIn("first run's bytes", out)

    def test_an_interrupt_stops_and_removes_everything(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            process = self.start(self.config(rounds=100000, steps=50))
            self.wait_for_round(process)
            self.assertGreaterEqual(len(self.programs()), 2)
            process.send_signal(how)
            _, err = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 5, err)
            self.assert_nothing_is_left()

    def test_results_are_there_when_they_are_complete(self):
        """Not from when the fleet has ended: what the global model does comes after that."""
        build = self.folder / "build"
        shutil.copytree(BUILD / "bin", build / "bin", symlinks=True,
                        copy_function=lambda source, target: os.symlink(source, target))
        stub = build / "bin" / "tern-aggregator"
        stub.unlink()
        stub.write_text(f'#!/bin/sh\n[ "$1" != export ] || exit 1\nexec "{BUILD}/bin/tern-aggregator" "$@"\n')
        stub.chmod(0o755)
        process = self.start(self.config(), "--json", "one.json", build=build)
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 1)
        self.assertIn("tern-aggregator export failed", err)
        self.assertEqual(list(self.folder.glob("one.json*")), [])

    def test_a_run_that_diverges_ends_and_says_so(self):
        process = self.start(self.config(), "--set", "train.learning_rate=1000", "--set",
                             "train.weight_decay=1")
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, r"training diverges: \d updates in a row failed, on fleet-000")
        self.assertNotIn("level=info", err)
        self.assert_nothing_is_left()

    def test_a_dead_aggregator_ends_the_run_with_its_log(self):
        process = self.start(self.config(rounds=100000, steps=50))
        self.wait_for_round(process)
        for pid in self.programs():
            if b"tern-aggregator" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 1)
        self.assertIn("tern-aggregator ended", err)
        self.assertIn("event=round", err)
        time.sleep(0.1)
        self.assert_nothing_is_left()

    def planned(self, *runs):
        path = self.config()
        plan = ["\t[experiment] ; of codecs", "seeds = 3 4", "targets = 0.2 0.999",
                "two = round.rounds=2", "groups = two"] + ["run = " + run for run in runs]
        path.write_text(path.read_text() + "\n".join(plan) + "\n")
        return path

    def test_planned_runs_end_in_one_table(self):
        config = self.planned("3lc | codec.codec=3lc:s=1", "float32, two rounds | @two | codec.codec=float32")
        out = self.run_to_end(config, "--keep", "runs", "--json", "all.json", "--markdown",
                              "all.md", "--svg", "all.svg", "--curves", "curves.svg")
        rows = json.loads((self.folder / "all.json").read_text())["rows"]
        self.assertEqual([row["label"] for row in rows], ["3lc", "float32, two rounds"])
        self.assertEqual(rows[1]["points_to_float32"], 0)
        self.assertEqual(rows[0]["codec"], "3lc:s=1")
        single = [json.loads((self.folder / "runs" / f"3lc.seed{seed}.json").read_text())
                  for seed in (3, 4)]
        self.assertEqual([run["seed"] for run in single], [3, 4])
        self.assertAlmostEqual(rows[0]["accuracy"],
                               sum(run["final_accuracy"] for run in single) / 2)
        self.assertIsNone(rows[0]["to_reach"]["0.999"])
        self.assertIn("with round.rounds=2", out)
        self.assertIn("run 1 of 4: 3lc, seed 3\n", out)
        self.assertRegex(out, "run 4 of 4: float32, two rounds, seed 4; about [0-9]+ s to go")
        self.assertRegex(out, r"   3lc, seed 4: accuracy 0\.[0-9]{4} \(replica\), payload .* up .* down, in ")
        self.assertIn("| 3lc |", (self.folder / "all.md").read_text())
        self.assertIn("<svg", (self.folder / "all.svg").read_text())
        self.assertIn("wire bytes per client", (self.folder / "curves.svg").read_text())
        # What is there is not run again; the table is the same.
        config.write_text(config.read_text().replace("\t[experiment] ; of codecs", "  [experiment]"))
        again = self.run_to_end(config, "--keep", "runs", "--json", "again.json")
        self.assertIn("0 runs done", again)
        self.assertEqual(json.loads((self.folder / "again.json").read_text())["rows"], rows)
        # Other settings are: the old results do not stand for them, in the table neither.
        other = self.run_to_end(config, "--keep", "runs", "--only", "float32", "--jobs", "3", "--set",
                                "experiment.seeds=3", "--set", "codec.codec_down=float16", "--json",
                                "other.json")
        self.assertIn("1 runs done", other)
        self.assertIn("not run with these settings and every seed: 3lc\n", other)
        rows = json.loads((self.folder / "other.json").read_text())["rows"]
        self.assertEqual([row["seeds"] for row in rows], [1])
        self.refused("no run of", config, "--keep", "runs", "--only", "zzz", code=4)
        (self.folder / "runs" / "3lc.seed3.json").write_text('{"accuracy": [')
        self.refused("3lc.seed3.json is damaged", config, "--keep", "runs", code=1)

    def test_each_run_in_each_cell(self):
        """What is tried, crossed with tasks; a task without its data is left out."""
        config = self.planned("float32 | codec.codec=float32", "3lc | codec.codec=3lc:s=1\nseeds = 3\n"
                              "vary_partition = yes")
        config.write_text(config.read_text().replace("groups = two\n", "") + """
cell = two | @two
cell = one | round.rounds=1
cell = images | data.source=idx
""")
        out = self.run_to_end(config, "--keep", "runs", "--json", "all.json")
        self.assertIn("left out, as its data is in no given folder (--data-dir DIR; ",
                      out)
        self.assertIn("4 runs done, 2 were there before or not asked for", out)
        found = json.loads((self.folder / "all.json").read_text())
        rows = {(row["cell"], row["label"]): row for row in found["rows"]}
        self.assertEqual(len(rows), 4)
        gaps = [100 * (rows[cell, "3lc"]["accuracy"] - rows[cell, "float32"]["accuracy"])
                for cell in ("two", "one")]
        summary = {each["label"]: each for each in found["summary"]}["3lc"]
        self.assertAlmostEqual(summary["points"], sum(gaps) / 2)
        self.assertAlmostEqual(summary["points_worst"], min(gaps))
        self.assertEqual(summary["cell_worst"], "two" if gaps[0] <= gaps[1] else "one")
        self.assertIn("seed = 3\nsource", (self.folder / "runs" / "one-3lc.seed3.ini").read_text())
        # A run's own file makes the same again, alone and with as many workers as there are cores.
        self.run_to_end(self.folder / "runs" / "two-3lc.seed3.ini", "--json", "alone.json")
        alone, kept = (json.loads((self.folder / name).read_text()) for name in
                       ("alone.json", "runs/two-3lc.seed3.json"))
        self.assertEqual(alone["model_hash"], kept["model_hash"])

    def test_a_run_that_fails_is_named_and_the_others_go_on(self):
        config = self.planned("bad | limits.clients=2 | codec.codec=float32\nseeds = 3",
                              "good | codec.codec=float32")
        process = self.start(config, "--keep", "runs", "--jobs", "1")
        out, _ = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 1)
        self.assertIn("bad, seed 3: failed; the end of its log", out)
        self.assertIn("1 runs done, 0 were there before or not asked for; 1 failed: bad, seed 3", out)
        self.assert_nothing_is_left()

    def test_an_interrupt_stops_the_runs_of_a_plan(self):
        config = self.planned("a | round.rounds=100000", "b | round.rounds=100000")
        process = self.start(config, "--keep", "runs", "--jobs", "2")
        logs = [self.folder / "runs" / f"a.seed{seed}.log" for seed in (3, 4)]
        while not all(log.exists() and "[ROUND 1/" in log.read_text() for log in logs):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 5, err)
        self.assertIn("interrupted: stopping all programs", err)
        self.assert_nothing_is_left()
        self.assertEqual(list((self.folder / "runs").glob("*.json")), [])

    def test_one_experiment_at_a_time_makes_runs_in_a_folder(self):
        (self.folder / "runs").mkdir()
        with open(self.folder / "runs" / ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused("another ./tern experiment makes runs in", self.planned("a"), "--keep", "runs",
                         code=1)
        self.assertEqual([path.name for path in (self.folder / "runs").iterdir()], [".lock"])

    def test_a_plan_that_makes_no_sense_is_refused(self):
        self.refused("'codec=3lc' is not section.key=value", self.planned("a | codec=3lc"))
        plan = self.planned("a")
        self.refused("there is no folder 'none'", plan, "--svg", "none/all.svg")
        self.refused("--baseline works with a single run", plan, "--baseline", "run.json")
        self.refused("--only needs a section [experiment]", self.config(), "--only", "a")
        self.refused("--set experiment.seeds=1 needs a section", self.config(), "--set",
                     "experiment.seeds=1")
        self.refused("--jobs 0: use a number", plan, "--jobs", "0")

    def table(self, name, rows_of, hole=None):
        """A CSV of two classes with so many rows of each site; a value is missing in row `hole` of each."""
        path = self.folder / name
        path.write_text("site,a,b,state\n" + "".join(
            f'"{site}, old",{"" if k == hole else (-1) ** k * k},{k % 7},{"on" if k % 2 else "off"}\n'
            for site, count in rows_of.items() for k in range(count)))
        return path

    def test_groups_of_a_table_are_clients(self):
        source = "csv:%s,group=site,label=state,classes=off|on,test_file=%s"
        train = self.table("train.csv", {"Ås": 40, "y": 7, "z": 1}, hole=3)
        test = self.table("test.csv", {"Ås": 10, "y": 20, "new": 5})
        config = self.config(rounds=2)
        sets = ["federation.model=softmax:2-2", "round.min_clients=3", "fleet.clients=3",
                "data.partition=natural", "data.source=" + source % (train, test)]
        options = [word for each in sets for word in ("--set", each)]
        out = self.run_to_end(config, *options, "--json", "one.json", "--keep", "kept")
        self.assertIn("note: 2 columns were standardised by the mean and deviation of the 48 training rows", out)
        self.assertEqual(self.err.count("2 values in 1 column are missing"), 1, self.err)
        self.assertRegex(out, r"pooled training: accuracy [01]\.\d{4} of one client with all 48 rows, after as many steps")
        one = json.loads((self.folder / "one.json").read_text())
        self.assertGreater(one["pooled_steps"], 0)
        of = dict(zip(one["client_examples"], one["client_accuracy"]))
        self.assertEqual(set(of), {40, 7, 1})
        groups = dict(zip(one["client_examples"], one["client_groups"]))
        self.assertEqual(groups, {40: ["Ås, old"], 7: ["y, old"], 1: ["z, old"]})
        self.assertEqual(one["class_names"], ["off", "on"])
        self.assertIsNone(of[1])  # the test file has no row of its site
        self.assertEqual(sum(map(sum, one["confusion"])), 35)
        self.assertRegex(out, r"clients 0\.\d{4} \(client \d: (Ås|y), old\) to [01]\.\d{4} \(client \d: ")
        other = source % (train, self.table("other.csv", {"new": 5}))
        found = subprocess.run(
            [str(BUILD / "bin/tern-fleet"), "evaluate", "--config",
             str(config), "--set", "federation.model=softmax:2-2", *options[4:], "--set", "data.source=" + other, "one.json",
             "kept/run/global.f32"], cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertIn("clients unknown", found.stdout)
        self.refused("--keep kept: the folder already has a run; name another folder", config, *options,
                     "--keep", "kept")
        self.refused("--json tmp is not a regular file", config, *options, "--json", "tmp")

    def test_every_run_is_checked_before_the_first(self):
        table = self.table("table.csv", {"x": 5})
        for bad, why in (("codec.codec=4lc", "codec.codec = 4lc"),
                         ("train.steps=3", "there is no key 'steps' in section [train]"),
                         ("federation.model=mlp:256", "model 'mlp:256' is not softmax"),
                         ("fleet.store=tape", "store = 'tape' is not known"),
                         ("fleet.away=9:1-2", "fleet.away '9:1-2' is not a list"),
                         ("codec.codec=3lc,s=1", 'parameters: "3lc:s=1"'),
                         ("federation.model=softmax:9-10",
                          "must take 256 values (a cnn: 16x16x1) and end with 10 classes or more"),
                         ('data.source=csv:%s,drop=site,classes="off|on",test=0' % table,
                          "data.source has no test examples"),
                         ("data.source=tape", "no data of the kind 'tape'"),
                         ("round.min_clients=6", "round.min_clients = 6 is more than")):
            plan = self.planned("good", "bad | " + bad + "\nseeds = 3")
            self.refused((why, "the run 'bad' cannot be made; no run was started"), plan, "--keep",
                         "runs")
            self.assertEqual([path.name for path in (self.folder / "runs").iterdir()], [".lock"])

    def refused(self, whys, *arguments, code=2):
        process = self.start(*arguments)
        _, err = process.communicate(timeout=240)
        for why in (whys,) if isinstance(whys, str) else whys:
            self.assertIn(why, err)
        self.assertEqual(process.returncode, code)

    def test_a_setting_without_its_section_is_refused(self):
        for said, why in (("evaluate_every=3", "section.key=value; did you mean fleet.evaluate_every\n"),
                          ("seed=x.y", "did you mean federation.seed or fleet.seed or data.seed\n"),
                          ("nonsense=1", "expected section.key=value\n")):
            self.refused(why, self.config(), "--set", said)

    def test_a_wrong_setting_is_named(self):
        process = self.start(self.config(), "--set", "data.partition=nonsense", "--keep", "kept")
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 2)
        self.assertIn("nonsense", err)
        self.refused("from the start, 5: no round would begin", self.config(), "--set",
                     "round.min_clients=6", "--keep", "kept")
        (self.folder / "odd.json").write_text("{}")
        self.refused("odd.json is not the JSON of a run", self.config(), "--baseline", "odd.json",
                     "--keep", "kept")
        self.refused("none.json: ", self.config(), "--baseline", "none.json", "--keep", "kept")
        self.assertFalse((self.folder / "kept").exists())  # nothing was started
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
