"""Deep experiments: the pictures that are drawn, and that a run's results are what the table of a plan reads. Needs
numpy; what needs PyTorch is left out without it."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

import numpy

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "lab"))
import compare  # noqa: E402
from comparison import plan, planned, rows, runner, settings, tables  # noqa: E402
from deep import pictures  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
DEEP = SOURCE / "configs/experiments/deep.ini"


class Pictures(unittest.TestCase):
    def test_a_seed_draws_the_same_pictures_of_all_classes(self):
        x, y = pictures.pictures(2100, 12, 3)  # in two parts
        again, _ = pictures.pictures(2100, 12, 3)
        other, _ = pictures.pictures(2100, 12, 4)
        self.assertEqual((x.shape, x.dtype), ((2100, 3, 12, 12), numpy.float32))
        self.assertTrue((x == again).all())
        self.assertFalse((x == other).all())
        self.assertEqual(set(y), set(range(pictures.CLASSES)))
        self.assertLess(abs(x.mean()), 0.3)
        self.assertLess(x.std(), 1.5)

    def test_shapes_differ_and_lie_within_the_picture(self):
        line = numpy.linspace(-1.5, 1.5, 60)
        across, down = numpy.meshgrid(line, line)
        seen = [pictures.inside(numpy.array(shape), across, down) for shape in range(pictures.SHAPES)]
        for number, one in enumerate(seen):
            self.assertTrue(0.03 < one.mean() < 0.5, number)
            self.assertFalse((one & (numpy.maximum(abs(across), abs(down)) > 1.01)).any(), number)
            for other in seen[:number]:
                self.assertGreater((one != other).mean(), 0.03)

    def test_a_colour_leans_to_its_class_only(self):
        """The nearest mean of the classes' colours is right more often than guessing, and mostly wrong."""
        x, y = pictures.pictures(4000, 12, 1)
        middle = x[:, :, 4:8, 4:8].mean((2, 3))
        means = numpy.array([middle[:2000][y[:2000] == label].mean(0) for label in range(pictures.CLASSES)])
        answers = ((middle[2000:, None] - means) ** 2).sum(2).argmin(1)
        self.assertTrue(0.12 < (answers == y[2000:]).mean() < 0.5)


class Plans(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_only_files_with_deep_runs_are_deep(self):
        for path in sorted((SOURCE / "configs/experiments").glob("*.ini")):
            if "[experiment]" in path.read_text():
                plan_ = plan.Plan(str(path))
                found = {settings.is_deep(plan_.settings(run, plan_.seeds[0])) for run in plan_.runs}
                self.assertEqual(found, {path.name == "deep.ini"}, path.name)
                more = {"deep.ini": " deep", "secure.ini": " secure", "groups.ini": " secure", "noise.ini": " secure"}.get(path.name, "")
                self.assertEqual(compare.kind(str(path), []), "planned" + more)

    def test_the_aggregator_alone_checks_a_deep_run_without_its_data(self):
        plan_ = plan.Plan(str(DEEP))
        one = planned.Planned(plan_, plan_.runs[0], "1", str(self.folder))
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("tern-aggregator", "tern-fleet"):
            (programs / name).write_text("")
        checks = list(runner.Runner("tern", str(programs), 1).checks([one], str(self.folder)))
        self.assertEqual([pathlib.Path(command[0]).name for _, command in checks], ["tern-aggregator"])
        sections = {section for _, section, _, _ in settings.entries(checks[0][1][-1])}
        self.assertEqual(sections, {"codec", "federation", "round", "train"})

    @unittest.skipUnless(HAS_TORCH, "python3-torch is not installed")
    def test_a_results_table_has_both_models(self):
        from deep import run
        one = {"deep.width": "4", "data.source": "pictures:train=60,test=40,size=24,seed=1", "federation.seed": "2"}
        task = run.Task(one)
        parts = run.shares(task.y, 3, 0.5, 1)
        self.assertEqual(sorted(index for part in parts for index in part.tolist() if index), list(range(1, 60)))
        asked = types.SimpleNamespace(local_steps=2, batch_size=8, learning_rate=0.1, momentum=0.5, weight_decay=0.01,
                                      seed=7, data=parts[0])
        start = task.weights()
        trained, examples, loss = task.train(start, asked)
        self.assertEqual(examples, len(parts[0]))
        self.assertGreater(loss, 0)
        again, _, _ = task.train(start, asked)
        self.assertTrue(all((trained[name] == again[name]).all() for name in trained))
        self.assertTrue(any((trained[name] != start[name]).any() for name in trained))
        row = {"state": "committed", "round": 1, "applied": 3, "participants": 3, "mean_loss": 2.3, "wire_up": 3000,
               "wire_down": 6000, "codec_up": "3lc:s=1", "codec_down": "int8"}
        status = {"per_client_and_round": {name + "_" + way: 100.0 for name in ("payload", "http", "tls", "wire")
                                           for way in ("up", "down")}}
        done = types.SimpleNamespace(model=trained, status=status,
                                     rounds=lambda: [row | {"accuracy": value} for value in (None, 0.4, 0.6)])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            run.shown(3)(row)
        self.assertRegex(said.getvalue(), runner.ROUND)
        path = self.folder / "plan.ini"
        path.write_text("[deep]\nwidth = 4\n[experiment]\nseeds = 1\nlast = 2\nmeasure = both\nrun = a\n")
        plan_ = plan.Plan(str(path))
        made = planned.Planned(plan_, plan_.runs[0], "1", str(self.folder))
        made.write(made.ini)
        found = run.results(task, 3, done, 1.5)
        pathlib.Path(made.results).write_text(json.dumps(found))
        groups, missing = rows.load(plan_, str(self.folder))
        head, line = tables.table_of(plan_, groups[0][1])
        cells = dict(zip(head, line))
        self.assertEqual(missing, [])
        self.assertEqual(cells["accuracy (replica)"], "0.5000")
        self.assertEqual(cells["accuracy (global)"], "%.4f" % task.score(trained)[0])
        self.assertEqual(cells["wire down"], "100 B")
        self.assertEqual(found["values"], sum(value.numel() for value in start.values()))


if __name__ == "__main__":
    unittest.main()
